//! The data that flows between steps.
//!
//! Values are shared: cloning one costs a reference count, however large it is. Numbers preserve their source text. How
//! a number or an object becomes text is a rule of the format; see [`crate::render`].

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::hash::Hash;
use crate::image;
use crate::render::{format_js_number, is_same_number};

/// An object: keys in the order in which they were inserted.
pub type Map = IndexMap<Arc<str>, Value>;

/// A piece of data. An absent value is `None` of `Option<Value>`, never a value of its own.
///
/// # Examples
///
/// ```
/// use flowloom_core::render::to_json;
/// use flowloom_core::value::Value;
///
/// let order = Value::map([("city", "Bern".into()), ("guests", 2.into())]);
/// assert_eq!(order.get("city").and_then(Value::as_str), Some("Bern"));
/// assert_eq!(order.get("guests").and_then(Value::as_i64), Some(2));
/// assert_eq!(to_json(&order), r#"{"city":"Bern","guests":2}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// JSON `null`.
    #[default]
    Null,
    /// A Boolean.
    Bool(bool),
    /// A number with its exact source text.
    Number(Number),
    /// A string.
    String(Arc<str>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// An object literal.
    Map(Arc<Map>),
    /// A file.
    Blob(Arc<Blob>),
}

/// A file as a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blob {
    /// Hash of the bytes.
    pub hash: Hash,
    /// Media type, for example `image/png`.
    pub mime: String,
    /// File name as supplied.
    pub name: String,
    /// The bytes in base64.
    pub data: Arc<str>,
}

impl Blob {
    /// A file from its base64-encoded bytes.
    pub fn new(name: &str, mime: &str, data: &str) -> Blob {
        Blob { hash: Hash::of_bytes(data.as_bytes()), mime: mime.to_owned(), name: name.to_owned(), data: data.into() }
    }

    /// Reads `{"$file": {name, mime, base64}}`, the form of files in a run's inputs.
    pub fn from_input(value: &Value) -> Option<Blob> {
        let file = value.get("$file")?;
        let text = |key: &str| file.get(key).and_then(Value::as_str);
        Some(Blob::new(text("name")?, text("mime")?, text("base64")?))
    }

    /// Whether the content is base64, with the standard or the URL-safe alphabet.
    pub fn is_base64(&self) -> bool {
        image::is_base64(&self.data)
    }

    /// The text that the file contains, without its byte order mark; `None` if it is not base64 of UTF-8 text.
    pub fn decode_text(&self) -> Option<String> {
        let text = String::from_utf8(image::decode_base64(&self.data)?).ok()?;
        Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }
}

/// A number with its source text. Integers that fit are stored as `i64`; everything else as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Number(Repr);

#[derive(Clone, Debug, PartialEq)]
enum Repr {
    Int(i64),
    Text(Arc<str>),
}

impl Number {
    /// Parses a JSON number; `None` if `text` is not one.
    pub fn parse(text: &str) -> Option<Number> {
        if !is_json_number(text) {
            return None;
        }
        match text.parse::<i64>() {
            // "-0" is the one canonical-looking text that an integer does not reproduce.
            Ok(int) if text != "-0" => Some(Number(Repr::Int(int))),
            _ => Some(Number(Repr::Text(text.into()))),
        }
    }

    /// The source text of the number.
    pub fn to_text(&self) -> String {
        self.read_text(str::to_owned)
    }

    /// Passes the source text of the number to `read`, which allocates nothing.
    pub(crate) fn read_text<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Repr::Int(int) => read(write_digits(*int, &mut [0; MAX_INT_BYTES])),
            Repr::Text(text) => read(text),
        }
    }

    /// The nearest double, as JavaScript and Python's `float` parse it.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            Repr::Int(int) => *int as f64,
            Repr::Text(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// The integer, if the number is written as one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Int(int) => Some(*int),
            Repr::Text(_) => None,
        }
    }

    /// The text of the number as JavaScript would print it, if a double cannot represent it exactly.
    pub fn rounded_text(&self) -> Option<String> {
        let value = self.as_f64();
        if value.is_infinite() {
            return Some(if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() });
        }
        let double = format_js_number(value);
        (!is_same_number(&self.to_text(), &double)).then_some(double)
    }

    /// Whether two numbers have the same value, however they are written: 3 and 3.0 do.
    pub fn is_equal_to(&self, other: &Number) -> bool {
        self == other || is_same_number(&self.to_text(), &other.to_text())
    }

    /// A finite double as a number; `None` for NaN and infinities, which JSON cannot represent.
    pub fn from_f64(value: f64) -> Option<Number> {
        value.is_finite().then(|| Number::parse(&format_js_number(value)).unwrap_or(Number(Repr::Int(0))))
    }
}

impl From<i64> for Number {
    fn from(int: i64) -> Number {
        Number(Repr::Int(int))
    }
}

/// Length of the text of the longest integer, in bytes.
const MAX_INT_BYTES: usize = 20;

/// Writes an integer to the end of `room`, and returns its text.
fn write_digits(int: i64, room: &mut [u8; MAX_INT_BYTES]) -> &str {
    let mut start = room.len();
    let mut rest = int.unsigned_abs();
    loop {
        start -= 1;
        room[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if int < 0 {
        start -= 1;
        room[start] = b'-';
    }
    str::from_utf8(&room[start..]).unwrap_or_default()
}

/// Whether the text matches the number grammar of RFC 8259.
fn is_json_number(text: &str) -> bool {
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return false;
        }
        rest = &exponent[count..];
    }
    rest.is_empty()
}

