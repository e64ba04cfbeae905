//! Child effects: the requests of a code block or a function while it runs. Each one is an effect of its own, recorded
//! below the step that requests it.
//!
//! A step with a recorded outcome is not performed again, so its child effects are not looked up. A step that a crash
//! interrupted is performed again and receives the recorded results. A step whose failed attempt is retried receives the
//! results of the requests of that attempt that changed something and succeeded, as long as it sends the same ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use flowloom_core::chat::{GenerateOptions, Message};
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, Purpose, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ChildSuspension, Event, EventKind};
use flowloom_core::id::RunId;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::{EffectClass, Policy};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use parking_lot::Mutex;

use super::effect::{EffectFailure, EffectOutcome, FailedAttempt, plain_outcome};
use super::{Interpreter, Interrupt, StepContext};
use crate::effects::{BoxFuture, BudgetAllowance, ChildEffects, EffectContext, EffectFuture, SandboxHost};
use crate::log::{Activity, EarlierEffects, EarlierOutcome, HostGuard};

/// The run as seen by one attempt of a step. Most steps have no child effects, so this is small and clones nothing
/// until the first one.
pub(super) struct ChildEffectRunner<'a> {
    interpreter: &'a Interpreter,
    place: &'a StepContext,
    attempt: u32,
    activity: &'a Activity<'a>,
    /// Held from the first request on, or from the start if one may have been recorded.
    host: OnceLock<HostGuard>,
    request_count: AtomicUsize,
    progress_count: AtomicUsize,
    interrupt: Mutex<Option<Box<Interrupt>>>,
    /// The child effects of the attempt that this one retries, without those that were taken; `None` until the first request.
    earlier: Mutex<Option<EarlierEffects>>,
}

impl<'a> ChildEffectRunner<'a> {
    pub(super) fn new(
        interpreter: &'a Interpreter,
        place: &'a StepContext,
        attempt: u32,
        activity: &'a Activity<'a>,
    ) -> ChildEffectRunner<'a> {
        let (request_count, progress_count, interrupt) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        let runner = ChildEffectRunner {
            interpreter,
            place,
            attempt,
            activity,
            host: OnceLock::new(),
            request_count,
            progress_count,
            interrupt,
            earlier: Mutex::default(),
        };
        if interpreter.log.is_following() {
            runner.register_host();
        }
        runner
    }

    /// Registers the step as one that can have child effects.
    fn register_host(&self) {
        self.host.get_or_init(|| self.interpreter.log.register_host(&self.place.path));
    }

    /// The interrupt of the run, if one occurred during a child effect.
    pub(super) fn into_interrupt(self) -> Option<Interrupt> {
        self.interrupt.into_inner().map(|halt| *halt)
    }

    /// Whether the step has requested or reported anything.
    pub(super) fn has_started(&self) -> bool {
        self.request_count.load(Ordering::Relaxed) + self.progress_count.load(Ordering::Relaxed) > 0
    }

    /// The path of the next child effect of a kind.
    fn next_path(&self, kind: &str, counter: &AtomicUsize) -> Path {
        let key = Key::numbered_key(kind, counter.fetch_add(1, Ordering::Relaxed) + 1);
        self.attempt_path(self.attempt).child_path(&key)
    }

    /// The path of the child effects of an attempt.
    fn attempt_path(&self, attempt: u32) -> Path {
        match attempt {
            0 | 1 => self.place.path.clone(),
            attempt => self.place.path.visit_path(u64::from(attempt)),
        }
    }

    /// Whether a request may change something in the world, also one that a server recognises under the same key. One that
    /// only reads may have another answer now.
    fn changes_something(&self, request: &Request) -> bool {
        let class = match request {
            Request::HttpExchange(request) => request.effect_class(),
            request => self.interpreter.effect_class(request),
        };
        class == EffectClass::AtMostOnce
    }

    /// Takes what became of the same request in the attempt that this one retries. Each is taken once.
    fn take_earlier(&self, request: &Request) -> Option<EarlierOutcome> {
        let log = &self.interpreter.log;
        let retried = log.retried_attempt(&self.place.path);
        if retried == 0 || retried >= self.attempt || !self.changes_something(request) {
            return None;
        }
        let mut earlier = self.earlier.lock();
        let earlier = earlier.get_or_insert_with(|| log.find_child_effects(&self.attempt_path(retried)));
        earlier.get_mut(&request.hash())?.pop_front()
    }

    /// Records the result of an earlier attempt as that of this request, unless that was recorded before.
    fn keep_result(&self, place: &StepContext, request: &Request, output: Option<Value>) -> Result<(), Interrupt> {
        let (interpreter, path, attempt) = (self.interpreter, &place.path, 1);
        interpreter.count_step().map_err(|error| Interrupt::Limit(Status::BudgetExceeded, error, path.clone()))?;
        let started = Event::StepStarted {
            kind: request.kind_name().into(),
            target: request.describe_target(),
            hash: request.hash(),
            class: interpreter.effect_class(request),
        };
        interpreter.log.emit_event(path, attempt, started)?;
        let finished = Event::StepFinished { output, usage: None, memory: Vec::new(), reused: true, response: None };
        interpreter.log.emit_event(path, attempt, finished)?;
        Ok(())
    }

    async fn perform_child(&self, request: Request) -> Result<Value, StepFailure> {
        self.register_host();
        let mut place = StepContext {
            enclosing: Some(self.activity.scope().clone()),
            ..self.place.with_path(self.next_path(request.kind_name(), &self.request_count))
        };
        let is_recorded = self.interpreter.log.find_record(&place.path, 1, EventKind::StepStarted).is_some();
        match self.take_earlier(&request).filter(|_| !is_recorded) {
            Some(EarlierOutcome::Finished(output)) if is_success(&request, output.as_ref()) => {
                let kept = self.keep_result(&place, &request, output.clone());
                return kept.map(|()| output.unwrap_or_default()).map_err(|halt| self.note_interrupt(halt));
            }
            Some(EarlierOutcome::Unknown) => place.may_have_happened = true,
            _ => {}
        }
        let performed = self.interpreter.run_attempts(&Policy::default(), &place, || Ok(request.clone())).await;
        match performed {
            Ok(output) => Ok(output.unwrap_or_default()),
            Err(Interrupt::Failed(error, _)) => Err(error),
            Err(halt) => Err(self.note_interrupt(halt)),
        }
    }

    /// Notes an interrupt of the run, and returns the error that the step receives.
    fn note_interrupt(&self, halt: Interrupt) -> StepFailure {
        let reason = match &halt {
            // The step reports why the run ends, for example that its budget is used up.
            Interrupt::Limit(_, error, _) => error.clone(),
            _ => StepFailure::new(Code::StepRefused, "the run is ending"),
        };
        *self.interrupt.lock() = Some(Box::new(halt));
        reason
    }
}

