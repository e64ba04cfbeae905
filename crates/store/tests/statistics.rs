//! Statistics of runs: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::chat::Usage;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::EffectClass;
use flowloom_core::status::Status;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{IntervalDurations, ModelUsage, RunCount, RunFilter, RunRow, WorkflowStatistics};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(
    runs_are_counted_by_interval_and_workflow,
    model_calls_are_counted_by_interval_and_model,
    a_list_has_the_usage_of_its_runs,
    only_newer_events_are_added_to_the_usage_of_a_run,
);

fn runs_since(since: u64) -> RunFilter {
    RunFilter { since: Some(since), ..RunFilter::default() }
}

/// Stores a run that ended `took_ms` after its creation at `at`.
async fn store_run(place: &TestDatabase, n: u8, at: u64, took_ms: u64, status: Status) {
    let store = place.open();
    let run = run_id(n);
    let lease = store.begin_run(run).expect("new");
    let record_at = |seq, at, event| {
        let mut record = (*new_record(run, seq, event)).clone();
        record.at = at;
        Arc::new(record)
    };
    let ended = Event::RunFinished { status, error: None, failed: None, thread: None };
    let records = vec![
        record_at(1, at, created_event(&store)),
        record_at(2, at, Event::RunStarted { epoch: lease.epoch }),
        record_at(3, at + took_ms, ended),
    ];
    append_records(&*store, lease, records).await.expect("stored");
}

async fn runs_are_counted_by_interval_and_workflow(place: &TestDatabase) {
    for n in 0..10_u8 {
        let status = match n {
            9 => Status::Failed,
            8 => Status::Cancelled,
            _ => Status::Succeeded,
        };
        store_run(place, n, 1_000 + u64::from(n) * 100, u64::from(n + 1) * 10, status).await;
    }
    let store = place.open();
    let all = store.summarize_runs(&runs_since(1_000), 500).expect("readable");
    let count = |interval, status: &str, count| RunCount { interval, status: status.to_owned(), count };
    let third = [count(3, "cancelled", 1), count(3, "failed", 1), count(3, "succeeded", 3)];
    assert_eq!((&all.counts[0], &all.counts[1..]), (&count(2, "succeeded", 5), &third[..]));
    let durations = |interval, median_ms, p95_ms| IntervalDurations { interval, median_ms, p95_ms };
    assert_eq!(all.durations, [durations(2, 30, 50), durations(3, 80, 100)]);
    let [workflow] = &all.workflows[..] else { panic!("{all:?}") };
    let expected =
        WorkflowStatistics { count: 10, failures: 1, cancelled: 1, median_ms: 50, p95_ms: 100, ..workflow.clone() };
    assert_eq!(*workflow, expected);
    let later = store.summarize_runs(&runs_since(1_500), 500).expect("readable");
    assert_eq!(later.counts.iter().map(|one| one.count).sum::<u64>(), 5);
    let failed = RunFilter { status: Some("failed".into()), ..runs_since(1_000) };
    let failed = store.summarize_runs(&failed, 500).expect("readable");
    assert_eq!((failed.counts, failed.durations), (vec![count(3, "failed", 1)], vec![durations(3, 100, 100)]));
    assert_eq!((failed.workflows[0].count, failed.workflows[0].failures), (1, 1));
    for none in [
        RunFilter { user: Some("nobody".into()), ..runs_since(0) },
        RunFilter { workflow: Some("another".into()), ..runs_since(0) },
        RunFilter { status: Some("waiting".into()), ..runs_since(0) },
    ] {
        let none = store.summarize_runs(&none, 500).expect("readable");
        assert_eq!((none.counts.len(), none.durations.len(), none.workflows.len()), (0, 0, 0));
    }
}

