//! Output of the commands about runs: the summary object, the list, the waterfall.

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Env;
use flowloom_core::plan::Plan;
use flowloom_core::state::{OpenStep, Phase, RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow::describe_unused_inputs;
use flowloom_formats::render_result;
use serde::Serialize;

use super::details::name_phase;

/// The object printed by `run --json` and `resume --json`, and, with additional fields, for each run by `runs --json`.
#[derive(Serialize)]
pub struct RunSummary<'a, More = NoFields> {
    run_id: Option<RunId>,
    format: Option<&'a str>,
    status: &'static str,
    /// The output of the run.
    pub output: Value,
    result: Value,
    error: Option<ErrorSummary<'a>>,
    usage: Value,
    /// Inputs that the definition does not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten)]
    more: More,
}

/// No additional fields.
#[derive(Serialize)]
pub struct NoFields {}

/// The error of a failed run, with the path of the step that failed.
#[derive(Serialize)]
struct ErrorSummary<'a> {
    #[serde(flatten)]
    error: ErrorFields<'a>,
    path: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    code: String,
    message: &'a str,
}

impl<'a> ErrorFields<'a> {
    fn new(code: Code, message: &'a str) -> ErrorFields<'a> {
        ErrorFields { code: code.to_string(), message }
    }
}

/// Summarises a run.
pub fn summarize_run<'a>(id: RunId, plan: &'a Plan, state: &'a RunState, env: &Env) -> RunSummary<'a> {
    let presented = render_result(plan, state, env);
    let path = state.failed.as_ref().map(Path::as_str);
    RunSummary {
        run_id: Some(id),
        format: Some(plan.format.name()),
        status: state.status.name(),
        output: presented.output,
        // Formats say how far a run got as if it had ended there.
        result: match state.status {
            Status::Queued | Status::Running | Status::Interrupted => Value::Null,
            _ => presented.result,
        },
        error: state
            .error
            .as_ref()
            .map(|error| ErrorSummary { error: ErrorFields::new(error.code, &error.message), path }),
        usage: usage_to_value(&state.usage),
        warnings: describe_warnings(plan, state),
        more: NoFields {},
    }
}

/// Warnings about the inputs of a run.
fn describe_warnings(plan: &Plan, state: &RunState) -> Vec<String> {
    let inputs = state.created.as_ref().and_then(|created| created.inputs.as_map());
    inputs.map(|given| describe_unused_inputs(plan, given)).unwrap_or_default()
}

/// The summary of a definition or a call that was rejected before a run was created.
pub fn summarize_rejection<'a>(format: Option<&'a str>, code: Code, message: &'a str) -> RunSummary<'a> {
    RunSummary {
        run_id: None,
        format,
        status: "failed",
        output: Value::Null,
        result: Value::Null,
        error: Some(ErrorSummary { error: ErrorFields::new(code, message), path: None }),
        usage: Value::Null,
        warnings: Vec::new(),
        more: NoFields {},
    }
}

impl<'a> RunSummary<'a> {
    /// Adds fields to the summary.
    pub fn with_fields<More: Serialize>(self, more: More) -> RunSummary<'a, More> {
        let RunSummary { run_id, format, status, output, result, error, usage, warnings, more: NoFields {} } = self;
        RunSummary { run_id, format, status, output, result, error, usage, warnings, more }
    }
}

/// The summary of a run that the program left with this status because it was stopped.
pub fn summarize_left_run(run: RunId, status: Status, message: &str) -> RunSummary<'_> {
    RunSummary { run_id: Some(run), status: status.name(), ..summarize_rejection(None, Code::Interrupted, message) }
}

/// Token usage and cost in US dollars as a value.
pub fn usage_to_value(used: &Usage) -> Value {
    let mut usage = Map::new();
    usage.insert("input_tokens".into(), (used.input_tokens as i64).into());
    usage.insert("output_tokens".into(), (used.output_tokens as i64).into());
    // An unknown price is null, not zero.
    let cost = used.micro_usd.and_then(|micro| flowloom_core::Number::from_f64(micro as f64 / 1e6));
    usage.insert("cost_usd".into(), cost.map_or(Value::Null, Value::Number));
    usage.into()
}

/// Renders a value for people: text unchanged, everything else as indented JSON.
pub fn render_output(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => to_indented_json(other),
    }
}

/// Serialises as indented JSON.
pub fn to_indented_json(value: &impl Serialize) -> String {
    // Serialisation to memory with text keys cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A step of a run as JSON.
#[derive(Serialize)]
pub struct StepSummary<'a> {
    path: Path,
    phase: &'static str,
    kind: Option<&'a str>,
    target: Option<&'a str>,
    attempts: u32,
    /// Whether the output was taken from the run that this one was forked from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reused: bool,
    started_at: Option<u64>,
    finished_at: Option<u64>,
    tokens: Option<u64>,
    question: Option<&'a str>,
    subject: Option<Hash>,
    /// When the question expires, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    error: Option<ErrorFields<'a>>,
    /// References of its requests that had no value.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    /// The child run, if the step is one of a child run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
}

impl<'a> StepSummary<'a> {
    fn new(step: &'a StepState, state: &RunState) -> StepSummary<'a> {
        let question = step.question.as_ref().filter(|_| !state.is_decided(&step.path));
        StepSummary {
            path: step.path.clone(),
            phase: name_phase(step, state.status),
            kind: step.kind.as_deref(),
            target: step.target.as_deref(),
            attempts: step.attempts,
            reused: step.is_reused,
            started_at: Some(step.started_at),
            finished_at: step.finished_at,
            tokens: step.usage.as_ref().map(|usage| usage.input_tokens + usage.output_tokens),
            question: question.map(|request| request.question.as_str()),
            subject: question.and_then(|request| request.subject),
            expires_at: question.and_then(|request| request.expires_at),
            error: step.error.as_ref().map(|error| ErrorFields::new(error.code, &error.message)),
            warnings: &step.warnings,
            run: None,
        }
    }

    /// A step of a child run that waits for a person; `None` for a step of the run itself.
    fn from_child_step(open: OpenStep<'a>) -> Option<StepSummary<'a>> {
        let phase = if open.question.is_some() { Phase::Waiting } else { Phase::Uncertain };
        Some(StepSummary {
            run: Some(open.child?.run),
            path: open.path,
            phase: phase.name(),
            kind: None,
            target: open.target.map(|target| &**target),
            attempts: 1,
            reused: false,
            started_at: None,
            finished_at: None,
            tokens: None,
            question: open.question.map(|request| request.question.as_str()),
            subject: open.question.and_then(|request| request.subject),
            expires_at: open.question.and_then(|request| request.expires_at),
            error: None,
            warnings: &[],
        })
    }
}

/// The steps of a run, in journal order, and then the steps of its child runs that wait for a person.
pub fn summarize_steps(state: &RunState) -> Vec<StepSummary<'_>> {
    let of_children = state.open_steps().filter_map(StepSummary::from_child_step);
    state.steps().iter().map(|step| StepSummary::new(step, state)).chain(of_children).collect()
}
