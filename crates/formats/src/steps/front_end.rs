//! The front end of step lists.

use flowloom_core::json::Node;

use super::present::render_result;
use super::{FORMAT, compile, is_script};
use crate::answer_source;
use crate::front_end::FrontEnd;
use crate::shape::DocumentShape;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "a step list has \"steps\" with \"functionId\"",
    recognises: |_, text| is_script(text),
    score_shape,
    find_answer_source: |plan, _| answer_source::of_last_step(plan),
    ..FrontEnd::new(
        FORMAT,
        include_str!("schema.json"),
        |source, sources, problems, _| compile(source, sources, problems),
        |plan, state, _| render_result(plan, state),
    )
};

fn score_shape(shape: &DocumentShape<'_>) -> u8 {
    let keys = ["functionId", "promptTemplate", "errorMode", "mode"];
    // A list of nodes is more specific than steps.
    if shape.has_item_with("steps", &keys) && !shape.has(&["nodes"]) {
        return 4;
    }
    // Without a step, the id distinguishes a step list from a flow.
    let is_empty = shape.definition.get("steps").and_then(Node::items).is_some_and(<[Node]>::is_empty);
    if is_empty && shape.has(&["id"]) { 2 } else { 0 }
}
