//! The front end of graphs.

use flowloom_core::plan::{Composite, Plan, StepKind, ToolEffect};

use super::present::render_result;
use super::rows::find_workflow_table;
use super::tables::is_table;
use super::{FORMAT, compile};
use crate::answer_source;
use crate::front_end::FrontEnd;
use crate::shape::DocumentShape;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "a graph has \"nodes\" with \"nodeType\"",
    related_file_patterns: &[
        "agents/*/jsonSchema.json",
        "agents/*/systemPrompt.md",
        "Agents/*/jsonSchema.json",
        "Agents/*/systemPrompt.md",
    ],
    recognises: |file, _| is_table(file),
    score_shape,
    find_answer_source: |plan, _| answer_source::of_only_agent(plan),
    functions_for_models,
    ..FrontEnd::new(FORMAT, include_str!("schema.json"), compile, render_result)
};

fn score_shape(shape: &DocumentShape<'_>) -> u8 {
    if find_workflow_table(shape.whole).is_some() {
        return 5;
    }
    let is_graph = shape.has_item_with("nodes", &["nodeType", "node_type"]) || shape.has(&["entrypointNodeId"]);
    if is_graph && shape.has(&["nodes"]) { 5 } else { 0 }
}

fn functions_for_models(plan: &Plan) -> Vec<&str> {
    let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else { return Vec::new() };
    let turns = machine.nodes.iter().filter_map(|node| match &node.kind {
        StepKind::Composite(Composite::Turn(turn)) => Some(&turn.tools),
        _ => None,
    });
    let functions = turns.flatten().filter_map(|tool| match &tool.effect {
        ToolEffect::Function(function) => Some(&**function),
        _ => None,
    });
    functions.collect()
}
