//! Child runs whose parent runs have ended: the same in memory, on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::event::{Event, ParentStep};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{Durability, Store};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(runs_within_runs_that_have_ended_are_found,);

async fn runs_within_runs_that_have_ended_are_found(place: &TestDatabase) {
    check_orphans(&place.open()).await;
}

#[tokio::test]
async fn runs_within_runs_that_have_ended_are_found_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    check_orphans(&Store::open(folder.path(), Durability::Memory).expect("a store")).await;
}

/// Run 1 has the child runs 2 and 3. Within 2, which ends first, is 4, and within 3 is 5.
async fn check_orphans(store: &Store) {
    let mut leases = Vec::new();
    for (n, parent) in [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2)), (5, Some(3))] {
        let lease = store.begin_run(run_id(n)).expect("new");
        let Event::RunCreated(mut created) = created_event(store) else { panic!("another event") };
        let path = Path::parse("/a").expect("a path");
        created.parent = parent.map(|parent| ParentStep { run: run_id(parent), path });
        let records = vec![
            new_record(run_id(n), 1, Event::RunCreated(created)),
            new_record(run_id(n), 2, Event::RunStarted { epoch: 1 }),
        ];
        append_records(store, lease, records).await.expect("stored");
        leases.push(lease);
    }
    assert_eq!(store.list_runs_within(run_id(1)).expect("readable"), [2, 3, 4, 5].map(run_id));
    assert_eq!(store.list_runs_within(run_id(2)).expect("readable"), [run_id(4)]);
    let list_orphans = || store.list_orphaned_runs(run_id(1)).expect("readable");
    assert_eq!(list_orphans(), [run_id(2), run_id(3)]);
    for (n, orphans) in
        [(2, vec![run_id(3), run_id(4)]), (3, vec![run_id(4), run_id(5)]), (4, vec![run_id(5)]), (5, vec![])]
    {
        let end = Event::RunFinished { status: Status::Cancelled, error: None, failed: None, thread: None };
        append_records(store, leases[usize::from(n) - 1], vec![new_record(run_id(n), 3, end)]).await.expect("stored");
        let mut found = list_orphans();
        found.sort();
        assert_eq!(found, orphans, "after the end of {n}");
    }
}
