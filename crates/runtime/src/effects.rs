//! The traits through which a run reaches the outside world.
//!
//! Every implementation is cancelled by dropping its future; a timeout, a cancelled run and a lost race all do that. An
//! effect must therefore stop its work (close the connection, stop the thread, kill the child process) when its future
//! is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use flowloom_core::chat::{Message, Usage};
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, Request,
    ScrapeRequest, ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ChildSuspension, ParentStep};
use flowloom_core::hash::Hasher;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::trace::TraceContext;
use flowloom_core::value::Value;
use parking_lot::Mutex;

/// A boxed future, because the traits are used as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of an effect.
pub type EffectFuture<'a, T> = BoxFuture<'a, Result<T, StepFailure>>;

/// The run, step and attempt on whose behalf an effect is performed.
#[derive(Clone)]
pub struct EffectContext {
    /// The run.
    pub run: RunId,
    /// The epoch of the lease under which the run is driven.
    pub epoch: u64,
    /// The step.
    pub path: Path,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The failed attempt that this one repeats because the run was retried; 0 if there is none.
    pub retried_attempt: u32,
    /// The user who owns the run.
    pub user: Arc<str>,
    /// The agent on whose behalf the run acts.
    pub agent: Option<Arc<str>>,
    /// The definition that the run follows.
    pub definition: Arc<DefinitionIdentity>,
    /// Nesting depth of the run in other workflows.
    pub depth: u32,
    /// The distributed trace of the run.
    pub trace: Option<Arc<TraceContext>>,
    /// Whether effects that may happen at most once wait for a person, also in the workflows that a function starts.
    pub asks_first: bool,
    /// The budget that functions and model calls draw on; `None` for other effects.
    pub allowance: Option<Arc<BudgetAllowance>>,
    /// Receives text as it arrives.
    pub deltas: Arc<dyn Deltas>,
}

impl EffectContext {
    /// The step, as the runs that it starts record it.
    pub fn as_parent(&self) -> ParentStep {
        ParentStep { run: self.run, path: self.path.clone(), epoch: Some(self.epoch) }
    }

    /// The idempotency key: the same for every send of this attempt, even after a crash.
    pub fn idempotency_key(&self) -> String {
        self.attempt_key(self.attempt)
    }

    /// The header `traceparent` of what the step sends; `None` if the run belongs to no trace.
    pub fn traceparent(&self) -> Option<String> {
        self.trace.as_ref()?.to_header(self.run, &self.path)
    }

    /// The idempotency key of another attempt at the same step.
    pub fn attempt_key(&self, attempt: u32) -> String {
        effect_key(self.run, &self.path, attempt)
    }
}

/// The idempotency key of an attempt at a step.
pub fn effect_key(run: RunId, path: &Path, attempt: u32) -> String {
    let mut hasher = Hasher::new();
    hasher.add_text(&run.to_string()).add_text(path.as_str()).add_number(u64::from(attempt));
    hasher.finish().to_string()
}

/// The supplier of the definition of a run, and its names. What the definition may use depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionIdentity {
    /// The tenant who stored or sent it; `None` if it is the operator's own.
    pub tenant: Option<String>,
    /// The path of its file.
    pub file: String,
    /// The id under which it is run, if it has one.
    pub id: Option<String>,
    /// Whether a caller chose values that the definition computes otherwise: the inputs of a step alone, variables of a fork,
    /// or the memory and the files that the run reads. Such a run may send what it reads to where the definition never would.
    pub is_steered: bool,
}

impl DefinitionIdentity {
    /// Whether `name` is its id, its path or the end of its path.
    pub fn is_named(&self, name: &str) -> bool {
        let is_end_of_path = || self.file.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'));
        self.id.as_deref() == Some(name) || self.file == name || is_end_of_path()
    }
}

