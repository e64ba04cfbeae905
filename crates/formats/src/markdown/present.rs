//! A Markdown workflow's own result: `{output, results, usage}` (docs/formats/markdown.md).

use std::sync::Arc;

use flowloom_core::chat::Role;
use flowloom_core::plan::{Composite, Env, Plan, Step, StepKind, TranscriptPiece};
use flowloom_core::render::to_js_value;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};

use crate::front_end::RenderedResult;

/// The result of a run of a Markdown workflow.
pub(super) fn render_result(plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
    let mut results = Map::new();
    for name in action_names(&plan.root) {
        match env.vars.get(&name) {
            Some(value) => results.insert(name, value.clone()),
            // A block that did not run has no value.
            None if state.status == Status::Succeeded => results.insert(name, Value::Null),
            None => None,
        };
    }
    let output: Value = transcript_text(env).into();
    let usage = Value::map([
        ("inputTokens", Value::from(i64::try_from(state.usage.input_tokens).unwrap_or(i64::MAX))),
        ("outputTokens", i64::try_from(state.usage.output_tokens).unwrap_or(i64::MAX).into()),
    ]);
    let whole = Value::map([("output", output.clone()), ("results", results.into()), ("usage", usage)]);
    RenderedResult { result: to_js_value(&whole), output }
}

/// The transcript of the run, with a rule between different phases or blocks. A step that writes nothing counts as the one
/// before the next.
fn transcript_text(env: &Env) -> String {
    let mut text = String::new();
    let mut before = None;
    for (index, piece) in env.transcript.iter().enumerate() {
        if piece.text.is_empty() {
            before = if is_whole_step(&env.transcript[index..]) { Some(&piece.part) } else { before };
            continue;
        }
        if !text.is_empty() {
            text.push_str(if before == Some(&piece.part) { "\n\n" } else { "\n\n---\n\n" });
        }
        before = Some(&piece.part);
        text.push_str(&piece.text);
    }
    text
}

/// Whether the first of some pieces is a text without a result of its own.
fn is_whole_step(pieces: &[TranscriptPiece]) -> bool {
    match pieces {
        [text, result, ..] if text.part == result.part => text.role == Role::User && result.role == Role::User,
        [text, ..] => text.role == Role::User,
        [] => false,
    }
}

/// The names of the top-level actions, in order.
fn action_names(root: &Step) -> Vec<Arc<str>> {
    let StepKind::Composite(Composite::Sequence(phases)) = &root.kind else { return Vec::new() };
    let steps = phases.iter().flat_map(|phase| match &phase.kind {
        StepKind::Composite(Composite::Sequence(steps)) => steps.as_slice(),
        _ => &[],
    });
    steps.flat_map(|step| &step.writes).filter_map(|write| Some(write.names.first()?.as_literal()?.into())).collect()
}
