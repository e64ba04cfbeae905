//! The front end of graphs.

use flowloom_core::plan::{Composite, Env, Format, Plan, StepKind, ToolEffect};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::render_result;
use super::tables::is_table;
use super::{FORMAT, compile};
use crate::answer_source::{self, AnswerSource};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// The front end.
pub(crate) struct GraphFormat;

impl FrontEnd for GraphFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn related_file_patterns(&self) -> &'static [&'static str] {
        &["agents/*/jsonSchema.json", "agents/*/systemPrompt.md"]
    }

    fn recognises(&self, file: &str, _text: &str) -> bool {
        is_table(file)
    }

    fn score_shape(&self, shape: &Shape<'_>) -> u8 {
        let is_graph = shape.has_item_with("nodes", &["nodeType", "node_type"]) || shape.has(&["entrypointNodeId"]);
        if is_graph && shape.has(&["nodes"]) { 5 } else { 0 }
    }

    fn compile(
        &self,
        source: DefinitionSource<'_>,
        sources: &Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, sources, problems, needs)
    }

    fn render_result(&self, plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
        render_result(plan, state, env)
    }

    fn find_answer_source(&self, plan: &Plan, _inputs: &Value) -> Option<AnswerSource> {
        answer_source::of_only_agent(plan)
    }

    fn offered_functions<'p>(&self, plan: &'p Plan) -> Vec<&'p str> {
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
}
