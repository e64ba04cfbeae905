//! The inputs of listed runs, as far as a list shows them.

use std::collections::HashMap;

use flowloom_core::event::Event;
use flowloom_core::id::RunId;
use flowloom_core::json::read_repaired;
use flowloom_core::value::Value;

use crate::catalog::list_literals;
use crate::error::StoreError;
use crate::event_row::MAX_EVENTS_PER_RUN;
use crate::store::Store;

/// Number of characters of the first event of a run that are read: enough for one line about its inputs.
const READ_CHARS: u32 = 4_000;

/// Size of a first event from which it is not read, in bytes: a list must not read gigabytes for its lines.
const MAX_EVENT_BYTES: u32 = 1 << 20;

/// Begins the inputs in a stored first event. Quotes within a text are escaped, so that no text before it contains this.
const INPUTS_FIELD: &str = ",\"inputs\":";

impl Store {
    /// The beginning of the inputs of these runs, in one query: long ones are cut off, and runs whose inputs are very large
    /// or cannot be read are left out. Only for lists: their checksums are not verified.
    pub fn read_short_inputs(&self, runs: &[RunId]) -> Result<HashMap<RunId, Value>, StoreError> {
        if let Some(memory) = &self.runs {
            let read = |run: &RunId| match &memory.read_records(*run, 0).ok()?.first()?.event {
                Event::RunCreated(created) => Some((*run, created.inputs.clone())),
                _ => None,
            };
            return Ok(runs.iter().filter_map(read).collect());
        }
        let ids: Vec<String> = runs.iter().map(RunId::to_string).collect();
        let sql = format!(
            "select run.id, substr(event.data, 1, {READ_CHARS}) from run join event on event.id = run.number * {MAX_EVENTS_PER_RUN} + 1 \
             where run.id in ({}) and octet_length(event.data) <= {MAX_EVENT_BYTES}",
            list_literals(&ids)
        );
        let rows = self.read_with(|db| {
            db.query_rows(&sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?)))
        })?;
        let parsed = rows.into_iter().filter_map(|(id, data)| Some((RunId::parse(&id)?, parse_inputs(&data?)?)));
        Ok(parsed.collect())
    }
}

/// The inputs in the beginning of a stored first event.
fn parse_inputs(data: &str) -> Option<Value> {
    let (_, written) = data.split_once(INPUTS_FIELD)?;
    let whole = serde_json::Deserializer::from_str(written).into_iter::<Value>().next()?.ok();
    // A list, since only lists and objects are repaired.
    whole.or_else(|| Some(read_repaired(&format!("[{written}"))?.as_list()?.first()?.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_also_if_they_are_cut_off() {
        let event = r#"{"name":"a,\"inputs\":1","inputs":{"a":"x","n":[1,2]},"user":"ann"}"#;
        let whole = Value::map([("a", "x".into()), ("n", Value::list(vec![1.into(), 2.into()]))]);
        assert_eq!(parse_inputs(event), Some(whole.clone()));
        assert_eq!(parse_inputs(event.split_once(r#","user"#).expect("there").0), Some(whole));
        let cut = |data: &str| parse_inputs(&format!(r#"{{"name":"a","inputs":{data}"#));
        assert_eq!(cut(r#"{"a":"one two"#), Some(Value::map([("a", "one two".into())])));
        assert_eq!(cut(r#""one two"#), Some("one two".into()));
        assert_eq!(parse_inputs(r#"{"name":"a"}"#), None);
    }
}
