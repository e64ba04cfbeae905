//! One attempt of an effect: its start is recorded, it is performed, and its finish is recorded.

use std::sync::Arc;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{HttpReply, PythonReply, Request, ResponseFacts};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{AfterFailure, Event, EventKind, MemoryWrite, Record, Resolution};
use flowloom_core::expr::Wording;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use super::child_effects::ChildEffectRunner;
use super::outcome::{halt_on_outage, redact_result};
use super::question::Expiry;
use super::semaphore::LentPermit;
use super::{Interpreter, Interrupt, StepContext};
use crate::divergence::Divergence;
use crate::effects::{BoxFuture, EffectContext};
use crate::journal::{Lease, profile_namespace};
use crate::log::{ActivityPause, ActivityScope, RunLog, TimerKind};
use crate::redact::redact_deltas;
use crate::scope;

/// The outcome of an effect.
pub(super) struct EffectOutcome {
    pub(super) output: Option<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) memory: Vec<MemoryWrite>,
    pub(super) response: ResponseFacts,
}

/// The reason why an attempt has no outcome.
pub(super) enum EffectFailure {
    /// The effect failed.
    Step(FailedAttempt),
    /// The branch is interrupted.
    Interrupt(Interrupt),
}

/// An attempt that failed.
pub(super) struct FailedAttempt {
    pub(super) error: StepFailure,
    /// Tokens and cost of what failed.
    pub(super) usage: Option<Usage>,
    /// The consequence, if the failure comes from the record.
    pub(super) recorded: Option<RecordedFailure>,
}

impl From<StepFailure> for FailedAttempt {
    fn from(error: StepFailure) -> FailedAttempt {
        FailedAttempt { error, usage: None, recorded: None }
    }
}

/// The consequence of a recorded failure.
pub(super) struct RecordedFailure {
    pub(super) then: AfterFailure,
    /// Time of the failure, in milliseconds since the Unix epoch.
    pub(super) at: u64,
}

/// An effect and the limits of one attempt.
pub(super) struct Effect<'a> {
    pub(super) request: &'a Request,
    pub(super) class: EffectClass,
    pub(super) timeout_ms: Option<u64>,
    /// When the question expires, if it is one.
    pub(super) expiry: Option<Expiry>,
}

impl From<Divergence> for EffectFailure {
    fn from(error: Divergence) -> EffectFailure {
        EffectFailure::Interrupt(error.into())
    }
}

impl From<StepFailure> for EffectFailure {
    fn from(error: StepFailure) -> EffectFailure {
        EffectFailure::Step(error.into())
    }
}

impl Interpreter {
    /// Performs one attempt. A success is recorded here; a failure is recorded by the caller.
    pub(super) async fn run_attempt(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &mut Effect<'_>,
    ) -> Result<Option<Value>, EffectFailure> {
        let path = &place.path;
        let exceeded = |error| Interrupt::Limit(Status::BudgetExceeded, error, path.clone());
        self.count_step().map_err(|error| EffectFailure::Interrupt(exceeded(error)))?;
        let hash = effect.request.hash();
        let started = Event::StepStarted {
            kind: effect.request.kind_name().into(),
            target: effect.request.describe_target(),
            hash,
            class: effect.class,
        };
        crate::failpoint::hit("intent_append_before");
        let recorded = self.log.emit_event(path, attempt, started)?;
        let was_started = recorded.is_some();
        self.report_missing_references(path, attempt, was_started);
        if let Some(requests) = &self.requests {
            requests.add(path, attempt, effect.request);
        }
        crate::failpoint::hit("intent_append_after");
        if let Request::Ask(question) = effect.request {
            effect.expiry = self.ask_question(path, attempt, question, effect.timeout_ms)?;
        }
        // Boxed, because most attempts follow no record: a small future is allocated much faster.
        if self.log.is_following()
            && let Some(recorded) = Box::pin(self.follow_record(place, attempt, effect, &hash, was_started)).await
        {
            return recorded;
        }
        let may_have_sent = recorded.is_some_and(|started| self.log.may_have_sent(&started));
        let outcome = self.obtain_outcome(place, attempt, effect, may_have_sent).await;
        self.log.note_own_outcome();
        let outcome = outcome?;
        self.count_new_output(effect.request, &outcome).map_err(EffectFailure::Step)?;
        crate::failpoint::hit("effect_response_after");
        let EffectOutcome { output, usage, memory, response } = outcome;
        self.hold_memory_writes(effect.request, path, &memory);
        let finished =
            Event::StepFinished { output: output.clone(), usage, memory, reused: false, response: response.into_box() };
        self.log.emit_event(path, attempt, finished)?;
        crate::failpoint::hit("finish_append_after");
        Ok(output)
    }

