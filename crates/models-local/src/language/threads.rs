//! How many threads compute. Prompts are large products, which gain from every core at any time. The products of a single
//! token are small, and its threads meet after each of them: a thread that has to wait for its core would hold up all
//! others, several hundred times for each token.

/// Threads for a prompt: one for each core.
pub(super) fn count_for_prompt() -> i32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    i32::try_from(cores).unwrap_or(i32::MAX)
}

/// Threads for the tokens of an answer: one for each core that is free now, and at least one.
pub(super) fn count_for_answer() -> i32 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    (count_for_prompt() - count_other_threads(&load)).max(1)
}

/// The number of other threads of this machine that are running or wait for a core: `0.20 0.18 0.12 3/512 4711` counts
/// three, with the one that reads it.
fn count_other_threads(load: &str) -> i32 {
    let counts = load.split(' ').nth(3).and_then(|counts| counts.split_once('/'));
    counts.and_then(|(running, _)| running.parse::<i32>().ok()).map_or(0, |running| (running - 1).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_asks_is_not_another_one() {
        assert_eq!(count_other_threads("0.20 0.18 0.12 3/512 4711\n"), 2);
        assert_eq!(count_other_threads("0.20 0.18 0.12 1/512 4711\n"), 0);
        assert_eq!(count_other_threads(""), 0);
        assert!(count_for_answer() >= 1 && count_for_answer() <= count_for_prompt());
    }
}
