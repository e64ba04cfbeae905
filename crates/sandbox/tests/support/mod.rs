//! What the tests of the sandbox share: a sandbox on this crate's own worker, and a run that asks it.
#![allow(dead_code, unreachable_pub, clippy::print_stdout)]

pub mod attack;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowloom_core::chat::Message;
use flowloom_core::effect::{Generated, HttpReply, HttpRequest, PythonRequest, ScriptRequest};
use flowloom_core::error::StepError;
use flowloom_core::path::Path;
use flowloom_core::{RunId, Value, json};
use flowloom_runtime::effects::{Code as _, Context, Deltas, Host, Reply};
use flowloom_sandbox::{Sandbox, SandboxConfig};

/// Where this crate's worker is, if not where it was built.
pub const WORKER: &str = "SANDBOX_TEST_WORKER";

/// The settings of every test: this crate's worker, and the interpreters that a machine may have.
pub fn config() -> SandboxConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The system's own first: elsewhere it may be a script that looks for one, and takes its time.
    let mut interpreters = vec![PathBuf::from("/usr/bin/python3")];
    interpreters.extend(std::env::split_paths(&path).map(|folder| folder.join("python3")));
    interpreters.retain(|interpreter| interpreter.exists());
    let worker = std::env::var_os(WORKER).map_or_else(|| env!("CARGO_BIN_EXE_sandbox-worker").into(), PathBuf::from);
    let mut config = SandboxConfig::new(worker, interpreters);
    // Ordinary expressions are not what is slow on a busy machine.
    config.script.timeout = Duration::from_secs(2);
    config
}

/// Says that a test cannot run here; where every test must run, it fails.
pub fn skip(reason: &str) {
    println!("SKIP {reason}");
    assert!(std::env::var_os("FLOWLOOM_REQUIRE_SANDBOX").is_none(), "a required test cannot run here: {reason}");
}

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

/// A run of `owner`.
pub fn run_of(owner: &str) -> Context {
    Context {
        run: RunId::new(0, [0; 10]),
        path: Path::root(),
        attempt: 1,
        owner: owner.into(),
        agent: None,
        depth: 0,
        purse: None,
        deltas: Arc::new(NoDeltas),
    }
}

/// A value from JSON.
pub fn value(text: &str) -> Value {
    json::parse_value(text).unwrap_or_else(|error| panic!("{text}: {}", error.message))
}

/// An expression with names.
pub fn expression(source: &str, names: &[(&str, Option<&str>)]) -> ScriptRequest {
    let names = names.iter().map(|(name, text)| ((*name).into(), text.map(value)));
    ScriptRequest { source: source.into(), names: names.collect(), now_ms: 1_700_000_000_000, seed: 7 }
}

/// What an expression gives, as JSON; `undefined` if nothing.
pub async fn evaluate(sandbox: &Sandbox, source: &str) -> Result<String, StepError> {
    evaluate_with(sandbox, source, &[]).await
}

/// The same with names.
pub async fn evaluate_with(
    sandbox: &Sandbox,
    source: &str,
    names: &[(&str, Option<&str>)],
) -> Result<String, StepError> {
    let value = sandbox.script(&expression(source, names), &run_of("local")).await?;
    Ok(value.map_or_else(|| "undefined".to_owned(), |value| json::write(&value)))
}

/// A run that answers: an echo of each HTTP request, and the model's answers in order. Notes what was asked.
#[derive(Default)]
pub struct Run {
    pub answers: Mutex<Vec<Result<String, StepError>>>,
    pub asked: Mutex<Vec<String>>,
    /// Requests in flight at the same time, at most.
    pub together: Mutex<(usize, usize)>,
}

impl Run {
    pub fn answering(answers: &[&str]) -> Run {
        let answers = answers.iter().rev().map(|answer| Ok((*answer).to_owned())).collect();
        Run { answers: Mutex::new(answers), ..Run::default() }
    }

    fn note(&self, what: String) {
        self.asked.lock().expect("a lock").push(what);
    }
}

impl Host for Run {
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply> {
        let body = request.body.as_ref().map(|body| body.names_only()).unwrap_or_default();
        let headers: Vec<String> =
            request.headers.iter().map(|(name, value)| format!("{name}: {}", value.names_only())).collect();
        let url = request.url.names_only();
        let line = format!("{} {url} [{}] {body}", request.method, headers.join(", "));
        self.note(line.trim_end().to_owned());
        Box::pin(async move {
            {
                let mut together = self.together.lock().expect("a lock");
                together.0 += 1;
                together.1 = together.1.max(together.0);
            }
            // Others may come in between.
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.together.lock().expect("a lock").0 -= 1;
            if url.contains("denied") {
                return Err(StepError::new(flowloom_core::Code::EgressDenied, "the address is not allowed"));
            }
            let status = if url.contains("missing") { 404 } else { 200 };
            let body = format!("{{\"line\":{}}}", json::write(&line.trim_end().into()));
            Ok(HttpReply { status, headers: vec![("content-type".to_owned(), "application/json".to_owned())], body })
        })
    }

    fn generate<'a>(&'a self, messages: Vec<Message>) -> Reply<'a, Generated> {
        for message in &messages {
            self.note(format!("{:?}: {}", message.role, message.content));
        }
        let answer = self.answers.lock().expect("a lock").pop().unwrap_or_else(|| Ok("nothing more".to_owned()));
        Box::pin(async move { Ok(Generated { text: Some(answer?), ..Generated::default() }) })
    }
}

/// A block with its inputs.
pub fn block(source: &str, inputs: &str) -> PythonRequest {
    PythonRequest {
        source: source.into(),
        inputs: value(inputs),
        user: value("{\"name\":\"Ada\"}"),
        memory: value("{\"visits\":1,\"old\":\"x\",\"kept\":[1.50,{\"a\":null}]}"),
        class: flowloom_core::plan::EffectClass::AtLeastOnce,
    }
}

/// Runs a block for `local`; what it returns as JSON.
pub async fn run(sandbox: &Sandbox, source: &str) -> Result<String, StepError> {
    let reply = sandbox.python(&block(source, "{}"), &Run::default(), &run_of("local")).await?;
    Ok(json::write(&reply.output))
}

/// A body of `execute`, indented; `import` and whatever else may stand in it.
pub fn body(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("async def execute(inputs, context):\n{lines}")
}
