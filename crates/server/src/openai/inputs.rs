//! Assigns a client's message to the inputs of a workflow (docs/protocols.md).

use flowloom_app::runs::inputs::coerce_to_kind;
use flowloom_core::code::Code;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Input, InputKind, Inputs, Plan};
use flowloom_core::value::{Map, Value};

use super::messages::Conversation;
use crate::problem::{ApiResult, Problem};

/// The inputs of a run of `plan` for a conversation; the request's metadata may provide some of them.
pub(crate) fn build_inputs(plan: &Plan, conversation: &Conversation, metadata: &Map) -> ApiResult<Value> {
    if plan.thread.is_some() {
        return conversation.to_graph_inputs();
    }
    let text = conversation.last_user_text()?;
    let declared = match &plan.inputs {
        Inputs::Whole(_) => return Ok(text.into()),
        Inputs::Named { declared, .. } => declared,
    };
    let is_declared = |name: &str| declared.iter().any(|input| input.name == name);
    let mut inputs: Map = metadata
        .iter()
        .filter(|(name, _)| is_declared(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let whole = parse_value(&text).ok().and_then(|value| value.as_map().cloned());
    match whole.filter(|map| !map.is_empty() && map.keys().all(|name| is_declared(name))) {
        Some(map) => inputs.extend(map),
        None => {
            if let Some(input) = message_input(declared, &inputs) {
                inputs.insert(input.name.as_str().into(), text.into());
            }
        }
    }
    for input in declared {
        if let Some(value) = inputs.get_mut(input.name.as_str()) {
            *value = coerce_to_kind(&input.kind, std::mem::take(value));
        }
    }
    check_required(declared, &inputs)?;
    Ok(inputs.into())
}

/// The input that receives the message: the only required input that is not given otherwise, or else the first that
/// accepts text.
fn message_input<'a>(declared: &'a [Input], given: &Map) -> Option<&'a Input> {
    let open = || declared.iter().filter(|input| !given.contains_key(input.name.as_str()));
    let mut required = open().filter(|input| input.required);
    match (required.next(), required.next()) {
        (Some(only), None) => Some(only),
        _ => open().find(|input| matches!(input.kind, InputKind::Any | InputKind::Text)),
    }
}

fn check_required(declared: &[Input], given: &Map) -> ApiResult<()> {
    let missing = declared.iter().filter(|input| input.required && !given.contains_key(input.name.as_str()));
    let names: Vec<&str> = missing.map(|input| input.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "missing inputs: {}; pass them in metadata, or send a JSON object with all inputs as the message",
        names.join(", ")
    );
    Err(Problem::new(Code::RequestInvalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declare_input(name: &str, kind: InputKind, required: bool) -> Input {
        Input { name: name.into(), kind, required, ..Input::default() }
    }

    fn build_map(given: &[(&str, &str)]) -> Map {
        given.iter().map(|(name, value)| ((*name).into(), Value::from(*value))).collect()
    }

    #[test]
    fn messages_go_to_the_input_that_needs_them() {
        let declared = [
            declare_input("tone", InputKind::OneOf(vec!["kind".into()]), false),
            declare_input("title", InputKind::Text, false),
            declare_input("topic", InputKind::Text, true),
            declare_input("city", InputKind::Text, true),
        ];
        let chosen =
            |declared: &[Input], given| message_input(declared, &build_map(given)).map(|input| input.name.clone());
        assert_eq!(chosen(&declared[..3], &[]).as_deref(), Some("topic"), "the only one that is required");
        assert_eq!(chosen(&declared, &[("topic", "tea")]).as_deref(), Some("city"), "the only one left");
        assert_eq!(chosen(&declared, &[]).as_deref(), Some("title"), "of several the first that takes text");
        assert_eq!(chosen(&declared[..2], &[]).as_deref(), Some("title"));
        assert_eq!(chosen(&declared[..1], &[]), None, "a choice does not accept text");
        assert!(check_required(&declared, &build_map(&[("topic", "tea"), ("city", "Bonn")])).is_ok());
        let refused = check_required(&declared, &Map::new()).expect_err("two are missing");
        assert!(refused.detail().contains("topic, city"), "{}", refused.detail());
    }
}
