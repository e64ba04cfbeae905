//! A search with fixed seeds, and the seeds of schedules that failed before.

use std::time::Duration;

use simulation::{Settings, run_schedule, search_schedules};

/// Number of schedules; `make chaos` runs more.
const SCHEDULES: u64 = 10_000;

#[test]
fn ten_thousand_schedules_keep_every_promise() {
    let report = search_schedules(1, SCHEDULES, Duration::from_secs(600));
    let failed = report.failed.map(|failed| (failed.seed, failed.violations));
    assert_eq!(failed, None, "cargo run -p simulation -- --replay SEED shows what happens");
    assert_eq!(report.schedules, SCHEDULES);
}

#[test]
fn a_seed_repeats_its_schedule() {
    for seed in 0..20 {
        let settings = Settings::from_seed(seed);
        let polls = || run_schedule(seed, &settings, false).map_err(|failed| failed.violations);
        assert_eq!(polls(), polls());
    }
}
