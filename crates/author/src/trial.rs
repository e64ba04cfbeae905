//! The inputs of a block's trials, and the verdict on each trial.

use flowloom_core::code::Code;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::schema::validation_errors;

use crate::model::TrialOutcome;
use crate::sample::{sample_inputs, sample_other_inputs};

/// Maximum length of a value or an error in a message, in characters.
const MAX_SHOWN_CHARS: usize = 600;
/// Relative tolerance for numbers compared with an example.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// The inputs of one trial.
#[derive(Debug, PartialEq)]
pub(crate) struct TrialCase {
    pub(crate) inputs: Value,
    /// Whether the inputs come from an example; otherwise they are generated from the schema.
    is_example: bool,
    /// The expected output, if it is known.
    outputs: Option<Value>,
}

/// The verdict on a trial.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The block did what it should, and gave this output.
    Passed(Value),
    /// The block rejected generated inputs, which it need not support.
    Refused,
    /// The reason why the block is unusable.
    Failed(String),
}

/// The trials of a block: its examples, and inputs generated from its schema. A prompt block costs money, so only one
/// generated input is tried; its outputs are not compared with examples.
pub(crate) fn trial_cases(block: &Value) -> Vec<TrialCase> {
    let is_llm = block.get("execution_type").and_then(Value::as_str) == Some("llm");
    let examples = block.get("examples").and_then(Value::as_list).unwrap_or_default();
    let mut cases: Vec<TrialCase> = examples
        .iter()
        .filter_map(|example| {
            let outputs = example.get("outputs").filter(|_| !is_llm).cloned();
            Some(TrialCase { inputs: example.get("inputs")?.clone(), is_example: true, outputs })
        })
        .collect();
    let made = sample_inputs(block.get("input_schema").unwrap_or(&Value::Null));
    for inputs in made.into_iter().rev().take(if is_llm { 1 } else { usize::MAX }) {
        if !cases.iter().any(|case| case.inputs == inputs) {
            cases.push(TrialCase { inputs, is_example: false, outputs: None });
        }
    }
    cases
}

/// The verdict on a trial of `block` with `case`.
pub(crate) fn judge_trial(block: &Value, case: &TrialCase, trial: &TrialOutcome) -> Verdict {
    let inputs = shorten_shown(&render::to_json(&case.inputs));
    let output = match trial {
        TrialOutcome::Returned(output) => output,
        TrialOutcome::Failed(error) if error.code == Code::BlockError && !case.is_example => return Verdict::Refused,
        TrialOutcome::Failed(error) => {
            let advice =
                if case.is_example { "" } else { "; for inputs that it cannot use, return {\"error\": \"why\"}" };
            return Verdict::Failed(format!(
                "with the inputs {inputs} it fails: {}{advice}",
                shorten_shown(&error.message)
            ));
        }
    };
    let gave = shorten_shown(&render::to_json(output));
    match output.get("error") {
        Some(Value::String(_)) if !case.is_example => return Verdict::Refused,
        Some(_) => {
            return Verdict::Failed(format!("with the inputs {inputs} it returns {gave}, which means that it failed"));
        }
        None => {}
    }
    let schema = block.get("output_schema").unwrap_or(&Value::Null);
    if let Some(wrong) = validation_errors(schema, output) {
        return Verdict::Failed(format!(
            "with the inputs {inputs} it returns {gave}, which does not fit output_schema: {wrong}"
        ));
    }
    match &case.outputs {
        Some(outputs) if !matches_example(outputs, output) => {
            let outputs = shorten_shown(&render::to_json(outputs));
            let why = format!(
                "with the inputs {inputs} it returns {gave}, but the example says {outputs}; correct what is wrong"
            );
            Verdict::Failed(why)
        }
        _ => Verdict::Passed(output.clone()),
    }
}

/// The inputs and the output of a trial that passed.
type PassedTrial = (Value, Value);

/// One more trial, if all outputs so far are equal: with inputs that differ in every field.
pub(crate) fn find_doubtful_case(block: &Value, passed: &[PassedTrial]) -> Option<TrialCase> {
    if passed.is_empty() || !has_equal_outputs(passed) || !is_judged_by_outputs(block) {
        return None;
    }
    let inputs = sample_other_inputs(block.get("input_schema").unwrap_or(&Value::Null))?;
    let is_new = passed.iter().all(|(tried, _)| *tried != inputs);
    is_new.then_some(TrialCase { inputs, is_example: false, outputs: None })
}

/// Why a block that passed all its trials is unusable all the same: there is no output, or the output is the same whatever
/// the inputs are, so that the block can only claim to have done something.
pub(crate) fn find_constant_output(block: &Value, passed: &[PassedTrial]) -> Option<String> {
    let Some((inputs, output)) = passed.first() else {
        return Some("no trial returned an output; give an example whose inputs the block can use".to_owned());
    };
    let is_varied = passed.iter().any(|(other, _)| other != inputs);
    (is_varied && has_equal_outputs(passed) && is_judged_by_outputs(block)).then(|| {
        format!(
            "it returns {} whatever its inputs are, so it does nothing; if that is by chance, give one more example, with \
             another output; if it would have to act on the outside world, answer {{\"error\": \"why it cannot be \
             written\"}}",
            shorten_shown(&render::to_json(output))
        )
    })
}

fn has_equal_outputs(passed: &[PassedTrial]) -> bool {
    passed.windows(2).all(|pair| pair[0].1 == pair[1].1)
}

