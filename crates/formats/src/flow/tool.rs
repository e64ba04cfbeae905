//! A flow as a tool of an agent (docs/formats/flow.md): its name, description and parameters, and the text that the
//! agent receives.

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::plan::{Inputs, Plan};
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};

use super::present::summarize_run;

/// The declaration of the flow with this UUID as a tool.
pub fn flow_tool(plan: &Plan, uuid: &str) -> ToolDeclaration {
    let Inputs::Named { declared, .. } = &plan.inputs else {
        return ToolDeclaration {
            name: tool_name(&plan.name, uuid),
            description: String::new(),
            parameters: Value::Null,
        };
    };
    let properties = declared.iter().map(|input| {
        let described = input.description.clone();
        let description = described.unwrap_or_else(|| format!("Value for variable {}", input.name));
        let property = Value::map([("type", Value::from("string")), ("description", description.into())]);
        (input.name.as_str().into(), property)
    });
    let properties: Value = properties.collect::<Map>().into();
    let description = match plan.description.as_str() {
        "" => format!("Execute agent flow: {}", plan.name),
        description => description.to_owned(),
    };
    let parameters = Value::map([("type", Value::from("object")), ("properties", properties)]);
    ToolDeclaration { name: tool_name(&plan.name, uuid), description, parameters }
}

/// The tool name: lower case, white space as `_`, nothing outside `[a-z0-9_-]`, at most 64 characters; `flow_<uuid>` if
/// nothing is left.
fn tool_name(name: &str, uuid: &str) -> String {
    let words: Vec<_> = name.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let mut clean = String::new();
    for c in words.join("_").chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
    {
        if !(c == '_' && clean.ends_with('_')) {
            clean.push(c);
        }
    }
    let clean = clean.trim_matches(['-', '_']);
    let cut = &clean[..clean.len().min(64)];
    if cut.is_empty() { format!("flow_{uuid}") } else { cut.to_owned() }
}

/// Whether a stored flow is available to agents: everything but `false` counts as active.
pub fn is_active(stored: &Value) -> bool {
    let config = stored.get("config").filter(|_| stored.get("steps").is_none()).unwrap_or(stored);
    config.get("active") != Some(&Value::from(false))
}

/// The result of a flow as an agent receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// The text.
    pub text: String,
    /// Whether the text is the agent's answer, with no further model call.
    pub is_final: bool,
}

/// The text that an agent receives for a run of the flow.
pub fn tool_reply(plan: &Plan, state: &RunState) -> ToolReply {
    let outcome = summarize_run(plan, state);
    if !outcome.success {
        let failed = outcome.results.iter().find_map(|entry| entry.get("error"));
        let error = failed.and_then(Value::as_str).unwrap_or("Unknown error").to_owned();
        return ToolReply { text: format!("Flow execution failed: {error}"), is_final: false };
    }
    match &outcome.direct {
        Some(direct) => {
            let text = render::render_text(direct, render::TextStyle::JavaScript);
            ToolReply { text, is_final: true }
        }
        None => ToolReply { text: render::to_json(&outcome.into_value()), is_final: false },
    }
}
