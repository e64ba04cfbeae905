//! Records the last use of each API key, at most once a minute and without delaying the request.

use std::collections::HashMap;

use flowloom_store::{KeyRow, Store};
use parking_lot::Mutex;

/// Shortest time between two records of one key.
const RECORD_INTERVAL_MS: u64 = 60_000;

/// When this process last recorded a use of each key.
#[derive(Default)]
pub(crate) struct KeyUses(Mutex<HashMap<String, u64>>);

impl KeyUses {
    /// Records a use of a key, unless one was recorded less than a minute ago.
    pub(crate) fn record_use(&self, store: &Store, key: &KeyRow, now: u64) {
        if self.is_due(key, now) {
            store.record_key_use(&key.id, now);
        }
    }

    /// Whether a use of the key is to be recorded; notes that it is.
    fn is_due(&self, key: &KeyRow, now: u64) -> bool {
        let is_recent = |at: u64| now < at.saturating_add(RECORD_INTERVAL_MS);
        // The row shows what this and other processes recorded; this process may have written more since.
        if key.last_used_at.is_some_and(is_recent) {
            return false;
        }
        let mut recorded = self.0.lock();
        if recorded.get(&key.id).copied().is_some_and(is_recent) {
            return false;
        }
        recorded.retain(|_, at| is_recent(*at));
        recorded.insert(key.id.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_recorded_once_a_minute() {
        let uses = KeyUses::default();
        let key = |id: &str, last_used_at| KeyRow { id: id.to_owned(), last_used_at, ..KeyRow::default() };
        let (ann, bob) = (key("ann", None), key("bob", Some(70_000)));
        let due = [(&ann, 1_000), (&ann, 60_999), (&bob, 100_000), (&ann, 61_000), (&ann, 120_999), (&bob, 130_000)];
        assert_eq!(due.map(|(key, now)| uses.is_due(key, now)), [true, false, false, true, false, true]);
    }
}
