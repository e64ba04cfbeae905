//! Answers from a file instead of a model, for tests: `scripted:PATH` and `scripted:echo`. The file is a JSON list of
//! answers, used in the order of calls; or `{"match": [{"contains": "…", "answer": …}], "default": …}`, which is
//! stateless and so answers the same after a restart.
//!
//! An answer is a string (its text), `null` (no text), `{"json": …}`, `{"error": "…"}`, `{"text": …, "tool_calls":
//! [{"name": …, "arguments": …}]}` or any other JSON value, which is written as text.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::chat::{Role, ToolCall, Usage};
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::{Value, json};
use flowloom_runtime::effects::EffectContext;
use parking_lot::Mutex;

use crate::error::ScriptError;

/// Length of a question in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// Number of answers of each list that have been used.
#[derive(Default)]
pub(crate) struct ScriptedModel {
    used: Mutex<BTreeMap<String, usize>>,
}

impl ScriptedModel {
    /// Answers from the file `path`, or with the last user message if `path` is `echo`.
    pub(crate) fn generate_answer(
        &self,
        path: &str,
        request: &GenerateRequest,
        context: &EffectContext,
    ) -> Result<GenerateReply, ScriptError> {
        let question = request.messages.iter().rev().find(|message| message.role == Role::User);
        let question = question.map_or("", |message| message.content.as_str());
        let answer = match path {
            "echo" => format!("LLM({question})").into(),
            path => self.find_answer(path, question, request)?,
        };
        let mut generated = parse_answer(&answer)?;
        let words = crate::estimate::estimate_tokens;
        generated.usage = Usage {
            input_tokens: request.messages.iter().map(|message| words(&message.content)).sum(),
            output_tokens: words(generated.text.as_deref().unwrap_or_default()),
            micro_usd: Some(0),
        };
        if let Some(text) = generated.text.as_deref().filter(|text| !text.is_empty()) {
            context.deltas.push(&context.path, context.attempt, text);
        }
        Ok(generated)
    }

    fn find_answer(&self, path: &str, question: &str, request: &GenerateRequest) -> Result<Value, ScriptError> {
        let script = load_script(Path::new(path))?;
        if let Some(answers) = script.as_list() {
            let mut used = self.used.lock();
            let next = used.entry(path.to_owned()).or_default();
            let exhausted = || ScriptError::Exhausted { path: path.to_owned(), count: answers.len() };
            let answer = answers.get(*next).cloned().ok_or_else(exhausted)?;
            *next += 1;
            return Ok(answer);
        }
        let rules = script.get("match").and_then(Value::as_list).unwrap_or_default();
        let fits = |rule: &&Value| {
            let needle = rule.get("contains").and_then(Value::as_str).unwrap_or_default();
            request.messages.iter().any(|message| message.content.contains(needle))
        };
        let found = rules.iter().find(fits).and_then(|rule| rule.get("answer")).or_else(|| script.get("default"));
        found.cloned().ok_or_else(|| {
            let question_start = question.chars().take(MAX_SHOWN_CHARS).collect();
            ScriptError::NoMatch { path: path.to_owned(), question_start }
        })
    }
}

/// Reads and checks a script.
pub(crate) fn load_script(path: &Path) -> Result<Value, ScriptError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ScriptError::Unreadable { path: path.to_owned(), source })?;
    let script = json::parse_value(&text).map_err(|source| ScriptError::NotJson { path: path.to_owned(), source })?;
    match &script {
        Value::List(_) => Ok(script),
        Value::Map(map) if map.contains_key("match") || map.contains_key("default") => Ok(script),
        _ => Err(ScriptError::WrongShape { path: path.to_owned() }),
    }
}

