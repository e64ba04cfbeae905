//! The order in which a server finds abandoned runs: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use std::sync::Arc;

use flowloom_core::event::Event;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_runtime::journal::{Journal as _, Lease};
use flowloom_store::{PruneFilter, Store};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(users_take_turns, a_run_is_found_behind_those_that_are_driven, an_ended_run_of_a_dead_worker_is_only_released);

async fn begin_for(store: &Arc<Store>, run: RunId, user: &str) -> Lease {
    let lease = store.begin_run(run).expect("new");
    let Event::RunCreated(mut created) = created_event(store) else { panic!("an event of another kind") };
    created.user = user.to_owned();
    append_records(&**store, lease, vec![new_record(run, 1, Event::RunCreated(created))]).await.expect("stored");
    lease
}

fn find_abandoned(store: &Store, limit: u32) -> Vec<RunId> {
    store.abandoned_runs(limit).expect("readable").iter().map(|run| run.id).collect()
}

async fn users_take_turns(place: &TestDatabase) {
    let first = place.open();
    for number in 1..=20 {
        begin_for(&first, run_id(number), "ann").await;
    }
    for number in [21, 22] {
        begin_for(&first, run_id(number), "bob").await;
    }
    drop(first);
    let expected = [1, 21, 2, 22, 3].map(run_id);
    assert_eq!(find_abandoned(&place.open(), 5), expected);
}

async fn a_run_is_found_behind_those_that_are_driven(place: &TestDatabase) {
    let store = place.open();
    for number in 1..=3 {
        begin_for(&store, run_id(number), "ann").await;
    }
    store.abandon_run(begin_for(&store, run_id(4), "ann").await);
    assert_eq!(find_abandoned(&store, 2), [run_id(4)]);
}

async fn an_ended_run_of_a_dead_worker_is_only_released(place: &TestDatabase) {
    let first = place.open();
    let run = run_id(1);
    let lease = begin_for(&first, run, "ann").await;
    let failed = Event::RunFinished { status: Status::Failed, error: None, failed: None, thread: None };
    append_records(&*first, lease, vec![new_record(run, 2, failed)]).await.expect("stored");
    let store = place.open();
    // A retry is refused by a worker that dies before it has released the run again.
    store.claim_run(run).await.expect("nobody's");
    drop(store);
    let store = place.open();
    let found = store.abandoned_runs(9).expect("readable");
    assert_eq!(found.iter().map(|run| (run.id, run.is_only_held())).collect::<Vec<_>>(), [(run, true)]);
    store.release_held_run(run).await.expect("nobody's");
    assert_eq!(find_abandoned(&store, 9), []);
    let old = PruneFilter { status: Status::Failed, before: 1 << 60 };
    assert_eq!(store.prune_runs(old).await.expect("deleted"), 1);
}
