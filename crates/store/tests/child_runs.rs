//! Child runs whose parent runs have ended: the same in memory, on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::event::{Event, ParentStep};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::child_run::retry_sender;
use flowloom_runtime::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use flowloom_runtime::journal::{Batch, Journal as _, Lease};
use flowloom_store::{Durability, Store};

use support::{TestDatabase, append_batch, append_records, created_event, new_record, run_id};

on_both!(runs_within_runs_that_have_ended_are_found, abandoned_child_runs_are_driven_by_themselves);

async fn runs_within_runs_that_have_ended_are_found(place: &TestDatabase) {
    check_orphans(&place.open()).await;
}

#[tokio::test]
async fn runs_within_runs_that_have_ended_are_found_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    check_orphans(&Store::open(folder.path(), Durability::Memory).expect("a store")).await;
}

async fn abandoned_child_runs_are_driven_by_themselves(place: &TestDatabase) {
    check_abandoned(&place.open()).await;
}

#[tokio::test]
async fn abandoned_child_runs_are_driven_by_themselves_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    check_abandoned(&Store::open(folder.path(), Durability::Memory).expect("a store")).await;
}

/// Starts a run, as a child run of the step `/a` of `parent` if there is one.
async fn start_run(store: &Store, run: RunId, parent: Option<RunId>) -> Result<Lease, JournalError> {
    let lease = store.begin_run(run)?;
    let Event::RunCreated(mut created) = created_event(store) else { panic!("another event") };
    created.parent = parent.map(|run| ParentStep { run, path: step_path() });
    let records =
        vec![new_record(run, 1, Event::RunCreated(created)), new_record(run, 2, Event::RunStarted { epoch: 1 })];
    append_records(store, lease, records).await.map(|()| lease)
}

fn step_path() -> Path {
    Path::parse("/a").expect("a path")
}

fn end_event(status: Status) -> Event {
    Event::RunFinished { status, error: None, failed: None, thread: None }
}

fn decide_all(commands: Vec<RunCommand>) -> Vec<DecidedCommand> {
    let applied = |command: RunCommand| DecidedCommand { id: command.id, outcome: CommandOutcome::Applied };
    commands.into_iter().map(applied).collect()
}

/// The step `/a` of run 1 that started run 2 is abandoned while run 2 waits.
async fn check_abandoned(store: &Store) {
    let (parent, child) = (run_id(1), run_id(2));
    let parent_lease = start_run(store, parent, None).await.expect("stored");
    let lease = start_run(store, child, Some(parent)).await.expect("stored");
    let suspended = new_record(child, 3, Event::RunSuspended { status: Status::Waiting });
    let batch = Batch { releases_lease: true, ..Batch::with_records(vec![suspended]) };
    append_batch(store, lease, batch).await.expect("stored");
    assert_eq!(store.find_driving_run(child).expect("readable"), parent);
    let aborted = new_record(parent, 3, Event::StepAborted { reason: "cancelled".into() });
    append_records(store, parent_lease, vec![aborted]).await.expect("stored");
    assert_eq!(store.find_driving_run(child).expect("readable"), child);
    let abandoned = store.abandoned_runs(10).expect("readable");
    assert!(store.is_in_memory() || abandoned.iter().any(|run| run.id == child), "{abandoned:?}");
    // It ends because of its cancellation, and the step retries it.
    let lease = store.claim_run(child).await.expect("free");
    let cancel = store.pending_commands(child).await.expect("readable");
    assert_eq!(cancel.iter().map(|command| &command.action).collect::<Vec<_>>(), [&CommandAction::Cancel {}]);
    let ended = Batch::with_records(vec![new_record(child, 4, end_event(Status::Cancelled))]);
    append_batch(store, lease, Batch { decided: decide_all(cancel), ..ended }).await.expect("stored");
    let retry = |id: &str| RunCommand {
        id: id.to_owned(),
        sender: retry_sender(parent),
        action: CommandAction::Retry { from: None },
    };
    store.post_command(child, retry("retry-2"), 5).await.expect("stored");
    let lease = store.claim_run(child).await.expect("free");
    let reopened = Event::RunReopened { from: None, by: retry_sender(parent), reset: vec![], continued: vec![] };
    let batch = Batch::with_records(vec![new_record(child, 5, reopened.clone())]);
    append_batch(store, lease, Batch { decided: decide_all(vec![retry("retry-2")]), ..batch }).await.expect("stored");
    append_records(store, lease, vec![new_record(child, 6, end_event(Status::Failed))]).await.expect("stored");
    // The end of the parent run rejects another retry, also if a worker is about to apply it.
    store.post_command(child, retry("retry-3"), 6).await.expect("stored");
    let lease = store.claim_run(child).await.expect("free");
    append_records(store, parent_lease, vec![new_record(parent, 4, end_event(Status::Cancelled))])
        .await
        .expect("stored");
    assert_eq!(store.pending_commands(child).await, Ok(Vec::new()));
    let batch = Batch::with_records(vec![new_record(child, 7, reopened)]);
    let batch = Batch { decided: decide_all(vec![retry("retry-3")]), ..batch };
    assert_eq!(append_batch(store, lease, batch).await, Err(JournalError::OwnershipLost));
    assert_eq!(start_run(store, run_id(3), Some(parent)).await, Err(JournalError::OwnershipLost));
}

/// Run 1 has the child runs 2 and 3. Within 2, which ends first, is 4, and within 3 is 5. None is left alone until 1 ends.
async fn check_orphans(store: &Store) {
    let mut leases = Vec::new();
    for (n, parent) in [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2)), (5, Some(3))] {
        let lease = start_run(store, run_id(n), parent.map(run_id)).await.expect("stored");
        leases.push(lease);
    }
    assert_eq!(store.list_runs_within(run_id(1)).expect("readable"), [2, 3, 4, 5].map(run_id));
    assert_eq!(store.list_runs_within(run_id(2)).expect("readable"), [run_id(4)]);
    let list_orphans = || store.list_orphaned_runs(run_id(1)).expect("readable");
    let steps: [(u8, &[u8]); 5] = [(2, &[]), (1, &[3, 4]), (3, &[4, 5]), (4, &[5]), (5, &[])];
    for (n, orphans) in steps {
        let end = new_record(run_id(n), 3, end_event(Status::Cancelled));
        append_records(store, leases[usize::from(n) - 1], vec![end]).await.expect("stored");
        let mut found = list_orphans();
        found.sort();
        let orphans: Vec<RunId> = orphans.iter().map(|n| run_id(*n)).collect();
        assert_eq!(found, orphans, "after the end of {n}");
    }
}
