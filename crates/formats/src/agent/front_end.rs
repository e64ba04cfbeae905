//! The front end of agents.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;

use super::present::render_result;
use super::{FORMAT, compile};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// The front end.
pub(crate) struct AgentFormat;

impl FrontEnd for AgentFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn related_file_patterns(&self) -> &'static [&'static str] {
        &["tools/*.json"]
    }

    fn score_shape(&self, shape: &Shape<'_>) -> u8 {
        if shape.has(&["systemPrompt", "system_prompt"]) && !shape.has(&["steps"]) { 2 } else { 0 }
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

    fn render_result(&self, _plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
        render_result(state, env)
    }

    fn offered_functions<'p>(&self, plan: &'p Plan) -> Vec<&'p str> {
        plan.functions.iter().map(|(function, _)| &**function).collect()
    }
}
