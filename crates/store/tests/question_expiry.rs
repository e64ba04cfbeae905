//! The time limits of questions whose runs have ended: the same in memory, on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::effect::AskRequest;
use flowloom_core::event::Event;
use flowloom_core::status::Status;
use flowloom_runtime::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use flowloom_runtime::journal::{Batch, Journal as _};
use flowloom_store::{Durability, QuestionExpiry, Store};

use support::{TestDatabase, append_batch, append_records, created_event, new_record, run_id};

on_both!(a_question_expires_after_its_run_was_reopened);

async fn a_question_expires_after_its_run_was_reopened(place: &TestDatabase) {
    check_reopened(&place.open()).await;
}

#[tokio::test]
async fn a_question_in_memory_expires_after_its_run_was_reopened() {
    let folder = tempfile::tempdir().expect("a folder");
    check_reopened(&Store::open(folder.path(), Durability::Memory).expect("a store")).await;
}

async fn check_reopened(store: &Store) {
    let run = run_id(1);
    let expiry = QuestionExpiry { expires_at: 2000, run };
    let question = AskRequest { question: "?".into(), schema: None, subject: None, expires_at: Some(2000) };
    let lease = store.begin_run(run).expect("new");
    let events = [created_event(store), Event::RunStarted { epoch: 1 }, Event::Asked(question)];
    let records = (1..).zip(events).map(|(seq, event)| new_record(run, seq, event)).collect();
    append_records(store, lease, records).await.expect("stored");
    let list = |now| store.list_expired_questions(now, 9).expect("readable");
    assert_eq!((list(1999), list(2000)), (vec![], vec![expiry]));

    // Only the question of a run that has ended is put aside.
    store.suspend_expiry(expiry).await.expect("stored");
    assert_eq!(list(2000), [expiry]);
    let end = Event::RunFinished { status: Status::Cancelled, error: None, failed: None, thread: None };
    append_records(store, lease, vec![new_record(run, 4, end)]).await.expect("stored");
    store.suspend_expiry(expiry).await.expect("stored");
    assert_eq!(list(2000), []);
    assert_eq!(store.list_waiting_questions(9).expect("readable"), []);

    let action = CommandAction::Retry { from: None };
    let retry = RunCommand { id: "retry".to_owned(), sender: "ada".to_owned(), action };
    store.post_command(run, retry, 5).await.expect("stored");
    let lease = store.claim_run(run).await.expect("free");
    let reopened = Event::RunReopened { from: None, by: "ada".to_owned(), reset: vec![], continued: vec![] };
    let decided = vec![DecidedCommand { id: "retry".to_owned(), outcome: CommandOutcome::Applied }];
    let batch = Batch { decided, ..Batch::with_records(vec![new_record(run, 5, reopened)]) };
    append_batch(store, lease, batch).await.expect("stored");
    assert_eq!(list(2000), [expiry]);
    // What was listed before the run was reopened is too late.
    store.suspend_expiry(expiry).await.expect("stored");
    assert_eq!(list(2000), [expiry]);
    store.forget_expiry(expiry).await.expect("stored");
    assert_eq!(list(2000), []);
}
