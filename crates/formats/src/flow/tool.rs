//! A flow as a tool of an agent (docs/formats/flow.md): its name, description and parameters, and the text that the
//! agent receives.

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::hash::Hash;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Inputs, Plan};
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::value::{Map, Value};

use super::present::summarize_run;
use crate::jsonc::blank_comments;

/// Maximum length of a tool name, in characters: the limit of model providers.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// Characters of a hash in a tool name.
const NAME_HASH_CHARS: usize = 8;

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
    let cut = &clean[..clean.len().min(MAX_TOOL_NAME_CHARS)];
    if cut.is_empty() { tool_name_of_uuid(uuid) } else { cut.to_owned() }
}

/// `flow_<uuid>`. Providers refuse every tool of a request if one name has another character than `[a-zA-Z0-9_-]` or is
/// too long, so a hash takes the place of what they do not accept.
pub(crate) fn tool_name_of_uuid(uuid: &str) -> String {
    let name = format!("flow_{uuid}");
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.len() <= MAX_TOOL_NAME_CHARS && name.chars().all(is_allowed) {
        return name;
    }
    let clean = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let hash: String = Hash::of_bytes(uuid.as_bytes()).to_string().chars().take(NAME_HASH_CHARS).collect();
    let kept: String = clean.take(MAX_TOOL_NAME_CHARS - 1 - NAME_HASH_CHARS).collect();
    format!("{kept}_{hash}")
}

/// Whether the flow in a text is available to agents.
pub fn is_text_active(text: &str) -> bool {
    parse_value(&blank_comments(text)).is_ok_and(|stored| is_active(&stored))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_accepted_by_providers() {
        let long = "a".repeat(90);
        let (weather, data) = ("\u{5929}\u{6c14}", "\u{6570}\u{636e}");
        for uuid in ["3f2a-1", "team.weather", weather, data, ".", &long] {
            let name = tool_name(weather, uuid);
            let is_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            assert!(is_allowed && (1..=64).contains(&name.len()) && name.starts_with("flow_"), "{name}");
        }
        assert_eq!(tool_name("Weather report", "x"), "weather_report");
        assert_eq!(tool_name(weather, "3f2a-1"), "flow_3f2a-1");
        assert_ne!(tool_name(weather, weather), tool_name(weather, data));
    }
}