/// The part of a run's budget that an effect may spend, and what it has spent beyond its outcome: child
/// workflows of a function, and answers of a model that were refused.
#[derive(Debug)]
pub struct BudgetAllowance {
    /// The limits of the run, less what it has spent.
    pub remaining: Limits,
    used: Mutex<Option<Usage>>,
    exceeded_limit: Mutex<Option<StepFailure>>,
}

impl BudgetAllowance {
    /// An allowance of which nothing has been spent.
    pub fn new(left: Limits) -> BudgetAllowance {
        BudgetAllowance { remaining: left, used: Mutex::default(), exceeded_limit: Mutex::default() }
    }

    /// Adds the usage of a child workflow, or of an answer that was refused.
    pub fn add_usage(&self, usage: &Usage) {
        let mut used = self.used.lock();
        used.get_or_insert_with(Usage::none).add(usage);
    }

    /// Notes that a child workflow ended because it reached a limit or the budget.
    pub fn note_exceeded_limit(&self, error: StepFailure) {
        *self.exceeded_limit.lock() = Some(error);
    }

    /// The error of a child workflow that reached a limit or the budget; `None` if none did.
    pub fn find_exceeded_limit(&self) -> Option<StepFailure> {
        self.exceeded_limit.lock().clone()
    }

    /// The usage so far; `None` if none was recorded.
    pub fn recorded_usage(&self) -> Option<Usage> {
        *self.used.lock()
    }
}

/// Receives a model's text as it arrives. Deltas are not part of the journal and never stored.
pub trait Deltas: Send + Sync {
    /// Appends text to the text of an attempt.
    fn push(&self, path: &Path, attempt: u32, text: &str);
}

/// Language models.
pub trait Model: Send + Sync {
    /// Resolves the model that a step names (or the default if `named` is `None`) to `provider:model`. Fails if there
    /// is no choice or the provider cannot be used (unknown, no key, no file).
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure>;

    /// Same as [`Model::resolve`], but whether the model can be used is not checked. The result follows from the
    /// configuration, so that a run whose record is followed asks the model that it asked before.
    fn find_model_name(&self, named: Option<&str>) -> Result<String, StepFailure> {
        self.resolve(named)
    }

    /// Calls a model. Transport errors are retried internally. A stream that breaks off is an error, never a short
    /// answer. Fails if the model cannot be reached or refuses.
    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply>;

    /// The context window of `model`, in tokens.
    fn context_window(&self, model: &str) -> u64;

    /// The estimated number of tokens in `text`.
    fn count_tokens(&self, model: &str, text: &str) -> u64;

    /// The maximum length of an answer of `model`, in tokens, if the request does not limit it.
    fn default_max_tokens(&self, model: &str) -> u64;

    /// The price of `model`; `None` if it is unknown.
    fn find_price(&self, model: &str) -> Option<Price>;
}

/// Price of a model, in millionths of a US dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Price of prompt tokens.
    pub input: u64,
    /// Price of answer tokens.
    pub output: u64,
}

impl Price {
    /// The cost of a call, in millionths of a US dollar, rounded up.
    pub fn compute_cost(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        (u128::from(self.input) * u128::from(input_tokens) + u128::from(self.output) * u128::from(output_tokens))
            .div_ceil(1_000_000) as u64
    }
}

/// HTTP, through the egress guard.
pub trait HttpSender: Send + Sync {
    /// The effect class of a request: whether it may be sent again after a crash.
    fn effect_class(&self, request: &HttpRequest) -> EffectClass {
        request.effect_class()
    }

    /// Sends a request, follows redirects and reads the whole reply. Error statuses are replies, not errors.
    fn send_request<'a>(&'a self, request: &'a HttpRequest, context: &'a EffectContext) -> EffectFuture<'a, HttpReply>;
}

/// Web pages.
pub trait Scraper: Send + Sync {
    /// Reads a page. The result is never empty. Fails if the page cannot be reached or has no text.
    fn fetch_page<'a>(&'a self, request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String>;

    /// The inner HTML of all elements in `html` that match `selector` (CSS). Fails if the selector is invalid.
    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepFailure>;
}

