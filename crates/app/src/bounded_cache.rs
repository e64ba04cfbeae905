//! A cache with a maximum number of entries.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// A cache that removes an arbitrary entry when it is full. A caller that reads more entries in turn than the cache holds
/// still finds most of them, unlike in a cache that removes the oldest.
pub(crate) struct BoundedCache<K, V> {
    max: usize,
    entries: Mutex<HashMap<K, V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// A cache of at most `max` entries.
    pub(crate) fn new(max: usize) -> BoundedCache<K, V> {
        BoundedCache { max, entries: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.entries.lock().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.max
            && !entries.contains_key(&key)
            && let Some(removed) = entries.keys().next().cloned()
        {
            entries.remove(&removed);
        }
        entries.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_keeps_most_of_its_entries() {
        let cache = BoundedCache::new(100);
        for round in 0..3 {
            let mut found = 0;
            for key in 0..101 {
                match cache.get(&key) {
                    Some(_) => found += 1,
                    None => cache.insert(key, key),
                }
            }
            assert!(round == 0 || found > 50, "{found}");
        }
        assert_eq!(cache.entries.lock().len(), 100);
        cache.insert(1, 7);
        assert_eq!(cache.get(&1), Some(7));
    }
}
