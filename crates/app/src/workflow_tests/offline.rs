//! The effects of a test: nothing is performed but code in the sandbox. Models answer from the `answers` of the test, or live
//! if that is asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_core::bound::can_call_out;
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, Request,
    ScrapeRequest, ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_models::{ModelError, Models, ResolveError};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{
    BoxFuture, ChildEffects, Clock, CodeRunner, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model,
    Price, SandboxHost, Scraper,
};
use flowloom_tools::PageScraper;

use super::compare::request_to_test_json;
use super::file::{StepAttempt, TestFile, TestStep};

/// Start of the clock of a test, in milliseconds since the Unix epoch: 2026-01-01.
const START_MS: u64 = 1_767_225_600_000;

/// The model of requests that name none, if none is configured: a test needs no model.
const PLACEHOLDER_MODEL: &str = "scripted:test";

/// What a test is given besides the responses of its steps.
pub(super) struct OfflineEffects {
    models: Models,
    /// Whether models are asked where the test has no answer.
    is_live: bool,
    /// Steps that run a block.
    blocks: HashMap<StepAttempt, TestStep>,
    /// Failures of steps. What follows them is decided as in a run.
    failures: HashMap<StepAttempt, StepFailure>,
    /// Evaluates expressions whose values the test does not have, and runs blocks that have changed.
    code: Arc<dyn CodeRunner>,
}

impl OfflineEffects {
    /// What one test is given.
    pub(super) fn new(models: Models, is_live: bool, test: &TestFile, code: Arc<dyn CodeRunner>) -> OfflineEffects {
        let blocks = test.steps.iter().filter(|step| is_recorded_block(step));
        let blocks = blocks.map(|step| (step.to_attempt(), step.clone())).collect();
        let failures = test.steps.iter().filter(|step| is_undecided_failure(step));
        let failures = failures.filter_map(|step| Some((step.to_attempt(), step.error.clone()?))).collect();
        let models = models.with_answers(test.answers.clone(), is_live);
        OfflineEffects { models, is_live, blocks, failures, code }
    }

    /// Live models, for questions about a test.
    pub(super) fn only_models(models: Models, code: Arc<dyn CodeRunner>) -> OfflineEffects {
        OfflineEffects { models, is_live: true, blocks: HashMap::new(), failures: HashMap::new(), code }
    }

    /// The effects of one run.
    pub(super) fn into_effects(self: Arc<OfflineEffects>) -> Effects {
        let clock: Arc<dyn Clock> = match self.is_live {
            true => Arc::new(SystemClock),
            false => Arc::new(InstantClock { now_ms: AtomicU64::new(START_MS) }),
        };
        Effects {
            model: self.clone(),
            http: self.clone(),
            scraper: self.clone(),
            functions: self.clone(),
            code: self,
            clock,
        }
    }

    /// The number of answers that no model call has taken.
    pub(super) fn count_unused_answers(&self) -> usize {
        self.models.count_unused_answers()
    }

    /// The failure that the test has for an effect, or that it has no response.
    fn find_failure(&self, context: &EffectContext, what: &str) -> StepFailure {
        self.find_written_failure(context).unwrap_or_else(|| missing_response(context, what))
    }

    fn find_written_failure(&self, context: &EffectContext) -> Option<StepFailure> {
        self.failures.get(&attempt_of(context)).cloned()
    }

    /// The recorded response of a block.
    fn recorded_block(&self, context: &EffectContext) -> Result<PythonReply, StepFailure> {
        let step = self.blocks.get(&attempt_of(context));
        let step = step.ok_or_else(|| self.find_failure(context, "the block"))?;
        match &step.error {
            Some(error) => Err(error.clone()),
            None => Ok(PythonReply {
                output: step.output.clone().unwrap_or_default(),
                memory: step.memory.iter().map(|write| (write.key.clone(), write.value.clone())).collect(),
                queued_ms: None,
            }),
        }
    }
}

/// The attempt that an effect belongs to.
fn attempt_of(context: &EffectContext) -> StepAttempt {
    (context.path.as_str().to_owned(), context.attempt)
}

/// Whether a step of a test has the response of a block to a certain request. If it gets another one, the block runs.
pub(super) fn is_recorded_block(step: &TestStep) -> bool {
    step.kind.as_deref() == Some("python") && step.request.is_some()
}

/// Whether a step fails without saying what follows: a person wrote it.
pub(super) fn is_undecided_failure(step: &TestStep) -> bool {
    step.error.is_some() && step.then.is_none()
}

fn missing_response(context: &EffectContext, what: &str) -> StepFailure {
    let message = format!("the test has no response for {what} of {}, attempt {}", context.path, context.attempt);
    StepFailure::new(Code::ResponseMissing, message)
}

impl Model for OfflineEffects {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        match self.is_live {
            true => self.models.resolve(named),
            false => match self.models.choose_model(named) {
                Err(ResolveError::NoModelChosen) => Ok(PLACEHOLDER_MODEL.to_owned()),
                chosen => Ok(chosen.map_err(ModelError::from)?),
            },
        }
    }

    fn find_model_name(&self, named: Option<&str>) -> Result<String, StepFailure> {
        if self.is_live { self.models.find_model_name(named) } else { self.resolve(named) }
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            if let Some(failure) = self.find_written_failure(context) {
                return Err(failure);
            }
            match self.models.generate_reply(request, context).await {
                Err(error) if error.code == Code::ResponseMissing => Err(missing_response(context, "the model call")),
                reply => reply,
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
        Box::pin(async move { Err(self.find_failure(context, "the HTTP request")) })
    }
}

impl Scraper for OfflineEffects {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move { Err(self.find_failure(context, "the page")) })
    }

    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        PageScraper::select_elements(html, selector)
    }
}

impl Functions for OfflineEffects {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
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
        Box::pin(async move { Err(self.find_failure(context, &format!("the call of {}", request.function))) })
    }
}

impl CodeRunner for OfflineEffects {
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move {
            let sent = request_to_test_json(&Request::Python(request.clone()));
            let recorded = self.blocks.get(&attempt_of(context));
            let is_same = recorded.is_some_and(|step| step.request.as_ref() == Some(&sent));
            if is_same || can_call_out(&request.source) {
                return self.recorded_block(context);
            }
            match self.code.run_python(request, host, context).await {
                Err(error) if error.code == Code::NoSandbox => self.recorded_block(context),
                ran => ran,
            }
        })
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
