//! YAML as values. Numbers keep all the digits that are written: the parser makes doubles of those that are no 64-bit
//! integers, so their text is read again from its place.

use std::fmt;

use flowloom_core::render::to_js_number;
use flowloom_core::value::{Map, Number, Value};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::frontmatter::plain_text;

/// YAML as it is read.
pub(super) enum Yaml {
    Value(Value),
    /// An integer, and where it is written.
    Integer(Value, Location),
    /// A number that was read as a double, and where it is written.
    Double(f64, Location),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

/// The same before its place is known.
enum Unplaced {
    Read(Yaml),
    Integer(Value),
    Double(f64),
}

impl Yaml {
    /// The value. `source` is the text that was read. A number that is not finite becomes null, and its place is added
    /// to `not_finite`.
    pub(super) fn into_value(self, source: &str, not_finite: &mut Vec<Location>) -> Value {
        match self {
            Yaml::Value(value) => value,
            Yaml::Integer(value, place) => {
                find_scalar(source, &place).filter(|scalar| is_integer_of_old_yaml(scalar)).map_or(value, Value::from)
            }
            Yaml::Double(value, place) if !value.is_finite() => {
                not_finite.push(place);
                Value::Null
            }
            Yaml::Double(value, place) => {
                let written = find_number(source, &place).filter(|number| number.as_f64() == value);
                written.or_else(|| Number::from_f64(value)).map_or(Value::Null, Value::Number)
            }
            Yaml::List(items) => {
                Value::list(items.into_iter().map(|item| item.into_value(source, not_finite)).collect())
            }
            Yaml::Map(entries) => {
                let entries =
                    entries.into_iter().map(|(key, value)| (key.into(), value.into_value(source, not_finite)));
                entries.collect::<Map>().into()
            }
        }
    }
}

/// The scalar without spaces that is written at a place.
pub(super) fn find_scalar<'s>(source: &'s str, place: &Location) -> Option<&'s str> {
    let rest = source.get(usize::try_from(place.span().byte_offset()?).ok()?..)?;
    rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}')).next()
}

/// The number that is written at a place.
fn find_number(source: &str, place: &Location) -> Option<Number> {
    let number = Number::parse(find_scalar(source, place)?)?;
    Number::parse(&to_js_number(&number))
}

/// Whether a text that the parser takes for an integer is none in YAML 1.2: `0b11`, `0X1F`, `-0x1F`.
fn is_integer_of_old_yaml(scalar: &str) -> bool {
    let unsigned = scalar.trim_start_matches(['+', '-']);
    match unsigned.as_bytes() {
        [b'0', b'b' | b'B' | b'X' | b'O', ..] => true,
        [b'0', b'x' | b'o', ..] => unsigned.len() < scalar.len(),
        _ => false,
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Yaml, D::Error> {
        let Spanned { value, defined, .. } = Spanned::<Unplaced>::deserialize(deserializer)?;
        Ok(match value {
            Unplaced::Read(yaml) => yaml,
            Unplaced::Integer(value) => Yaml::Integer(value, defined),
            Unplaced::Double(value) => Yaml::Double(value, defined),
        })
    }
}

impl<'de> Deserialize<'de> for Unplaced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unplaced, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

fn read_value(value: impl Into<Value>) -> Unplaced {
    Unplaced::Read(Yaml::Value(value.into()))
}

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Unplaced;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unplaced, E> {
        Ok(read_value(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unplaced, E> {
        Ok(Unplaced::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unplaced, E> {
        Ok(Unplaced::Integer(Number::parse(&value.to_string()).map_or(Value::Null, Value::Number)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Unplaced, E> {
        Ok(Unplaced::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unplaced, E> {
        Ok(read_value(value))
    }

    fn visit_unit<E>(self) -> Result<Unplaced, E> {
        Ok(read_value(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Unplaced, E> {
        Ok(read_value(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Unplaced, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unplaced, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Unplaced::Read(Yaml::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unplaced, A::Error> {
        let mut map: Vec<(String, Yaml)> = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while let Some((key, value)) = entries.next_entry::<Yaml, Yaml>()? {
            let mut not_finite = Vec::new();
            let key = match key.into_value("", &mut not_finite) {
                Value::Null => String::new(),
                key => plain_text(&key),
            };
            if !not_finite.is_empty() {
                return Err(A::Error::custom("a key is a number that is not finite; write it in quotes"));
            }
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key} is given twice")));
            }
            map.push((key, value));
        }
        Ok(Unplaced::Read(Yaml::Map(map)))
    }
}
