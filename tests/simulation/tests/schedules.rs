//! A search with fixed seeds, and the seeds of schedules that failed with a bug: those in the headers of the planted bugs.

use std::time::Duration;

use simulation::patches::read_bugs;
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

/// Schedules that failed with bugs of this program.
const REPAIRED_SEEDS: [u64; 6] =
    [77_000_238_243, 88_000_039_534, 77_000_084_259, 88_000_054_258, 77_000_030_956, 77_001_234_952];

#[test]
fn the_schedules_that_failed_with_a_bug_hold_without_it() {
    let seeds: Vec<u64> = read_bugs().expect("headers").iter().filter_map(|bug| bug.seed).collect();
    assert!(seeds.len() >= 15, "{seeds:?}");
    for seed in seeds.into_iter().chain(REPAIRED_SEEDS) {
        let failed = run_schedule(seed, &Settings::from_seed(seed), false).err();
        assert_eq!(failed.map(|failed| failed.violations), None, "seed {seed}");
    }
}

/// A search that runs fewer schedules than it should reports it.
#[test]
fn a_search_without_time_fails() {
    let search = |schedules: &str, seconds: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_simulation"));
        command.args(["--seed", "1", "--schedules", schedules, "--seconds", seconds]).output().expect("it runs")
    };
    let short = search("100", "0");
    let text = String::from_utf8_lossy(&short.stdout);
    assert_eq!(short.status.code(), Some(simulation::TOO_FEW_SCHEDULES.into()), "{text}");
    assert!(text.contains("only 0 of 100 schedules"), "{text}");
    let complete = search("3", "600");
    let text = String::from_utf8_lossy(&complete.stdout);
    assert!(complete.status.success() && text.contains("schedules per second"), "{text}");
}