    /// The outcome of an attempt that the record does not have.
    async fn obtain_outcome(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
        may_have_sent: bool,
    ) -> Result<EffectOutcome, EffectFailure> {
        let may_have_happened = may_have_sent || place.may_have_happened || self.asks_first;
        if may_have_happened
            && effect.class != EffectClass::AtLeastOnce
            && let Some(outcome) = Box::pin(self.resolve_uncertain(place, attempt, effect)).await?
        {
            return Ok(outcome);
        }
        self.log.wait_until_durable().await.map_err(|error| EffectFailure::Interrupt(error.into()))?;
        crate::failpoint::hit("effect_dispatch_before");
        self.perform_measured(place, attempt, effect).await
    }

    /// The effect class of a request: whether it may be performed again after a crash.
    pub(super) fn effect_class(&self, request: &Request) -> EffectClass {
        match request {
            Request::Call(request) => self.effects.functions.effect_class(request),
            Request::Http(request) | Request::HttpExchange(request) => self.effects.http.effect_class(request),
            Request::Python(request) => request.class,
            Request::Generate(_)
            | Request::Scrape(_)
            | Request::Memories
            | Request::Profile
            | Request::MemoryGet { .. }
            | Request::MemorySet { .. }
            | Request::Ask(_)
            | Request::Wait { .. } => EffectClass::AtLeastOnce,
        }
    }

    /// Holds the memory writes of a block until they are applied to its variables.
    pub(super) fn hold_memory_writes(&self, request: &Request, path: &Path, memory: &[MemoryWrite]) {
        if matches!(request, Request::Python(_)) && !memory.is_empty() {
            let mut learned = self.pending_memory_writes.lock();
            learned.insert(path.clone(), memory.to_vec());
        }
    }

    pub(super) fn count_step(&self) -> Result<(), StepFailure> {
        let count = self.steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if count > self.limits.steps {
            return Err(StepFailure::new(
                Code::LimitSteps,
                format!("the run reached its limit of {} steps", self.limits.steps),
            ));
        }
        Ok(())
    }

    /// Lets a person decide about an effect that may have happened before and must not happen twice: it was started in an
    /// earlier session or in an attempt that is retried and has no outcome, or it is one of a fork. `None`: perform it.
    async fn resolve_uncertain(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
    ) -> Result<Option<EffectOutcome>, EffectFailure> {
        let was_uncertain = self.log.take_record(&place.path, attempt, EventKind::StepUncertain).is_some();
        // A block affects the world through its child effects only, and each of them is decided about by itself.
        if matches!(effect.request, Request::Python(_)) && !was_uncertain {
            return Ok(None);
        }
        if !was_uncertain {
            self.log.append_event(&place.path, attempt, Event::StepUncertain);
            crate::failpoint::hit("uncertain_append_after");
        }
        let paused = self.pause_enclosing(place.enclosing.as_ref());
        let how = self.log.wait_for_resolution(&place.path, attempt).await;
        drop(paused);
        match how {
            Resolution::Resend => {
                // A decision is for one dispatch: a crash after this event makes the effect uncertain again.
                self.log.append_event(&place.path, attempt, Event::StepResent);
                crate::failpoint::hit("resend_append_after");
                Ok(None)
            }
            Resolution::Value(value) => Ok(Some(plain_outcome(value))),
            Resolution::Fail => {
                let message = "the effect may or may not have happened, and a person marked it as failed";
                Err(StepFailure::new(Code::EffectUncertain, message).into())
            }
        }
    }

