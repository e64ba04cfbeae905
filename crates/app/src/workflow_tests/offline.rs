//! The effects of a test: nothing is performed but code in the sandbox. Models answer from the `answers` of the test, or live
//! if that is asked for. Functions that run workflows start child runs, which are given what the test has for them.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::bound::can_call_out;
use flowloom_core::code::Code;
use flowloom_core::effect::{
    CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, PythonReply, PythonRequest, Request,
    ScrapeRequest, ScriptRequest,
};
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_models::{ModelError, Models, ResolveError};
use flowloom_runtime::child_run::{ChildOutcome, charge_child_run, find_child_limits};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{
    ChildEffects, Clock, CodeRunner, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, Price,
    SandboxHost, Scraper,
};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, StartOptions};
use flowloom_tools::PageScraper;
use parking_lot::Mutex;

use super::compare::request_to_test_json;
use super::file::{StepAttempt, TestExpression, TestFile, TestStep};
use super::responses::{LiveMatch, list_script_values, list_step_responses};
use super::test_clock::TestClock;
use super::test_runs::{RunPlace, TestRun};
use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::tools::workflows::CalledWorkflow;

/// The model of requests that name none, if none is configured: a test needs no model.
const PLACEHOLDER_MODEL: &str = "scripted:test";

/// The input of a test in addition to the responses of its steps.
struct GivenEffects {
    models: Models,
    /// How responses are matched if models are asked where the test has none; `None` if none is asked.
    live: Option<LiveMatch>,
    /// Steps that run a block.
    blocks: HashMap<StepAttempt, TestStep>,
    /// Failures of steps. What follows them is decided as in a run.
    failures: HashMap<StepAttempt, StepFailure>,
    /// All steps and expressions of the test, from which child runs take theirs.
    steps: Vec<TestStep>,
    expressions: Vec<TestExpression>,
    /// Evaluates expressions whose values the test does not have, and runs blocks that have changed.
    code: Arc<dyn CodeRunner>,
    /// The child runs that have ended or wait.
    child_runs: Mutex<Vec<TestRun>>,
}

/// The effects of one run of a test.
pub(super) struct OfflineEffects {
    given: Arc<GivenEffects>,
    place: RunPlace,
    /// The clock of the run, which jumps from one wait to the next. With live models, the real one counts.
    clock: TestClock,
    /// The bundle of the run, if it calls workflows.
    bundle: Option<Bundle>,
}

impl OfflineEffects {
    /// The input of the outermost run of a test.
    pub(super) fn new(
        models: Models,
        live: Option<LiveMatch>,
        test: &TestFile,
        code: Arc<dyn CodeRunner>,
        bundle: Option<Bundle>,
    ) -> OfflineEffects {
        let blocks = test.steps.iter().filter(|step| is_recorded_block(step));
        let blocks = blocks.map(|step| (step.to_attempt(), step.clone())).collect();
        let failures = test.steps.iter().filter(|step| is_undecided_failure(step));
        let failures = failures.filter_map(|step| Some((step.to_attempt(), step.error.clone()?))).collect();
        let given = GivenEffects {
            models: models.with_answers(test.answers.clone(), live.is_some()),
            live,
            blocks,
            failures,
            steps: if bundle.is_some() { test.steps.clone() } else { Vec::new() },
            expressions: if bundle.is_some() { test.expressions.clone() } else { Vec::new() },
            code,
            child_runs: Mutex::default(),
        };
        OfflineEffects { given: Arc::new(given), place: RunPlace::default(), clock: TestClock::new(), bundle }
    }

    /// Live models, for questions about a test.
    pub(super) fn only_models(models: Models, code: Arc<dyn CodeRunner>) -> OfflineEffects {
        let given = GivenEffects {
            models,
            live: Some(Arc::new([])),
            blocks: HashMap::new(),
            failures: HashMap::new(),
            steps: Vec::new(),
            expressions: Vec::new(),
            code,
            child_runs: Mutex::default(),
        };
        OfflineEffects { given: Arc::new(given), place: RunPlace::default(), clock: TestClock::new(), bundle: None }
    }

    /// The effects of the run.
    pub(super) fn into_effects(self: Arc<OfflineEffects>) -> Effects {
        let clock: Arc<dyn Clock> = match self.given.live.is_some() {
            true => Arc::new(SystemClock),
            false => Arc::new(self.clock.clone()),
        };
        Effects {
            model: self.clone(),
            http: self.clone(),
            scraper: self.clone(),
            functions: self.clone(),
            clock,
            code: self,
        }
    }

    /// The number of answers that no model call has taken.
    pub(super) fn count_unused_answers(&self) -> usize {
        self.given.models.count_unused_answers()
    }

    /// The child runs of the test, once its outermost run is no longer driven.
    pub(super) fn take_child_runs(&self) -> Vec<TestRun> {
        std::mem::take(&mut self.given.child_runs.lock())
    }

    /// The failure that the test has for an effect, or that it has no response.
    fn find_failure(&self, context: &EffectContext, what: &str) -> StepFailure {
        self.find_written_failure(context).unwrap_or_else(|| self.report_missing(context, what))
    }

    fn find_written_failure(&self, context: &EffectContext) -> Option<StepFailure> {
        self.given.failures.get(&self.attempt_of(context)).cloned()
    }

