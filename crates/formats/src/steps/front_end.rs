//! The front end of step lists.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::render_result;
use super::{FORMAT, compile, literal_start};
use crate::answer_source::{self, AnswerSource};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// The front end.
pub(crate) struct StepsFormat;

impl FrontEnd for StepsFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn recognises(&self, _file: &str, text: &str) -> bool {
        literal_start(text).is_some()
    }

    fn score_shape(&self, shape: &Shape<'_>) -> u8 {
        let keys = ["functionId", "promptTemplate", "errorMode", "mode"];
        // A list of nodes says more of a definition than its steps.
        if shape.has_item_with("steps", &keys) && !shape.has(&["nodes"]) { 4 } else { 0 }
    }

    fn compile(
        &self,
        source: DefinitionSource<'_>,
        sources: &Sources,
        problems: &mut Problems,
        _needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, sources, problems)
    }

    fn render_result(&self, plan: &Plan, state: &RunState, _env: &Env) -> RenderedResult {
        render_result(plan, state)
    }

    fn find_answer_source(&self, plan: &Plan, _inputs: &Value) -> Option<AnswerSource> {
        answer_source::of_last_step(plan)
    }
}
