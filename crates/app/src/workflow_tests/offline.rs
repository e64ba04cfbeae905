//! The effects of a test: nothing is performed. Models answer from the `answers` of the test, or live if that is asked for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, ScrapeRequest,
    ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_models::{ModelError, Models, parse_scripted_answer};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{
    BoxFuture, ChildEffects, Clock, CodeRunner, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model,
    Price, SandboxHost, Scraper,
};
use flowloom_tools::PageScraper;

/// Start of the clock of a test, in milliseconds since the Unix epoch: 2026-01-01.
const START_MS: u64 = 1_767_225_600_000;

/// What a test is given besides the responses of its steps.
pub(super) struct OfflineEffects {
    models: Models,
    /// Whether models are asked where the test has no answer.
    is_live: bool,
    answers: Mutex<VecDeque<Value>>,
    /// Evaluates expressions whose values the test does not have.
    code: Arc<dyn CodeRunner>,
}

impl OfflineEffects {
    /// Effects of one test.
    pub(super) fn build(models: Models, is_live: bool, answers: Vec<Value>, code: Arc<dyn CodeRunner>) -> Effects {
        let clock: Arc<dyn Clock> = match is_live {
            true => Arc::new(SystemClock),
            false => Arc::new(InstantClock { now_ms: AtomicU64::new(START_MS) }),
        };
        let offline = Arc::new(OfflineEffects { models, is_live, answers: Mutex::new(answers.into()), code });
        Effects {
            model: offline.clone(),
            http: offline.clone(),
            scraper: offline.clone(),
            functions: offline.clone(),
            code: offline,
            clock,
        }
    }
}

fn missing_response(context: &EffectContext, what: &str) -> StepFailure {
    let message = format!("the test has no response for {what} of {}, attempt {}", context.path, context.attempt);
    StepFailure::new(Code::ResponseMissing, message)
}

impl Model for OfflineEffects {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        match self.is_live {
            true => self.models.resolve(named),
            false => Ok(self.models.choose_model(named).map_err(ModelError::from)?),
        }
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let answer = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match answer {
                Some(answer) => Ok(parse_scripted_answer(&answer).map_err(ModelError::from)?),
                None if self.is_live => self.models.generate_reply(request, context).await,
                None => Err(missing_response(context, "the model call")),
            }
        })
    }

    fn context_window(&self, model: &str) -> u64 {
        self.models.context_window(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> u64 {
        self.models.count_tokens(model, text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        self.models.default_max_tokens(model)
    }

    fn find_price(&self, model: &str) -> Option<Price> {
        self.models.find_price(model)
    }
}

impl HttpSender for OfflineEffects {
    fn send_request<'a>(
        &'a self,
        _request: &'a HttpRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move { Err(missing_response(context, "the HTTP request")) })
    }
}

impl Scraper for OfflineEffects {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move { Err(missing_response(context, "the page")) })
    }

    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        PageScraper::select_elements(html, selector)
    }
}

impl Functions for OfflineEffects {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_permission(&self, _agent: &str, _function: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move { Err(missing_response(context, &format!("the call of {}", request.function))) })
    }
}

impl CodeRunner for OfflineEffects {
    fn run_python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move { Err(missing_response(context, "the block")) })
    }

    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        self.code.evaluate_script(request, context)
    }
}

/// A clock on which every wait is over at once.
struct InstantClock {
    now_ms: AtomicU64,
}

impl Clock for InstantClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()> {
        self.now_ms.fetch_add(duration_ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}
