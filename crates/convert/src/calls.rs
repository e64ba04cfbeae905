//! Calls of functions by steps, with named arguments, for every source format.

use std::sync::Arc;

use flowloom_core::expr::js::Js;
use flowloom_core::expr::{Data, Expr, Template, TemplatePart};
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Block, BlockCode, FunctionCall};
use flowloom_core::value::Value;
use flowloom_formats::list_built_in_functions;
use flowloom_formats::pipeline::built_in_blocks;

use crate::draft::{Item, ItemKind};
use crate::requests::{RequestArguments, read_request};

/// The function that reads a page.
pub(crate) const FETCH_FUNCTION: &str = "tool::web_fetch";

/// The function that sends a request.
pub(crate) const REQUEST_FUNCTION: &str = "tool::http_request";

/// The names of its arguments.
pub(crate) const REQUEST_ARGUMENTS: [&str; 4] = ["url", "method", "headers", "body"];

/// The field of what that function gives which holds the body of the reply.
pub(crate) const BODY_FIELD: &str = "body";

/// A call of a function.
pub(crate) struct Call {
    /// The function's id.
    pub(crate) function: String,
    pub(crate) arguments: Vec<(String, Data)>,
    /// The field of the function's output that is the output of the step, if it is not the whole.
    pub(crate) output_field: Option<&'static str>,
    /// The only field of the step's output that the function gives, as its whole output.
    pub(crate) kept_field: Option<&'static str>,
    /// How the call differs from the step.
    pub(crate) differences: Vec<String>,
}

/// The call of a step; `None` if the step calls no function and sends no request.
pub(crate) fn read_call(item: &Item<'_>) -> Option<Call> {
    let title = item.title();
    match &item.kind {
        ItemKind::Http(http) => {
            let RequestArguments { arguments, mut differences } = read_request(http, title);
            let message = "a status that is an error does not end the run";
            differences.insert(0, format!("the request {title} is sent by {REQUEST_FUNCTION}: {message}"));
            Some(Call { differences, output_field: Some(BODY_FIELD), ..new_call(REQUEST_FUNCTION, arguments) })
        }
        ItemKind::Scrape(scrape) => Some(Call {
            differences: vec![format!(
                "the page of {title} is read by {FETCH_FUNCTION}: it gives the whole text, without a selector or a summary"
            )],
            ..new_call(FETCH_FUNCTION, vec![("url".to_owned(), Data::Text(scrape.url.clone()))])
        }),
        ItemKind::Call(call) => Some(new_call(&call.function, call_arguments(call))),
        ItemKind::Block(block) => read_block(block, title),
        _ => None,
    }
}

fn new_call(function: &str, mut arguments: Vec<(String, Data)>) -> Call {
    // The function takes a method in any letters; a flow and a block do not.
    for (_, data) in arguments.iter_mut().filter(|(name, _)| function == REQUEST_FUNCTION && name == "method") {
        if let Some(method) = find_constant_text(data) {
            *data = Data::Text(Template::from_literal(&method.trim().to_uppercase()));
        }
    }
    Call { function: function.to_owned(), arguments, output_field: None, kept_field: None, differences: Vec::new() }
}

/// The text of an argument without references.
pub(crate) fn find_constant_text(data: &Data) -> Option<&str> {
    match data {
        Data::Constant(value) => value.as_str(),
        Data::Text(text) => text.as_literal(),
        Data::List(_) | Data::Map(_) => None,
    }
}

/// Whether a function is one of the engine.
pub(crate) fn is_built_in(function: &str) -> bool {
    list_built_in_functions().iter().any(|(id, _)| id == function)
}

fn call_arguments(call: &FunctionCall) -> Vec<(String, Data)> {
    if let Some(arguments) = &call.arguments {
        return arguments.iter().map(|(name, value)| (name.to_string(), expression_data(value))).collect();
    }
    let literal = call.prompt.as_literal().unwrap_or_default();
    if let Ok(Value::Map(arguments)) = parse_value(literal) {
        return arguments.iter().map(|(name, value)| (name.to_string(), Data::Constant(value.clone()))).collect();
    }
    if let Some(arguments) = read_object_text(&call.prompt) {
        return arguments;
    }
    let name = main_argument(&call.function).filter(|_| !is_object_text(&call.prompt)).unwrap_or("prompt");
    vec![(name.to_owned(), Data::Text(call.prompt.clone()))]
}

/// The argument of a built-in function that a bare prompt sets.
fn main_argument(function: &str) -> Option<&'static str> {
    match function {
        FETCH_FUNCTION | REQUEST_FUNCTION => Some("url"),
        "tool::web_search" => Some("query"),
        "tool::file_read" | "tool::file_write" => Some("path"),
        _ => None,
    }
}

/// Signs around the number of a reference in JSON text. They are for private use, so texts rarely have them.
const REFERENCE_SIGNS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// The entries of a JSON object with references in its strings: a function gets their values as parts of the strings.
fn read_object_text(text: &Template) -> Option<Vec<(String, Data)>> {
    let mut json = String::new();
    for (index, part) in text.parts.iter().enumerate() {
        match part {
            TemplatePart::Text(text) if text.contains(REFERENCE_SIGNS) => return None,
            TemplatePart::Text(text) => json.push_str(text),
            _ => json.push_str(&format!("{}{index}{}", REFERENCE_SIGNS[0], REFERENCE_SIGNS[1])),
        }
    }
    let Ok(Value::Map(entries)) = parse_value(&json) else { return None };
    entries.iter().map(|(name, value)| Some((read_key(name)?.to_owned(), read_entry(value, text)?))).collect()
}

