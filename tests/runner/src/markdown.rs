//! Cases of the `markdown` format.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::chat::{Message, MessagePart, Role, Usage};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, line_column};
use flowloom_core::effect::{GenerateRequest, Generated};
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;
use flowloom_core::plan::{Plan, Step};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Compiled, Sources, compile, markdown, present};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Context, Effects, Model, Price, Reply};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, Outcome, Start};

use crate::expectation::Judge;
use crate::world::World;

const MAIN: &str = "main.mdx";

/// Runs a case.
pub(crate) fn judge_run(case: &Value, expectation: &Map, judge: &mut Judge) {
    let compiled = check(case);
    let case_model =
        Arc::new(Scripted { script: case.get("script").cloned().unwrap_or_default(), calls: Mutex::default() });
    let ran = compiled.plan.clone().map(|plan| run(case, plan, &case_model));
    let happened = Happened { case, compiled: &compiled, ran: ran.as_ref() };
    for (key, expected) in expectation {
        match &**key {
            "calls" => judge.compare(key, &tidy_calls(expected), Some(&tidy_calls(&case_model.calls()))),
            "results" => happened.results(expected, expectation.contains_key("error"), judge),
            "output" => judge.compare(key, &tidy_output(expected), Some(&tidy_output(&happened.presented("output")))),
            "title" => {
                let title = compiled.plan.as_ref().map(|plan| Value::from(plan.name.as_str()));
                judge.compare(key, expected, title.as_ref());
            }
            "diagnostics" => diagnostics(expected, &compiled.diagnostics, case, judge),
            "error" => happened.error(expected, judge),
            other => judge.fail(format!("the key {other:?} is not known")),
        }
    }
    if !expectation.contains_key("error")
        && let Some(why) = happened.failure()
    {
        judge.fail(why);
    }
}

/// Checks a case, which must be rejected.
pub(crate) fn judge_check(case: &Value, expectation: &Map, judge: &mut Judge) {
    let compiled = check(case);
    if compiled.plan.is_some() {
        judge.fail("the definition is not rejected");
    }
    for (key, expected) in expectation {
        match &**key {
            "diagnostics" => diagnostics(expected, &compiled.diagnostics, case, judge),
            other => judge.fail(format!("the key {other:?} is not known")),
        }
    }
}

fn check(case: &Value) -> Compiled {
    let files = case.get("files").and_then(Value::as_map).cloned().unwrap_or_default();
    let bytes = |text: &Value| text.as_str().unwrap_or_default().as_bytes().to_vec();
    let files = files.iter().map(|(name, text)| (name.to_string(), bytes(text))).collect();
    let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
    compile(MAIN, &sources, Some(markdown::FORMAT))
}

fn run(case: &Value, plan: Plan, model: &Arc<Scripted>) -> Result<(Arc<Plan>, Outcome), StepError> {
    let world = World::new(case);
    // The real sandbox evaluates expressions, so these cases use a real clock.
    let effects =
        Effects { model: model.clone(), code: crate::code(), clock: Arc::new(SystemClock), ..world.effects() };
    let engine = Engine::new(effects, Arc::new(MemoryJournal::new()));
    let plan = Arc::new(plan);
    let start = Start {
        plan: plan.clone(),
        bundle: Hash::of(b"case"),
        inputs: case.get("inputs").cloned().unwrap_or_default().with_files(),
        owner: "local".into(),
        agent: None,
        limits: plan.limits.clone(),
        depth: 0,
        workflow: None,
        keep: None,
        id: None,
    };
    crate::block_on(async { Ok((plan, engine.start(start)?.drive().await)) })
}

/// The result of a case.
struct Happened<'a> {
    case: &'a Value,
    compiled: &'a Compiled,
    ran: Option<&'a Result<(Arc<Plan>, Outcome), StepError>>,
}

