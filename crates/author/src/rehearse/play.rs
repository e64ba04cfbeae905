//! Mocks: the outputs of blocks that do not run in a dry run.

use std::collections::BTreeMap;

use flowloom_core::value::Value;
use flowloom_runtime::schema::complaints;
use serde::{Deserialize, Serialize};

use crate::sample::samples;

/// Fixtures by block id; the first one that matches the inputs is used.
pub type Fixtures = BTreeMap<String, Vec<Fixture>>;

/// The output of a mocked block for some inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// The inputs to which it applies: strings must be contained in the actual ones, ignoring case; inputs that are not
    /// listed may have any value.
    #[serde(default)]
    pub inputs: Value,
    /// The output.
    pub outputs: Value,
}

/// The source of a mocked output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A fixture of the dry run.
    Fixture,
    /// An example of the block.
    Example,
    /// Generated from the output schema: valid, but meaningless.
    MadeUp,
}

/// The known output of a block: a fixture or an example, preferably one with these inputs.
pub(super) fn known(fixtures: &Fixtures, block: &Value, inputs: &Value) -> Option<(Value, Source)> {
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    let given = fixtures.get(id).into_iter().flatten();
    let fixture = given.filter(|fixture| suits(&fixture.inputs, inputs)).map(|fixture| fixture.outputs.clone()).next();
    fixture.map(|outputs| (outputs, Source::Fixture)).or_else(|| Some((example(block, inputs)?, Source::Example)))
}

/// The output of a mocked block: a known one, or one generated from its schema; `None` if that is not possible.
pub(super) fn anything(fixtures: &Fixtures, block: &Value, inputs: &Value) -> Option<(Value, Source)> {
    let made = || Some((samples(schema(block)).into_iter().next()?, Source::MadeUp));
    known(fixtures, block, inputs).or_else(made)
}

fn schema(block: &Value) -> &Value {
    block.get("output_schema").unwrap_or(&Value::Null)
}

/// The outputs of an example. Examples that do not match the block's own schema are ignored.
fn example(block: &Value, inputs: &Value) -> Option<Value> {
    let examples = block.get("examples").and_then(Value::as_list).unwrap_or_default();
    let usable = |example: &&Value| {
        let outputs = example.get("outputs");
        outputs.is_some_and(|outputs| outputs.as_map().is_some() && complaints(schema(block), outputs).is_none())
    };
    let same = examples.iter().filter(usable).find(|example| example.get("inputs") == Some(inputs));
    same.or_else(|| examples.iter().find(usable))?.get("outputs").cloned()
}

fn suits(wanted: &Value, given: &Value) -> bool {
    let suit = |wanted: &Value, given: &Value| match (wanted, given) {
        (Value::String(part), Value::String(whole)) => whole.to_lowercase().contains(&part.to_lowercase()),
        (one, other) => one == other,
    };
    let mut wanted = wanted.as_map().into_iter().flatten();
    wanted.all(|(name, wanted)| given.get(name).is_some_and(|given| suit(wanted, given)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn value(text: &str) -> Value {
        parse_value(text).expect("JSON")
    }

    fn block(examples: &str) -> Value {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        value(&format!(r#"{{"id":"b","output_schema":{schema},"examples":{examples}}}"#))
    }

    #[test]
    fn a_fixture_goes_before_an_example_and_an_example_before_what_is_made_up() {
        let fixtures: Fixtures =
            serde_json::from_str(r#"{"b":[{"inputs":{"url":"Port"},"outputs":{"n":1}}]}"#).expect("fixtures");
        let examples =
            r#"[{"inputs":{"a":1},"outputs":{"n":"x"}},{"outputs":{"n":2}},{"inputs":{"a":1},"outputs":{"n":3}}]"#;
        let play = |examples: &str, inputs: &str| {
            let (outputs, source) = anything(&fixtures, &block(examples), &value(inputs)).expect("something");
            (outputs.get("n").and_then(Value::as_i64), source)
        };
        assert_eq!(play(examples, r#"{"url":"https://the-port.example"}"#), (Some(1), Source::Fixture));
        assert_eq!(play(examples, r#"{"url":"elsewhere"}"#), (Some(2), Source::Example), "the first that is one");
        assert_eq!(play(examples, r#"{"a":1}"#), (Some(3), Source::Example), "the one with these inputs");
        assert_eq!(play("[]", "{}"), (Some(1), Source::MadeUp));
        assert_eq!(known(&fixtures, &block("[]"), &value("{}")), None);
    }

    #[test]
    fn where_nothing_can_be_made_there_is_nothing() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"string","pattern":"^[0-9]$"}},"required":["n"]}"#;
        let block = value(&format!(r#"{{"id":"b","output_schema":{schema}}}"#));
        assert_eq!(anything(&Fixtures::new(), &block, &value("{}")), None);
    }
}
