//! Named places at which a test can end the process, as a crash at that place would, or have it wait. Release builds have none.

/// Ends the process if the variable `FLOWLOOM_FAILPOINT` is `name`, or if it is `name:N` and this is the `N`th hit.
#[cfg(debug_assertions)]
pub fn hit(name: &str) {
    if let Some(chosen) = enabled::CHOSEN.as_ref().filter(|chosen| chosen.name == name) {
        chosen.count_hit();
    }
}

/// Does nothing: a release build has no failpoints.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_name: &str) {}

/// Waits until another process opens a pipe to write to it, if the variable `FLOWLOOM_HOLD` is `name:` and the path of the pipe.
#[cfg(debug_assertions)]
pub fn wait_for_pipe(name: &str) {
    if let Some((_, pipe)) = enabled::HELD.as_ref().filter(|(held, _)| held == name) {
        drop(std::fs::File::open(pipe));
    }
}

/// Does nothing: in a release build nothing waits.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn wait_for_pipe(_name: &str) {}

#[cfg(debug_assertions)]
mod enabled {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The failpoint at which this process ends.
    #[allow(clippy::disallowed_methods, reason = "a test chooses the failpoint of the program that it starts")]
    pub(super) static CHOSEN: LazyLock<Option<ChosenFailpoint>> =
        LazyLock::new(|| std::env::var("FLOWLOOM_FAILPOINT").ok().map(|text| ChosenFailpoint::parse(&text)));

    /// The place at which this process waits, and the pipe.
    #[allow(clippy::disallowed_methods, reason = "a test chooses where the program that it starts waits")]
    pub(super) static HELD: LazyLock<Option<(String, PathBuf)>> = LazyLock::new(|| {
        let text = std::env::var("FLOWLOOM_HOLD").ok()?;
        text.split_once(':').map(|(name, pipe)| (name.to_owned(), pipe.into()))
    });

    pub(super) struct ChosenFailpoint {
        pub(super) name: String,
        /// Hits that are left; the last one ends the process.
        left: AtomicU64,
    }

    impl ChosenFailpoint {
        fn parse(text: &str) -> ChosenFailpoint {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            ChosenFailpoint { name: name.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1)) }
        }

        pub(super) fn count_hit(&self) {
            if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                std::process::abort();
            }
        }
    }
}
