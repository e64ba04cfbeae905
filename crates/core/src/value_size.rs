//! The size of values, for limits: as text, and in memory.

use std::sync::Arc;

use crate::value::{Blob, Map, Value};

impl Value {
    /// Approximate size of the value as text, in bytes, for limits. Does not render the value.
    pub fn approximate_bytes(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) => 4,
            Value::Number(_) => 8,
            Value::String(text) => text.len() + 2,
            Value::List(items) => 2 + items.iter().map(Value::approximate_bytes).sum::<usize>(),
            Value::Map(map) => 2 + map.iter().map(|(k, v)| k.len() + 4 + v.approximate_bytes()).sum::<usize>(),
            Value::Blob(blob) => 64 + blob.data.len(),
        }
    }

    /// Memory that the value takes if it shares nothing, in bytes, as an estimate: a small object takes ten times its text.
    pub fn memory_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = size_of::<(usize, Arc<str>, Value)>() + size_of::<usize>();
        const SHARED_BYTES: usize = 2 * size_of::<usize>();
        let inner = match self {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => SHARED_BYTES + text.len(),
            Value::List(items) => SHARED_BYTES + items.iter().map(Value::memory_bytes).sum::<usize>(),
            Value::Map(map) => {
                let entry = |(key, value): (&Arc<str>, &Value)| {
                    ENTRY_BYTES + SHARED_BYTES + key.len() + value.memory_bytes() - size_of::<Value>()
                };
                SHARED_BYTES + size_of::<Map>() + map.iter().map(entry).sum::<usize>()
            }
            Value::Blob(blob) => SHARED_BYTES + size_of::<Blob>() + blob.data.len(),
        };
        size_of::<Value>() + inner
    }
}

#[cfg(test)]
mod tests {
    use crate::json::parse_value;

    #[test]
    fn small_objects_take_more_memory_than_text() {
        let size = |text: &str| {
            let value = parse_value(text).expect("JSON");
            (value.approximate_bytes(), value.memory_bytes())
        };
        let (text, memory) = size(r#"[{"id":1,"on":true},{"id":2,"on":false}]"#);
        assert!(memory > 10 * text && memory < 1_000, "{text} {memory}");
        let (text, memory) = size(&format!("\"{}\"", "x".repeat(10_000)));
        assert!((text..text + 100).contains(&memory), "{text} {memory}");
    }
}
