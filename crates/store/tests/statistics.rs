//! Statistics of runs: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_core::event::Event;
use flowloom_core::status::Status;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{RunCount, WorkflowStatistics};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(runs_are_counted_by_interval_and_workflow,);

/// Stores a run that ended `took_ms` after its creation at `at`.
async fn store_run(place: &TestDatabase, n: u8, at: u64, took_ms: u64, status: Status) {
    let store = place.open();
    let run = run_id(n);
    let lease = store.begin_run(run).expect("new");
    let record_at = |seq, at, event| {
        let mut record = (*new_record(run, seq, event)).clone();
        record.at = at;
        std::sync::Arc::new(record)
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
        let status = if n == 9 { Status::Failed } else { Status::Succeeded };
        store_run(place, n, 1_000 + u64::from(n) * 100, u64::from(n + 1) * 10, status).await;
    }
    let store = place.open();
    let all = store.summarize_runs(None, 1_000, 500).expect("readable");
    let count = |interval, status: &str, count| RunCount { interval, status: status.to_owned(), count };
    assert_eq!(all.counts, [count(2, "succeeded", 5), count(3, "failed", 1), count(3, "succeeded", 4)]);
    let [workflow] = &all.workflows[..] else { panic!("{all:?}") };
    let expected = WorkflowStatistics { count: 10, failures: 1, median_ms: 50, p95_ms: 100, ..workflow.clone() };
    assert_eq!(*workflow, expected);
    let later = store.summarize_runs(None, 1_500, 500).expect("readable");
    assert_eq!(later.counts.iter().map(|one| one.count).sum::<u64>(), 5);
    let nobody = store.summarize_runs(Some("nobody"), 0, 500).expect("readable");
    assert_eq!((nobody.counts.len(), nobody.workflows.len()), (0, 0));
}
