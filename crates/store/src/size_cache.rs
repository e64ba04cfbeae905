//! The sizes of users' data, which take long to measure.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

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
pub(crate) struct SizeCache(Mutex<HashMap<String, MeasuredSize>>);

impl SizeCache {
    /// Notes that a user is about to write at most so many bytes.
    pub(crate) fn note_written(&self, user: &str, bytes: u64) {
        if let Some(known) = self.lock_sizes().get_mut(user) {
            known.written = known.written.saturating_add(bytes);
        }
    }

    /// The size of a user's data; measures it unless it is known, and not more than `tolerance` bytes were written since.
    pub(crate) fn get_or_measure(
        &self,
        user: &str,
        now: u64,
        tolerance: u64,
        measure: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<MeasuredSize, StoreError> {
        if let Some(known) = self.lock_sizes().get(user).filter(|known| now < known.until && known.written <= tolerance)
        {
            return Ok(*known);
        }
        let measured = MeasuredSize { bytes: measure()?, until: now + SIZE_CACHE_MS, written: 0 };
        let mut known = self.lock_sizes();
        known.retain(|_, size| now < size.until);
        known.insert(user.to_owned(), measured);
        Ok(measured)
    }

    fn lock_sizes(&self) -> MutexGuard<'_, HashMap<String, MeasuredSize>> {
        self.0.lock()
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