/// The reply that an answer of a script describes.
pub(crate) fn parse_answer(answer: &Value) -> Result<GenerateReply, ScriptError> {
    let text = |text: &str| GenerateReply { text: Some(text.to_owned()), ..GenerateReply::default() };
    let Some(map) = answer.as_map() else {
        return match answer {
            Value::Null => Ok(GenerateReply::default()),
            Value::String(answer) => Ok(text(answer)),
            other => Ok(text(&json::write_json(other))),
        };
    };
    let has_only = |keys: &[&str]| !map.is_empty() && map.keys().all(|key| keys.contains(&&**key));
    let has_kind = |key: &str, is_kind: fn(&Value) -> bool| {
        map.get(key).is_none_or(|value| *value == Value::Null || is_kind(value))
    };
    let is_reply = has_only(&["text", "tool_calls"])
        && has_kind("text", |text| text.as_str().is_some())
        && has_kind("tool_calls", |calls| calls.as_list().is_some());
    if !["error", "json"].iter().any(|key| has_only(&[key])) && !is_reply {
        return Ok(text(&json::write_json(answer)));
    }
    if let Some(message) = map.get("error") {
        let message = message.as_str().map_or_else(|| json::write_json(message), str::to_owned);
        return Err(ScriptError::ScriptedFailure { message });
    }
    if let Some(value) = map.get("json") {
        return Ok(text(&json::write_json(value)));
    }
    let calls = map.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = call.get("arguments").cloned().unwrap_or_else(|| Value::map::<&str>([]));
        ToolCall::new(format!("call_{index}"), name, arguments)
    });
    let text = map.get("text").and_then(Value::as_str).map(str::to_owned);
    Ok(GenerateReply { text, tool_calls: calls.collect(), usage: Usage::default(), ..GenerateReply::default() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::chat::{GenerateOptions, Message};
    use flowloom_core::effect::Purpose;
    use flowloom_core::{Code, Path as StepPath, RunId};
    use flowloom_runtime::effects::Deltas;

    use super::*;

    struct Nowhere;

    impl Deltas for Nowhere {
        fn push(&self, _: &StepPath, _: u32, _: &str) {}
    }

    fn ask_script(scripted: &ScriptedModel, path: &str, text: &str) -> Result<GenerateReply, ScriptError> {
        let context = EffectContext {
            run: RunId::new(0, [0; 10]),
            epoch: 1,
            path: StepPath::root(),
            attempt: 1,
            retried_attempt: 0,
            user: "local".into(),
            agent: None,
            definition: Arc::default(),
            depth: 0,
            trace: None,
            asks_first: false,
            allowance: None,
            deltas: Arc::new(Nowhere),
        };
        let request = GenerateRequest {
            model: format!("scripted:{path}"),
            messages: vec![Message::new(Role::User, text)].into(),
            tools: Vec::new(),
            schema: None,
            options: GenerateOptions::default(),
            purpose: Purpose::Step,
        };
        scripted.generate_answer(path, &request, &context)
    }

    fn write_script(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_list_is_used_in_order_until_it_ends() {
        let file = write_script(
            r#"["one", {"json": {"a": 1.0}}, null, {"error": "boom"}, {"text": "t", "tool_calls": [{"name": "n", "arguments": {"k": 2}}]}]"#,
        );
        let (scripted, path) = (ScriptedModel::default(), file.path().to_str().unwrap());
        let text = |result: Result<GenerateReply, ScriptError>| result.unwrap().text;
        assert_eq!(text(ask_script(&scripted, path, "x")).as_deref(), Some("one"));
        assert_eq!(text(ask_script(&scripted, path, "x")).as_deref(), Some("{\"a\":1.0}"));
        assert_eq!(text(ask_script(&scripted, path, "x")), None);
        let error = ask_script(&scripted, path, "x").unwrap_err();
        assert!(matches!(error, ScriptError::ScriptedFailure { message } if message == "boom"));
        let calls = ask_script(&scripted, path, "x").unwrap().tool_calls;
        assert_eq!((calls[0].name.as_str(), calls[0].arguments.get("k")), ("n", Some(&2.into())));
        let error = ask_script(&scripted, path, "x").unwrap_err();
        assert_eq!(error.code(), Code::ScriptExhausted);
    }

    #[test]
    fn rules_have_no_memory() {
        let file = write_script(r#"{"match": [{"contains": "cat", "answer": "meow"}], "default": "?"}"#);
        let path = file.path().to_str().unwrap();
        for _ in 0..2 {
            assert_eq!(ask_script(&ScriptedModel::default(), path, "a cat").unwrap().text.as_deref(), Some("meow"));
            assert_eq!(ask_script(&ScriptedModel::default(), path, "a dog").unwrap().text.as_deref(), Some("?"));
        }
        let file = write_script(r#"{"match": [{"contains": "cat", "answer": "meow"}]}"#);
        let error = ask_script(&ScriptedModel::default(), file.path().to_str().unwrap(), "a dog").unwrap_err();
        assert_eq!(error.code(), Code::ScriptExhausted);
    }

    #[test]
    fn echo_answers_with_the_question_and_bad_files_with_an_error() {
        assert_eq!(ask_script(&ScriptedModel::default(), "echo", "hi").unwrap().text.as_deref(), Some("LLM(hi)"));
        for text in ["", "{", "3", "{\"matches\": []}"] {
            let file = write_script(text);
            let error = ask_script(&ScriptedModel::default(), file.path().to_str().unwrap(), "x").unwrap_err();
            assert_eq!(error.code(), Code::ModelFailed, "{text}");
        }
    }
}
