//! Mocks: the outputs of blocks that do not run in a dry run.

use std::collections::BTreeMap;

use flowloom_core::value::Value;
use flowloom_runtime::schema::validation_errors;
use serde::{Deserialize, Serialize};

use crate::sample::sample_inputs;

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
pub enum MockSource {
    /// A fixture of the dry run.
    Fixture,
    /// An example of the block.
    Example,
    /// Generated from the output schema: valid, but meaningless.
    MadeUp,
}

/// The known output of a block: a fixture or an example, preferably one with these inputs.
pub(super) fn known_output(fixtures: &Fixtures, block: &Value, inputs: &Value) -> Option<(Value, MockSource)> {
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    let given = fixtures.get(id).into_iter().flatten();
    let fixture =
        given.filter(|fixture| matches_inputs(&fixture.inputs, inputs)).map(|fixture| fixture.outputs.clone()).next();
    fixture
        .map(|outputs| (outputs, MockSource::Fixture))
        .or_else(|| Some((example_output(block, inputs)?, MockSource::Example)))
}

/// The output of a mocked block: a known one, or one generated from its schema; `None` if that is not possible.
pub(super) fn mock_output(fixtures: &Fixtures, block: &Value, inputs: &Value) -> Option<(Value, MockSource)> {
    let made = || Some((sample_inputs(output_schema(block)).into_iter().next()?, MockSource::MadeUp));
    known_output(fixtures, block, inputs).or_else(made)
}

fn output_schema(block: &Value) -> &Value {
    block.get("output_schema").unwrap_or(&Value::Null)
}

/// The outputs of an example. Examples that do not match the block's own schema are ignored.
fn example_output(block: &Value, inputs: &Value) -> Option<Value> {
    let examples = block.get("examples").and_then(Value::as_list).unwrap_or_default();
    let usable = |example: &&Value| {
        let outputs = example.get("outputs");
        outputs.is_some_and(|outputs| {
            outputs.as_map().is_some() && validation_errors(output_schema(block), outputs).is_none()
        })
    };
    let same = examples.iter().filter(usable).find(|example| example.get("inputs") == Some(inputs));
    same.or_else(|| examples.iter().find(usable))?.get("outputs").cloned()
}

fn matches_inputs(wanted: &Value, given: &Value) -> bool {
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

    fn parse_json(text: &str) -> Value {
        parse_value(text).expect("JSON")
    }

    fn test_block(examples: &str) -> Value {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        parse_json(&format!(r#"{{"id":"b","output_schema":{schema},"examples":{examples}}}"#))
    }

    #[test]
    fn a_fixture_goes_before_an_example_and_an_example_before_what_is_made_up() {
        let fixtures: Fixtures =
            serde_json::from_str(r#"{"b":[{"inputs":{"url":"Port"},"outputs":{"n":1}}]}"#).expect("fixtures");
        let examples =
            r#"[{"inputs":{"a":1},"outputs":{"n":"x"}},{"outputs":{"n":2}},{"inputs":{"a":1},"outputs":{"n":3}}]"#;
        let play = |examples: &str, inputs: &str| {
            let (outputs, source) =
                mock_output(&fixtures, &test_block(examples), &parse_json(inputs)).expect("something");
            (outputs.get("n").and_then(Value::as_i64), source)
        };
        assert_eq!(play(examples, r#"{"url":"https://the-port.example"}"#), (Some(1), MockSource::Fixture));
        assert_eq!(play(examples, r#"{"url":"elsewhere"}"#), (Some(2), MockSource::Example), "the first that is one");
        assert_eq!(play(examples, r#"{"a":1}"#), (Some(3), MockSource::Example), "the one with these inputs");
        assert_eq!(play("[]", "{}"), (Some(1), MockSource::MadeUp));
        assert_eq!(known_output(&fixtures, &test_block("[]"), &parse_json("{}")), None);
    }

    #[test]
    fn where_nothing_can_be_made_there_is_nothing() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"string","pattern":"^[0-9]$"}},"required":["n"]}"#;
        let block = parse_json(&format!(r#"{{"id":"b","output_schema":{schema}}}"#));
        assert_eq!(mock_output(&Fixtures::new(), &block, &parse_json("{}")), None);
    }
}
