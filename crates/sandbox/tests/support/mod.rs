//! Common parts of the sandbox tests: a sandbox with this crate's own worker, and a run that answers its requests.
#![allow(dead_code, unreachable_pub, clippy::print_stdout)]

pub mod attack;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowloom_core::chat::Message;
use flowloom_core::effect::{GenerateReply, HttpReply, HttpRequest, PythonRequest, ScriptRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::path::Path;
use flowloom_core::{RunId, Value, json};
use flowloom_runtime::effects::{CodeRunner as _, Deltas, EffectContext, EffectFuture, SandboxHost};
use flowloom_sandbox::{Sandbox, SandboxConfig};

/// Environment variable with the path of this crate's worker, if it is not where it was built.
pub const WORKER_VARIABLE: &str = "SANDBOX_TEST_WORKER";

/// The settings of every test: this crate's worker, and common interpreters.
pub fn test_config() -> SandboxConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The system's own first: others may be wrapper scripts, which are slow.
    let mut interpreters = vec![PathBuf::from("/usr/bin/python3")];
    interpreters.extend(std::env::split_paths(&path).map(|folder| folder.join("python3")));
    interpreters.retain(|interpreter| interpreter.exists());
    let worker =
        std::env::var_os(WORKER_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_sandbox-worker").into(), PathBuf::from);
    let mut config = SandboxConfig::new(worker, interpreters);
    // Ordinary expressions must not time out on a busy machine.
    config.script.timeout = Duration::from_secs(2);
    config
}

/// Reports that a test cannot run on this machine; fails where every test must run.
pub fn skip_test(reason: &str) {
    println!("SKIP {reason}");
    assert!(std::env::var_os("FLOWLOOM_REQUIRE_SANDBOX").is_none(), "a required test cannot run here: {reason}");
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

/// The context of a run of the user `user`.
pub fn context_of(user: &str) -> EffectContext {
    EffectContext {
        run: RunId::new(0, [0; 10]),
        epoch: 1,
        path: Path::root(),
        attempt: 1,
        retried_attempt: 0,
        user: user.into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: Arc::new(NoDeltas),
    }
}

/// Parses a value from JSON.
pub fn parse_value(text: &str) -> Value {
    json::parse_value(text).unwrap_or_else(|error| panic!("{text}: {}", error.message))
}

/// An expression with names.
pub fn script_request(source: &str, names: &[(&str, Option<&str>)]) -> ScriptRequest {
    let names = names.iter().map(|(name, text)| ((*name).into(), text.map(parse_value)));
    ScriptRequest { source: source.into(), names: names.collect(), now_ms: 1_700_000_000_000, seed: 7 }
}

/// Evaluates an expression and returns its value as JSON, or `undefined`.
pub async fn evaluate_source(sandbox: &Sandbox, source: &str) -> Result<String, StepFailure> {
    evaluate_with(sandbox, source, &[]).await
}

/// Same as [`evaluate_source`], with names.
pub async fn evaluate_with(
    sandbox: &Sandbox,
    source: &str,
    names: &[(&str, Option<&str>)],
) -> Result<String, StepFailure> {
    let value = sandbox.evaluate_script(&script_request(source, names), &context_of("local")).await?;
    Ok(value.map_or_else(|| "undefined".to_owned(), |value| json::write_json(&value)))
}

/// A run that never answers, and notifies when it receives a request.
#[derive(Default)]
pub struct SilentRun {
    pub asked: tokio::sync::Notify,
}

impl SandboxHost for SilentRun {
    fn send_http<'a>(&'a self, _request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        self.asked.notify_one();
        Box::pin(std::future::pending())
    }

    fn generate_reply<'a>(&'a self, _messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(std::future::pending())
    }
}

/// A run that answers: an echo of each HTTP request, and the model's answers in order. Records the requests.
#[derive(Default)]
pub struct AnsweringRun {
    pub answers: Mutex<Vec<Result<String, StepFailure>>>,
    pub asked: Mutex<Vec<String>>,
}

impl AnsweringRun {
    pub fn with_answers(answers: &[&str]) -> AnsweringRun {
        let answers = answers.iter().rev().map(|answer| Ok((*answer).to_owned())).collect();
        AnsweringRun { answers: Mutex::new(answers), ..AnsweringRun::default() }
    }

    fn record_request(&self, what: String) {
        self.asked.lock().expect("a lock").push(what);
    }
}

impl SandboxHost for AnsweringRun {
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        let body = request.body.as_ref().map(|body| body.to_redacted_text()).unwrap_or_default();
        let headers: Vec<String> =
            request.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_redacted_text())).collect();
        let url = request.url.to_redacted_text();
        let line = format!("{} {url} [{}] {body}", request.method, headers.join(", "));
        self.record_request(line.trim_end().to_owned());
        Box::pin(async move {
            // Let other requests interleave.
            tokio::task::yield_now().await;
            if url.contains("denied") {
                return Err(StepFailure::new(flowloom_core::Code::EgressDenied, "the address is not allowed"));
            }
            let status = if url.contains("missing") { 404 } else { 200 };
            let body = format!("{{\"line\":{}}}", json::write_json(&line.trim_end().into()));
            Ok(HttpReply { status, headers: vec![("content-type".to_owned(), "application/json".to_owned())], body })
        })
    }

    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        for message in &messages {
            self.record_request(format!("{:?}: {}", message.role, message.content));
        }
        let answer = self.answers.lock().expect("a lock").pop().unwrap_or_else(|| Ok("nothing more".to_owned()));
        Box::pin(async move { Ok(GenerateReply { text: Some(answer?), ..GenerateReply::default() }) })
    }
}

/// A block with its inputs.
pub fn python_request(source: &str, inputs: &str) -> PythonRequest {
    PythonRequest {
        source: source.into(),
        inputs: parse_value(inputs),
        user: parse_value("{\"name\":\"Ada\"}"),
        memory: parse_value("{\"visits\":1,\"old\":\"x\",\"kept\":[1.50,{\"a\":null}]}"),
        class: flowloom_core::plan::EffectClass::AtLeastOnce,
    }
}

/// Runs a block for the user `local` and returns its result as JSON.
pub async fn run_block(sandbox: &Sandbox, source: &str) -> Result<String, StepFailure> {
    let reply =
        sandbox.run_python(&python_request(source, "{}"), &AnsweringRun::default(), &context_of("local")).await?;
    Ok(json::write_json(&reply.output))
}

/// The body of `execute`, indented; it may contain `import` and anything else.
pub fn execute_body(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("async def execute(inputs, context):\n{lines}")
}
