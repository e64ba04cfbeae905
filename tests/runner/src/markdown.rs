//! Cases of the `markdown` format.

use std::sync::Arc;

use flowloom_core::chat::{Message, MessagePart, Role, Usage};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, find_position};
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::expr::js::hide_conversions;
use flowloom_core::hash::Hash;
use flowloom_core::plan::{Plan, Step};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Compiled, Sources, compile, markdown, render_result};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{EffectContext, EffectFuture, Effects, Model, Price};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use parking_lot::Mutex;

use crate::bound_check::check_bound;
use crate::engines::connect_engine;
use crate::expectation::CaseJudge;
use crate::world::CaseWorld;

const MAIN_FILE: &str = "main.mdx";

/// Runs a case.
pub(crate) fn judge_run(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let compiled = compile_case(case);
    let case_model =
        Arc::new(ScriptedModel { script: case.get("script").cloned().unwrap_or_default(), calls: Mutex::default() });
    let ran = compiled.plan.clone().map(|plan| run_case(case, plan, &case_model));
    let happened = CaseResult { case, compiled: &compiled, ran: ran.as_ref() };
    for (key, expected) in expectation {
        match &**key {
            "calls" => {
                judge.compare_key(key, &normalize_calls(expected), Some(&normalize_calls(&case_model.recorded_calls())))
            }
            "results" => happened.compare_results(expected, expectation.contains_key("error"), judge),
            "output" => judge.compare_key(
                key,
                &normalize_output(expected),
                Some(&normalize_output(&happened.result_field("output"))),
            ),
            "title" => {
                let title = compiled.plan.as_ref().map(|plan| Value::from(plan.name.as_str()));
                judge.compare_key(key, expected, title.as_ref());
            }
            "diagnostics" => compare_diagnostics(expected, &compiled.diagnostics, case, judge),
            "error" => happened.compare_error(expected, judge),
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
    if !expectation.contains_key("error")
        && let Some(why) = happened.failure_message()
    {
        judge.add_failure(why);
    }
}

/// Checks a case, which must be rejected.
pub(crate) fn judge_check(case: &Value, expectation: &Map, judge: &mut CaseJudge) {
    let compiled = compile_case(case);
    if compiled.plan.is_some() {
        judge.add_failure("the definition is not rejected");
    }
    for (key, expected) in expectation {
        match &**key {
            "diagnostics" => compare_diagnostics(expected, &compiled.diagnostics, case, judge),
            other => judge.add_failure(format!("the key {other:?} is not known")),
        }
    }
}

fn compile_case(case: &Value) -> Compiled {
    let files = case.get("files").and_then(Value::as_map).cloned().unwrap_or_default();
    let bytes = |text: &Value| text.as_str().unwrap_or_default().as_bytes().to_vec();
    let files = files.iter().map(|(name, text)| (name.to_string(), bytes(text))).collect();
    let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
    compile(MAIN_FILE, &sources, Some(markdown::FORMAT))
}

fn run_case(case: &Value, plan: Plan, model: &Arc<ScriptedModel>) -> Result<(Arc<Plan>, RunOutcome), StepFailure> {
    let world = CaseWorld::new(case);
    // The real sandbox evaluates expressions, so these cases use a real clock.
    let effects = Effects {
        model: model.clone(),
        code: crate::shared_sandbox(),
        clock: Arc::new(SystemClock),
        ..world.to_effects()
    };
    let plan = Arc::new(plan);
    let engine = connect_engine(Engine::new(effects, Arc::new(MemoryJournal::new())), &plan);
    let start = StartOptions::new(
        plan.clone(),
        Hash::of_bytes(b"case"),
        case.get("inputs").cloned().unwrap_or_default().with_files(),
        "local",
    );
    crate::block_on(async {
        let outcome = engine.start_run(start)?.drive_to_end().await;
        check_bound(&plan, &outcome.state);
        Ok((plan, outcome))
    })
}

/// The result of a case.
struct CaseResult<'a> {
    case: &'a Value,
    compiled: &'a Compiled,
    ran: Option<&'a Result<(Arc<Plan>, RunOutcome), StepFailure>>,
}

impl CaseResult<'_> {
    fn result_field(&self, key: &str) -> Value {
        let Some(Ok((plan, outcome))) = self.ran else { return Value::Null };
        render_result(plan, &outcome.state, &outcome.env).result.get(key).cloned().unwrap_or_default()
    }

    fn compare_results(&self, expected: &Value, is_partial: bool, judge: &mut CaseJudge) {
        let mut actual = self.result_field("results").as_map().cloned().unwrap_or_default();
        if is_partial {
            actual.retain(|name, _| expected.get(name).is_some());
        }
        judge.compare_key("results", &remove_nulls(expected), Some(&remove_nulls(&actual.into())));
    }

    fn failure_message(&self) -> Option<String> {
        match self.ran {
            None => {
                let errors = self.compiled.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str());
                Some(format!("refused: {}", errors.collect::<Vec<_>>().join("; ")))
            }
            Some(Err(error)) => Some(format!("does not start: {error}")),
            Some(Ok((_, outcome))) => outcome.state.error.as_ref().map(|error| format!("failed: {error}")),
        }
    }

    /// The stage of the failure, the action, the messages, and the lines.
    fn failure_details(&self) -> (&'static str, String, Vec<String>, Vec<i64>) {
        match self.ran {
            None => {
                let errors: Vec<_> = self.compiled.diagnostics.iter().filter(|d| d.is_error()).collect();
                let is_input = errors.iter().any(|d| d.code == Code::InputSpec);
                let lines = errors.iter().map(|d| line_of(self.case, d)).collect();
                let messages = errors.iter().map(|d| d.message.clone()).collect();
                (if is_input { "input" } else { "check" }, String::new(), messages, lines)
            }
            Some(Err(error)) => ("input", String::new(), vec![error.message.clone()], Vec::new()),
            Some(Ok((plan, outcome))) => {
                let Some(error) = &outcome.state.error else { return ("never", String::new(), Vec::new(), Vec::new()) };
                let path = outcome.state.failed.as_ref().map(|path| path.as_str().to_owned()).unwrap_or_default();
                let named = path.split('/').rev().map(|part| part.split(['[', '#']).next().unwrap_or_default());
                let action = named.into_iter().find(|part| !part.contains('~')).unwrap_or_default().to_owned();
                let place =
                    error.message.strip_prefix("main.mdx:").and_then(|rest| rest.split(':').next()?.parse().ok());
                let text = self.case.get("files").and_then(|files| files.get(MAIN_FILE)).and_then(Value::as_str);
                let element = find_position(text.unwrap_or_default(), find_step(plan, &path).span.start).line;
                let lines = place.into_iter().chain(i64::try_from(element)).collect();
                ("run", action, vec![error.message.clone()], lines)
            }
        }
    }

    fn compare_error(&self, expected: &Value, judge: &mut CaseJudge) {
        let (when, action, messages, lines) = self.failure_details();
        for (key, expected) in expected.as_map().into_iter().flat_map(|map| map.iter()) {
            match (&**key, expected.as_str()) {
                ("when", Some("before-first-call")) => {
                    let is_before = matches!(when, "check" | "input" | "run");
                    judge.compare_key("error.when", &true.into(), Some(&is_before.into()));
                }
                ("when", _) => judge.compare_key("error.when", expected, Some(&when.into())),
                ("action", _) => judge.compare_key("error.action", expected, Some(&action.as_str().into())),
                ("line", _) => {
                    let is_there = lines.iter().any(|line| Some(*line) == expected.as_i64());
                    judge.compare_key("error.line", &true.into(), Some(&is_there.into()));
                }
                ("message_contains", _) => {
                    for part in expected.as_list().unwrap_or_default() {
                        let is_contained = messages.iter().any(|message| contains_part(message, part));
                        judge.compare_key("error.message_contains", &true.into(), Some(&is_contained.into()));
                    }
                }
                (other, _) => judge.add_failure(format!("the key error.{other:?} is not known")),
            }
        }
    }
}

