//! Lists that are bounded in bytes, whatever their items contain. The answer of every list route whose items have values
//! of users is a [`BoundedList`]. Large values are shortened; the route of the single object has them whole.

use std::sync::Arc;

use flowloom_core::json::parse_value;
use flowloom_core::value::{Map, Value};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Maximum size of the items of a list, in bytes.
const MAX_LIST_BYTES: usize = 4 << 20;

/// Size up to which an item is whole, however many others there are, in bytes.
const MIN_ITEM_BYTES: usize = 1024;

/// Minimum size of a part of a value that is shortened, in bytes: further parts are left out.
const MIN_PART_BYTES: usize = 64;

/// The items of a list as JSON.
///
/// The items share the bytes: each is whole if it fits into its share of what those before it have left. An item that does
/// not fit is shortened by the same rule, part by part.
pub(crate) struct BoundedList {
    items: Vec<Box<RawValue>>,
    shares: Shares,
}

impl BoundedList {
    /// A list of up to `count` items.
    pub(crate) fn with_count(count: usize) -> BoundedList {
        let shares = Shares { left_bytes: MAX_LIST_BYTES.max(count * MIN_ITEM_BYTES), left_parts: count };
        BoundedList { items: Vec::with_capacity(count), shares }
    }

    /// A list of items.
    pub(crate) fn of_items<T: Serialize>(items: impl ExactSizeIterator<Item = T>) -> BoundedList {
        let mut list = BoundedList::with_count(items.len());
        for item in items {
            list.push_item(&item);
        }
        list
    }

    /// Adds an item.
    pub(crate) fn push_item(&mut self, item: &impl Serialize) {
        let written = write_item(item);
        if written.get().len() <= self.shares.next_share() {
            return self.add_written(written);
        }
        let item = parse_value(written.get()).unwrap_or_default();
        drop(written);
        self.push_value(&item);
    }

    /// Adds an item that is a value. It is not written before it is shortened.
    pub(crate) fn push_value(&mut self, item: &Value) {
        let shortened = shorten_value(item, self.shares.next_share());
        self.add_written(write_item(&shortened));
    }

    fn add_written(&mut self, item: Box<RawValue>) {
        self.shares.take_bytes(item.get().len());
        self.items.push(item);
    }
}

impl Serialize for BoundedList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.items)
    }
}

