//! Sessions of another engine, on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::code::Code;
use flowloom_core::event::Event;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::journal::{Batch, Journal, Lease, LeaseState};
use flowloom_runtime::remote::ClaimedSession;
use flowloom_store::Store;

use support::{TestDatabase, append_batch, append_records, created_event, new_record, run_id};

on_both!(
    a_session_claims_a_run_that_nobody_has,
    a_session_takes_over_what_was_given_up,
    a_command_before_a_claim_is_read_and_one_after_it_is_delivered,
    a_session_stores_the_end_of_a_run_that_it_has_claimed,
);

/// Stores the creation of a run, as a server does that leaves it to another engine.
async fn create_run(store: &Store) {
    let lease = Lease { epoch: 0, ..store.begin_run(run_id(1)).expect("new") };
    let created = vec![new_record(run_id(1), 1, created_event(store))];
    let batch = Batch { releases_lease: true, ..Batch::with_records(created) };
    assert_eq!(append_batch(store, lease, batch).await.expect("stored"), LeaseState::Released);
}

fn build_claim(epoch: u64, has_commands: bool) -> ClaimedSession {
    ClaimedSession { lease: Lease { run: run_id(1), epoch }, is_hopeless: false, has_commands }
}

async fn a_session_claims_a_run_that_nobody_has(place: &TestDatabase) {
    let (server, worker, other) = (place.open(), place.open(), place.open());
    let missing = worker.claim_session(run_id(1), None).await.expect_err("not there");
    assert!(matches!(missing, JournalError::RunNotFound(_)));
    create_run(&server).await;
    assert_eq!(worker.claim_session(run_id(1), None).await.expect("free"), build_claim(1, false));
    for store in [&worker, &other] {
        assert_eq!(store.claim_session(run_id(1), None).await.expect_err("owned").code(), Code::RunOwned);
    }
    drop(worker);
    let next = other.claim_session(run_id(1), None).await.expect("its owner is gone");
    assert_eq!((next.lease.epoch, next.is_hopeless), (2, false));
}

async fn a_session_takes_over_what_was_given_up(place: &TestDatabase) {
    let (server, worker, other) = (place.open(), place.open(), place.open());
    create_run(&server).await;
    let lost = worker.claim_session(run_id(1), None).await.expect("free").lease;
    assert_eq!(other.claim_session(run_id(1), Some(7)).await.expect_err("another epoch").code(), Code::RunOwned);
    assert_eq!(other.claim_session(run_id(1), Some(1)).await.expect("given up").lease.epoch, 2);
    let late = append_records(&*worker, lost, vec![new_record(run_id(1), 2, Event::RunStarted { epoch: 1 })]).await;
    assert_eq!(late.expect_err("an old lease").code(), Code::OwnershipLost);
    let again = Lease { run: run_id(1), epoch: 2 };
    append_records(&*other, again, vec![new_record(run_id(1), 2, Event::RunStarted { epoch: 2 })])
        .await
        .expect("stored");
}

async fn a_command_before_a_claim_is_read_and_one_after_it_is_delivered(place: &TestDatabase) {
    let (server, worker) = (place.open(), place.open());
    let answer = |id: &str| {
        let action = CommandAction::Answer { path: Path::parse("/a").expect("a path"), value: "yes".into() };
        RunCommand { id: id.to_owned(), sender: "bob".to_owned(), action }
    };
    create_run(&server).await;
    server.post_command(run_id(1), answer("before"), 7).await.expect("stored");
    assert_eq!(worker.claim_session(run_id(1), None).await.expect("free"), build_claim(1, true));
    assert_eq!(worker.pending_commands(run_id(1)).await.expect("readable"), [answer("before")]);
    server.post_command(run_id(1), answer("after"), 8).await.expect("stored");
    let mut delivered = Vec::new();
    while !delivered.contains(&answer("after")) {
        delivered.extend(worker.next_commands(run_id(1)).await);
    }
}

async fn a_session_stores_the_end_of_a_run_that_it_has_claimed(place: &TestDatabase) {
    let (server, worker) = (place.open(), place.open());
    create_run(&server).await;
    let lease = worker.claim_session(run_id(1), None).await.expect("free").lease;
    let end = Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: None };
    let records = vec![new_record(run_id(1), 2, Event::RunStarted { epoch: 1 }), new_record(run_id(1), 3, end)];
    let batch = Batch { is_announced: true, ..Batch::with_records(records) };
    assert_eq!(append_batch(&*worker, lease, batch).await.expect("stored"), LeaseState::Released);
    assert!(server.is_at_rest(run_id(1)).expect("readable"));
}