/// Our codes for the rules of the original system.
fn codes_of_rule(rule: &str) -> &'static [Code] {
    match rule {
        "yaml-error" => &[Code::FrontmatterSyntax],
        "inline-action" => &[Code::InlineAction],
        "invalid-action-attributes" => &[Code::ActionAttribute, Code::SchemaSyntax],
        "unsupported-attribute-syntax" => &[Code::AttributeSyntax],
        "undefined-context" => &[Code::UnknownName],
        "duplicate-context" => &[Code::RepeatedName],
        "invalid-expression" | "mdx-syntax" => &[Code::MarkdownSyntax, Code::ExpressionSyntax],
        "unsupported-syntax" => &[Code::ExpressionUnsupported],
        "restricted-identifier" => &[Code::RestrictedName],
        "async-function-not-allowed" => &[Code::AsyncFunction],
        "include" => &[Code::IncludeFailed],
        "invalid-input-schema" => &[Code::InputSpec, Code::WrongKind],
        "jsx-element-warning" => &[Code::UnknownElement],
        "fragment-action" => &[Code::ActionAsText],
        "nested-action" => &[Code::NestedAction],
        "empty" => &[Code::NothingToRun],
        "too-complex" => &[Code::TooComplex],
        "not-a-method" => &[Code::NotAMethod],
        "unknown-tool" => &[Code::UnknownTool],
        "ignored-content" => &[Code::IgnoredContent],
        "ignored-key" => &[Code::IgnoredKey],
        _ => &[],
    }
}