/// Whether the result of a request is a success. The answer of a server that refuses a request is a result, too.
fn is_success(request: &Request, output: Option<&Value>) -> bool {
    match request {
        Request::HttpExchange(_) => {
            output.and_then(HttpReply::from_value).is_some_and(|reply| (200..300).contains(&reply.status))
        }
        _ => true,
    }
}

impl SandboxHost for ChildEffectRunner<'_> {
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            let output = self.perform_child(Request::HttpExchange(request)).await?;
            HttpReply::from_value(&output)
                .ok_or_else(|| StepFailure::new(Code::HttpFailed, "the recorded value is not an HTTP reply"))
        })
    }

    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let request = GenerateRequest {
                model: self.interpreter.effects.model.find_model_name(None)?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: None,
                options: GenerateOptions::default(),
                purpose: Purpose::Step,
            };
            let output = self.perform_child(Request::Generate(Box::new(request))).await?;
            Ok(GenerateReply { text: output.as_str().map(str::to_owned), ..GenerateReply::default() })
        })
    }
}

impl ChildEffects for ChildEffectRunner<'_> {
    fn perform_request<'a>(&'a self, request: Request) -> EffectFuture<'a, Value> {
        Box::pin(self.perform_child(request))
    }

    fn report_progress(&self, name: &'static str, data: Value) {
        self.interpreter.log.report_progress(&self.next_path("progress", &self.progress_count), name, data);
    }

    fn resume_count(&self) -> u64 {
        self.interpreter.log.resume_count()
    }

    fn wait_for_child<'a>(&'a self, child: ChildSuspension, seen: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.register_host();
            let _paused = self.interpreter.pause_enclosing(Some(self.activity.scope()));
            self.interpreter.log.wait_for_child(&self.place.path, self.attempt, child, seen).await;
        })
    }

    fn record_child_resumed(&self, run: RunId) {
        self.interpreter.log.record_child_resumed(&self.place.path, self.attempt, run);
    }
}

impl Interpreter {
    /// Calls a function. The usage of workflows that it runs is added to this step, also if it fails.
    pub(super) async fn call_function(
        &self,
        request: &CallRequest,
        context: &mut EffectContext,
        place: &StepContext,
        activity: &Activity<'_>,
    ) -> Result<EffectOutcome, EffectFailure> {
        let allowance = Arc::new(BudgetAllowance::new(self.ledger.remaining_limits(&self.limits)));
        context.allowance = Some(allowance.clone());
        let below = ChildEffectRunner::new(self, place, context.attempt, activity);
        let functions = &self.effects.functions;
        let may_repeat = || !below.has_started() && functions.effect_class(request) == EffectClass::AtLeastOnce;
        let call = || functions.call_function(request, context, &below);
        let output = self.repeat_in_outage(may_repeat, call).await;
        let usage = allowance.recorded_usage();
        self.ledger.add_usage(usage.as_ref());
        match (below.into_interrupt(), allowance.find_exceeded_limit()) {
            (Some(halt), _) => Err(EffectFailure::Interrupt(halt)),
            (None, Some(error)) => {
                let status = match error.code {
                    Code::LimitSubflow => Status::Failed,
                    _ => Status::BudgetExceeded,
                };
                Err(EffectFailure::Interrupt(Interrupt::Limit(status, error, place.path.clone())))
            }
            (None, None) => match output {
                Ok(output) => Ok(EffectOutcome { usage, ..plain_outcome(output) }),
                Err(error) => Err(EffectFailure::Step(FailedAttempt { error, usage, recorded: None })),
            },
        }
    }
}
