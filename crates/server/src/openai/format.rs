//! The form that a client wants the answer in: `response_format`, `text.format`, or a tool that the answer must call.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::json::read_lenient;
use flowloom_core::render;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_formats::json_schema::find_schema_problem;
use flowloom_runtime::blocking::run_blocking;
use flowloom_runtime::schema::validation_errors;
use serde::Deserialize;
use utoipa::ToSchema;

use super::reply::{ClientToolCall, RunAnswer, format_output_call_id};
use crate::problem::{ApiResult, Problem};

/// The form of an answer: `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema"}` with a schema.
#[derive(Deserialize, ToSchema)]
#[schema(as = AnswerFormat)]
pub(crate) struct FormatRequest {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    kind: String,
    /// The schema, in a chat request.
    #[serde(default)]
    json_schema: Option<NamedSchema>,
    /// The schema, in a request for a response.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    schema: Option<Value>,
}

/// A JSON Schema with a name.
#[derive(Deserialize, ToSchema)]
#[schema(as = NamedSchema)]
pub(crate) struct NamedSchema {
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    schema: Option<Value>,
}

/// The form that an answer must have.
#[derive(Default)]
pub(crate) enum AnswerFormat {
    /// Any text.
    #[default]
    Text,
    /// An object that fits the schema.
    Object(Value),
    /// A call of one of these functions, whose arguments fit its schema.
    Call(Vec<ChosenFunction>),
}

/// A function that an answer may have to call.
pub(crate) struct ChosenFunction {
    name: String,
    /// The schema of its arguments.
    schema: Value,
}

impl AnswerFormat {
    /// The form that `format` describes. Fails with `RequestInvalid` if there is no such form.
    pub(crate) fn parse(format: Option<FormatRequest>) -> ApiResult<AnswerFormat> {
        let Some(FormatRequest { kind, json_schema, schema }) = format else { return Ok(AnswerFormat::Text) };
        match kind.as_str() {
            "text" => Ok(AnswerFormat::Text),
            "json_object" => Ok(AnswerFormat::Object(Map::new().into())),
            "json_schema" => {
                let schema = schema.or(json_schema.and_then(|named| named.schema));
                let schema = schema.ok_or_else(|| invalid_request("the format json_schema needs a schema".into()))?;
                check_schema(&schema)?;
                Ok(AnswerFormat::Object(schema))
            }
            other => {
                let message = format!("unknown format {other:?}; expected text, json_object or json_schema");
                Err(invalid_request(message))
            }
        }
    }

    /// The form that `tool_choice` demands. A tool that the workflow does not call itself is called with its output. Fails with
    /// `RequestInvalid` if the choice is no function of `tools`, or if the schema of a function is invalid.
    pub(crate) fn with_tool_choice(self, choice: Option<&Value>, tools: &[Value]) -> ApiResult<AnswerFormat> {
        let Some(choice) = choice.filter(|choice| !matches!(choice_mode(choice), Some("auto" | "none"))) else {
            return Ok(self);
        };
        let functions = list_chosen_functions(choice, tools);
        if functions.is_empty() {
            return Err(invalid_request("tool_choice does not name a function of tools".to_owned()));
        }
        functions.iter().try_for_each(|function| check_schema(&function.schema))?;
        Ok(AnswerFormat::Call(functions))
    }

    /// Whether the answer is a text that can be sent while it is written.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, AnswerFormat::Text)
    }

    /// The answer of a run in this form. Fails with `ModelNotJson` if its output has no such form.
    pub(crate) fn apply(&self, run: RunId, answer: RunAnswer) -> ApiResult<RunAnswer> {
        let schemas: Vec<&Value> = match self {
            AnswerFormat::Text => return Ok(answer),
            AnswerFormat::Object(schema) => vec![schema],
            AnswerFormat::Call(functions) => functions.iter().map(|function| &function.schema).collect(),
        };
        // The workflow calls a tool first; its answer follows.
        if !answer.calls.is_empty() {
            return Ok(answer);
        }
        let (fitting, object) = find_fitting(run, &answer, &schemas)?;
        let text = render::to_json(&object);
        Ok(match self {
            AnswerFormat::Call(functions) => {
                let id = format_output_call_id(run);
                let name = functions.get(fitting).map(|function| function.name.clone()).unwrap_or_default();
                let call = ClientToolCall { id, name, arguments: text };
                RunAnswer { text: String::new(), calls: vec![call], ..answer }
            }
            _ => RunAnswer { text, ..answer },
        })
    }
}

