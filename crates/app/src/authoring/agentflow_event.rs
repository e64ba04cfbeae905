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
        // With a fraction, as Python writes every `float`: clients may distinguish whole numbers from others.
        let seconds = Number::parse(&format!("{:?}", at as f64 / 1000.0)).map_or(Value::Null, Value::Number);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_fraction_also_at_a_whole_second() {
        let written = |at| flowloom_core::json::write_json(&AgentFlowEvent::new("start", at, Map::new()).data);
        assert_eq!(written(1_795_458_393_000), r#"{"type":"start","ts":1795458393.0}"#);
        assert_eq!(written(1_795_458_393_805), r#"{"type":"start","ts":1795458393.805}"#);
    }
}
