//! Effects of the workloads: those of the command line, with a few native functions and a model that answers at once.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateRequest, Generated};
use flowloom_core::error::StepError;
use flowloom_core::limits::Limits;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Context, Effects, Model, NoCode, Price, Reply, Substeps};
use flowloom_runtime::journal::Journal;
use flowloom_runtime::publish::Heard;
use flowloom_runtime::{Engine, Outcome, Start};
use flowloom_tools::scrape::PageScraper;
use flowloom_tools::{EgressPolicy, FunctionConfig, HttpClient, HttpLimits, NativeFunction, Registry};

use crate::Failure;
use crate::definitions::Definition;

/// The native functions.
pub(crate) const FUNCTIONS: [&str; 4] = ["bench::add", "bench::count", "bench::sleep", "bench::message"];

/// Size of a message in bytes.
pub(crate) const MESSAGE: usize = 1024;

/// An engine as the command line builds it.
pub(crate) fn engine(journal: Arc<dyn Journal>) -> Engine {
    let secrets: std::collections::BTreeMap<String, String> = Default::default();
    let client = Arc::new(HttpClient::new(EgressPolicy::default(), Arc::new(secrets), HttpLimits::default()));
    let functions: [Arc<dyn NativeFunction>; 4] =
        [Arc::new(Add), Arc::new(Count), Arc::new(Sleep), Arc::new(Message { text: "m".repeat(MESSAGE - 4) })];
    let registry = FUNCTIONS.into_iter().zip(functions).fold(Registry::new(client.clone()), |all, (id, function)| {
        all.with_function(id, FunctionConfig::Native(function))
    });
    let effects = Effects {
        model: Arc::new(Instant),
        scraper: Arc::new(PageScraper::new(client.clone())),
        http: client,
        functions: Arc::new(registry),
        code: Arc::new(NoCode),
        clock: Arc::new(SystemClock),
    };
    Engine::new(effects, journal)
}

/// The default limits, with every budget on.
fn limits() -> Limits {
    Limits { time_ms: Some(600_000), tokens: Some(1 << 40), micro_usd: Some(1 << 40), ..Limits::default() }
}

/// Runs a definition to its end, its events drained by one subscriber on a task of its own. Also returns the number of
/// updates that were received or missed.
pub(crate) async fn run(engine: &Engine, definition: &Definition) -> Result<(Outcome, u64), Failure> {
    let start = Start {
        plan: definition.plan.clone(),
        bundle: definition.bundle,
        inputs: Value::from(0),
        owner: "bench".to_owned(),
        agent: None,
        limits: limits(),
        depth: 0,
        workflow: None,
        keep: None,
        id: None,
    };
    let run = engine.start(start)?;
    let mut subscription = run.subscribe();
    let listener = tokio::spawn(async move {
        let mut signals = 0;
        while let Some(heard) = subscription.next().await {
            signals += if let Heard::Missed(missed) = heard { missed } else { 1 };
        }
        signals
    });
    let outcome = run.drive().await;
    let signals = listener.await?;
    if let Some(error) = outcome.broken.as_ref().or(outcome.state.error.as_ref()) {
        return Err(format!("the run failed: {error}").into());
    }
    Ok((outcome, signals))
}

/// Adds 1 to the input.
struct Add;

impl NativeFunction for Add {
    fn class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            Ok(Value::from(request.payload.get("input").and_then(|value| value.as_i64()).unwrap_or(0) + 1))
        })
    }
}

/// Counts the results to collect.
struct Count;

impl NativeFunction for Count {
    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        let collected = request.payload.get("__fanout");
        let count = collected.as_ref().and_then(Value::as_list).map_or(0, <[Value]>::len);
        Box::pin(ready(Ok(Value::from(count as i64))))
    }
}

/// Waits for the number of milliseconds in the prompt, as for a model.
struct Sleep;

impl NativeFunction for Sleep {
    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async move {
            let prompt = request.payload.prompt.as_ref().map(|prompt| prompt.names_only()).unwrap_or_default();
            let milliseconds = prompt.parse().map_err(|_| StepError::new(Code::FunctionFailed, "not a number"))?;
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok(Value::from(1))
        })
    }
}

/// Returns a message of [`MESSAGE`] bytes that no other step returns.
struct Message {
    text: String,
}

impl NativeFunction for Message {
    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        let number = request.payload.vars.len();
        Box::pin(async move { Ok(Value::from(format!("{number:04}{}", self.text))) })
    }
}

/// A model that answers at once, always with the same text.
struct Instant;

impl Model for Instant {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError> {
        Ok(named.unwrap_or("bench:instant").to_owned())
    }

    fn generate<'a>(&'a self, _request: &'a GenerateRequest, _context: &'a Context) -> Reply<'a, Generated> {
        let text = "There is not much more to say about this than what has been said already.";
        let usage = Usage { input_tokens: 20, output_tokens: 20, micro_usd: Some(0) };
        Box::pin(ready(Ok(Generated { text: Some(text.to_owned()), tool_calls: Vec::new(), usage })))
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
        Some(Price { input: 0, output: 0 })
    }
}
