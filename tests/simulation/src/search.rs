//! Runs schedules on all processors until one fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::schedule::{FailedSchedule, Settings, run_schedule};

/// The result of a search.
pub struct SearchReport {
    /// Number of schedules that were run.
    pub schedules: u64,
    /// Number of polls in them.
    pub polls: u64,
    /// How long the search took.
    pub elapsed: Duration,
    /// The failed schedule with the lowest seed of those that were found.
    pub failed: Option<Box<FailedSchedule>>,
}

/// Runs the schedules of `count` seeds from `first_seed` on, until one fails or `max_time` has passed.
pub fn search_schedules(first_seed: u64, count: u64, max_time: Duration) -> SearchReport {
    let started = Instant::now();
    let (next, schedules, polls) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (is_over, failed) = (AtomicBool::new(false), Mutex::new(None::<Box<FailedSchedule>>));
    let search = || {
        while !is_over.load(Ordering::Relaxed) && started.elapsed() < max_time {
            let offset = next.fetch_add(1, Ordering::Relaxed);
            if offset >= count {
                return;
            }
            let seed = first_seed + offset;
            schedules.fetch_add(1, Ordering::Relaxed);
            match run_schedule(seed, &Settings::from_seed(seed), false) {
                Ok(count) => drop(polls.fetch_add(count, Ordering::Relaxed)),
                Err(found) => {
                    is_over.store(true, Ordering::Relaxed);
                    let mut failed = failed.lock();
                    if failed.as_ref().is_none_or(|known| found.seed < known.seed) {
                        *failed = Some(found);
                    }
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(search))));
    SearchReport {
        schedules: schedules.into_inner(),
        polls: polls.into_inner(),
        elapsed: started.elapsed(),
        failed: failed.lock().take(),
    }
}
