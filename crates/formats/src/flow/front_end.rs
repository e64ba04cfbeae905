//! The front end of flows.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::present;
use super::{FORMAT, compile, wrapped};
use crate::front_end::{FrontEnd, Presented, Source};
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;
use crate::spoken::{self, Spoken};

/// The front end.
pub(crate) struct FlowFormat;

impl FrontEnd for FlowFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.json")
    }

    fn likeness(&self, shape: &Shape<'_>) -> u8 {
        if wrapped(shape.whole).is_some() {
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
        source: Source<'_>,
        _sources: &Sources,
        problems: &mut Problems,
        _needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, problems)
    }

    fn present(&self, plan: &Plan, state: &RunState, _env: &Env) -> Presented {
        present(plan, state)
    }

    fn spoken(&self, plan: &Plan, _inputs: &Value) -> Option<Spoken> {
        spoken::of_last_step(plan)
    }
}