/// Tools and functions by id.
pub trait Functions: Send + Sync {
    /// The effect class of a call: what a crash during it means.
    fn effect_class(&self, request: &CallRequest) -> EffectClass;

    /// Fails if no agent of this name is configured.
    fn check_agent(&self, agent: &str) -> Result<(), StepFailure>;

    /// Checks whether `agent` may call `function`; the error states the reason.
    fn check_permission(&self, agent: &str, function: &str) -> Result<(), StepFailure>;

    /// Calls a function, which requests effects of its own through `below`. Fails if there is no such function, if its
    /// arguments do not fit, or with its own error.
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value>;
}

/// Effects that a function requests from its run. Each one is a step of its own, recorded below the function's step: a
/// function that a crash interrupted runs again and receives the recorded results.
pub trait ChildEffects: Send + Sync {
    /// Performs a request, or returns its recorded result. Fails with the error of the request, or with the recorded
    /// one.
    fn perform_request<'a>(&'a self, request: Request) -> EffectFuture<'a, Value>;

    /// Reports progress to observers of the run.
    fn report_progress(&self, name: &'static str, data: Value);

    /// Number of times that the run was asked to continue. It is read before a child run is driven or looked at, so that
    /// [`ChildEffects::wait_for_child`] misses no command to the child run.
    fn resume_count(&self) -> u64;

    /// Records that the child run of the function is suspended, and waits until the run is asked to continue: until
    /// [`ChildEffects::resume_count`] is above `seen`. The run can be suspended meanwhile.
    fn wait_for_child<'a>(&'a self, child: ChildSuspension, seen: u64) -> BoxFuture<'a, ()>;

    /// Records that the child run of the function continues.
    fn record_child_resumed(&self, run: RunId);
}

/// Untrusted code, in separate processes.
pub trait CodeRunner: Send + Sync {
    /// Runs a Python block, which requests effects through `host`. Fails if the code raises an exception or exceeds a
    /// limit, or if there is no sandbox.
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply>;

    /// Evaluates a JavaScript expression; `None` is `undefined`. It can access nothing but its names. Fails if it
    /// throws or exceeds a limit, or if there is no sandbox.
    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>>;
}

/// Effects that untrusted code may request; each one is recorded below its step.
pub trait SandboxHost: Send + Sync {
    /// Sends an HTTP request through the egress guard. Fails if the host may not be reached, or if no complete reply
    /// arrives.
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply>;

    /// Calls the run's default model. Fails if the model cannot be reached or refuses.
    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply>;
}

/// A code runner for environments without a sandbox: it rejects all code.
pub struct NoCodeRunner;

impl NoCodeRunner {
    fn rejection_error() -> StepFailure {
        StepFailure::new(flowloom_core::code::Code::NoSandbox, "untrusted code needs a sandbox, which is not available")
    }
}

impl CodeRunner for NoCodeRunner {
    fn run_python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn SandboxHost,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async { Err(NoCodeRunner::rejection_error()) })
    }

    fn evaluate_script<'a>(
        &'a self,
        _request: &'a ScriptRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        Box::pin(async { Err(NoCodeRunner::rejection_error()) })
    }
}

/// Time and timers.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Completes after `duration_ms` milliseconds, whatever the clock is set to meanwhile.
    fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()>;

    /// Whether waits take no real time, as in tests. A run then waits until its questions expire instead of being suspended.
    fn skips_waits(&self) -> bool {
        false
    }
}

/// The effects available to a run.
#[derive(Clone)]
pub struct Effects {
    /// Language models.
    pub model: Arc<dyn Model>,
    /// HTTP.
    pub http: Arc<dyn HttpSender>,
    /// Web pages.
    pub scraper: Arc<dyn Scraper>,
    /// Tools and functions.
    pub functions: Arc<dyn Functions>,
    /// Sandboxed code.
    pub code: Arc<dyn CodeRunner>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}