fn contains_part(message: &str, part: &Value) -> bool {
    part.as_str().is_some_and(|part| message.to_lowercase().contains(&part.to_lowercase()))
}

/// The innermost step on a path.
fn find_step<'p>(plan: &'p Plan, path: &str) -> &'p Step {
    let mut step = &plan.root;
    for part in path.split('/').skip(1) {
        let key = part.split(['[', '#']).next().unwrap_or_default();
        match step.kind.child_steps().into_iter().find(|child| child.key.as_str() == key) {
            Some(child) => step = child,
            None => break,
        }
    }
    step
}

fn line_of(case: &Value, diagnostic: &Diagnostic) -> i64 {
    let text =
        case.get("files").and_then(|files| files.get(&diagnostic.file)).and_then(Value::as_str).unwrap_or_default();
    i64::try_from(find_position(text, diagnostic.span.start).line).unwrap_or(0)
}

/// Matches each expected diagnostic with one of the actual ones, each at most once.
fn compare_diagnostics(expected: &Value, given: &[Diagnostic], case: &Value, judge: &mut CaseJudge) {
    let mut left: Vec<&Diagnostic> = given.iter().collect();
    for wanted in expected.as_list().unwrap_or_default() {
        let known = ["rule", "message_contains", "line", "severity"];
        for (key, _) in
            wanted.as_map().into_iter().flat_map(|map| map.iter()).filter(|(key, _)| !known.contains(&&***key))
        {
            judge.add_failure(format!("the key {key:?} of a diagnostic is not known"));
        }
        let text = |key: &str| wanted.get(key).and_then(Value::as_str);
        let severity = text("severity").unwrap_or("error");
        let parts = wanted.get("message_contains").and_then(Value::as_list).unwrap_or_default();
        let found = left.iter().position(|diagnostic| {
            let is_severity = if diagnostic.is_error() { severity == "error" } else { severity == "info" };
            let is_line = wanted.get("line").is_none_or(|line_| line_.as_i64() == Some(line_of(case, diagnostic)));
            let is_rule = text("rule").is_none_or(|rule| codes_of_rule(rule).contains(&diagnostic.code));
            is_severity && is_line && is_rule && parts.iter().all(|part| contains_part(&diagnostic.message, part))
        });
        judge.compare_key("diagnostics", &true.into(), Some(&found.is_some().into()));
        match found {
            Some(index) => {
                left.remove(index);
            }
            None => {
                let given = given.iter().map(|d| format!("{} {}:{} {}", d.code, d.file, line_of(case, d), d.message));
                judge.add_failure(format!(
                    "no diagnostic matches {}; the diagnostics are: {}",
                    render::to_json(wanted),
                    given.collect::<Vec<_>>().join("; ")
                ));
            }
        }
    }
}

fn remove_nulls(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(_, item)| !matches!(item, Value::Null));
            kept.map(|(key, item)| (key.clone(), remove_nulls(item))).collect::<Map>().into()
        }
        Value::List(items) => Value::list(items.iter().map(remove_nulls).collect()),
        other => other.clone(),
    }
}

/// Removes white space at the ends of a text's lines and at its end.
fn trim_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

fn normalize_output(output: &Value) -> Value {
    let text = trim_lines(output.as_str().unwrap_or_default());
    text.strip_prefix("---\n\n").unwrap_or(&text).into()
}

