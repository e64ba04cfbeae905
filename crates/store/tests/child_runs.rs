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
use flowloom_runtime::remote::DriveState;
use flowloom_store::{Durability, Store};

use support::{TestDatabase, append_batch, append_records, created_event, new_record, run_id};

on_both!(
    runs_within_runs_that_have_ended_are_found,
    abandoned_child_runs_are_driven_by_themselves,
    a_process_without_the_lease_starts_and_retries_no_child_run,
    a_run_that_is_reopened_has_no_child_runs_that_its_steps_do_not_drive,
    a_child_run_that_broke_off_is_handed_over
);

/// Tests that are the same on both databases and in memory.
macro_rules! on_each_store {
    ($($name:ident: $check:ident),* $(,)?) => {
        $(async fn $name(place: &TestDatabase) {
            $check(&place.open()).await;
        })*
        mod in_memory {
            $(#[tokio::test]
            async fn $name() {
                let folder = tempfile::tempdir().expect("a folder");
                super::$check(&super::Store::open(folder.path(), super::Durability::Memory).expect("a store")).await;
            })*
        }
    };
}

on_each_store!(
    runs_within_runs_that_have_ended_are_found: check_orphans,
    abandoned_child_runs_are_driven_by_themselves: check_abandoned,
    a_process_without_the_lease_starts_and_retries_no_child_run: check_lost_lease,
    a_run_that_is_reopened_has_no_child_runs_that_its_steps_do_not_drive: check_reopened,
);

/// A process drives a child run no further, because an outage broke it off. The step of the parent run is in another process by
/// now.
async fn a_child_run_that_broke_off_is_handed_over(place: &TestDatabase) {
    let (first, second) = (place.open(), place.open());
    let (parent, child) = (run_id(1), run_id(2));
    let parent_lease = start_run(&first, parent, None).await.expect("stored");
    let lease = start_run(&first, child, Some(parent)).await.expect("stored");
    let suspended = new_record(parent, 3, Event::RunSuspended { status: Status::Waiting });
    let batch = Batch { releases_lease: true, ..Batch::with_records(vec![suspended]) };
    append_batch(&*first, parent_lease, batch).await.expect("stored");
    second.claim_run(parent).await.expect("free");
    let claim = || second.claim_child_run(child, calling_step(parent, 2));
    assert_eq!(claim().await, Err(JournalError::RunOwned(child)));
    assert_eq!(first.abandoned_runs(9).expect("readable"), []);
    first.abandon_run(lease);
    let held: Vec<_> =
        first.abandoned_runs(9).expect("readable").iter().map(|run| (run.id, run.is_only_held())).collect();
    assert_eq!(held, [(child, true)]);
    first.release_held_run(child).await.expect("held");
    assert_eq!(first.abandoned_runs(9).expect("readable"), []);
    // It is no run at rest, which the step would take for one that waits or has ended.
    assert_eq!(second.read_drive_state(child).expect("readable"), DriveState::Driven);
    second.abandon_run(claim().await.expect("given up"));
    let deaths: Vec<_> = second.abandoned_runs(9).expect("readable").iter().map(|run| (run.id, run.deaths)).collect();
    assert_eq!(deaths, [(child, 0)]);
    // When its parent run has ended, any process finds it.
    second.release_held_run(child).await.expect("held");
    let step_lease = Lease { run: parent, epoch: 2 };
    append_records(&*second, step_lease, vec![new_record(parent, 4, end_event(Status::Failed))]).await.expect("stored");
    let third = place.open();
    let found: Vec<_> = third.abandoned_runs(9).expect("readable").iter().map(|run| (run.id, run.deaths)).collect();
    assert_eq!(found, [(child, 0)]);
    let lease = third.claim_run(child).await.expect("given up");
    let cancel = third.pending_commands(child).await.expect("readable");
    let ended = Batch::with_records(vec![new_record(child, 3, end_event(Status::Cancelled))]);
    append_batch(&*third, lease, Batch { decided: decide_all(cancel), ..ended }).await.expect("stored");
}

/// Starts a run, as a child run of the step `/a` of `parent` if there is one.
async fn start_run(store: &Store, run: RunId, parent: Option<RunId>) -> Result<Lease, JournalError> {
    start_child(store, run, parent.map(|run| calling_step(run, 1))).await
}

async fn start_child(store: &Store, run: RunId, parent: Option<ParentStep>) -> Result<Lease, JournalError> {
    let lease = store.begin_run(run)?;
    let Event::RunCreated(mut created) = created_event(store) else { panic!("another event") };
    created.parent = parent;
    let records =
        vec![new_record(run, 1, Event::RunCreated(created)), new_record(run, 2, Event::RunStarted { epoch: 1 })];
    append_records(store, lease, records).await.map(|()| lease)
}

fn step_path() -> Path {
    Path::parse("/a").expect("a path")
}

/// The step `/a` of a run that is driven under the lease with this epoch.
fn calling_step(run: RunId, epoch: u64) -> ParentStep {
    ParentStep { run, path: step_path(), epoch: Some(epoch) }
}

