//! The front end of agents.

use super::present::render_result;
use super::{FORMAT, compile};
use crate::front_end::FrontEnd;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "an agent has a \"systemPrompt\"",
    related_file_patterns: &["tools/*.json"],
    score_shape: |shape| {
        if shape.has(&["systemPrompt", "system_prompt"]) && !shape.has(&["steps"]) { 2 } else { 0 }
    },
    offered_functions: |plan| plan.functions.iter().map(|(function, _)| &**function).collect(),
    ..FrontEnd::new(FORMAT, include_str!("schema.json"), compile, |_, state, env| render_result(state, env))
};
