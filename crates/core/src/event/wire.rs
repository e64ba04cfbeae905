//! Records as JSON: the header, the event's name, and the event's data without its name.

use std::fmt::Display;

use serde::ser::{Error as _, Impossible, SerializeStruct, SerializeStructVariant};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Event, Record};
use crate::id::RunId;
use crate::path::Path;

impl Serialize for Record {
    /// Name and data are siblings of the header fields, so that a reader can filter by `event` without knowing every
    /// event.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_data = self.event.has_data();
        let mut record = serializer.serialize_struct("Record", if has_data { 7 } else { 6 })?;
        record.serialize_field("run", &self.run)?;
        record.serialize_field("seq", &self.seq)?;
        record.serialize_field("at", &self.at)?;
        record.serialize_field("path", &self.path)?;
        record.serialize_field("attempt", &self.attempt)?;
        record.serialize_field("event", self.event.name())?;
        if has_data {
            record.serialize_field("data", &Data(&self.event))?;
        }
        record.end()
    }
}

/// A record as it is read.
#[derive(Deserialize)]
struct WireRecord {
    run: RunId,
    seq: u64,
    at: u64,
    path: Path,
    attempt: u32,
    event: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Record {
    /// Parsed in two steps, because serde's buffering of flattened fields would lose the exact text of numbers.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        let WireRecord { run, seq, at, path, attempt, event, data } = WireRecord::deserialize(deserializer)?;
        let event = Event::from_parts(&event, data.as_deref().map(RawValue::get));
        Ok(Record { run, seq, at, path, attempt, event: event.map_err(serde::de::Error::custom)? })
    }
}

impl Event {
    /// Parses an event from its name and the JSON text of its data. Fails if there is no event with this name, or if
    /// its data does not fit.
    pub fn from_parts(name: &str, data: Option<&str>) -> Result<Event, serde_json::Error> {
        match data {
            Some(data) => serde_json::from_str(&format!("{{\"{name}\":{data}}}")),
            None => serde_json::from_str(&format!("\"{name}\"")),
        }
    }

    /// The data of the event as JSON text; `None` for events without data. Fails if the data cannot be written as JSON.
    pub fn data_json(&self) -> Result<Option<String>, serde_json::Error> {
        if self.has_data() { serde_json::to_string(&Data(self)).map(Some) } else { Ok(None) }
    }

    fn has_data(&self) -> bool {
        !matches!(self, Event::StepUncertain | Event::StepResent)
    }
}

/// An event's data without its name.
struct Data<'a>(&'a Event);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Untagged(serializer))
    }
}

/// Writes what a variant holds and leaves its name out. Takes variants of enums and nothing else.
struct Untagged<S>(S);

/// The fields of a variant, written as those of a struct.
struct VariantFields<T>(T);

impl<T: SerializeStruct> SerializeStructVariant for VariantFields<T> {
    type Ok = T::Ok;
    type Error = T::Error;

    fn serialize_field<V: Serialize + ?Sized>(&mut self, key: &'static str, value: &V) -> Result<(), T::Error> {
        self.0.serialize_field(key, value)
    }

    fn skip_field(&mut self, key: &'static str) -> Result<(), T::Error> {
        self.0.skip_field(key)
    }

    fn end(self) -> Result<T::Ok, T::Error> {
        self.0.end()
    }
}

/// Methods of a serializer that refuse what they are given, since it is no variant of an enum.
macro_rules! refuse {
    ($($name:ident($($kind:ty),*) -> $given:ty;)*) => {
        $(fn $name(self, $(_: $kind),*) -> Result<$given, S::Error> {
            Err(S::Error::custom("an event is a variant of an enum"))
        })*
    };
}

impl<S: Serializer> Serializer for Untagged<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeMap = Impossible<S::Ok, S::Error>;
    type SerializeStruct = Impossible<S::Ok, S::Error>;
    type SerializeStructVariant = VariantFields<S::SerializeStruct>;

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<S::Ok, S::Error> {
        self.0.serialize_unit()
    }

    fn serialize_newtype_variant<V: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &V,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(self.0)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.0.serialize_struct(name, length).map(VariantFields)
    }

    fn serialize_some<V: Serialize + ?Sized>(self, value: &V) -> Result<S::Ok, S::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<V: Serialize + ?Sized>(self, _: &'static str, value: &V) -> Result<S::Ok, S::Error> {
        value.serialize(self)
    }

    fn collect_str<V: Display + ?Sized>(self, _: &V) -> Result<S::Ok, S::Error> {
        self.serialize_unit()
    }

    refuse! {
        serialize_bool(bool) -> S::Ok;
        serialize_i8(i8) -> S::Ok;
        serialize_i16(i16) -> S::Ok;
        serialize_i32(i32) -> S::Ok;
        serialize_i64(i64) -> S::Ok;
        serialize_u8(u8) -> S::Ok;
        serialize_u16(u16) -> S::Ok;
        serialize_u32(u32) -> S::Ok;
        serialize_u64(u64) -> S::Ok;
        serialize_f32(f32) -> S::Ok;
        serialize_f64(f64) -> S::Ok;
        serialize_char(char) -> S::Ok;
        serialize_str(&str) -> S::Ok;
        serialize_bytes(&[u8]) -> S::Ok;
        serialize_none() -> S::Ok;
        serialize_unit() -> S::Ok;
        serialize_unit_struct(&'static str) -> S::Ok;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
    }
}
