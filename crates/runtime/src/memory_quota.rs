//! The limit on the size of a user's memory.

use std::collections::HashMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::MemoryWrite;
use flowloom_core::value::{Map, Value};

/// The sizes of the entries of a memory.
#[derive(Debug, Default)]
pub struct MemoryUsage {
    bytes_by_key: HashMap<String, u64>,
    total_bytes: u64,
}

impl MemoryUsage {
    /// The usage of a memory.
    pub fn of_memories(memories: &Map) -> MemoryUsage {
        let bytes_by_key: HashMap<String, u64> =
            memories.iter().map(|(key, value)| (key.to_string(), entry_bytes(key, value))).collect();
        MemoryUsage { total_bytes: bytes_by_key.values().sum(), bytes_by_key }
    }

    /// Size of all entries, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Adds writes. Fails with `MemoryFull`, and adds none, if the memory would exceed `limit_bytes`. Writes that make a
    /// memory smaller always succeed.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_core::event::MemoryWrite;
    /// use flowloom_runtime::memory_quota::MemoryUsage;
    ///
    /// let mut usage = MemoryUsage::default();
    /// let write = |text: &str| [MemoryWrite { key: "note".to_owned(), value: Some(text.into()) }];
    /// assert!(usage.add_writes(&write("short"), 20).is_ok());
    /// assert!(usage.add_writes(&write("a text that is longer than the limit"), 20).is_err());
    /// ```
    pub fn add_writes(&mut self, writes: &[MemoryWrite], limit_bytes: u64) -> Result<(), StepFailure> {
        let mut changed: HashMap<&str, u64> = HashMap::new();
        for write in writes {
            changed.insert(&write.key, write.value.as_ref().map_or(0, |value| entry_bytes(&write.key, value)));
        }
        let before: u64 = changed.keys().filter_map(|key| self.bytes_by_key.get(*key)).sum();
        let added: u64 = changed.values().sum();
        let total_bytes = self.total_bytes - before + added;
        if total_bytes > limit_bytes && added > before {
            let message = format!(
                "the user's memory would have {total_bytes} bytes; at most {limit_bytes} are allowed; delete keys, or \
                 raise memory_bytes in [limits] or [quotas]"
            );
            return Err(StepFailure::new(Code::MemoryFull, message));
        }
        self.total_bytes = total_bytes;
        self.bytes_by_key.extend(changed.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)));
        Ok(())
    }
}

fn entry_bytes(key: &str, value: &Value) -> u64 {
    (key.len() + value.approximate_bytes()) as u64
}
