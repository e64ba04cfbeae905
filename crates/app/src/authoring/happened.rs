//! A stream event of AgentFlow's API: its name and time are repeated in its data.

use std::borrow::Cow;

use flowloom_core::value::{Map, Number, Value};

/// One event of an AgentFlow stream.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFlowEvent {
    /// The name of the event.
    pub name: Cow<'static, str>,
    /// The fields, including the name as `type` and the time as `ts`, in seconds since the Unix epoch.
    pub data: Value,
}

impl AgentFlowEvent {
    /// An event at a time in milliseconds since the Unix epoch.
    pub fn new(name: impl Into<Cow<'static, str>>, at: u64, fields: Map) -> AgentFlowEvent {
        let name = name.into();
        let seconds = Number::from_f64(at as f64 / 1000.0).map_or(Value::Null, Value::Number);
        let mut data = Map::from_iter([("type".into(), Value::from(&*name)), ("ts".into(), seconds)]);
        data.extend(fields);
        AgentFlowEvent { name, data: data.into() }
    }

    /// The same event under another name.
    pub fn with_name(self, name: &'static str) -> AgentFlowEvent {
        let mut data = self.data.as_map().cloned().unwrap_or_default();
        data.insert("type".into(), name.into());
        AgentFlowEvent { name: name.into(), data: data.into() }
    }
}

/// Builds the fields of an event, in order.
pub fn build_fields(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Map {
    fields.into_iter().map(|(key, value)| (key.into(), value)).collect()
}