/// The functions that `tool_choice` allows an answer to call: the one that it names, those that it lists, or all.
fn list_chosen_functions(choice: &Value, tools: &[Value]) -> Vec<ChosenFunction> {
    let listed = choice.get("allowed_tools").unwrap_or(choice).get("tools").and_then(Value::as_list);
    let names: Option<HashSet<&str>> = match choice_mode(choice) {
        Some("required") => listed.map(|listed| listed.iter().filter_map(read_function_name).collect()),
        _ => Some(read_function_name(choice).into_iter().collect()),
    };
    let is_chosen = |name: &&str| names.as_ref().is_none_or(|names| names.contains(name));
    let read_chosen = |tool| {
        let name = read_function_name(tool).filter(is_chosen)?.to_owned();
        let schema = find_function(tool).get("parameters").cloned().unwrap_or_else(|| Map::new().into());
        Some(ChosenFunction { name, schema })
    };
    tools.iter().filter_map(read_chosen).collect()
}

/// The function of a tool, which chat requests nest and requests for responses do not.
fn find_function(tool: &Value) -> &Value {
    tool.get("function").unwrap_or(tool)
}

fn read_function_name(tool: &Value) -> Option<&str> {
    find_function(tool).get("name").and_then(Value::as_str)
}

/// The first object of the answer that fits one of the schemas, after the index of the schema.
fn find_fitting(run: RunId, answer: &RunAnswer, schemas: &[&Value]) -> ApiResult<(usize, Value)> {
    let not_json = |why: &str| Problem::new(Code::ModelNotJson, format!("the output of the run {run} {why}"));
    if answer.status != Status::Succeeded {
        return Err(not_json("is not there yet: the run waits for a person"));
    }
    let in_text = read_lenient(strip_fence(&answer.text)).filter(|value| value.as_map().is_some());
    let mut reason = None;
    for object in in_text.into_iter().chain(answer.objects.iter().cloned()) {
        for (index, schema) in schemas.iter().enumerate() {
            match validation_errors(schema, &object) {
                None => return Ok((index, object)),
                Some(why) => reason = reason.or(Some(why)),
            }
        }
    }
    Err(match reason {
        Some(why) => not_json(&format!("does not fit the schema of the request: {why}")),
        None => not_json("is not a JSON object; let the workflow end with a step that answers in JSON"),
    })
}

/// The content of a Markdown code fence that is the whole text; otherwise the text.
fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(text, |inner| inner.trim_start_matches("json").trim())
}

/// The mode of a tool choice: a word, `{"type": "auto"}`, or the list of allowed tools.
fn choice_mode(choice: &Value) -> Option<&str> {
    let kind = choice.as_str().or_else(|| choice.get("type")?.as_str());
    match kind {
        // Chat requests nest the mode, requests for responses do not.
        Some("allowed_tools") => choice.get("allowed_tools").unwrap_or(choice).get("mode")?.as_str(),
        kind => kind,
    }
}

fn check_schema(schema: &Value) -> ApiResult<()> {
    let missing = || (*schema == Value::Null).then(|| "it is null".to_owned());
    match run_blocking(|| find_schema_problem(schema)).map(|problem| problem.message).or_else(missing) {
        Some(why) => Err(invalid_request(format!("the schema of the answer is not a JSON Schema: {why}"))),
        None => Ok(()),
    }
}

