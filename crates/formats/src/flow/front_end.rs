//! The front end of flows.

use flowloom_core::json::Node;

use super::present::render_result;
use super::{FORMAT, compile, find_replied_flow, find_wrapped_flow};
use crate::answer_source;
use crate::front_end::FrontEnd;
use crate::shape::DocumentShape;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "a flow has \"steps\" with \"type\"",
    near_miss: describe_near_miss,
    score_shape,
    find_answer_source: |plan, _| answer_source::of_last_step(plan),
    ..FrontEnd::new(
        FORMAT,
        include_str!("schema.json"),
        |source, _, problems, _| compile(source, problems),
        |plan, state, _| render_result(plan, state),
    )
};

/// Recognises texts copied from AnythingLLM's builder instead of the file that it saves.
fn describe_near_miss(shape: &DocumentShape<'_>) -> Option<&'static str> {
    let is_block = |item: &Node| item.get("type").is_some() && item.get("config").is_some();
    if shape.whole.items().is_some_and(|items| items.iter().any(is_block)) {
        return Some("this is the list of a flow's steps; a flow is an object: {\"name\": \"…\", \"steps\": [ … ]}");
    }
    let is_card = shape.whole.get("flow_info").is_some() && shape.whole.get("start").is_some();
    is_card.then_some(
        "these are the cards of AnythingLLM's builder; take the file that it saves in storage/plugins/agent-flows",
    )
}

fn score_shape(shape: &DocumentShape<'_>) -> u8 {
    if find_wrapped_flow(shape.whole).is_some() || find_replied_flow(shape.whole).is_some() {
        return 6;
    }
    // The only required key of a flow is `steps`; an empty list of steps is a flow that does nothing.
    match shape.has_item_with("steps", &["type", "config"]) || shape.has(&["active"]) {
        true => 3,
        false => u8::from(shape.has(&["steps"])),
    }
}
