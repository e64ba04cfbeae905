//! Effects of the workloads: those of the command line, with a few native functions and a model that answers
//! immediately.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateReply, GenerateRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::limits::Limits;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture, Effects, Model, NoCodeRunner, Price};
use flowloom_runtime::journal::Journal;
use flowloom_runtime::publish::Delivery;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use flowloom_tools::scrape::PageScraper;
use flowloom_tools::{EgressPolicy, FunctionConfig, FunctionRegistry, HttpClient, HttpLimits, NativeFunction};

use crate::BenchError;
use crate::definitions::CompiledDefinition;

/// The native functions.
pub(crate) const FUNCTION_IDS: [&str; 4] = ["bench::add", "bench::count", "bench::sleep", "bench::message"];

/// Size of a message in bytes.
pub(crate) const MESSAGE_BYTES: usize = 1024;

/// An engine as the command line builds it.
pub(crate) fn new_engine(journal: Arc<dyn Journal>) -> Engine {
    let secrets: std::collections::BTreeMap<String, String> = Default::default();
    let client = Arc::new(HttpClient::new(EgressPolicy::default(), Arc::new(secrets), HttpLimits::default()));
    let functions: [Arc<dyn NativeFunction>; 4] = [
        Arc::new(AddFunction),
        Arc::new(CountFunction),
        Arc::new(SleepFunction),
        Arc::new(MessageFunction { text: "m".repeat(MESSAGE_BYTES - 4) }),
    ];
    let registry =
        FUNCTION_IDS.into_iter().zip(functions).fold(FunctionRegistry::new(client.clone()), |all, (id, function)| {
            all.with_function(id, FunctionConfig::Native(function))
        });
    let effects = Effects {
        model: Arc::new(InstantModel),
        scraper: Arc::new(PageScraper::new(client.clone())),
        http: client,
        functions: Arc::new(registry),
        code: Arc::new(NoCodeRunner),
        clock: Arc::new(SystemClock),
    };
    Engine::new(effects, journal)
}

/// The default limits, with every budget on.
fn bench_limits() -> Limits {
    Limits { time_ms: Some(600_000), tokens: Some(1 << 40), micro_usd: Some(1 << 40), ..Limits::default() }
}

/// Runs a definition to its end, its events drained by one subscriber on a task of its own. Also returns the number of
/// updates that were received or missed.
pub(crate) async fn run_to_end(
    engine: &Engine,
    definition: &CompiledDefinition,
) -> Result<(RunOutcome, u64), BenchError> {
    let start = StartOptions {
        limits: bench_limits(),
        ..StartOptions::new(definition.plan.clone(), definition.bundle, Value::from(0), "bench")
    };
    let run = engine.start_run(start)?;
    let mut subscription = run.subscribe();
    let listener = tokio::spawn(async move {
        let mut signals = 0;
        while let Some(delivery) = subscription.next().await {
            signals += if let Delivery::Missed(missed) = delivery { missed } else { 1 };
        }
        signals
    });
    let outcome = run.drive_to_end().await;
    let signals = listener.await?;
    if let Some(error) = outcome.find_error() {
        return Err(format!("the run failed: {error}").into());
    }
    Ok((outcome, signals))
}

/// Adds 1 to the input.
struct AddFunction;

impl NativeFunction for AddFunction {
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            Ok(Value::from(request.payload.get("input").and_then(|value| value.as_i64()).unwrap_or(0) + 1))
        })
    }
}

/// Counts the results to collect.
struct CountFunction;

impl NativeFunction for CountFunction {
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        let collected = request.payload.get("__fanout");
        let count = collected.as_ref().and_then(Value::as_list).map_or(0, <[Value]>::len);
        Box::pin(ready(Ok(Value::from(count as i64))))
    }
}

/// Waits for the number of milliseconds in the prompt, as for a model.
struct SleepFunction;

impl NativeFunction for SleepFunction {
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let prompt = request.payload.prompt.as_ref().map(|prompt| prompt.to_redacted_text()).unwrap_or_default();
            let milliseconds = prompt.parse().map_err(|_| StepFailure::new(Code::FunctionFailed, "not a number"))?;
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok(Value::from(1))
        })
    }
}

/// Returns a message of [`MESSAGE_BYTES`] that no other step returns.
struct MessageFunction {
    text: String,
}

impl NativeFunction for MessageFunction {
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        let number = request.payload.vars.len();
        Box::pin(async move { Ok(Value::from(format!("{number:04}{}", self.text))) })
    }
}

/// A model that answers immediately, always with the same text.
struct InstantModel;

impl Model for InstantModel {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(named.unwrap_or("bench:instant").to_owned())
    }

    fn generate_reply<'a>(
        &'a self,
        _request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        let text = "There is not much more to say about this than what has been said already.";
        let usage = Usage { input_tokens: 20, output_tokens: 20, micro_usd: Some(0) };
        Box::pin(ready(Ok(GenerateReply {
            text: Some(text.to_owned()),
            tool_calls: Vec::new(),
            usage,
            ..GenerateReply::default()
        })))
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
        Some(Price { input: 0, output: 0 })
    }
}
