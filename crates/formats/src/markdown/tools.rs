//! The tools of an action. A literal list names them before the run; an expression chooses among those that it can name.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::expr::js::{Js, ListItem, Logic};
use flowloom_core::expr::{Expr, Script};
use flowloom_core::plan::AgentTool;
use flowloom_core::value::Value;

use super::MarkdownCompiler;
use super::actions::Action;
use super::parse::TextPiece;
use super::scope::ScopeNames;
use crate::functions::{advise_declaration, list_model_functions};
use crate::servers::tool_name;

/// The tools of an action.
#[derive(Default)]
pub(super) struct ActionTools {
    /// Every tool that a call can offer.
    pub(super) tools: Vec<AgentTool>,
    /// The names of those that it offers, if an expression chooses them.
    pub(super) available: Option<Expr>,
}

impl MarkdownCompiler<'_> {
    /// The tools of the action.
    pub(super) fn read_tools(
        &mut self,
        action: &Action<'_>,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<ActionTools> {
        if action.get("tools").is_none() {
            return Some(ActionTools::default());
        }
        let source = self.read_value_attribute(action, "tools", names, text)?;
        if let Some(constant) = source.constant_value() {
            let Some(listed) = read_names(&constant) else {
                self.attribute_error(action, "tools", "must be a list of names", text).help =
                    Some("write tools={['name']}; the tools are built-in functions, and those of flowloom.toml".into());
                return None;
            };
            return Some(ActionTools { tools: self.find_tools(action, &listed, text)?, available: None });
        }
        let data = |name: &str| {
            // In a block a name of `data` can be that of a provided value.
            let found = self.frontmatter.data.iter().find(|(key, ..)| key == name && names.is_root());
            found.map(|(_, value, _)| value.clone())
        };
        let listed = source.native_form().and_then(|js| list_possible_names(js, &data));
        let tools = match listed {
            Some(listed) => self.find_tools(action, &listed, text)?,
            None => self.find_all_tools(action, text),
        };
        Some(ActionTools { tools, available: Some(source.into_expr(&mut self.slots, scripts)) })
    }

    /// The tools with these names; `None`, with an error, if there is no such tool.
    fn find_tools(&mut self, action: &Action<'_>, listed: &[String], text: &TextPiece<'_>) -> Option<Vec<AgentTool>> {
        let (start, end) = action.get("tools").map_or((action.start, action.end), |given| (given.start, given.end));
        let sources = self.sources;
        let built_in: Vec<&str> = list_model_functions().collect();
        let mut tools = Vec::new();
        for name in listed {
            let known = sources.functions.iter().map(String::as_str).chain(built_in.iter().copied());
            let found = known.clone().find(|function| function == name || tool_name(function) == *name);
            let server = sources.server_of(name).map(|_| name.as_str());
            let Some(function) = found.or(server) else {
                let meant = self.problems.find_similar(name, known);
                let message = format!("there is no tool {name}");
                let diagnostic = self.report_error(text, Code::UnknownTool, start, end, message);
                match meant {
                    Some(meant) => {
                        let at = text.text[start..end].find(name.as_str()).map(|at| start + at);
                        diagnostic.suggest_text_at(meant, at.map(|at| text.file_span(at, at + name.len())));
                    }
                    None => diagnostic.help = Some(advise_declaration(name)),
                }
                return None;
            };
            let tool = sources.function_tool(function, text.file_span(start, end), self.problems)?;
            if !tools.iter().any(|known: &AgentTool| known.effect == tool.effect) {
                self.functions.push((function.into(), text.file_span(action.start, action.end)));
                tools.push(tool);
            }
        }
        Some(tools)
    }

    /// Every tool that the action could name. A server that was not asked yet has to say which tools it has.
    fn find_all_tools(&mut self, action: &Action<'_>, text: &TextPiece<'_>) -> Vec<AgentTool> {
        let span = text.file_span(action.start, action.end);
        let sources = self.sources;
        let built_in = list_model_functions().filter(|id| !sources.functions.iter().any(|own| own == id));
        let mut functions: Vec<String> = sources.functions.iter().cloned().chain(built_in.map(str::to_owned)).collect();
        for server in &sources.servers {
            match &server.tools {
                None => self.functions.push((format!("{}::*", server.name).into(), span)),
                Some(tools) => functions.extend(tools.iter().map(|tool| format!("{}::{}", server.name, tool.name))),
            }
        }
        functions.iter().filter_map(|function| sources.function_tool(function, span, self.problems)).collect()
    }
}

/// A list of names.
fn read_names(value: &Value) -> Option<Vec<String>> {
    value.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// All names that the list of an expression can have; `None` if it can be any.
fn list_possible_names(js: &Js, data: &dyn Fn(&str) -> Option<Value>) -> Option<Vec<String>> {
    let list = |parts: &[&Js]| -> Option<Vec<String>> {
        let parts: Option<Vec<_>> = parts.iter().map(|part| list_possible_names(part, data)).collect();
        Some(parts?.concat())
    };
    match js {
        Js::Placed(inner, _) | Js::Chain(inner) => list_possible_names(inner, data),
        Js::Literal(Value::Null | Value::Bool(_)) | Js::Undefined => Some(Vec::new()),
        Js::Literal(Value::String(name)) => Some(vec![name.to_string()]),
        Js::Literal(value) => read_names(value),
        Js::Name(name) => match data(name)? {
            Value::String(name) => Some(vec![name.to_string()]),
            value => read_names(&value),
        },
        Js::List(items) => {
            let parts: Vec<&Js> = items
                .iter()
                .map(|item| match item {
                    ListItem::One(one) | ListItem::Spread(one) => one,
                })
                .collect();
            list(&parts)
        }
        Js::Choice(parts) => list(&[&parts[1], &parts[2]]),
        // The value of `a && b` is `a` only if that is no list.
        Js::Logic(Logic::And, _, right) => list_possible_names(right, data),
        Js::Logic(_, left, right) => list(&[left, right]),
        _ => None,
    }
}
