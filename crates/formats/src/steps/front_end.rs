//! The front end of step lists.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::present;
use super::{FORMAT, compile, literal_start};
use crate::front_end::{FrontEnd, Presented, Source};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;
use crate::spoken::{self, Spoken};

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

    fn likeness(&self, shape: &Shape<'_>) -> u8 {
        let keys = ["functionId", "promptTemplate", "errorMode", "mode"];
        // A list of nodes says more of a definition than its steps.
        if shape.has_item_with("steps", &keys) && !shape.has(&["nodes"]) { 4 } else { 0 }
    }

    fn compile(
        &self,
        source: Source<'_>,
        sources: &Sources,
        problems: &mut Problems,
        _needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, sources, problems)
    }

    fn present(&self, plan: &Plan, state: &RunState, _env: &Env) -> Presented {
        present(plan, state)
    }

    fn spoken(&self, plan: &Plan, _inputs: &Value) -> Option<Spoken> {
        spoken::of_last_step(plan)
    }
}