impl Happened<'_> {
    fn presented(&self, key: &str) -> Value {
        let Some(Ok((plan, outcome))) = self.ran else { return Value::Null };
        present(plan, &outcome.state, &outcome.env).result.get(key).cloned().unwrap_or_default()
    }

    fn results(&self, expected: &Value, is_partial: bool, judge: &mut Judge) {
        let mut actual = self.presented("results").as_map().cloned().unwrap_or_default();
        if is_partial {
            actual.retain(|name, _| expected.get(name).is_some());
        }
        judge.compare("results", &without_nulls(expected), Some(&without_nulls(&actual.into())));
    }

    fn failure(&self) -> Option<String> {
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
    fn failed(&self) -> (&'static str, String, Vec<String>, Vec<i64>) {
        match self.ran {
            None => {
                let errors: Vec<_> = self.compiled.diagnostics.iter().filter(|d| d.is_error()).collect();
                let is_input = errors.iter().any(|d| d.code == Code::InputSpec);
                let lines = errors.iter().map(|d| line(self.case, d)).collect();
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
                let text = self.case.get("files").and_then(|files| files.get(MAIN)).and_then(Value::as_str);
                let element = line_column(text.unwrap_or_default(), step_at(plan, &path).span.start).0;
                let lines = place.into_iter().chain(i64::try_from(element)).collect();
                ("run", action, vec![error.message.clone()], lines)
            }
        }
    }

    fn error(&self, expected: &Value, judge: &mut Judge) {
        let (when, action, messages, lines) = self.failed();
        for (key, expected) in expected.as_map().into_iter().flat_map(|map| map.iter()) {
            match (&**key, expected.as_str()) {
                ("when", Some("before-first-call")) => {
                    let is_before = matches!(when, "check" | "input" | "run");
                    judge.compare("error.when", &true.into(), Some(&is_before.into()));
                }
                ("when", _) => judge.compare("error.when", expected, Some(&when.into())),
                ("action", _) => judge.compare("error.action", expected, Some(&action.as_str().into())),
                ("line", _) => {
                    let is_there = lines.iter().any(|line| Some(*line) == expected.as_i64());
                    judge.compare("error.line", &true.into(), Some(&is_there.into()));
                }
                ("message_contains", _) => {
                    for part in expected.as_list().unwrap_or_default() {
                        let is_said = messages.iter().any(|message| contains(message, part));
                        judge.compare("error.message_contains", &true.into(), Some(&is_said.into()));
                    }
                }
                (other, _) => judge.fail(format!("the key error.{other:?} is not known")),
            }
        }
    }
}

/// Our codes for the rules of the original system.
fn codes(rule: &str) -> &'static [Code] {
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

fn contains(message: &str, part: &Value) -> bool {
    part.as_str().is_some_and(|part| message.to_lowercase().contains(&part.to_lowercase()))
}

/// The innermost step on a path.
fn step_at<'p>(plan: &'p Plan, path: &str) -> &'p Step {
    let mut step = &plan.root;
    for part in path.split('/').skip(1) {
        let key = part.split(['[', '#']).next().unwrap_or_default();
        match step.kind.children().into_iter().find(|child| child.key.as_str() == key) {
            Some(child) => step = child,
            None => break,
        }
    }
    step
}

fn line(case: &Value, diagnostic: &Diagnostic) -> i64 {
    let text =
        case.get("files").and_then(|files| files.get(&diagnostic.file)).and_then(Value::as_str).unwrap_or_default();
    i64::try_from(line_column(text, diagnostic.span.start).0).unwrap_or(0)
}

