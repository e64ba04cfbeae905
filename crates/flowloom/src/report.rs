//! What commands say of runs: the summary object, the list, the waterfall.

use std::fmt::Write as _;

use flowloom_core::chat::Usage;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::{Map, Value};
use flowloom_formats::present;
use serde::Serialize;

/// The one object that `run --json`, `resume --json` and the entries of `runs --json` are, and what stands beside it.
#[derive(Serialize)]
pub(crate) struct Summary<'a, More = Nothing> {
    run_id: Option<RunId>,
    format: Option<&'a str>,
    status: &'static str,
    pub(crate) output: Value,
    result: Value,
    error: Option<Error<'a>>,
    usage: Value,
    #[serde(flatten)]
    more: More,
}

/// Nothing stands beside it.
#[derive(Serialize)]
pub(crate) struct Nothing {}

/// Why a run failed, and where.
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

/// A run that was started.
pub(crate) fn summary<'a>(id: RunId, plan: &'a Plan, state: &'a RunState, env: &Env) -> Summary<'a> {
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

/// The same object for a definition or a call that was refused before there was a run.
pub(crate) fn refused<'a>(format: Option<&'a str>, error: &'a StepError) -> Summary<'a> {
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
    /// The same with more beside it.
    pub(crate) fn with<More: Serialize>(self, more: More) -> Summary<'a, More> {
        let Summary { run_id, format, status, output, result, error, usage, more: Nothing {} } = self;
        Summary { run_id, format, status, output, result, error, usage, more }
    }
}

/// What models used: tokens, and US dollars.
pub(crate) fn usage(used: &Usage) -> Value {
    let mut usage = Map::new();
    usage.insert("input_tokens".into(), (used.input_tokens as i64).into());
    usage.insert("output_tokens".into(), (used.output_tokens as i64).into());
    // An unknown price is not zero.
    let cost = used.micro_usd.and_then(|micro| flowloom_core::Number::from_f64(micro as f64 / 1e6));
    usage.insert("cost_usd".into(), cost.map_or(Value::Null, Value::Number));
    usage.into()
}

/// Text as it is, everything else as indented JSON.
pub(crate) fn for_people(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => indented(other),
    }
}

/// As indented JSON.
pub(crate) fn indented(value: &impl Serialize) -> String {
    // What is written here has text for keys, and is written to memory: it never fails.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A step of a run, and what became of it.
#[derive(Serialize)]
pub(crate) struct Step<'a> {
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

/// The steps of a run.
pub(crate) fn steps(state: &RunState) -> Vec<Step<'_>> {
    state.steps().iter().map(Step::of).collect()
}

/// Milliseconds as people read them.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.1}s", ms as f64 / 1e3),
        _ => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
    }
}

/// The sign of a step's phase; never colour alone.
pub(crate) fn sign(phase: Phase) -> &'static str {
    match phase {
        Phase::Finished => "✓",
        Phase::Failed => "✗",
        Phase::Skipped => "⤼",
        Phase::Aborted => "■",
        Phase::Waiting => "⏸",
        Phase::Uncertain => "?",
        Phase::Running => "…",
    }
}

/// Columns of the bars of the waterfall.
const BAR: u64 = 32;
/// Columns of the path at most.
const PATH: usize = 36;

/// A run as a text waterfall: one row for each step that did something, bars on one time axis.
pub(crate) fn waterfall(id: RunId, plan: &Plan, state: &RunState) -> String {
    let mut out = String::new();
    let end = state.steps().iter().filter_map(|step| step.finished_at).max().unwrap_or(state.created_at);
    let end = state.finished_at.unwrap_or(end).max(state.created_at + 1);
    let total = end - state.created_at;
    let _ = writeln!(out, "{id}  {}  {} ({})  {}", state.status.name(), plan.name, plan.format.name(), duration(total));
    let shown: Vec<&StepState> = state.steps().iter().filter(|step| is_shown(step)).collect();
    let width = shown.iter().map(|step| step.path.as_str().chars().count()).max().unwrap_or(0).min(PATH);
    for step in shown {
        let path = clip(step.path.as_str(), PATH);
        let bar = bar(step, state.created_at, end);
        let took = step.finished_at.map_or_else(|| "…".to_owned(), |at| duration(at.saturating_sub(step.started_at)));
        let detail = detail(step);
        let line = format!("{} {path:<width$} ▏{bar}▕ {took:>7}  {detail}", sign(step.phase));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let usage = &state.usage;
    if usage.input_tokens + usage.output_tokens > 0 {
        let _ = writeln!(out, "tokens: {} in, {} out", usage.input_tokens, usage.output_tokens);
    }
    if let Some(error) = &state.error {
        let place = state.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        let _ = writeln!(out, "{}{place}: {}", error.code, error.message);
    }
    out
}

/// Composites and skipped fill-ins have no bar of their own unless something went wrong there.
fn is_shown(step: &StepState) -> bool {
    step.kind.is_some() || !matches!(step.phase, Phase::Finished)
}

fn bar(step: &StepState, start: u64, end: u64) -> String {
    let total = (end - start).max(1);
    let column = |at: u64| (at.saturating_sub(start) * BAR / total).min(BAR);
    let from = column(step.started_at).min(BAR - 1);
    let to = column(step.finished_at.unwrap_or(end)).max(from + 1);
    format!("{}{}{}", " ".repeat(from as usize), "━".repeat((to - from) as usize), " ".repeat((BAR - to) as usize))
}

fn detail(step: &StepState) -> String {
    let mut parts = Vec::new();
    // What a question is sent to is a person, and its target is its own text.
    parts.extend(step.target.as_deref().filter(|_| step.question.is_none()).map(|target| clip(target, 40)));
    if step.attempts > 1 {
        parts.push(format!("attempt {}", step.attempts));
    }
    if let Some(usage) = &step.usage {
        parts.push(format!("{} tok", usage.input_tokens + usage.output_tokens));
    }
    if let (Phase::Failed, Some(error)) = (step.phase, &step.error) {
        parts.push(format!("{}: {}", error.code, clip(&error.message, 60)));
    }
    if let Some(question) = &step.question {
        parts.push(format!("asks: {}", clip(&question.question, 60)));
    }
    parts.join("  ")
}

/// At most `width` characters, on one line and without control characters.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match clean.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}
