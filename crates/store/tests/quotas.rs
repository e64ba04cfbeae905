//! Quotas as the database enforces and counts them: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use std::collections::HashMap;

use flowloom_core::code::Code;
use flowloom_core::event::Event;
use flowloom_core::status::Status;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::journal::Journal as _;
use flowloom_store::{DailyUsage, Quota, QuotaLimits, Quotas};

use support::{TestDatabase, append_records, created_event, new_record, run_id};

on_both!(
    two_processes_cannot_exceed_a_quota_together,
    a_run_of_a_dead_process_does_not_count,
    what_is_used_in_a_day_adds_up,
    a_retry_is_a_start,
);

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// When the runs of the tests are created, in milliseconds since the Unix epoch.
const STARTED_AT_MS: u64 = 1_001;

fn limit_ann(quota: Quota, limit: u64) -> Quotas {
    let users = HashMap::from([("ann".to_owned(), QuotaLimits::from([(quota, limit)]))]);
    Quotas { users, ..Quotas::default() }
}

async fn two_processes_cannot_exceed_a_quota_together(place: &TestDatabase) {
    let open = || place.open_with_quotas(limit_ann(Quota::ConcurrentRuns, 1));
    let (one, two) = (open(), open());
    for n in 0..10 {
        let (first, second) = (run_id(2 * n), run_id(2 * n + 1));
        let leases = [one.begin_run(first).expect("new"), two.begin_run(second).expect("new")];
        let created = |run, store| vec![new_record(run, 1, created_event(store))];
        let (first_done, second_done) = tokio::join!(
            append_records(&*one, leases[0], created(first, &one)),
            append_records(&*two, leases[1], created(second, &two)),
        );
        assert_ne!(first_done.is_ok(), second_done.is_ok(), "{first_done:?} {second_done:?}");
        let (store, lease, refused) = match &second_done {
            Ok(()) => (&two, leases[1], first_done),
            Err(_) => (&one, leases[0], second_done),
        };
        let refused = refused.expect_err("one is refused");
        assert_eq!(refused.code(), Code::QuotaExceeded);
        assert!(refused.to_string().contains("1 of 1 runs (quota concurrent_runs)"), "{refused}");
        assert_eq!(one.measure_usage("ann", Quota::ConcurrentRuns, 0).expect("measured"), 1);
        // The run that had started continues, and makes room when it ends.
        let ended = Event::RunFinished { status: Status::Succeeded, error: None, failed: None, thread: None };
        append_records(&**store, lease, vec![new_record(lease.run, 2, ended)]).await.expect("stored");
    }
}

/// The user could not start anything until another process claims the run, which may be never.
async fn a_run_of_a_dead_process_does_not_count(place: &TestDatabase) {
    let open = || place.open_with_quotas(limit_ann(Quota::ConcurrentRuns, 1));
    let (dead, living) = (open(), open());
    let lease = dead.begin_run(run_id(1)).expect("new");
    append_records(&*dead, lease, vec![new_record(run_id(1), 1, created_event(&dead))]).await.expect("stored");
    let measure = || living.measure_usage("ann", Quota::ConcurrentRuns, 0).expect("measured");
    assert_eq!(measure(), 1);
    drop(dead);
    assert_eq!(measure(), 0);
    let lease = living.begin_run(run_id(2)).expect("new");
    append_records(&*living, lease, vec![new_record(run_id(2), 1, created_event(&living))]).await.expect("stored");
    assert_eq!(measure(), 1);
}

async fn a_retry_is_a_start(place: &TestDatabase) {
    let store = place.open_with_quotas(limit_ann(Quota::StartsPerMinute, 1));
    let (run, retried_at) = (run_id(1), DAY_MS);
    let lease = store.begin_run(run).expect("new");
    let end = Event::RunFinished { status: Status::Failed, error: None, failed: None, thread: None };
    let records = vec![
        new_record(run, 1, created_event(&store)),
        new_record(run, 2, Event::RunStarted { epoch: 1 }),
        new_record(run, 3, end),
    ];
    append_records(&*store, lease, records).await.expect("stored");
    store.release_run(lease);
    assert_eq!(store.find_last_start(run).expect("readable"), STARTED_AT_MS);
    let retry = RunCommand { id: "r".into(), sender: "ann".into(), action: CommandAction::Retry { from: None } };
    store.post_command(run, retry, retried_at).await.expect("stored");
    assert_eq!(store.find_last_start(run).expect("readable"), retried_at);
    let measure = |now| store.measure_usage("ann", Quota::StartsPerMinute, now).expect("measured");
    assert_eq!([measure(retried_at + 1_000), measure(retried_at + 60_000)], [1, 0]);
    // An idempotency key reserves the id of a run before it starts. The retry is later, and counts here, too.
    assert!(run.at_ms() < STARTED_AT_MS);
    assert_eq!([measure(STARTED_AT_MS + 59_999), measure(STARTED_AT_MS + 60_000)], [2, 1]);
    let refused = store.check_quotas("ann", &[Quota::StartsPerMinute], retried_at + 1_000).expect_err("it counts");
    assert_eq!(refused.code(), Code::QuotaExceeded);
}

async fn what_is_used_in_a_day_adds_up(place: &TestDatabase) {
    let [one, two] = [(); 2].map(|()| place.open_with_quotas(limit_ann(Quota::Cost, 100)));
    let used = DailyUsage { sandbox_ms: 3, tokens: 20, micro_usd: 50 };
    for store in [&one, &two] {
        store.add_daily_usage("ann", used, DAY_MS).await;
        store.add_daily_usage("bob", used, DAY_MS).await;
    }
    let measure = |user: &str, quota, now| one.measure_usage(user, quota, now).expect("measured");
    let ann = [Quota::SandboxTime, Quota::Tokens, Quota::Cost].map(|quota| measure("ann", quota, 2 * DAY_MS - 1));
    assert_eq!(ann, [6, 40, 100]);
    // Another day, and a user without a quota.
    assert_eq!([measure("ann", Quota::Cost, 2 * DAY_MS), measure("bob", Quota::Cost, DAY_MS)], [0, 0]);
    let refused = two.check_quotas("ann", &[Quota::Tokens, Quota::Cost], DAY_MS).expect_err("all is used");
    assert_eq!(refused.code(), Code::QuotaExceeded);
    assert!(one.check_quotas("ann", &[Quota::Tokens, Quota::Cost], 2 * DAY_MS).is_ok());
}
