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
    /// A number that was read as a double, and where it is written.
    Double(f64, Location),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

/// The same before its place is known.
enum Unplaced {
    Read(Yaml),
    Double(f64),
}

impl Yaml {
    /// The value. `source` is the text that was read.
    pub(super) fn into_value(self, source: &str) -> Value {
        match self {
            Yaml::Value(value) => value,
            Yaml::Double(value, place) => {
                let written = find_number(source, &place).filter(|number| number.as_f64() == value);
                written.or_else(|| Number::from_f64(value)).map_or(Value::Null, Value::Number)
            }
            Yaml::List(items) => Value::list(items.into_iter().map(|item| item.into_value(source)).collect()),
            Yaml::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into_value(source)));
                entries.collect::<Map>().into()
            }
        }
    }
}

/// The number that is written at a place.
fn find_number(source: &str, place: &Location) -> Option<Number> {
    let line = source.lines().nth(usize::try_from(place.line()).ok()?.checked_sub(1)?)?;
    let rest = line.chars().skip(usize::try_from(place.column()).ok()?.checked_sub(1)?);
    let is_part = |c: &char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let number = Number::parse(&rest.take_while(is_part).collect::<String>())?;
    Number::parse(&to_js_number(&number))
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Yaml, D::Error> {
        let Spanned { value, defined, .. } = Spanned::<Unplaced>::deserialize(deserializer)?;
        Ok(match value {
            Unplaced::Read(yaml) => yaml,
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
        Ok(read_value(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unplaced, E> {
        Ok(read_value(Number::parse(&value.to_string()).map_or(Value::Null, Value::Number)))
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
            let key = plain_text(&key.into_value(""));
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key} is given twice")));
            }
            map.push((key, value));
        }
        Ok(Unplaced::Read(Yaml::Map(map)))
    }
}