/// The name of an entry; `None` if it has references.
fn read_key(name: &str) -> Option<&str> {
    (!name.contains(REFERENCE_SIGNS)).then_some(name)
}

/// A value with numbered references to the parts of a text.
fn read_entry(value: &Value, text: &Template) -> Option<Data> {
    Some(match value {
        Value::String(written) => {
            let mut parts = Vec::new();
            for (index, piece) in written.split(REFERENCE_SIGNS).enumerate() {
                match index % 2 {
                    0 if piece.is_empty() => {}
                    0 => parts.push(TemplatePart::Text(piece.into())),
                    _ => parts.push(text.parts.get(piece.parse::<usize>().ok()?)?.clone()),
                }
            }
            Data::Text(Template { parts })
        }
        Value::List(items) => Data::List(items.iter().map(|item| read_entry(item, text)).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let entry = |(name, inner): (&Arc<str>, &Value)| Some((read_key(name)?.into(), read_entry(inner, text)?));
            Data::Map(entries.iter().map(entry).collect::<Option<_>>()?)
        }
        other => Data::Constant(other.clone()),
    })
}

/// Whether a text with references looks like a JSON object.
fn is_object_text(text: &Template) -> bool {
    matches!(text.parts.first(), Some(TemplatePart::Text(start)) if start.trim_start().starts_with('{'))
}

/// An argument of Markdown.
fn expression_data(expr: &Expr) -> Data {
    let literal = match expr {
        Expr::Constant(value) => Some(value.clone()),
        Expr::Js(js) => match &**js {
            Js::Literal(value) => Some(value.clone()),
            Js::Placed(inner, _) => match &**inner {
                Js::Literal(value) => Some(value.clone()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let template = || Data::Text(Template { parts: vec![TemplatePart::Expr(expr.clone().into())] });
    literal.map_or_else(template, Data::Constant)
}

/// The call of a block: of a function, or of what a built-in block with code does as a function.
fn read_block(block: &Block, title: &str) -> Option<Call> {
    let arguments = match &block.inputs {
        Data::Map(inputs) => inputs.iter().map(|(name, data)| (name.to_string(), data.clone())).collect(),
        Data::Constant(Value::Map(inputs)) => {
            inputs.iter().map(|(name, value)| (name.to_string(), Data::Constant(value.clone()))).collect()
        }
        _ => Vec::new(),
    };
    match &block.code {
        BlockCode::Function(function) => Some(new_call(function, arguments)),
        BlockCode::Python { source, .. } => {
            let is_own = |known: &&Value| known.get("source_code").and_then(Value::as_str) == Some(source);
            let known = built_in_blocks().iter().find(is_own)?;
            let (function, field) = match known.get("id").and_then(Value::as_str)? {
                "web_scrape" => (FETCH_FUNCTION, "content"),
                "memory_read" => ("memory::get", "value"),
                "memory_write" => ("memory::set", "value"),
                _ => return None,
            };
            let difference = format!("the block {title} is a call of {function}, whose output is the value alone");
            Some(Call { kept_field: Some(field), differences: vec![difference], ..new_call(function, arguments) })
        }
        BlockCode::Prompt { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::expr::Ref;

    use super::*;

    fn call(function: &str, prompt: &str) -> Vec<(String, Data)> {
        let prompt = Template::from_literal(prompt);
        call_arguments(&FunctionCall::with_prompt(function, prompt))
    }

    #[test]
    fn a_prompt_stands_for_the_arguments() {
        let cases = [
            ("tool::web_fetch", "http://a/", "url", Data::Text(Template::from_literal("http://a/"))),
            ("tool::web_search", "lamps", "query", Data::Text(Template::from_literal("lamps"))),
            ("tool::http_request", r#"{"url": "http://a/"}"#, "url", Data::Constant("http://a/".into())),
            ("crm::lookup", "lamps", "prompt", Data::Text(Template::from_literal("lamps"))),
        ];
        for (function, prompt, name, value) in cases {
            assert_eq!(call(function, prompt), [(name.to_owned(), value)], "{function} {prompt}");
        }
    }

    #[test]
    fn references_in_strings_are_arguments() {
        let reference = |name: &str| {
            let source = format!("{{{{{name}}}}}");
            TemplatePart::Ref(Ref { name: name.into(), path: Vec::new(), source: source.as_str().into() })
        };
        let text = |text: &str| TemplatePart::Text(text.into());
        let cases = [
            (vec![text("{\"url\": \"http://a/"), reference("x"), text("/b\"}")], Some("http://a/{{x}}/b")),
            (vec![text("{\"url\": "), reference("x"), text("}")], None),
            (vec![text("{\""), reference("x"), text("\": \"b\"}")], None),
        ];
        for (parts, expected) in cases {
            let prompt = Template { parts };
            let arguments = call_arguments(&FunctionCall::with_prompt(REQUEST_FUNCTION, prompt.clone()));
            let url = match &arguments[..] {
                [(name, Data::Text(url))] if name == "url" => Some(url.show_source()),
                _ => None,
            };
            assert_eq!(url.as_deref(), expected, "{prompt:?}");
        }
    }
}
