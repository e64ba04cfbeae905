//! What the tests of the sandbox share: a sandbox on this crate's own worker, and a run that asks it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::json;
use flowloom_core::path::Path;
use flowloom_core::request::ScriptRequest;
use flowloom_core::{RunId, Value};
use flowloom_runtime::effects::{Code as _, Context, Deltas};
use flowloom_sandbox::{Sandbox, SandboxConfig};

/// The settings of every test: this crate's worker, and the interpreters that a machine may have.
pub fn config() -> SandboxConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut interpreters: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join("python3")).collect();
    interpreters.retain(|interpreter| interpreter.exists());
    SandboxConfig::new(env!("CARGO_BIN_EXE_sandbox-worker"), interpreters)
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
