//! Functions as tools of models: their declarations, and the calls that need approval.

use std::sync::LazyLock;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::parse_value;
use flowloom_core::plan::{AgentTool, ToolEffect};
use flowloom_core::value::Value;

use crate::problems::Problems;
use crate::servers::tool_name;
use crate::sources::Sources;
use crate::steps::{BUILT_IN_FUNCTIONS, STEP_KIND_FUNCTIONS};

/// The built-in functions that models can call, by id.
const BUILT_IN_TOOLS_JSON: &str = include_str!("functions.json");

/// The same, parsed once.
static BUILT_IN_TOOLS: LazyLock<Value> = LazyLock::new(|| parse_value(BUILT_IN_TOOLS_JSON).unwrap_or_default());

/// The functions that every installation has, each with its description.
pub fn list_built_in_functions() -> Vec<(String, String)> {
    let describe = |id: &&str| {
        let description = BUILT_IN_TOOLS.get(id).and_then(|function| function.get("description"));
        ((*id).to_owned(), description.and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    STEP_KIND_FUNCTIONS.iter().chain(BUILT_IN_FUNCTIONS).map(describe).collect()
}

/// The ids of the built-in functions that models can call.
pub(crate) fn list_model_functions() -> impl Iterator<Item = &'static str> + Clone {
    BUILT_IN_FUNCTIONS.iter().copied().filter(|id| BUILT_IN_TOOLS.get(id).is_some())
}

/// The schema of the arguments of a function that declares none.
pub(crate) fn no_parameters() -> Value {
    Value::map([("type", Value::from("object")), ("properties", Value::map::<&str>([]))])
}

impl Sources {
    /// A function as a tool; `None`, with an error, if there is no function with this name.
    pub(crate) fn function_tool(&self, function: &str, span: Span, problems: &mut Problems) -> Option<AgentTool> {
        let mut needs_approval = self.declared.get(function).is_some_and(|own| own.needs_approval);
        if let Some((server, tool)) = self.server_of(function) {
            needs_approval |= server.needs_approval(tool);
            if server.report_unknown_tool(tool, span, problems).is_some() {
                return None;
            }
        }
        let Some(declaration) = self.find_declaration(function) else {
            self.report_unknown_function(function, span, problems);
            return None;
        };
        Some(AgentTool { declaration, alias: None, effect: ToolEffect::Function(function.into()), needs_approval })
    }

    /// How a function is declared to models: by its server, by the configuration, or as a built-in one. `None` if there is no
    /// such function.
    pub(crate) fn find_declaration(&self, function: &str) -> Option<ToolDeclaration> {
        let name = tool_name(function);
        if let Some((server, tool)) = self.server_of(function)
            && let Some(declared) = server.find_tool(tool)
        {
            return Some(ToolDeclaration { name, ..declared.clone() });
        }
        let defaults = BUILT_IN_TOOLS.get(function).filter(|_| !self.configured.iter().any(|name| name == function));
        let is_known = defaults.is_some() || self.functions.iter().any(|name| name == function);
        if !is_known && self.server_of(function).is_none() {
            return None;
        }
        let own = self.declared.get(function).cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let description = own.description.or_else(|| text(defaults?.get("description")?));
        let parameters = own.parameters.or_else(|| defaults?.get("parameters").cloned());
        Some(ToolDeclaration {
            name,
            description: description.unwrap_or_else(|| format!("Calls {function}.")),
            parameters: parameters.unwrap_or_else(no_parameters),
        })
    }

    /// Reports a function that a tool names and that there is not.
    pub(crate) fn check_function(&self, function: &str, span: Span, problems: &mut Problems) {
        let known = self.functions.iter().map(String::as_str);
        let mut known = known.chain(BUILT_IN_FUNCTIONS.iter().copied()).chain(STEP_KIND_FUNCTIONS.iter().copied());
        if !known.any(|name| name == function) {
            self.report_unknown_function(function, span, problems);
        }
    }

    fn report_unknown_function(&self, function: &str, span: Span, problems: &mut Problems) {
        let refused = match function {
            name if STEP_KIND_FUNCTIONS.contains(&name) => Some("is a step kind, not a tool"),
            name if BUILT_IN_FUNCTIONS.contains(&name) => Some("cannot be called by a model"),
            _ => None,
        };
        if let Some(why) = refused {
            let message = format_args!("{function} {why}");
            problems.add_error(Code::UnknownTool, span, message);
            return;
        }
        let known = self.functions.iter().map(String::as_str).chain(BUILT_IN_FUNCTIONS.iter().copied());
        let meant = problems.find_similar(function, known);
        let message = format_args!("there is no function {function}");
        problems.add_error(Code::UnknownTool, span, message).help = Some(match meant {
            Some(near) => format!("did you mean {near}?"),
            None => format!("declare it in flowloom.toml: [functions.\"{function}\"] with a url or a workflow"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function without a description is refused as a tool, so only the stages of the planner have none.
    #[test]
    fn models_know_every_function_that_they_can_call() {
        let described = parse_value(BUILT_IN_TOOLS_JSON).expect("JSON");
        let described = described.as_map().expect("an object");
        for function in BUILT_IN_FUNCTIONS {
            assert_eq!(described.contains_key(*function), !function.starts_with("author::"), "{function}");
        }
        assert!(described.keys().all(|function| BUILT_IN_FUNCTIONS.contains(&&**function)));
    }
}