/// Matches each expected diagnostic with one of the actual ones, each at most once.
fn diagnostics(expected: &Value, given: &[Diagnostic], case: &Value, judge: &mut Judge) {
    let mut left: Vec<&Diagnostic> = given.iter().collect();
    for wanted in expected.as_list().unwrap_or_default() {
        let known = ["rule", "message_contains", "line", "severity"];
        for (key, _) in
            wanted.as_map().into_iter().flat_map(|map| map.iter()).filter(|(key, _)| !known.contains(&&***key))
        {
            judge.fail(format!("the key {key:?} of a diagnostic is not known"));
        }
        let text = |key: &str| wanted.get(key).and_then(Value::as_str);
        let severity = text("severity").unwrap_or("error");
        let parts = wanted.get("message_contains").and_then(Value::as_list).unwrap_or_default();
        let found = left.iter().position(|diagnostic| {
            let is_severity = if diagnostic.is_error() { severity == "error" } else { severity == "info" };
            let is_line = wanted.get("line").is_none_or(|line_| line_.as_i64() == Some(line(case, diagnostic)));
            let is_rule = text("rule").is_none_or(|rule| codes(rule).contains(&diagnostic.code));
            is_severity && is_line && is_rule && parts.iter().all(|part| contains(&diagnostic.message, part))
        });
        judge.compare("diagnostics", &true.into(), Some(&found.is_some().into()));
        match found {
            Some(index) => {
                left.remove(index);
            }
            None => {
                let given = given.iter().map(|d| format!("{} {}:{} {}", d.code, d.file, line(case, d), d.message));
                judge.fail(format!(
                    "no diagnostic matches {}; the diagnostics are: {}",
                    render::json(wanted),
                    given.collect::<Vec<_>>().join("; ")
                ));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(_, item)| !matches!(item, Value::Null));
            kept.map(|(key, item)| (key.clone(), without_nulls(item))).collect::<Map>().into()
        }
        Value::List(items) => Value::list(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// Removes white space at the ends of a text's lines and at its end.
fn tidy(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

fn tidy_output(output: &Value) -> Value {
    let text = tidy(output.as_str().unwrap_or_default());
    text.strip_prefix("---\n\n").unwrap_or(&text).into()
}

/// Calls with the contents of their messages as lists of parts.
fn tidy_calls(calls: &Value) -> Value {
    let part = |part: &Value| {
        let mut map = part.as_map().cloned().unwrap_or_default();
        if let Some(text) = map.get("text").and_then(Value::as_str).map(tidy) {
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
        if let Some(role) = map.get("system_role").and_then(Value::as_str).map(tidy) {
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
struct Scripted {
    script: Value,
    calls: Mutex<Vec<Value>>,
}

impl Scripted {
    fn calls(&self) -> Value {
        Value::list(self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn answer(&self, request: &GenerateRequest) -> Result<String, StepError> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let index = calls.len();
        calls.push(noted(request));
        let answer = self.script.as_list().and_then(|answers| answers.get(index)).cloned();
        let answer = answer.ok_or_else(|| StepError::new(Code::ScriptExhausted, "there is no further answer"))?;
        if let Some(message) =
            answer.get("error").and_then(Value::as_str).filter(|_| answer.as_map().is_some_and(|m| m.len() == 1))
        {
            return Err(StepError::new(Code::ModelFailed, message));
        }
        let Some(schema) = &request.schema else { return Ok(render::text(&answer, render::Style::Json)) };
        if !crate::fits(schema, &answer)? {
            return Err(StepError::new(Code::ModelNotJson, "the answer does not match the schema"));
        }
        Ok(render::json(&answer))
    }
}

/// A call in the notation of cases.
fn noted(request: &GenerateRequest) -> Value {
    let mut call = Map::new();
    call.insert("model".into(), request.model.as_str().into());
    call.insert("kind".into(), if request.schema.is_some() { "object" } else { "text" }.into());
    let system = request.messages.iter().find(|message| message.role == Role::System);
    if let Some(role) = system.and_then(|system| markdown::role_of(&system.content)) {
        call.insert("system_role".into(), role.into());
    }
    let messages = request.messages.iter().filter(|message| message.role != Role::System).map(said).collect();
    call.insert("messages".into(), Value::list(messages));
    if let Some(schema) = &request.schema {
        let mut schema = schema.as_map().cloned().unwrap_or_default();
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
                named.insert(camel(key).into(), value.clone());
            }
        }
    }
    call.insert("options".into(), named.into());
    call.into()
}

fn camel(key: &str) -> String {
    let mut parts = key.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(&part[..1].to_uppercase());
        out.push_str(&part[1..]);
    }
    out
}

fn said(message: &Message) -> Value {
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let part = |part: &MessagePart| match part {
        MessagePart::Text { text } => text_part(text),
        MessagePart::Image { mime, data } => {
            Value::map([("type", Value::from("image")), ("mime", mime.as_str().into()), ("base64", (**data).into())])
        }
    };
    let content = match message.parts.as_slice() {
        [] => message.content.as_str().into(),
        parts => Value::list(parts.iter().map(part).collect()),
    };
    Value::map([("role", Value::from(role)), ("content", content)])
}

impl Model for Scripted {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError> {
        Ok(named.unwrap_or("scripted:case").to_owned())
    }

    fn generate<'a>(&'a self, request: &'a GenerateRequest, _context: &'a Context) -> Reply<'a, Generated> {
        Box::pin(async move {
            let text = Some(self.answer(request)?);
            Ok(Generated { text, tool_calls: Vec::new(), usage: Usage::none() })
        })
    }

    fn window(&self, _model: &str) -> u64 {
        8192
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64 / 4
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        1024
    }

    fn price(&self, _model: &str) -> Option<Price> {
        None
    }
}
