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

/// The built-in functions that models cannot call, each with its description.
const STEP_FUNCTIONS: [(&str, &str); 10] = [
    ("agent::chat", "Calls the model and returns its answer."),
    ("memory::get", "Reads an entry of the user's memory."),
    ("memory::set", "Writes an entry of the user's memory."),
    ("human::ask", "Asks a person and waits for the answer."),
    ("author::clarify", "Asks the user about a goal until it is clear."),
    ("author::decompose", "Divides a goal into blocks, each with its inputs and outputs."),
    ("author::search", "Finds an existing block for each part of a plan."),
    ("author::create", "Generates the blocks that do not exist, and tries them."),
    ("author::wire", "Connects the blocks of a plan to a pipeline."),
    ("author::keep", "Stores the generated blocks."),
];

/// The built-in functions that fill secrets in: they send a request, or write a file for the operator.
const FUNCTIONS_WITH_SECRETS: [&str; 4] = ["tool::web_fetch", "tool::http_request", "tool::file_write", "write_files"];

/// Whether the inputs of a function may refer to secrets. Those of the configuration may.
pub(crate) fn fills_secrets(function: &str) -> bool {
    !BUILT_IN_FUNCTIONS.contains(&function) || FUNCTIONS_WITH_SECRETS.contains(&function)
}

/// The functions that every installation has, each with its description.
pub fn list_built_in_functions() -> Vec<(String, String)> {
    let describe = |id: &&str| {
        let own = STEP_FUNCTIONS.iter().find(|(known, _)| known == id).map(|(_, description)| *description);
        let description = || BUILT_IN_TOOLS.get(id)?.get("description")?.as_str();
        ((*id).to_owned(), own.or_else(description).unwrap_or_default().to_owned())
    };
    STEP_KIND_FUNCTIONS.iter().chain(BUILT_IN_FUNCTIONS).map(describe).collect()
}

/// The JSON Schema of the arguments of a built-in function; `None` if only steps call it, or a function of the planner.
pub fn find_built_in_parameters(id: &str) -> Option<&'static Value> {
    BUILT_IN_TOOLS.get(id)?.get("parameters")
}

/// The possible consequences of a call of a built-in function by a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRisk {
    /// Whether its result contains text of strangers.
    pub reads_strangers: bool,
    /// Whether it changes something.
    pub changes: bool,
}

/// How a function is declared that is not known.
pub(crate) fn advise_declaration(function: &str) -> String {
    format!("declare it in flowloom.toml: [functions.\"{function}\"] with a url or a workflow")
}

/// The risk of a built-in function; `None` if models cannot call it.
pub fn find_built_in_risk(id: &str) -> Option<FunctionRisk> {
    let own = BUILT_IN_TOOLS.get(id)?;
    let is = |key: &str| own.get(key).and_then(Value::as_bool);
    Some(FunctionRisk { reads_strangers: is("reads_strangers")?, changes: is("changes")? })
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
        let mut known = self.functions.iter().map(String::as_str).chain(BUILT_IN_FUNCTIONS.iter().copied());
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
            let help = "remove it, or name a workflow that has a step with it";
            problems.add_error(Code::UnknownTool, span, message).help = Some(help.into());
            return;
        }
        let known = self.functions.iter().map(String::as_str).chain(BUILT_IN_FUNCTIONS.iter().copied());
        let meant = problems.find_similar(function, known);
        let message = format_args!("there is no function {function}");
        let diagnostic = problems.add_error(Code::UnknownTool, span, message);
        diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), || advise_declaration(function));
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
        let unrated = described.keys().find(|function| find_built_in_risk(function).is_none());
        assert_eq!(
            unrated, None,
            "functions.json says whether it reads text of strangers, and whether it changes something"
        );
    }

    #[test]
    fn every_function_is_described() {
        let undescribed = list_built_in_functions().into_iter().find(|(_, description)| description.is_empty());
        assert_eq!(undescribed, None);
    }
}