    /// Lets the run be suspended, and other effects start, while a child effect or child run waits for a person. `enclosing`
    /// is the scope of the innermost effect around it.
    pub(super) fn pause_enclosing(
        &self,
        enclosing: Option<&Arc<ActivityScope>>,
    ) -> (ActivityPause, Option<LentPermit<'_>>) {
        let lent = enclosing.map(|_| self.in_flight.lend_permit());
        (self.log.pause_activities(enclosing), lent)
    }

    pub(super) async fn perform_with_timeout(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
    ) -> Result<EffectOutcome, EffectFailure> {
        // Waiting for a person is not an activity: a run that only waits is suspended.
        if let Request::Ask(question) = effect.request {
            return Box::pin(self.wait_for_answer(place, attempt, question, effect.expiry)).await;
        }
        let work = self.perform_boxed(place, attempt, effect.request);
        let Some(limit) = effect.timeout_ms else { return work.await };
        match scope::run_until(work, || self.effects.clock.sleep_for(limit)).await {
            Some(performed) => performed,
            None => Err(StepFailure::new_retryable(Code::StepTimeout, format!("no answer within {limit} ms")).into()),
        }
    }

    /// A separate function, because a box created where it is awaited would also reserve space for its content there.
    fn perform_boxed<'a>(
        &'a self,
        place: &'a StepContext,
        attempt: u32,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<EffectOutcome, EffectFailure>> {
        scope::box_small(self.perform_request(place, attempt, request))
    }

    async fn perform_request(
        &self,
        place: &StepContext,
        attempt: u32,
        request: &Request,
    ) -> Result<EffectOutcome, EffectFailure> {
        // Waiting for a timer is not an activity either: a run that only waits is suspended.
        if let Request::Wait { duration_ms } = request {
            return self.wait_for_timer(place, attempt, *duration_ms).await;
        }
        let activity = self.log.start_activity(place.enclosing.as_ref());
        let _permit = match place.enclosing {
            Some(_) => None,
            None => Some(self.in_flight.acquire_permit(self.limits.parallel).await),
        };
        // The process may have been stopped meanwhile, for longer than its lease.
        self.log.ensure_lease().await.map_err(|error| EffectFailure::Interrupt(error.into()))?;
        let mut aborted = AbortGuard::new(&self.log, &place.path, attempt);
        let mut context = self.effect_context(place, attempt);
        let effects = &self.effects;
        let outcome = match request {
            // Boxed, so that other effects reserve no space for it.
            Request::Generate(request) => Box::pin(self.generate_within_budget(request, &mut context)).await,
            Request::Http(request) => {
                let reply = effects.http.send_request(request, &context).await;
                reply.map_err(EffectFailure::from).and_then(|reply| read_reply(&reply, place.text.wording))
            }
            Request::Scrape(request) => {
                let content = effects.scraper.fetch_page(request, &context).await;
                content.map(|content| plain_outcome(content.into())).map_err(EffectFailure::from)
            }
            Request::Call(request) => self.call_function(request, &mut context, place, &activity).await,
            Request::HttpExchange(request) => {
                let reply = effects.http.send_request(request, &context).await;
                let outcome = |reply: HttpReply| EffectOutcome {
                    response: ResponseFacts::of_status(reply.status),
                    ..plain_outcome(reply.to_value())
                };
                reply.map(outcome).map_err(EffectFailure::from)
            }
            Request::Python(request) => {
                let below = ChildEffectRunner::new(self, place, attempt, &activity);
                let run = || effects.code.run_python(request, &below, &context);
                let reply = self.repeat_in_outage(|| !below.has_started(), run).await;
                match below.into_interrupt() {
                    Some(halt) => Err(EffectFailure::Interrupt(halt)),
                    None => reply.map(block_outcome).map_err(EffectFailure::from),
                }
            }
            Request::MemoryGet { key } => {
                let value = self.read_store(|| self.memory.read_memory(&self.memory_owner, key)).await?;
                Ok(plain_outcome(value.unwrap_or_default()))
            }
            Request::Memories => self.read_namespace(&self.memory_owner).await,
            Request::Profile => self.read_namespace(&profile_namespace(&self.memory_owner)).await,
            Request::MemorySet { key, value } => Ok(EffectOutcome {
                memory: vec![MemoryWrite { key: key.clone(), value: Some(value.clone()) }],
                ..plain_outcome(value.clone())
            }),
            Request::Ask(_) | Request::Wait { .. } => Ok(plain_outcome(Value::Null)),
        };
        aborted.disarm();
        let outcome = outcome.map_err(|failure| halt_on_outage(failure, request, self.effect_class(request)));
        // Still within the activity: a run that reads its memory does not only wait.
        let outcome = match outcome {
            Ok(outcome) if !outcome.memory.is_empty() => Box::pin(self.check_memory_writes(outcome)).await,
            outcome => outcome,
        };
        match &self.redactor {
            Some(redactor) => redact_result(&**redactor, outcome),
            None => outcome,
        }
    }