impl Value {
    /// Whether two values are equal, and numbers in them have the same value, however they are written.
    pub fn is_equal_to(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Number(one), Value::Number(other)) => one.is_equal_to(other),
            (Value::List(one), Value::List(other)) => {
                one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| one.is_equal_to(other))
            }
            (Value::Map(one), Value::Map(other)) => {
                let is_equal =
                    |(key, one): (&Arc<str>, &Value)| other.get(key).is_some_and(|other| one.is_equal_to(other));
                one.len() == other.len() && one.iter().all(is_equal)
            }
            (one, other) => one == other,
        }
    }

    /// A list value.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items))
    }

    /// An object value.
    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The entries, if this is an object.
    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(map) = self { Some(map) } else { None }
    }

    /// The items, if this is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(items) = self { Some(items) } else { None }
    }

    /// The integer, if this is a number written as one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Number(number) = self { number.as_i64() } else { None }
    }

    /// The Boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// The entry `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// Whether JavaScript treats the value as true. Empty lists and objects are truthy, as in JavaScript and unlike
    /// Python.
    pub fn is_truthy(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(number) => number.as_f64() != 0.0 && !number.as_f64().is_nan(),
            Value::String(text) => !text.is_empty(),
            Value::List(_) | Value::Map(_) | Value::Blob(_) => true,
        }
    }

    /// The value with `map` applied to all its strings, but not to the keys of objects.
    pub fn map_strings(&self, map: &dyn Fn(&str) -> String) -> Value {
        match self {
            Value::String(text) => map(text).into(),
            Value::List(items) => Value::list(items.iter().map(|item| item.map_strings(map)).collect()),
            Value::Map(entries) => {
                entries.iter().map(|(key, item)| (key.clone(), item.map_strings(map))).collect::<Map>().into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Blob(_) => self.clone(),
        }
    }

    /// The value with every `{"$file": …}` in it converted to a file.
    pub fn with_files(self) -> Value {
        if let Some(blob) = Blob::from_input(&self) {
            return Value::Blob(Arc::new(blob));
        }
        match self {
            Value::List(items) => Value::list(items.iter().cloned().map(Value::with_files).collect()),
            Value::Map(map) => {
                map.iter().map(|(key, item)| (key.clone(), item.clone().with_files())).collect::<Map>().into()
            }
            other => other,
        }
    }

    /// The kind of this value, in words for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true/false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
            Value::Blob(_) => "a file",
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Value {
        Value::Number(int.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Value {
        Value::Map(Arc::new(map))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => number.serialize(serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::List(items) => serializer.collect_seq(items.iter()),
            Value::Map(map) => serializer.collect_map(map.iter().map(|(k, v)| (&**k, v))),
            Value::Blob(blob) => {
                let file = [("name", blob.name.as_str()), ("mime", blob.mime.as_str()), ("base64", &*blob.data)];
                serializer.collect_map([("$file", std::collections::BTreeMap::from(file))])
            }
        }
    }
}

impl Serialize for Number {
    /// Writes the number's own text. This needs a JSON serializer; the journal and every report use one.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Int(int) => serializer.serialize_i64(*int),
            Repr::Text(text) => {
                RawValue::from_string(text.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    /// Reads JSON text with our own parser, because serde's data model cannot carry a number's exact text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let value = crate::json::parse_value(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(if raw.get().contains("\"$file\"") { value.with_files() } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_integer() {
        for int in [0, 7, -7, 10, -120, i64::MAX, i64::MIN] {
            assert_eq!(Number::from(int).to_text(), int.to_string());
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        let is_equal = |one: &str, other: &str| {
            let read = |text: &str| crate::json::parse_value(text).expect("JSON");
            read(one).is_equal_to(&read(other)) && read(other).is_equal_to(&read(one))
        };
        for (one, other) in
            [("3", "3.0"), ("100", "1e2"), ("0.50", "5e-1"), ("-0", "0"), ("[{\"a\": 1.0}]", "[{\"a\": 1}]")]
        {
            assert!(is_equal(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("3", "-3"),
            ("3", "\"3\""),
            ("12345678901234567890", "12345678901234567891"),
            ("[1, 2]", "[2, 1]"),
            ("{\"a\": 1}", "{\"a\": 1, \"b\": 2}"),
        ] {
            assert!(!is_equal(one, other), "{one} {other}");
        }
    }

    #[test]
    fn numbers_that_a_double_cannot_hold() {
        let kept = [
            "0",
            "-0",
            "1",
            "-12.50",
            "9007199254740992",
            "9007199254740994",
            "0.1",
            "1e3",
            "1.5E+10",
            "1e21",
            "12e-7",
        ];
        for text in kept {
            assert_eq!(Number::parse(text).and_then(|number| number.rounded_text()), None, "{text}");
        }
        let rounded = [
            ("9007199254740993", "9007199254740992"),
            ("-12345678901234567890", "-12345678901234567000"),
            ("0.12345678901234567890", "0.12345678901234568"),
            ("1e400", "Infinity"),
            ("1e-400", "0"),
        ];
        for (text, expected) in rounded {
            assert_eq!(
                Number::parse(text).and_then(|number| number.rounded_text()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }
}