fn reopened_event(by: String, reset: Vec<Path>) -> Event {
    Event::RunReopened { from: None, by, reset, continued: vec![] }
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
    let retry = |id: &str| new_retry(id, &retry_sender(parent));
    let step = || calling_step(parent, 1);
    store.post_retry_by_step(child, retry("retry-2"), 5, step()).await.expect("stored");
    let lease = store.claim_run(child).await.expect("free");
    let reopened = reopened_event(retry_sender(parent), vec![]);
    let batch = Batch::with_records(vec![new_record(child, 5, reopened.clone())]);
    append_batch(store, lease, Batch { decided: decide_all(vec![retry("retry-2")]), ..batch }).await.expect("stored");
    append_records(store, lease, vec![new_record(child, 6, end_event(Status::Failed))]).await.expect("stored");
    // The end of the parent run rejects another retry, also if a worker is about to apply it.
    store.post_retry_by_step(child, retry("retry-3"), 6, step()).await.expect("stored");
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

fn new_retry(id: &str, sender: &str) -> RunCommand {
    RunCommand { id: id.to_owned(), sender: sender.to_owned(), action: CommandAction::Retry { from: None } }
}

/// A process that has lost the lease of run 1 neither starts a child run of it nor retries one, also when the run was reopened.
async fn check_lost_lease(store: &Store) {
    let (parent, child) = (run_id(1), run_id(2));
    let lease = start_run(store, parent, None).await.expect("stored");
    let child_lease = start_run(store, child, Some(parent)).await.expect("stored");
    let failed = new_record(child, 3, end_event(Status::Failed));
    append_records(store, child_lease, vec![failed]).await.expect("stored");
    store.release_run(lease);
    assert_eq!(store.claim_run(parent).await.expect("free").epoch, 2);
    let retry = |id| new_retry(id, &retry_sender(parent));
    let late = store.post_retry_by_step(child, retry("late"), 5, calling_step(parent, 1)).await;
    assert_eq!(late.map_err(JournalError::from), Err(JournalError::OwnershipLost));
    assert_eq!(start_run(store, run_id(3), Some(parent)).await, Err(JournalError::OwnershipLost));
    assert_eq!(store.claim_child_run(child, calling_step(parent, 1)).await, Err(JournalError::OwnershipLost));
    store.release_run(store.claim_child_run(child, calling_step(parent, 2)).await.expect("free"));
    let posted = store.post_retry_by_step(child, retry("now"), 5, calling_step(parent, 2)).await.expect("stored");
    assert_eq!(posted.record.outcome, None);
    start_child(store, run_id(4), Some(calling_step(parent, 2))).await.expect("stored");
}

/// Runs 2 and 3 are child runs of the step `/a` of run 1. Persons retry them while run 1 has ended.
async fn check_reopened(store: &Store) {
    let [parent, first, last] = [1, 2, 3].map(run_id);
    let parent_lease = start_run(store, parent, None).await.expect("stored");
    for (run, parent) in [(first, Some(parent)), (last, Some(parent))] {
        let lease = start_run(store, run, parent).await.expect("stored");
        append_records(store, lease, vec![new_record(run, 3, end_event(Status::Failed))]).await.expect("stored");
    }
    let by_person = |id| new_retry(id, "ada");
    let early = store.post_command(first, by_person("early"), 4).await.expect("readable").record.outcome;
    assert!(matches!(early, Some(CommandOutcome::Rejected(_))), "the parent run retries it: {early:?}");
    append_records(store, parent_lease, vec![new_record(parent, 3, end_event(Status::Failed))]).await.expect("stored");
    let mut leases = Vec::new();
    for run in [first, last] {
        store.post_command(run, by_person("retry"), 5).await.expect("stored");
        let lease = store.claim_run(run).await.expect("free");
        let batch = Batch::with_records(vec![new_record(run, 4, reopened_event("ada".to_owned(), vec![]))]);
        append_batch(store, lease, Batch { decided: decide_all(vec![by_person("retry")]), ..batch })
            .await
            .expect("stored");
        leases.push(lease);
    }
    assert_eq!(store.find_driving_run(first).expect("readable"), first);
    // The parent run is retried, and its step drives the last child run on.
    store.post_command(parent, by_person("again"), 6).await.expect("stored");
    let lease = store.claim_run(parent).await.expect("free");
    let batch = Batch::with_records(vec![new_record(parent, 4, reopened_event("ada".to_owned(), vec![step_path()]))]);
    append_batch(store, lease, Batch { decided: decide_all(vec![by_person("again")]), ..batch }).await.expect("stored");
    let cancelled = store.pending_commands(first).await.expect("readable");
    assert_eq!(cancelled.iter().map(|command| &command.action).collect::<Vec<_>>(), [&CommandAction::Cancel {}]);
    assert_eq!(store.find_driving_run(first).expect("readable"), first);
    assert_eq!(store.pending_commands(last).await, Ok(Vec::new()));
    assert_eq!(store.find_driving_run(last).expect("readable"), parent);
    // A retry that was sent meanwhile to a run that has ended is decided, too.
    let ended = |run, seq| new_record(run, seq, end_event(Status::Failed));
    append_records(store, leases[0], vec![ended(first, 5)]).await.expect("stored");
    append_records(store, lease, vec![ended(parent, 5)]).await.expect("stored");
    store.post_command(first, by_person("meanwhile"), 7).await.expect("stored");
    store.post_command(parent, by_person("third"), 7).await.expect("stored");
    let lease = store.claim_run(parent).await.expect("free");
    let batch = Batch::with_records(vec![new_record(parent, 6, reopened_event("ada".to_owned(), vec![step_path()]))]);
    append_batch(store, lease, Batch { decided: decide_all(vec![by_person("third")]), ..batch }).await.expect("stored");
    let meanwhile = store.find_command(first, "meanwhile").expect("readable").and_then(|record| record.outcome);
    assert!(matches!(meanwhile, Some(CommandOutcome::Rejected(_))), "{meanwhile:?}");
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
