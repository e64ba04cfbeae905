//! The sizes of users' data, which take long to measure.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_runtime::blocking::run_blocking;
use parking_lot::Mutex;

use crate::error::StoreError;

/// How long a measured size is used again.
const SIZE_CACHE_MS: u64 = 60_000;

/// The size of a user's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MeasuredSize {
    pub(crate) bytes: u64,
    /// When it is measured again, in milliseconds since the Unix epoch.
    pub(crate) until: u64,
    /// An upper bound of the bytes written since then.
    written: u64,
}

/// The sizes that were measured within the last minute, by user.
#[derive(Debug, Default)]
pub(crate) struct SizeCache(Mutex<HashMap<String, Arc<UserSize>>>);

#[derive(Debug, Default)]
struct UserSize {
    known: Mutex<Option<MeasuredSize>>,
    /// Held by the one call that measures; those that come meanwhile wait for its result.
    measuring: Mutex<()>,
}

impl SizeCache {
    /// Notes that a user is about to write at most so many bytes.
    pub(crate) fn note_written(&self, user: &str, bytes: u64) {
        let Some(size) = self.0.lock().get(user).cloned() else { return };
        if let Some(known) = size.known.lock().as_mut() {
            known.written = known.written.saturating_add(bytes);
        }
    }

    /// The size of a user's data; measures it unless it is known, and not more than `tolerance` bytes were written since.
    pub(crate) fn get_or_measure(
        &self,
        user: &str,
        now: u64,
        tolerance: u64,
        measure: impl FnOnce() -> Result<u64, StoreError> + Send,
    ) -> Result<MeasuredSize, StoreError> {
        let size = self.find_user(user, now);
        let find_known = || {
            let is_current = |known: &MeasuredSize| now < known.until && known.written <= tolerance;
            size.known.lock().filter(is_current)
        };
        if let Some(known) = find_known() {
            return Ok(known);
        }
        run_blocking(|| {
            let _turn = size.measuring.lock();
            if let Some(known) = find_known() {
                return Ok(known);
            }
            let measured = MeasuredSize { bytes: measure()?, until: now + SIZE_CACHE_MS, written: 0 };
            *size.known.lock() = Some(measured);
            Ok(measured)
        })
    }

    /// The entry of a user. Removes those of other users that are out of date and not being measured.
    fn find_user(&self, user: &str, now: u64) -> Arc<UserSize> {
        let mut sizes = self.0.lock();
        if let Some(size) = sizes.get(user) {
            return size.clone();
        }
        sizes.retain(|_, size| Arc::strong_count(size) > 1 || size.known.lock().is_some_and(|known| now < known.until));
        sizes.entry(user.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_measured_once_a_minute() {
        let cache = SizeCache::default();
        let size = |user: &str, now: u64, bytes: u64| {
            cache.get_or_measure(user, now, 10, || Ok(bytes)).expect("measured").bytes
        };
        let sizes = [size("ann", 0, 1), size("ann", 59_999, 2), size("bob", 5, 3), size("ann", 60_000, 4)];
        assert_eq!(sizes, [1, 1, 3, 4]);
        cache.note_written("ann", 10);
        assert_eq!(size("ann", 60_001, 5), 4);
        cache.note_written("ann", 1);
        assert_eq!([size("ann", 60_002, 6), size("ann", 60_003, 7)], [6, 6]);
    }
}
