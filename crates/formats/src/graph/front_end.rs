//! The front end of graphs.

use flowloom_core::plan::{Composite, Env, Format, Kind, Plan, ToolEffect};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::present;
use super::tables::is_table;
use super::{FORMAT, compile};
use crate::front_end::{FrontEnd, Presented, Source};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;
use crate::spoken::{self, Spoken};

/// The front end.
pub(crate) struct GraphFormat;

impl FrontEnd for GraphFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn companions(&self) -> &'static [&'static str] {
        &["agents/*/jsonSchema.json", "agents/*/systemPrompt.md"]
    }

    fn recognises(&self, file: &str, _text: &str) -> bool {
        is_table(file)
    }

    fn likeness(&self, shape: &Shape<'_>) -> u8 {
        let is_graph = shape.has_item_with("nodes", &["nodeType", "node_type"]) || shape.has(&["entrypointNodeId"]);
        if is_graph && shape.has(&["nodes"]) { 5 } else { 0 }
    }

    fn compile(
        &self,
        source: Source<'_>,
        sources: &Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, sources, problems, needs)
    }

    fn present(&self, plan: &Plan, state: &RunState, env: &Env) -> Presented {
        present(plan, state, env)
    }

    fn spoken(&self, plan: &Plan, _inputs: &Value) -> Option<Spoken> {
        spoken::of_only_agent(plan)
    }

    fn offered_functions<'p>(&self, plan: &'p Plan) -> Vec<&'p str> {
        let Kind::Composite(Composite::Machine(machine)) = &plan.root.kind else { return Vec::new() };
        let turns = machine.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Composite(Composite::Turn(turn)) => Some(&turn.tools),
            _ => None,
        });
        let functions = turns.flatten().filter_map(|tool| match &tool.effect {
            ToolEffect::Function(function) => Some(&**function),
            _ => None,
        });
        functions.collect()
    }
}