/// Calls with the contents of their messages as lists of parts.
fn normalize_calls(calls: &Value) -> Value {
    let part = |part: &Value| {
        let mut map = part.as_map().cloned().unwrap_or_default();
        if let Some(text) = map.get("text").and_then(Value::as_str).map(trim_lines) {
            map.insert("text".into(), text.into());
        }
        Value::from(map)
    };
    let message = |message: &Value| {
        let mut map = message.as_map().cloned().unwrap_or_default();
        let content = match map.get("content") {
            Some(Value::String(text)) => vec![text_part(text)],
            Some(Value::List(parts)) => parts.to_vec(),
            _ => Vec::new(),
        };
        let content: Vec<_> = content.iter().map(part).filter(|part| part.get("text") != Some(&"".into())).collect();
        map.insert("content".into(), Value::list(content));
        Value::from(map)
    };
    let call = |call: &Value| {
        let mut map = call.as_map().cloned().unwrap_or_default();
        if let Some(messages) = map.get("messages").and_then(Value::as_list) {
            let messages = messages.iter().map(message).collect();
            map.insert("messages".into(), Value::list(messages));
        }
        if let Some(role) = map.get("system_role").and_then(Value::as_str).map(trim_lines) {
            map.insert("system_role".into(), role.into());
        }
        Value::from(map)
    };
    match calls.as_list() {
        Some(list) => Value::list(list.iter().map(call).collect()),
        None => calls.clone(),
    }
}

fn text_part(text: &str) -> Value {
    Value::map([("type", Value::from("text")), ("text", text.into())])
}

/// A model that answers from a list and records its requests.
struct ScriptedModel {
    script: Value,
    calls: Mutex<Vec<Value>>,
}

impl ScriptedModel {
    fn recorded_calls(&self) -> Value {
        Value::list(self.calls.lock().clone())
    }

    fn next_answer(&self, request: &GenerateRequest) -> Result<String, StepFailure> {
        let mut calls = self.calls.lock();
        let index = calls.len();
        calls.push(request_value(request));
        let answer = self.script.as_list().and_then(|answers| answers.get(index)).cloned();
        let answer = answer.ok_or_else(|| StepFailure::new(Code::ScriptExhausted, "there is no further answer"))?;
        if let Some(message) =
            answer.get("error").and_then(Value::as_str).filter(|_| answer.as_map().is_some_and(|m| m.len() == 1))
        {
            return Err(StepFailure::new(Code::ModelFailed, message));
        }
        let Some(schema) = &request.schema else { return Ok(render::render_text(&answer, render::TextStyle::Json)) };
        if !crate::matches_schema(schema, &answer)? {
            return Err(StepFailure::new(Code::ModelNotJson, "the answer does not match the schema"));
        }
        Ok(render::to_json(&answer))
    }
}

/// A call in the notation of cases.
fn request_value(request: &GenerateRequest) -> Value {
    let mut call = Map::new();
    call.insert("model".into(), request.model.as_str().into());
    call.insert("kind".into(), if request.schema.is_some() { "object" } else { "text" }.into());
    let system = request.messages.iter().find(|message| message.role == Role::System);
    if let Some(role) = system.and_then(|system| markdown::find_role(&system.content)) {
        call.insert("system_role".into(), role.into());
    }
    let messages = request.messages.iter().filter(|message| message.role != Role::System).map(message_value).collect();
    call.insert("messages".into(), Value::list(messages));
    if let Some(schema) = &request.schema {
        let mut schema = hide_conversions(schema).as_map().cloned().unwrap_or_default();
        if let Some(name) = schema.shift_remove("title") {
            call.insert("schema_name".into(), name);
        }
        call.insert("schema".into(), schema.into());
    }
    let options = serde_json::to_string(&request.options).unwrap_or_default();
    let options = flowloom_core::json::parse_value(&options).unwrap_or_default();
    let mut named = Map::new();
    for (key, value) in options.as_map().into_iter().flat_map(|map| map.iter()) {
        match &**key {
            "stream" if *value == Value::Bool(false) => {
                call.insert("stream".into(), false.into());
            }
            "stream" => {}
            key => {
                named.insert(to_camel_case(key).into(), value.clone());
            }
        }
    }
    call.insert("options".into(), named.into());
    call.into()
}

fn to_camel_case(key: &str) -> String {
    let mut parts = key.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(&part[..1].to_uppercase());
        out.push_str(&part[1..]);
    }
    out
}

fn message_value(message: &Message) -> Value {
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let part = |part: &MessagePart| match part {
        MessagePart::Text { text } => text_part(text),
        MessagePart::Image { mime, data, .. } => {
            Value::map([("type", Value::from("image")), ("mime", mime.as_str().into()), ("base64", (**data).into())])
        }
    };
    let content = match message.parts.as_slice() {
        [] => message.content.as_str().into(),
        parts => Value::list(parts.iter().map(part).collect()),
    };
    Value::map([("role", Value::from(role)), ("content", content)])
}

impl Model for ScriptedModel {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("scripted:case").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let text = Some(self.next_answer(request)?);
            Ok(GenerateReply { text, tool_calls: Vec::new(), usage: Usage::none(), ..GenerateReply::default() })
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        8192
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64 / 4
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        1024
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        None
    }
}
