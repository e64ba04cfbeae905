//! The front end of agents.

use super::present::render_result;
use super::{FORMAT, compile};
use crate::front_end::FrontEnd;
use crate::shape::DocumentShape;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "an agent has a \"systemPrompt\"",
    related_file_patterns: &["tools/*.json"],
    score_shape,
    functions_for_models: |plan| plan.functions.iter().map(|(function, _)| &**function).collect(),
    ..FrontEnd::new(FORMAT, include_str!("schema.json"), compile, |_, state, env| render_result(state, env))
};

fn score_shape(shape: &DocumentShape<'_>) -> u8 {
    if shape.has(&["steps"]) {
        return 0;
    }
    match shape.has(&["systemPrompt", "system_prompt"]) {
        true => 2,
        // A misspelling is reported by the format.
        false => u8::from(shape.has_similar("systemPrompt")),
    }
}
