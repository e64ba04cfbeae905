//! Calls under an idempotency key that several processes receive: one of them starts a run or answers another one. The same
//! tests on SQLite and on Postgres.

#[macro_use]
mod support;

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::trigger::RunTrigger;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::journal::{Journal as _, Lease};
use flowloom_store::{Actor, IdempotentStart, KeyedCommand, StartKey, Store};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(a_keyed_call_starts_a_run_or_answers_one, keys_of_refused_starts_are_deleted,);

const KEY: StartKey<'static> = StartKey { user: "ann", key: "k" };

/// The first event of a run that the call `key` starts.
fn created_by_call(store: &Store, run: RunId, key: &str) -> Vec<Arc<Record>> {
    let Event::RunCreated(mut created) = created_event(store) else { panic!("another event") };
    let call = Some(KeyedCommand::command_id("ann", key));
    created.trigger = Some(RunTrigger { kind: "api".into(), id: None, call, background: false });
    vec![new_record(run, 1, Event::RunCreated(created))]
}

async fn post_answer(store: &Store, waiting: RunId, reserved: RunId, key: &str) -> bool {
    let action = CommandAction::Answer { path: Path::parse("/a").expect("a path"), value: Value::Null };
    let command = RunCommand { id: KeyedCommand::command_id("ann", key), sender: "ann".to_owned(), action };
    let call = KeyedCommand { user: "ann".to_owned(), key: key.to_owned(), reserved, run: waiting };
    let posted = store.post_keyed_command(waiting, command, 5, &Actor::server(), call).await;
    posted.inspect_err(|error| assert!(error.to_string().contains("Idempotency-Key"), "{error}")).is_ok()
}

async fn start_run(store: &Store, lease: Lease, key: &str) -> bool {
    let started = append_records(store, lease, created_by_call(store, lease.run, key)).await;
    started.inspect_err(|error| assert!(error.to_string().contains("Idempotency-Key"), "{error}")).is_ok()
}

async fn a_keyed_call_starts_a_run_or_answers_one(place: &TestDatabase) {
    let (one, two) = (place.open(), place.open());
    for round in 0..20 {
        let (waiting, reserved, key) = (run_id(2 * round), run_id(2 * round + 1), format!("k{round}"));
        let lease = one.begin_run(waiting).expect("new");
        append_records(&*one, lease, vec![new_record(waiting, 1, created_event(&one))]).await.expect("stored");
        for store in [&one, &two] {
            let start = store.reserve_start(StartKey { key: &key, ..KEY }, "request", reserved, 1).await;
            assert_eq!(start.expect("reserved"), IdempotentStart::Run(reserved));
        }
        let start = two.begin_run(reserved).expect("new");
        let (is_answered, is_started) = match round {
            0 => (post_answer(&one, waiting, reserved, &key).await, start_run(&two, start, &key).await),
            1 => {
                let is_started = start_run(&two, start, &key).await;
                (post_answer(&one, waiting, reserved, &key).await, is_started)
            }
            _ => tokio::join!(post_answer(&one, waiting, reserved, &key), start_run(&two, start, &key)),
        };
        assert_ne!(is_answered, is_started, "round {round}");
        let bound = one.find_bound_run(StartKey { key: &key, ..KEY }).expect("read");
        assert_eq!(bound, Some(if is_answered { waiting } else { reserved }), "round {round}");
        assert_eq!(one.get_run(reserved).expect("read").is_some(), is_started, "round {round}");
    }
}

/// The key of a run that never started is deleted, and that of a run that did is kept.
async fn keys_of_refused_starts_are_deleted(place: &TestDatabase) {
    let (one, two) = (place.open(), place.open());
    let refused = StartKey { key: "refused", ..KEY };
    for (key, run) in [(KEY, run_id(1)), (refused, run_id(2))] {
        let start = one.reserve_start(key, "request", run, 60_002).await.expect("reserved");
        assert_eq!(start, IdempotentStart::Run(run));
    }
    let lease = two.begin_run(run_id(1)).expect("new");
    assert!(start_run(&two, lease, KEY.key).await);
    let deleted = [one.delete_unused_reservations(60_002).await, two.delete_unused_reservations(60_003).await];
    assert_eq!(deleted.map(|deleted| deleted.expect("deleted")), [0, 1]);
    assert_eq!([KEY, refused].map(|key| one.find_bound_run(key).expect("read")), [Some(run_id(1)), None]);
}
