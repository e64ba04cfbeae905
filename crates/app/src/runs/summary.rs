//! Output of the commands about runs: the summary object, the list, the waterfall.

use flowloom_core::chat::Usage;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Env;
use flowloom_core::plan::Plan;
use flowloom_core::state::{RunState, StepState};
use flowloom_core::value::{Map, Value};
use flowloom_formats::present;
use serde::Serialize;

/// The object printed by `run --json` and `resume --json`, and, with additional fields, for each run by `runs --json`.
#[derive(Serialize)]
pub struct Summary<'a, More = Nothing> {
    run_id: Option<RunId>,
    format: Option<&'a str>,
    status: &'static str,
    /// The output of the run.
    pub output: Value,
    result: Value,
    error: Option<Error<'a>>,
    usage: Value,
    #[serde(flatten)]
    more: More,
}

/// No additional fields.
#[derive(Serialize)]
pub struct Nothing {}

/// The error of a failed run, with the path of the step that failed.
#[derive(Serialize)]
struct Error<'a> {
    #[serde(flatten)]
    why: Why<'a>,
    path: Option<&'a str>,
}

#[derive(Serialize)]
struct Why<'a> {
    code: String,
    message: &'a str,
}

impl<'a> Why<'a> {
    fn of(error: &'a StepError) -> Why<'a> {
        Why { code: error.code.to_string(), message: &error.message }
    }
}

/// Summarises a run.
pub fn summary<'a>(id: RunId, plan: &'a Plan, state: &'a RunState, env: &Env) -> Summary<'a> {
    let presented = present(plan, state, env);
    let path = state.failed.as_ref().map(Path::as_str);
    Summary {
        run_id: Some(id),
        format: Some(plan.format.name()),
        status: state.status.name(),
        output: presented.output,
        result: presented.result,
        error: state.error.as_ref().map(|error| Error { why: Why::of(error), path }),
        usage: usage(&state.usage),
        more: Nothing {},
    }
}

/// The summary of a definition or a call that was rejected before a run was created.
pub fn refused<'a>(format: Option<&'a str>, error: &'a StepError) -> Summary<'a> {
    Summary {
        run_id: None,
        format,
        status: "failed",
        output: Value::Null,
        result: Value::Null,
        error: Some(Error { why: Why::of(error), path: None }),
        usage: Value::Null,
        more: Nothing {},
    }
}

impl<'a> Summary<'a> {
    /// Adds fields to the summary.
    pub fn with<More: Serialize>(self, more: More) -> Summary<'a, More> {
        let Summary { run_id, format, status, output, result, error, usage, more: Nothing {} } = self;
        Summary { run_id, format, status, output, result, error, usage, more }
    }
}

/// Token usage and cost in US dollars as a value.
pub fn usage(used: &Usage) -> Value {
    let mut usage = Map::new();
    usage.insert("input_tokens".into(), (used.input_tokens as i64).into());
    usage.insert("output_tokens".into(), (used.output_tokens as i64).into());
    // An unknown price is null, not zero.
    let cost = used.micro_usd.and_then(|micro| flowloom_core::Number::from_f64(micro as f64 / 1e6));
    usage.insert("cost_usd".into(), cost.map_or(Value::Null, Value::Number));
    usage.into()
}

/// Renders a value for people: text unchanged, everything else as indented JSON.
pub fn for_people(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => indented(other),
    }
}

/// Serialises as indented JSON.
pub fn indented(value: &impl Serialize) -> String {
    // Serialisation to memory with text keys cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A step of a run as JSON.
#[derive(Serialize)]
pub struct Step<'a> {
    path: &'a str,
    phase: &'static str,
    kind: Option<&'a str>,
    target: Option<&'a str>,
    attempts: u32,
    started_at: u64,
    finished_at: Option<u64>,
    tokens: Option<u64>,
    question: Option<&'a str>,
    subject: Option<Hash>,
    error: Option<Why<'a>>,
}

impl<'a> Step<'a> {
    fn of(step: &'a StepState) -> Step<'a> {
        Step {
            path: step.path.as_str(),
            phase: step.phase.name(),
            kind: step.kind.as_deref(),
            target: step.target.as_deref(),
            attempts: step.attempts,
            started_at: step.started_at,
            finished_at: step.finished_at,
            tokens: step.usage.as_ref().map(|usage| usage.input_tokens + usage.output_tokens),
            question: step.question.as_ref().map(|asked| asked.question.as_str()),
            subject: step.question.as_ref().and_then(|asked| asked.subject),
            error: step.error.as_ref().map(Why::of),
        }
    }
}

/// The steps of a run, in journal order.
pub fn steps(state: &RunState) -> Vec<Step<'_>> {
    state.steps().iter().map(Step::of).collect()
}