/// A model call: the name of the model, its cost, and whether it is reused.
type Call = (&'static str, Option<u64>, bool);

/// Stores a run with a call of each of these models: its answer used 10 tokens in, 5 out, and `micro_usd`.
async fn store_calls(place: &TestDatabase, n: u8, at: u64, calls: &[Call]) {
    let store = place.open();
    let lease = store.begin_run(run_id(n)).expect("new");
    let created = (Path::root(), created_event(&store));
    let events = [created].into_iter().chain(list_call_events(0, calls));
    append_records(&*store, lease, number_records(run_id(n), 1, at, events)).await.expect("stored");
}

/// The events of model calls, after `before` others.
fn list_call_events(before: usize, calls: &[Call]) -> impl Iterator<Item = (Path, Event)> {
    calls.iter().enumerate().flat_map(move |(index, (model, micro_usd, reused))| {
        let path = Path::root().child_path(&Key::numbered_key("call", before + index + 1));
        let (kind, class) = ("generate".into(), EffectClass::AtLeastOnce);
        let started = Event::StepStarted { kind, target: (*model).into(), hash: Hash::of_bytes(b""), class };
        let usage = Some(Usage { input_tokens: 10, output_tokens: 5, micro_usd: *micro_usd });
        let finished = Event::StepFinished { output: None, usage, memory: Vec::new(), reused: *reused, response: None };
        [(path.clone(), started), (path, finished)]
    })
}

/// Records of a run at one time, with adjacent numbers.
fn number_records(run: RunId, first: u64, at: u64, events: impl Iterator<Item = (Path, Event)>) -> Vec<Arc<Record>> {
    let number = |(seq, (path, event)): (u64, (Path, Event))| {
        Arc::new(Record { at, path, ..(*new_record(run, seq, event)).clone() })
    };
    (first..).zip(events).map(number).collect()
}

async fn only_newer_events_are_added_to_the_usage_of_a_run(place: &TestDatabase) {
    let (store, run) = (place.open(), run_id(1));
    let lease = store.begin_run(run).expect("new");
    let created = [(Path::root(), created_event(&store))].into_iter();
    let mut records = number_records(run, 1, 1_000, created.chain(list_call_events(0, &[("a:one", Some(7), false)])));
    append_records(&*store, lease, records.clone()).await.expect("stored");
    let rows = store.list_runs(10).expect("readable");
    let read = || store.read_run_usage(&rows).expect("readable");
    let usage = |calls: u64, micro_usd| {
        HashMap::from([(run, Usage { input_tokens: 10 * calls, output_tokens: 5 * calls, micro_usd })])
    };
    assert_eq!([read(), read()], [usage(1, Some(7)), usage(1, Some(7))]);
    let next = records.len() as u64 + 1;
    let calls: [Call; 2] = [("a:one", Some(2), false), ("a:one", Some(9), true)];
    records = number_records(run, next, 1_100, list_call_events(1, &calls));
    append_records(&*store, lease, records).await.expect("stored");
    assert_eq!([read(), read()], [usage(2, Some(9)), usage(2, Some(9))]);
}

async fn a_list_has_the_usage_of_its_runs(place: &TestDatabase) {
    store_calls(place, 1, 1_000, &[("a:one", Some(7), false), ("b:two", Some(2), false)]).await;
    store_calls(place, 2, 1_100, &[("a:one", Some(3), false), ("a:one", None, false), ("a:one", None, true)]).await;
    store_calls(place, 3, 1_200, &[]).await;
    store_calls(place, 4, 1_300, &[("a:one", None, true)]).await;
    let store = place.open();
    let rows = store.list_runs(10).expect("readable");
    let usage = |input_tokens, output_tokens, micro_usd| Usage { input_tokens, output_tokens, micro_usd };
    let expected = HashMap::from([(run_id(1), usage(20, 10, Some(9))), (run_id(2), usage(20, 10, None))]);
    for _ in 0..2 {
        assert_eq!(store.read_run_usage(&rows).expect("readable"), expected);
    }
    // What an ended run used is kept; other runs are read again.
    let ended: Vec<_> = rows.iter().map(|row| RunRow { finished_at: Some(2_000), ..row.clone() }).collect();
    for _ in 0..2 {
        assert_eq!(store.read_run_usage(&ended).expect("readable"), expected);
    }
    assert_eq!(store.read_run_usage(&[]).expect("readable"), HashMap::new());
}

async fn model_calls_are_counted_by_interval_and_model(place: &TestDatabase) {
    store_calls(place, 1, 1_000, &[("a:one", Some(7), false), ("b:two", None, false)]).await;
    store_calls(place, 2, 1_100, &[("a:one", Some(3), false), ("a:one", Some(3), true)]).await;
    store_calls(place, 3, 1_600, &[("a:one", None, false)]).await;
    let store = place.open();
    let usage = store.summarize_model_usage(&runs_since(1_000), 500).expect("readable");
    let brief = |one: &ModelUsage| (one.interval, one.model.clone(), one.calls, one.micro_usd, one.unpriced_calls);
    let expected = [(2, "a:one", 2, 10, 0), (2, "b:two", 1, 0, 1), (3, "a:one", 1, 0, 1)];
    let expected = expected.map(|(at, model, calls, cost, unknown)| (at, model.to_owned(), calls, cost, unknown));
    assert_eq!(usage.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!((usage[0].input_tokens, usage[0].output_tokens), (20, 10));
    let nobody = RunFilter { user: Some("nobody".into()), ..runs_since(0) };
    assert_eq!(store.summarize_model_usage(&nobody, 500).expect("readable"), []);
}
