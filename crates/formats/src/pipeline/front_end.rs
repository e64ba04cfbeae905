//! The front end of pipelines.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;

use super::present::render_result;
use super::{FORMAT, compile};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// The front end.
pub(crate) struct PipelineFormat;

impl FrontEnd for PipelineFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn related_file_patterns(&self) -> &'static [&'static str] {
        &["blocks/*.json"]
    }

    fn score_shape(&self, shape: &Shape<'_>) -> u8 {
        if shape.has(&["nodes"]) { 4 } else { 0 }
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
}
