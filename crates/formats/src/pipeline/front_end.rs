//! The front end of pipelines.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;

use super::present::present;
use super::{FORMAT, compile};
use crate::front_end::{FrontEnd, Presented, Source};
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

    fn companions(&self) -> &'static [&'static str] {
        &["blocks/*.json"]
    }

    fn likeness(&self, shape: &Shape<'_>) -> u8 {
        if shape.has(&["nodes"]) { 4 } else { 0 }
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
}