/// An item as JSON. Writing the types of this crate and values cannot fail.
fn write_item(item: &impl Serialize) -> Box<RawValue> {
    to_raw_value(item).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Bytes that the parts of something share.
struct Shares {
    left_bytes: usize,
    left_parts: usize,
}

impl Shares {
    /// The bytes that the next part may have.
    fn next_share(&self) -> usize {
        self.left_bytes / self.left_parts.max(1)
    }

    fn take_bytes(&mut self, count: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(count);
        self.left_parts = self.left_parts.saturating_sub(1);
    }
}

/// The value, or as much of it as fits into `max` bytes of JSON. Scalars are always whole.
fn shorten_value(value: &Value, max: usize) -> Value {
    if measure_within(value, max).is_some() {
        return value.clone();
    }
    let shares = |parts: usize| Shares { left_bytes: max, left_parts: parts.min(max / MIN_PART_BYTES) };
    match value {
        Value::String(text) => shorten_text(text, max).into(),
        Value::List(items) => {
            let mut shares = shares(items.len());
            let kept = items.iter().take(shares.left_parts);
            Value::list(kept.map(|item| take_part(item, 1, &mut shares)).collect())
        }
        Value::Map(map) => Value::Map(Arc::new(shorten_map(map, shares(map.len())))),
        Value::Blob(_) | Value::Number(_) | Value::Null | Value::Bool(_) => Value::Null,
    }
}

fn shorten_map(map: &Map, mut shares: Shares) -> Map {
    let mut kept = Map::new();
    for (key, part) in map.iter().take(shares.left_parts) {
        // Quotes, a colon and a comma.
        let around = measure_text(key) + 4;
        if around < shares.next_share() {
            kept.insert(key.clone(), take_part(part, around, &mut shares));
        }
    }
    kept
}

/// Shortens a part of a value, around which `around` bytes are written, to its share.
fn take_part(part: &Value, around: usize, shares: &mut Shares) -> Value {
    let shortened = shorten_value(part, shares.next_share().saturating_sub(around));
    let size = measure_within(&shortened, usize::MAX).unwrap_or(usize::MAX);
    shares.take_bytes(size.saturating_add(around));
    shortened
}

/// The start of a text, and how long the text is.
fn shorten_text(text: &str, max: usize) -> String {
    let end = format!("… ({} bytes)", text.len());
    let mut left = max.saturating_sub(end.len() + 2);
    let is_kept = |c: &char| {
        let size = measure_text(c.encode_utf8(&mut [0; 4]));
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    };
    let start: String = text.chars().take_while(is_kept).collect();
    start + &end
}

/// Size of a text within quotes in JSON, in bytes.
fn measure_text(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// Size of a value as JSON, in bytes; `None` if it is above `max`. It reads no more of the value than that.
fn measure_within(value: &Value, max: usize) -> Option<usize> {
    let size = match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_text().len(),
        Value::String(text) if text.len() > max => return None,
        Value::String(text) => measure_text(text) + 2,
        Value::Blob(blob) => blob.data.len() + measure_text(&blob.name) + measure_text(&blob.mime) + 48,
        Value::List(items) => {
            let mut size: usize = 2;
            for item in items.iter() {
                size += measure_within(item, max.checked_sub(size)?)? + 1;
            }
            size
        }
        Value::Map(map) => {
            let mut size: usize = 2;
            for (key, part) in map.iter() {
                size += measure_text(key) + 4;
                size += measure_within(part, max.checked_sub(size)?)?;
            }
            size
        }
    };
    (size <= max).then_some(size)
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::write_json;

    use super::*;

    fn write(list: &BoundedList) -> String {
        serde_json::to_string(list).expect("JSON")
    }

    #[test]
    fn items_that_fit_are_whole() {
        let large = Value::map([("text", Value::from("x".repeat(MAX_LIST_BYTES / 2 - 100))), ("n", 1.into())]);
        let list = BoundedList::of_items([large.clone(), 2.into()].into_iter());
        assert_eq!(write(&list), format!("[{},2]", write_json(&large)));
    }

    #[test]
    fn large_values_are_shortened_and_small_ones_next_to_them_are_whole() {
        let text = "x".repeat(MAX_LIST_BYTES);
        let item = Value::map([
            ("id", "a".into()),
            ("result", Value::map([("o", Value::from(text.as_str())), ("other", Value::from("kept"))])),
            ("status", "completed".into()),
        ]);
        let mut list = BoundedList::with_count(20);
        for _ in 0..20 {
            list.push_item(&item);
        }
        let written = write(&list);
        assert!(written.len() <= MAX_LIST_BYTES + 100, "{}", written.len());
        let read = parse_value(&written).expect("JSON");
        let items = read.as_list().expect("a list");
        assert_eq!(items.len(), 20);
        for item in items {
            assert_eq!(item.get("status").and_then(Value::as_str), Some("completed"));
            let result = item.get("result").expect("a result");
            assert_eq!(result.get("other").and_then(Value::as_str), Some("kept"));
            let start = result.get("o").and_then(Value::as_str).expect("a text");
            assert!(start.ends_with(&format!("… ({MAX_LIST_BYTES} bytes)")) && start.len() > 10_000, "{}", start.len());
        }
    }

    #[test]
    fn every_shape_is_bounded() {
        let many = Value::list((0..100_000).map(Value::from).collect());
        let wide = Value::map((0..100_000).map(|n| (format!("key {n}"), Value::from(n))));
        let escaped = Value::from("\u{1}".repeat(100_000));
        let quotes = Value::from("\"é".repeat(100_000));
        let long_key = Value::map([("k".repeat(100_000), Value::from(1))]);
        let deep = (0..100).fold(Value::from("x".repeat(100_000)), |inner, _| Value::list(vec![inner, 1.into()]));
        for value in [many, wide, escaped, quotes, long_key, deep] {
            for max in [100, 1_000, 20_000] {
                let size = write_json(&shorten_value(&value, max)).len();
                assert!(size <= max + 64, "{size} of {max}: {}", value.kind_name());
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_text() {
        for text in ["null", "false", "-1.50", r#""a\"b\n""#, "[1,2]", r#"{"a":[true],"b":{}}"#] {
            let value = parse_value(text).expect("JSON");
            let measured = measure_within(&value, usize::MAX).expect("no bound");
            assert!((text.len()..=text.len() + 3).contains(&measured), "{text}: {measured}");
        }
    }
}
