//! An event as AgentFlow's clients are told it: named, with its name and time among its data.

use std::borrow::Cow;

use flowloom_core::value::{Map, Number, Value};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened {
    /// The name of the event.
    pub name: Cow<'static, str>,
    /// Its fields, with its name as `type` and when it happened as `ts`, in seconds since 1970.
    pub data: Value,
}

impl Happened {
    /// What happened at a time, in milliseconds since 1970.
    pub fn new(name: impl Into<Cow<'static, str>>, at: u64, fields: Map) -> Happened {
        let name = name.into();
        let seconds = Number::from_f64(at as f64 / 1000.0).map_or(Value::Null, Value::Number);
        let mut data = Map::from_iter([("type".into(), Value::from(&*name)), ("ts".into(), seconds)]);
        data.extend(fields);
        Happened { name, data: data.into() }
    }
}

/// Fields of an event, in order.
pub fn fields(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Map {
    fields.into_iter().map(|(key, value)| (key.into(), value)).collect()
}