    /// The recorded response of a block.
    fn recorded_block(&self, context: &EffectContext) -> Result<PythonReply, StepFailure> {
        let step = self.given.blocks.get(&self.attempt_of(context));
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

    /// The attempt that an effect belongs to.
    fn attempt_of(&self, context: &EffectContext) -> StepAttempt {
        (self.place.to_outer_path(&context.path).to_string(), context.attempt)
    }

    fn report_missing(&self, context: &EffectContext, what: &str) -> StepFailure {
        let (path, attempt) = self.attempt_of(context);
        let message = format!("the test has no response for {what} of {path}, attempt {attempt}");
        StepFailure::new(Code::ResponseMissing, message)
    }

    /// Runs the workflow of a function with the steps that the test has for this child run, and returns what the function
    /// does.
    async fn run_child(
        &self,
        called: CalledWorkflow<'_>,
        caller: &Bundle,
        request: &CallRequest,
        context: &EffectContext,
        below: &dyn ChildEffects,
    ) -> Result<Value, StepFailure> {
        let (bundle, inputs) = (called.build_bundle(caller)?, called.build_inputs(request)?);
        let plan = compile_bundle(&bundle)?;
        let (given, place) = (self.given.clone(), self.place.place_child_run(&context.path, context.attempt));
        let limits = find_child_limits(context, &plan)?;
        let start = StartOptions {
            depth: context.depth + 1,
            agent: context.agent.as_deref().map(str::to_owned),
            // The clock of a test jumps from one wait to the next.
            limits: Limits { time_ms: limits.time_ms.filter(|_| given.live.is_some()), ..limits },
            ..StartOptions::new(plan.clone(), Hash::of_bytes(b"test"), inputs, &*context.user)
        };
        let responses = list_step_responses(&given.steps, &place, given.live.as_ref());
        let scripts = list_script_values(&given.expressions, &place);
        let running = self.clock.start_child_run();
        let child = OfflineEffects { given, place: place.clone(), clock: running.new_clock(), bundle: Some(bundle) };
        let engine = Engine::new(Arc::new(child).into_effects(), Arc::new(MemoryJournal::new()));
        let seen = below.resume_count();
        let (run, collected) = engine.start_with_responses(start, responses, scripts)?;
        // On its own task, because runs within runs need a deep stack.
        let outcome = run.spawn().await.map_err(|error| StepFailure::new(Code::FunctionFailed, error.to_string()))?;
        drop(running);
        let run = TestRun::new(place, outcome.records, outcome.state.clone(), &collected);
        self.given.child_runs.lock().push(run);
        if let Some(error) = outcome.broken {
            return Err(error.into());
        }
        if let Some(suspended) = outcome.state.to_child_suspension() {
            // The run of a test receives no commands.
            below.wait_for_child(suspended, seen).await;
        }
        charge_child_run(context, &outcome.state);
        called.render_reply(ChildOutcome { plan, state: outcome.state, env: outcome.env })
    }
}

/// Whether a step of a test has the response of a block to a certain request. If it gets another one, the block runs.
pub(super) fn is_recorded_block(step: &TestStep) -> bool {
    step.kind.as_deref() == Some("python") && step.request.is_some()
}

/// Whether a step fails without saying what follows: a person wrote it.
pub(super) fn is_undecided_failure(step: &TestStep) -> bool {
    step.error.is_some() && step.then.is_none()
}

impl Model for OfflineEffects {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        match self.given.live.is_some() {
            true => self.given.models.resolve(named),
            false => match self.given.models.choose_model(named) {
                Err(ResolveError::NoModelChosen) => Ok(PLACEHOLDER_MODEL.to_owned()),
                chosen => Ok(chosen.map_err(ModelError::from)?),
            },
        }
    }

    fn find_model_name(&self, named: Option<&str>) -> Result<String, StepFailure> {
        if self.given.live.is_some() { self.given.models.find_model_name(named) } else { self.resolve(named) }
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            self.clock.note_effect();
            if let Some(failure) = self.find_written_failure(context) {
                return Err(failure);
            }
            match self.given.models.generate_reply(request, context).await {
                Err(error) if error.code == Code::ResponseMissing => {
                    Err(self.report_missing(context, "the model call"))
                }
                reply => reply,
            }
        })
    }

    fn context_window(&self, model: &str) -> u64 {
        self.given.models.context_window(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> u64 {
        self.given.models.count_tokens(model, text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        self.given.models.default_max_tokens(model)
    }

    fn find_price(&self, model: &str) -> Option<Price> {
        self.given.models.find_price(model)
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
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            if let Some(failure) = self.find_written_failure(context) {
                return Err(failure);
            }
            if let Some(bundle) = &self.bundle
                && let Some(called) = CalledWorkflow::find_called(bundle, &request.function)
            {
                return self.run_child(called, bundle, request, context, below).await;
            }
            Err(self.report_missing(context, &format!("the call of {}", request.function)))
        })
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
            let recorded = self.given.blocks.get(&self.attempt_of(context));
            let is_same = recorded.is_some_and(|step| step.request.as_ref() == Some(&sent));
            if is_same || can_call_out(&request.source) {
                return self.recorded_block(context);
            }
            let _running = self.clock.start_code();
            match self.given.code.run_python(request, host, context).await {
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
        Box::pin(async move {
            let _running = self.clock.start_code();
            self.given.code.evaluate_script(request, context).await
        })
    }
}