    async fn read_namespace(&self, user: &str) -> Result<EffectOutcome, EffectFailure> {
        let memories = self.read_store(|| self.memory.read_memories(user)).await?;
        Ok(plain_outcome(memories.into()))
    }

    async fn wait_for_timer(
        &self,
        place: &StepContext,
        attempt: u32,
        duration_ms: u64,
    ) -> Result<EffectOutcome, EffectFailure> {
        let recorded = self.log.take_record(&place.path, attempt, EventKind::TimerSet);
        let (until, remaining_ms) = match recorded.as_deref() {
            Some(Record { event: Event::TimerSet { until }, at, .. }) => (*until, self.log.remaining_ms(*until, *at)),
            _ => {
                let until = self.log.now_ms().saturating_add(duration_ms);
                self.log.emit_event(&place.path, attempt, Event::TimerSet { until })?;
                crate::failpoint::hit("timer_set_after");
                (until, duration_ms)
            }
        };
        let _timer = self.log.start_timer(until, TimerKind::Wait);
        self.effects.clock.sleep_for(remaining_ms).await;
        Ok(plain_outcome(Value::Null))
    }

    pub(super) fn effect_context(&self, place: &StepContext, attempt: u32) -> EffectContext {
        let Lease { run, epoch } = self.log.lease;
        EffectContext {
            run,
            epoch,
            path: place.path.clone(),
            attempt,
            retried_attempt: self.log.retried_attempt(&place.path),
            user: self.user.clone(),
            agent: self.agent.clone(),
            definition: self.definition.clone(),
            depth: place.depth,
            trace: self.trace.clone(),
            asks_first: self.asks_first,
            allowance: None,
            deltas: redact_deltas(self.redactor.as_ref(), self.log.publisher.delta_sink()),
        }
    }
}

fn block_outcome(reply: PythonReply) -> EffectOutcome {
    let memory = reply.memory.into_iter().map(|(key, value)| MemoryWrite { key, value }).collect();
    let response = ResponseFacts { queued_ms: reply.queued_ms, ..ResponseFacts::default() };
    EffectOutcome { memory, response, ..plain_outcome(reply.output) }
}

pub(super) fn plain_outcome(value: Value) -> EffectOutcome {
    EffectOutcome { output: Some(value), usage: None, memory: Vec::new(), response: ResponseFacts::default() }
}

fn read_reply(reply: &HttpReply, wording: Wording) -> Result<EffectOutcome, EffectFailure> {
    if (200..300).contains(&reply.status) {
        let response = ResponseFacts::of_status(reply.status);
        return Ok(EffectOutcome { response, ..plain_outcome(flowloom_core::effect::parse_reply(&reply.body)) });
    }
    let message = format!("{}{}", wording.http_status, reply.status);
    let error = if flowloom_core::effect::is_retryable_status(reply.status) {
        StepFailure::new_retryable
    } else {
        StepFailure::new
    };
    Err(error(Code::HttpStatus, message).into())
}

/// Records that an effect was abandoned if its future is dropped before it completes.
struct AbortGuard<'a> {
    log: &'a RunLog,
    path: &'a Path,
    attempt: u32,
    armed: bool,
}

impl<'a> AbortGuard<'a> {
    fn new(log: &'a RunLog, path: &'a Path, attempt: u32) -> AbortGuard<'a> {
        AbortGuard { log, path, attempt, armed: true }
    }

    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for AbortGuard<'_> {
    fn drop(&mut self) {
        if self.armed && self.log.is_open() {
            self.log.append_event(self.path, self.attempt, Event::StepAborted { reason: "cancelled".into() });
        }
    }
}
