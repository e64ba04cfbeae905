//! Keys that have read the metrics: they may do so while the database cannot be asked about them.

use std::collections::HashMap;

use flowloom_store::KeyRow;
use parking_lot::Mutex;

/// Maximum number of keys that are remembered; few programs read metrics.
const MAX_KEYS: usize = 64;

/// The keys, by the hash of the secret that was given.
#[derive(Default)]
pub(crate) struct RememberedKeys(Mutex<HashMap<String, KeyRow>>);

impl RememberedKeys {
    /// Remembers a key as the database has it now, or forgets one that it no longer has.
    pub(crate) fn update_key(&self, secret_hash: &str, row: Option<&KeyRow>) {
        let mut known = self.0.lock();
        match row {
            None => drop(known.remove(secret_hash)),
            Some(row) if known.len() < MAX_KEYS || known.contains_key(secret_hash) => {
                known.insert(secret_hash.to_owned(), row.clone());
            }
            Some(_) => {}
        }
    }

    /// The key, if it is remembered.
    pub(crate) fn find_key(&self, secret_hash: &str) -> Option<KeyRow> {
        self.0.lock().get(secret_hash).cloned()
    }
}