/// Whether equal outputs say something about a block: code computes, but a model may write the same text twice. Of a
/// prompt, only claims count: outputs that are all yes or no.
fn is_judged_by_outputs(block: &Value) -> bool {
    if block.get("execution_type").and_then(Value::as_str) != Some("llm") {
        return true;
    }
    let fields = block.get("output_schema").and_then(|schema| schema.get("properties")).and_then(Value::as_map);
    let is_claim = |field: &Value| field.get("type").and_then(Value::as_str) == Some("boolean");
    fields.is_some_and(|fields| fields.values().all(is_claim))
}

/// Whether an output has everything that an example has; it may have more.
fn matches_example(example: &Value, output: &Value) -> bool {
    match (example, output) {
        (Value::Map(example), Value::Map(output)) => {
            example.iter().all(|(key, value)| output.get(key).is_some_and(|given| matches_example(value, given)))
        }
        (Value::List(example), Value::List(output)) => {
            example.len() == output.len()
                && example.iter().zip(&**output).all(|(one, other)| matches_example(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64(), other.as_f64());
            (one - other).abs() <= RELATIVE_TOLERANCE * one.abs().max(other.abs())
        }
        (one, other) => one == other,
    }
}

/// The start of a text, for messages.
pub(crate) fn shorten_shown(text: &str) -> String {
    render::shorten_text(text, MAX_SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::error::StepFailure;
    use flowloom_core::json::parse_value;

    fn parse_json(text: &str) -> Value {
        parse_value(text).expect("JSON")
    }

    fn test_block(kind: &str, examples: &str) -> Value {
        parse_json(&format!(
            r#"{{"execution_type":"{kind}","examples":{examples},
            "input_schema":{{"type":"object","properties":{{"a":{{"type":"integer"}},"b":{{"type":"integer"}}}},"required":["a"]}},
            "output_schema":{{"type":"object","properties":{{"n":{{"type":"number"}}}},"required":["n"]}}}}"#
        ))
    }

    fn judge_text_block(is_example: bool, outputs: Option<&str>, trial: TrialOutcome) -> Verdict {
        let case = TrialCase { inputs: parse_json(r#"{"a":1}"#), is_example, outputs: outputs.map(parse_json) };
        judge_trial(&test_block("python", "[]"), &case, &trial)
    }

    fn returned(text: &str) -> TrialOutcome {
        TrialOutcome::Returned(parse_json(text))
    }

    fn failure_reason(verdict: Verdict) -> String {
        if let Verdict::Failed(why) = verdict { why } else { panic!("{verdict:?}") }
    }

    #[test]
    fn examples_and_made_inputs_are_tried_each_once() {
        let inputs =
            |block: &Value| trial_cases(block).iter().map(|case| render::to_json(&case.inputs)).collect::<Vec<_>>();
        let examples = r#"[{"inputs":{"a":5},"outputs":{"n":1}},{"inputs":{"a":1}}]"#;
        assert_eq!(inputs(&test_block("python", examples)), [r#"{"a":5}"#, r#"{"a":1}"#, r#"{"a":1,"b":1}"#]);
        assert_eq!(inputs(&test_block("llm", "[]")), [r#"{"a":1}"#], "a model is asked as little as does");
        assert_eq!(trial_cases(&test_block("llm", examples))[0].outputs, None);
        assert_eq!(trial_cases(&test_block("python", examples))[0].outputs, Some(parse_json(r#"{"n":1}"#)));
    }

    #[test]
    fn outputs_must_fit_and_be_as_the_example_says() {
        assert!(matches!(judge_text_block(true, None, returned(r#"{"n":1}"#)), Verdict::Passed(_)));
        for (example, output) in [(r#"{"n":0.3}"#, r#"{"n":0.30000000000000004,"more":1}"#), ("{}", r#"{"n":1}"#)] {
            assert!(matches!(judge_text_block(true, Some(example), returned(output)), Verdict::Passed(_)), "{output}");
        }
        for output in ["{}", "null", "[]", r#"{"n":"1"}"#] {
            assert!(
                failure_reason(judge_text_block(false, None, returned(output))).contains("output_schema"),
                "{output}"
            );
        }
        assert!(
            failure_reason(judge_text_block(true, Some(r#"{"n":2}"#), returned(r#"{"n":1}"#)))
                .contains("the example says {\"n\":2}")
        );
        assert!(matches_example(&parse_json(r#"{"l":["a",{"b":1}]}"#), &parse_json(r#"{"l":["a",{"b":1,"c":2}]}"#)));
        assert!(!matches_example(&parse_json(r#"{"l":["a"]}"#), &parse_json(r#"{"l":["a","b"]}"#)));
        assert!(!matches_example(&parse_json(r#"{"l":null}"#), &parse_json("{}")));
    }

    #[test]
    fn a_block_may_refuse_what_nobody_promised() {
        let refused = || TrialOutcome::Failed(StepFailure::new(Code::BlockError, "no"));
        assert_eq!(judge_text_block(false, None, returned(r#"{"error":"no"}"#)), Verdict::Refused);
        assert_eq!(judge_text_block(false, None, refused()), Verdict::Refused);
        assert!(failure_reason(judge_text_block(true, None, returned(r#"{"error":"no"}"#))).contains("failed"));
        assert!(failure_reason(judge_text_block(true, None, refused())).contains("no"));
        assert!(failure_reason(judge_text_block(false, None, returned(r#"{"error":null}"#))).contains("failed"));
        let raised = TrialOutcome::Failed(StepFailure::new(Code::BlockFailed, "KeyError: 'x'"));
        assert!(
            failure_reason(judge_text_block(false, None, raised))
                .contains("KeyError: 'x'; for inputs that it cannot use")
        );
    }
}
