//! The front end of flows.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::render_result;
use super::{FORMAT, compile, find_wrapped_flow};
use crate::answer_source::{self, AnswerSource};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// The front end.
pub(crate) struct FlowFormat;

impl FrontEnd for FlowFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn score_shape(&self, shape: &Shape<'_>) -> u8 {
        if find_wrapped_flow(shape.whole).is_some() {
            return 6;
        }
        // The only required key of a flow is `steps`; an empty list of steps is a flow that does nothing.
        match shape.has_item_with("steps", &["type", "config"]) || shape.has(&["active"]) {
            true => 3,
            false => u8::from(shape.has(&["steps"])),
        }
    }

    fn compile(
        &self,
        source: DefinitionSource<'_>,
        _sources: &Sources,
        problems: &mut Problems,
        _needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, problems)
    }

    fn render_result(&self, plan: &Plan, state: &RunState, _env: &Env) -> RenderedResult {
        render_result(plan, state)
    }

    fn find_answer_source(&self, plan: &Plan, _inputs: &Value) -> Option<AnswerSource> {
        answer_source::of_last_step(plan)
    }
}
