//! The few nouns through which a run touches the world.
//!
//! Every implementation is cancelled by dropping its future: a timeout, a cancelled run and a lost race all do that, so
//! an effect must stop its work (close the connection, stop the thread, kill the child) when its future is dropped.

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

/// A future that is boxed, since the traits are used as objects.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an effect gives.
pub type Reply<'a, T> = Boxed<'a, Result<T, StepError>>;

/// For whom an effect is performed.
#[derive(Clone)]
pub struct Context {
    /// The run.
    pub run: RunId,
    /// The step.
    pub path: Path,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Whose run it is.
    pub owner: Arc<str>,
    /// The agent on whose behalf it runs.
    pub agent: Option<Arc<str>>,
    /// Workflows around this one.
    pub depth: u32,
    /// What workflows that a function runs may spend; `None` for effects that run none.
    pub purse: Option<Arc<Purse>>,
    /// Takes text as it arrives.
    pub deltas: Arc<dyn Deltas>,
}

impl Context {
    /// Idempotency key: the same for every send of this attempt, also after a crash.
    pub fn key(&self) -> String {
        let mut hasher = Hasher::new();
        hasher.text(&self.run.to_string()).text(self.path.as_str()).number(u64::from(self.attempt));
        hasher.finish().to_string()
    }
}

/// What a run has left for the workflows that a function of it runs, and what they have used of that.
#[derive(Debug)]
pub struct Purse {
    /// The bounds of the run, with what it has spent taken off.
    pub left: Limits,
    used: Mutex<Option<Usage>>,
}

impl Purse {
    /// A purse that nothing was taken out of yet.
    pub fn new(left: Limits) -> Purse {
        Purse { left, used: Mutex::default() }
    }

    /// Books what a workflow has used.
    pub fn book(&self, usage: &Usage) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.get_or_insert_with(Usage::none).add(usage);
    }

    /// What was used; `None` if nothing was booked.
    pub fn used(&self) -> Option<Usage> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a model's text as it arrives; beside the journal, never stored.
pub trait Deltas: Send + Sync {
    /// Text that follows what came before.
    fn push(&self, path: &Path, attempt: u32, text: &str);
}

/// Language models.
pub trait Model: Send + Sync {
    /// The model that answers a step which names `named` (or none): aliases and defaults applied, `provider:model`.
    /// An error if the choice cannot be made or the provider cannot be used (unknown, no key, no file).
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError>;

    /// Asks a model. Retries of transport errors happen inside; a stream that breaks off is an error, never a short
    /// answer.
    fn generate<'a>(&'a self, request: &'a GenerateRequest, context: &'a Context) -> Reply<'a, Generated>;

    /// Tokens that fit into a prompt of `model`.
    fn window(&self, model: &str) -> u64;

    /// Tokens of `text`, estimated.
    fn count_tokens(&self, model: &str, text: &str) -> u64;

    /// Largest answer of `model` when the request does not bound it.
    fn default_max_tokens(&self, model: &str) -> u64;

    /// What `model` costs; `None` if that is not known.
    fn price(&self, model: &str) -> Option<Price>;
}

/// Price of a model in millionths of a US dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Of prompts.
    pub input: u64,
    /// Of answers.
    pub output: u64,
}

impl Price {
    /// What so many tokens cost, in millionths of a US dollar, rounded up.
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
    /// Reads a page; never empty.
    fn fetch<'a>(&'a self, request: &'a ScrapeRequest, context: &'a Context) -> Reply<'a, String>;

    /// Inner HTML of everything in `html` that `selector` (CSS) matches.
    fn select(&self, html: &str, selector: &str) -> Result<Vec<String>, StepError>;
}

/// Tools and functions by id.
pub trait Functions: Send + Sync {
    /// What a crash during this call would mean.
    fn class(&self, request: &CallRequest) -> EffectClass;

    /// Whether `agent` may call `function`; the error says why not.
    fn permit(&self, agent: &str, function: &str) -> Result<(), StepError>;

    /// Calls a function; what it wants of its run it asks of `below`.
    fn call<'a>(&'a self, request: &'a CallRequest, context: &'a Context, below: &'a dyn Substeps) -> Reply<'a, Value>;
}

/// What a function may have its run do. Each request is a step of its own, recorded below the function's: a function that a
/// crash caught in flight runs again and gets what it was given before.
pub trait Substeps: Send + Sync {
    /// Performs a request, or gives what the record says.
    fn perform<'a>(&'a self, request: Request) -> Reply<'a, Value>;

    /// Tells whoever watches the run what the function is about.
    fn tell(&self, name: &'static str, data: Value);
}

/// Untrusted code, in processes of its own.
pub trait Code: Send + Sync {
    /// Runs a Python block; what it wants of the world it asks of `host`.
    fn python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn Host,
        context: &'a Context,
    ) -> Reply<'a, PythonReply>;

    /// Evaluates a JavaScript expression; `None` is `undefined`. It reaches nothing but its names.
    fn script<'a>(&'a self, request: &'a ScriptRequest, context: &'a Context) -> Reply<'a, Option<Value>>;
}

/// What untrusted code may ask of its run; each request is recorded below the step.
pub trait Host: Send + Sync {
    /// Sends an HTTP request through the egress guard.
    fn http<'a>(&'a self, request: HttpRequest) -> Reply<'a, HttpReply>;

    /// Asks the run's model.
    fn generate<'a>(&'a self, messages: Vec<Message>) -> Reply<'a, Generated>;
}

/// Where untrusted code cannot run: every piece of it is refused.
pub struct NoCode;

impl NoCode {
    fn refused() -> StepError {
        StepError::new(flowloom_core::code::Code::NoSandbox, "there is no sandbox here, so untrusted code is not run")
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

/// Time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Ready once `now_ms` is at least `at_ms`.
    fn sleep_until(&self, at_ms: u64) -> Boxed<'static, ()>;
}

/// Everything a run can touch.
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
    /// Untrusted code.
    pub code: Arc<dyn Code>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}
