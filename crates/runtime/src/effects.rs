//! The traits through which a run reaches the outside world.
//!
//! Every implementation is cancelled by dropping its future; a timeout, a cancelled run and a lost race all do that. An
//! effect must therefore stop its work (close the connection, stop the thread, kill the child process) when its future
//! is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::chat::{Message, Usage};
use flowloom_core::effect::{
    CallRequest, GenerateRequest, Generated, HttpReply, HttpRequest, PythonReply, PythonRequest, Request,
    ScrapeRequest, ScriptRequest,
};
use flowloom_core::error::StepError;
use flowloom_core::hash::Hasher;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;

/// A boxed future, because the traits are used as trait objects.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of an effect.
pub type Reply<'a, T> = Boxed<'a, Result<T, StepError>>;

/// The run, step and attempt on whose behalf an effect is performed.
#[derive(Clone)]
pub struct Context {
    /// The run.
    pub run: RunId,
    /// The step.
    pub path: Path,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The user who owns the run.
    pub owner: Arc<str>,
    /// The agent on whose behalf the run acts.
    pub agent: Option<Arc<str>>,
    /// Nesting depth of the run in other workflows.
    pub depth: u32,
    /// The budget of workflows that a function starts; `None` for effects that cannot start any.
    pub purse: Option<Arc<Purse>>,
    /// Receives text as it arrives.
    pub deltas: Arc<dyn Deltas>,
}

impl Context {
    /// The idempotency key: the same for every send of this attempt, even after a crash.
    pub fn key(&self) -> String {
        let mut hasher = Hasher::new();
        hasher.text(&self.run.to_string()).text(self.path.as_str()).number(u64::from(self.attempt));
        hasher.finish().to_string()
    }
}

/// The part of a run's budget that its child workflows may spend, and what they have spent of it.
#[derive(Debug)]
pub struct Purse {
    /// The limits of the run, less what it has spent.
    pub left: Limits,
    used: Mutex<Option<Usage>>,
}

impl Purse {
    /// An allowance of which nothing has been spent.
    pub fn new(left: Limits) -> Purse {
        Purse { left, used: Mutex::default() }
    }

    /// Records the usage of a child workflow.
    pub fn book(&self, usage: &Usage) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.get_or_insert_with(Usage::none).add(usage);
    }

    /// The usage so far; `None` if none was recorded.
    pub fn used(&self) -> Option<Usage> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError>;

    /// Calls a model. Transport errors are retried internally. A stream that breaks off is an error, never a short
    /// answer.
    fn generate<'a>(&'a self, request: &'a GenerateRequest, context: &'a Context) -> Reply<'a, Generated>;

    /// The context window of `model`, in tokens.
    fn window(&self, model: &str) -> u64;

    /// The estimated number of tokens in `text`.
    fn count_tokens(&self, model: &str, text: &str) -> u64;

    /// The maximum length of an answer of `model`, in tokens, if the request does not limit it.
    fn default_max_tokens(&self, model: &str) -> u64;

    /// The price of `model`; `None` if it is unknown.
    fn price(&self, model: &str) -> Option<Price>;
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
    pub fn of(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        (u128::from(self.input) * u128::from(input_tokens) + u128::from(self.output) * u128::from(output_tokens))
            .div_ceil(1_000_000) as u64
    }
}

/// HTTP, through the egress guard.
pub trait Http: Send + Sync {
    /// Sends a request, follows redirects and reads the whole reply. Error statuses are replies, not errors.
    fn send<'a>(&'a self, request: &'a HttpRequest, context: &'a Context) -> Reply<'a, HttpReply>;
}

/// Web pages.
pub trait Scraper: Send + Sync {
    /// Reads a page. The result is never empty.
    fn fetch<'a>(&'a self, request: &'a ScrapeRequest, context: &'a Context) -> Reply<'a, String>;

    /// The inner HTML of all elements in `html` that match `selector` (CSS).
    fn select(&self, html: &str, selector: &str) -> Result<Vec<String>, StepError>;
}

/// Tools and functions by id.
pub trait Functions: Send + Sync {
    /// The effect class of a call: what a crash during it means.
    fn class(&self, request: &CallRequest) -> EffectClass;

    /// Checks whether `agent` may call `function`; the error states the reason.
    fn permit(&self, agent: &str, function: &str) -> Result<(), StepError>;

    /// Calls a function, which requests effects of its own through `below`.
    fn call<'a>(&'a self, request: &'a CallRequest, context: &'a Context, below: &'a dyn Substeps) -> Reply<'a, Value>;
}

/// Effects that a function requests from its run. Each one is a step of its own, recorded below the function's step: a
/// function that a crash interrupted runs again and receives the recorded results.
pub trait Substeps: Send + Sync {
    /// Performs a request, or returns its recorded result.
    fn perform<'a>(&'a self, request: Request) -> Reply<'a, Value>;

    /// Reports progress to observers of the run.
    fn tell(&self, name: &'static str, data: Value);
}

/// Untrusted code, in separate processes.
pub trait Code: Send + Sync {
    /// Runs a Python block, which requests effects through `host`.
    fn python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn Host,
        context: &'a Context,
    ) -> Reply<'a, PythonReply>;

    /// Evaluates a JavaScript expression; `None` is `undefined`. It can access nothing but its names.
    fn script<'a>(&'a self, request: &'a ScriptRequest, context: &'a Context) -> Reply<'a, Option<Value>>;
}

/// Effects that untrusted code may request; each one is recorded below its step.
pub trait Host: Send + Sync {
    /// Sends an HTTP request through the egress guard.
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply>;

    /// Calls the run's default model.
    fn generate<'a>(&'a self, messages: Vec<Message>) -> Reply<'a, Generated>;
}

/// A code runner for environments without a sandbox: it rejects all code.
pub struct NoCode;

impl NoCode {
    fn refused() -> StepError {
        StepError::new(flowloom_core::code::Code::NoSandbox, "untrusted code needs a sandbox, which is not available")
    }
}

impl Code for NoCode {
    fn python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn Host,
        _context: &'a Context,
    ) -> Reply<'a, PythonReply> {
        Box::pin(async { Err(NoCode::refused()) })
    }

    fn script<'a>(&'a self, _request: &'a ScriptRequest, _context: &'a Context) -> Reply<'a, Option<Value>> {
        Box::pin(async { Err(NoCode::refused()) })
    }
}

/// Time and timers.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Completes when `now_ms` is at least `at_ms`.
    fn sleep_until(&self, at_ms: u64) -> Boxed<'static, ()>;
}

/// The effects available to a run.
#[derive(Clone)]
pub struct Effects {
    /// Language models.
    pub model: Arc<dyn Model>,
    /// HTTP.
    pub http: Arc<dyn Http>,
    /// Web pages.
    pub scraper: Arc<dyn Scraper>,
    /// Tools and functions.
    pub functions: Arc<dyn Functions>,
    /// Sandboxed code.
    pub code: Arc<dyn Code>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}
