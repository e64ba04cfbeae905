//! The front end of flows.

use super::present::render_result;
use super::{FORMAT, compile, find_wrapped_flow};
use crate::answer_source;
use crate::front_end::FrontEnd;
use crate::shape::Shape;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "a flow has \"steps\" with \"type\"",
    score_shape,
    find_answer_source: |plan, _| answer_source::of_last_step(plan),
    ..FrontEnd::new(
        FORMAT,
        include_str!("schema.json"),
        |source, _, problems, _| compile(source, problems),
        |plan, state, _| render_result(plan, state),
    )
};

fn score_shape(shape: &Shape<'_>) -> u8 {
    if find_wrapped_flow(shape.whole).is_some() {
        return 6;
    }
    // The only required key of a flow is `steps`; an empty list of steps is a flow that does nothing.
    match shape.has_item_with("steps", &["type", "config"]) || shape.has(&["active"]) {
        true => 3,
        false => u8::from(shape.has(&["steps"])),
    }
}