fn invalid_request(message: String) -> Problem {
    Problem::new(Code::RequestInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::chat::Usage;
    use flowloom_core::json::parse_value;

    fn parse(text: &str) -> ApiResult<AnswerFormat> {
        AnswerFormat::parse(Some(serde_json::from_str(text).expect("a format")))
    }

    fn answer(text: &str, objects: &[&str]) -> RunAnswer {
        let objects = objects.iter().map(|text| parse_value(text).expect("JSON")).collect();
        RunAnswer {
            text: text.to_owned(),
            calls: Vec::new(),
            usage: Usage::none(),
            status: Status::Succeeded,
            objects,
            is_cut: false,
        }
    }

    const SCHEMA: &str = r#"{"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object",
        "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}"#;

    #[test]
    fn an_object_is_found_in_the_text_or_in_the_last_step() {
        let (run, format) = (RunId::new(1, [1; 10]), parse(SCHEMA).expect("valid"));
        let text = |reply: RunAnswer| format.apply(run, reply).map(|reply| reply.text);
        assert_eq!(text(answer(r#"{"n": 1}"#, &[])).expect("fits"), r#"{"n":1}"#);
        assert_eq!(text(answer("```json\n{\"n\": 2}\n```", &[])).expect("fits"), r#"{"n":2}"#);
        assert_eq!(text(answer("The number is 3.", &[r#"{"n":3}"#])).expect("fits"), r#"{"n":3}"#);
        let refused = text(answer(r#"{"n": "one"}"#, &[])).expect_err("it does not fit");
        assert!(refused.detail().contains("integer"), "{}", refused.detail());
        let refused = text(answer("three", &[])).expect_err("no object");
        assert_eq!(refused.code(), Code::ModelNotJson);
        let waiting = RunAnswer { status: Status::Waiting, ..answer("{}", &[]) };
        assert!(text(waiting).is_err());
    }

    #[test]
    fn a_tool_that_must_be_called_is_called_with_the_output() {
        let tools =
            [parse_value(r#"{"type": "function", "function": {"name": "city", "parameters": {"type": "object"}}}"#)
                .expect("JSON")];
        let choice = |text: &str| AnswerFormat::Text.with_tool_choice(Some(&parse_value(text).expect("JSON")), &tools);
        let format = choice(r#"{"type": "function", "function": {"name": "city"}}"#).expect("valid");
        let reply = format.apply(RunId::new(1, [1; 10]), answer(r#"{"n": 1}"#, &[])).expect("a call");
        assert_eq!((reply.calls[0].name.as_str(), reply.calls[0].arguments.as_str()), ("city", r#"{"n":1}"#));
        for auto in [
            r#""auto""#,
            r#"{"type": "auto"}"#,
            r#"{"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "city"}]}"#,
            r#"{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}"#,
        ] {
            assert!(choice(auto).expect("valid").is_text(), "{auto}");
        }
        assert!(choice(r#"{"function": {"name": "other"}}"#).is_err());
        assert!(AnswerFormat::Text.with_tool_choice(Some(&"required".into()), &[]).is_err());
    }

    /// Clients that want data offer it as functions, and require that one of them is called.
    #[test]
    fn one_of_the_required_tools_is_called_with_the_output_that_fits_it() {
        let tool = |name: &str, field: &str| {
            let schema = format!(r#"{{"type": "object", "properties": {{}}, "required": ["{field}"]}}"#);
            parse_value(&format!(r#"{{"type": "function", "name": "{name}", "parameters": {schema}}}"#)).expect("JSON")
        };
        let tools = [tool("city", "city"), tool("number", "n"), tool("any", "n")];
        let name_of = |choice: &str, text: &str| {
            let choice = parse_value(choice).expect("JSON");
            let format = AnswerFormat::Text.with_tool_choice(Some(&choice), &tools).expect("valid");
            format.apply(RunId::new(1, [1; 10]), answer(text, &[])).map(|reply| reply.calls[0].name.clone())
        };
        assert_eq!(name_of("\"required\"", r#"{"n": 1}"#).expect("a call"), "number");
        assert_eq!(name_of("\"required\"", r#"{"city": "Rome"}"#).expect("a call"), "city");
        let listed = r#"{"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "any"}]}"#;
        assert_eq!(name_of(listed, r#"{"n": 1}"#).expect("a call"), "any");
        assert!(name_of("\"required\"", r#"{"m": 1}"#).is_err() && name_of(listed, r#"{"city": "Rome"}"#).is_err());
    }

    #[test]
    fn a_format_that_is_not_known_is_refused() {
        assert!(parse(r#"{"type": "grammar"}"#).is_err() && parse(r#"{"type": "json_schema"}"#).is_err());
        assert!(parse(r#"{"type": "json_schema", "schema": {"type": "integr"}}"#).is_err());
        assert!(parse(r#"{"type": "text"}"#).expect("valid").is_text());
    }
}
