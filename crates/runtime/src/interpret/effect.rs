//! One attempt of an effect: its start is recorded, it is performed, and its finish is recorded.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use flowloom_core::budget::{Claim, Ledger, Reservation};
use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateRequest, Generated, Purpose, PythonReply, Request};
use flowloom_core::error::StepError;
use flowloom_core::event::{AfterFailure, Event, EventKind, MemoryWrite, Resolution};
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;

use super::below::Below;
use super::{Halt, Interpreter, Place};
use crate::effects::{Boxed, Context, Purse};
use crate::journal::profile_holder;
use crate::log::{Emitted, Mode, Recorded, RunLog};
use crate::scope;

/// The outcome of an effect.
pub(super) struct Outcome {
    pub(super) output: Option<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) memory: Vec<MemoryWrite>,
}

/// The reason why an attempt has no outcome.
pub(super) enum Failure {
    /// The effect failed. The consequence is present if the failure comes from the record.
    Step(StepError, Option<AfterFailure>),
    /// The branch is interrupted.
    Halt(Halt),
}

/// An effect and the limits of one attempt.
pub(super) struct Effect<'a> {
    pub(super) request: &'a Request,
    pub(super) class: EffectClass,
    pub(super) timeout_ms: Option<u64>,
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Failure {
        Failure::Step(error, None)
    }
}

impl Interpreter {
    /// Performs one attempt. A success is recorded here; a failure is recorded by the caller.
    pub(super) async fn attempt(
        &self,
        place: &Place,
        attempt: u32,
        effect: Effect<'_>,
    ) -> Result<Option<Value>, Failure> {
        let path = &place.path;
        let halt = |error| Failure::Halt(Halt::Fatal(error, path.clone()));
        self.count_step().map_err(halt)?;
        let started = Event::StepStarted {
            kind: effect.request.kind().into(),
            target: effect.request.target(),
            hash: effect.request.hash(),
            class: effect.class,
        };
        let emitted = self.log.emit(path, attempt, started).map_err(halt)?;
        if let Request::Ask(question) = effect.request {
            self.log.emit(path, attempt, Event::Asked(question.clone())).map_err(halt)?;
        }
        match self.log.outcome(path, attempt).await {
            Some(Recorded::Finished { output, usage, memory }) => {
                self.ledger.book(usage.as_ref());
                self.learn(effect.request, path, &memory);
                return Ok(output);
            }
            Some(Recorded::Failed { error, then }) => return Err(Failure::Step(error, Some(then))),
            None => {}
        }
        let aborted = emitted == Emitted::Recorded && self.log.take(path, attempt, EventKind::StepAborted).is_some();
        if aborted || self.log.mode == Mode::Replay {
            self.log.forever().await;
        }
        self.log.live().await;
        let outcome = match self.decided(place, attempt, &effect, emitted).await? {
            Some(outcome) => outcome,
            None => {
                self.log.durable().await.map_err(halt)?;
                self.timed(place, attempt, &effect).await?
            }
        };
        let limit = self.limits.output_bytes;
        if outcome.output.as_ref().is_some_and(|output| output.weight() as u64 > limit) {
            let message = format!("the output is larger than {limit} bytes");
            return Err(StepError::new(Code::LimitOutput, message).into());
        }
        let Outcome { output, usage, memory } = outcome;
        self.learn(effect.request, path, &memory);
        let finished = Event::StepFinished { output: output.clone(), usage, memory };
        self.log.emit(path, attempt, finished).map_err(halt)?;
        Ok(output)
    }

    /// Holds the memory writes of a block until they are applied to its variables.
    fn learn(&self, request: &Request, path: &Path, memory: &[MemoryWrite]) {
        if matches!(request, Request::Python(_)) && !memory.is_empty() {
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            learned.insert(path.clone(), memory.to_vec());
        }
    }

    fn count_step(&self) -> Result<(), StepError> {
        let count = self.steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if count > self.limits.steps {
            return Err(StepError::new(
                Code::LimitSteps,
                format!("the run reached its limit of {} steps", self.limits.steps),
            ));
        }
        Ok(())
    }

    /// Decides about an effect that was started in an earlier session and has no outcome: it is repeated if its class
    /// allows that; otherwise a person decides. `None`: perform it.
    async fn decided(
        &self,
        place: &Place,
        attempt: u32,
        effect: &Effect<'_>,
        emitted: Emitted,
    ) -> Result<Option<Outcome>, Failure> {
        if emitted == Emitted::New || effect.class == EffectClass::AtLeastOnce {
            return Ok(None);
        }
        if self.log.take(&place.path, attempt, EventKind::StepUncertain).is_none() {
            self.log.note(&place.path, attempt, Event::StepUncertain);
        }
        match self.log.resolution(&place.path, attempt).await {
            Resolution::Resend => Ok(None),
            Resolution::Value(value) => Ok(Some(Outcome { output: Some(value), usage: None, memory: Vec::new() })),
            Resolution::Fail => {
                let message = "the effect may or may not have happened, and a person marked it as failed";
                Err(StepError::new(Code::EffectUncertain, message).into())
            }
        }
    }

    async fn timed(&self, place: &Place, attempt: u32, effect: &Effect<'_>) -> Result<Outcome, Failure> {
        let work = self.performing(place, attempt, effect.request);
        let Some(limit) = effect.timeout_ms else { return work.await };
        let until = self.log.now_ms().saturating_add(limit);
        match scope::race(work, self.effects.clock.sleep_until(until)).await {
            Some(performed) => performed,
            None => Err(StepError::passing(Code::StepTimeout, format!("no answer within {limit} ms")).into()),
        }
    }

    /// A separate function, because a box created where it is awaited would also reserve space for its content there.
    fn performing<'a>(
        &'a self,
        place: &'a Place,
        attempt: u32,
        request: &'a Request,
    ) -> Boxed<'a, Result<Outcome, Failure>> {
        Box::pin(self.perform(place, attempt, request))
    }

    async fn perform(&self, place: &Place, attempt: u32, request: &Request) -> Result<Outcome, Failure> {
        // Waiting for people and timers is not an activity: a run that only waits is suspended.
        match request {
            Request::Ask(_) => return Ok(plain(self.log.answer(&place.path, attempt).await)),
            Request::Wait { duration_ms } => return self.wait(place, attempt, *duration_ms).await,
            _ => {}
        }
        let _activity = self.log.activity();
        let _permit = if place.inside { None } else { Some(self.flying.enter(self.limits.parallel).await) };
        let mut aborted = Aborted::new(&self.log, &place.path, attempt);
        let context = self.context(place, attempt);
        let effects = &self.effects;
        let outcome = match request {
            Request::Generate(request) => self.generate(request, &context).await,
            Request::Http(request) => {
                let reply = effects.http.send(request, &context).await;
                reply.map_err(Failure::from).and_then(|reply| read_reply(&reply))
            }
            Request::Scrape(request) => {
                let content = effects.scraper.fetch(request, &context).await;
                content.map(|content| plain(content.into())).map_err(Failure::from)
            }
            Request::Call(request) => self.call(request, context, place).await,
            Request::Exchange(request) => {
                let reply = effects.http.send(request, &context).await;
                reply.map(|reply| plain(reply.to_value())).map_err(Failure::from)
            }
            Request::Python(request) => {
                let below = Below::new(self, place, attempt);
                let reply = effects.code.python(request, &below, &context).await;
                match below.halted() {
                    Some(halt) => Err(Failure::Halt(halt)),
                    None => reply.map(block_outcome).map_err(Failure::from),
                }
            }
            Request::MemoryGet { key } => {
                let value = self.memory.memory(&self.owner, key).await;
                value.map(|value| plain(value.unwrap_or_default())).map_err(Failure::from)
            }
            Request::Memories => self.kept(&self.owner).await,
            Request::Profile => self.kept(&profile_holder(&self.owner)).await,
            Request::MemorySet { key, value } => Ok(Outcome {
                output: Some(value.clone()),
                usage: None,
                memory: vec![MemoryWrite { key: key.clone(), value: Some(value.clone()) }],
            }),
            Request::Ask(_) | Request::Wait { .. } => Ok(plain(Value::Null)),
        };
        aborted.disarm();
        outcome
    }

    /// Calls a function. The usage of workflows that it runs is added to this step.
    async fn call(&self, request: &CallRequest, mut context: Context, place: &Place) -> Result<Outcome, Failure> {
        let purse = Arc::new(Purse::new(self.ledger.left(&self.limits)));
        context.purse = Some(purse.clone());
        let below = Below::new(self, place, context.attempt);
        let output = self.effects.functions.call(request, &context, &below).await;
        let usage = purse.used();
        self.ledger.book(usage.as_ref());
        match below.halted() {
            Some(halt) => Err(Failure::Halt(halt)),
            None => Ok(Outcome { usage, ..plain(output?) }),
        }
    }

    async fn kept(&self, holder: &str) -> Result<Outcome, Failure> {
        Ok(plain(self.memory.memories(holder).await?.into()))
    }

    async fn wait(&self, place: &Place, attempt: u32, duration_ms: u64) -> Result<Outcome, Failure> {
        let until = match self.log.take(&place.path, attempt, EventKind::TimerSet).map(|record| record.event.clone()) {
            Some(Event::TimerSet { until }) => until,
            _ => {
                let until = self.log.now_ms().saturating_add(duration_ms);
                let set = self.log.emit(&place.path, attempt, Event::TimerSet { until });
                set.map_err(|error| Failure::Halt(Halt::Fatal(error, place.path.clone())))?;
                until
            }
        };
        let _timer = self.log.timer();
        self.effects.clock.sleep_until(until).await;
        Ok(plain(Value::Null))
    }

    pub(super) fn context(&self, place: &Place, attempt: u32) -> Context {
        let run = self.log.lease.run;
        Context {
            run,
            path: place.path.clone(),
            attempt,
            owner: self.owner.clone(),
            agent: self.agent.clone(),
            depth: place.depth,
            purse: None,
            deltas: self.log.publisher.deltas(),
        }
    }

    /// A model call within the budget: an upper bound is reserved before it and settled after it.
    async fn generate(&self, request: &GenerateRequest, context: &Context) -> Result<Outcome, Failure> {
        let model = &self.effects.model;
        if self.limits.tokens.is_none() && self.limits.micro_usd.is_none() {
            let generated = model.generate(request, context).await?;
            self.ledger.book(Some(&generated.usage));
            return Ok(answer(generated, request));
        }
        let mut bounded = request.clone();
        let claim =
            self.claim(&mut bounded).map_err(|error| Failure::Halt(Halt::Fatal(error, context.path.clone())))?;
        let held = self.ledger.reserve(&self.limits, claim).await;
        let held = held.map_err(|error| Failure::Halt(Halt::Fatal(error, context.path.clone())))?;
        let generated = model.generate(&bounded, context).await?;
        held.settle(&generated.usage);
        Ok(answer(generated, request))
    }

    /// The upper bound of a call's cost. An answer without a limit of its own is limited by the remaining budget.
    fn claim(&self, request: &mut GenerateRequest) -> Result<Claim, StepError> {
        // A token is at least one byte, so bytes bound tokens for every tokenizer; each message has some framing.
        let prompt: u64 = request.messages.iter().map(|message| message.content.len() as u64 + 16).sum();
        let model = &self.effects.model;
        let wanted = request.options.max_tokens.map(u64::from);
        let left = self.ledger.tokens_left(&self.limits).map(|left| left.saturating_sub(prompt));
        let answer = match (wanted, left) {
            (Some(wanted), _) => wanted,
            (None, Some(left)) => left.min(model.default_max_tokens(&request.model)).max(1),
            (None, None) => model.default_max_tokens(&request.model),
        };
        request.options.max_tokens = Some(u32::try_from(answer).unwrap_or(u32::MAX));
        let micro_usd = match (self.limits.micro_usd, model.price(&request.model)) {
            (None, _) => 0,
            (Some(_), Some(price)) => price.of(prompt, answer),
            (Some(_), None) => {
                let message = format!(
                    "the price of {} is unknown, so a money budget cannot be enforced; use a token budget",
                    request.model
                );
                return Err(StepError::new(Code::PriceUnknown, message));
            }
        };
        Ok(Claim { tokens: prompt + answer, micro_usd })
    }
}

fn block_outcome(reply: PythonReply) -> Outcome {
    let memory = reply.memory.into_iter().map(|(key, value)| MemoryWrite { key, value }).collect();
    Outcome { output: Some(reply.output), usage: None, memory }
}

fn plain(value: Value) -> Outcome {
    Outcome { output: Some(value), usage: None, memory: Vec::new() }
}

/// A model's answer as an output: tool calls and text if tools were available, JSON if a schema was given, otherwise
/// text.
fn answer(generated: Generated, request: &GenerateRequest) -> Outcome {
    let usage = Some(generated.usage);
    let text = generated.text;
    let output = if !request.tools.is_empty() {
        let calls = serde_json::to_string(&generated.tool_calls).unwrap_or_default();
        let calls = flowloom_core::json::parse_value(&calls).unwrap_or_default();
        let text = text.map_or(Value::Null, Value::from);
        Some(Value::map([("text", text), ("tool_calls", calls)]))
    } else if request.schema.is_some() && request.purpose != Purpose::Judged {
        text.and_then(|text| flowloom_core::json::read_lenient(&text))
    } else {
        text.map(Value::from)
    };
    Outcome { output, usage, memory: Vec::new() }
}

fn read_reply(reply: &flowloom_core::effect::HttpReply) -> Result<Outcome, Failure> {
    if (200..300).contains(&reply.status) {
        return Ok(plain(flowloom_core::effect::decode(&reply.body)));
    }
    let message = format!("HTTP error! status: {}", reply.status);
    let error = if flowloom_core::effect::is_passing(reply.status) { StepError::passing } else { StepError::new };
    Err(error(Code::HttpStatus, message.clone()).into())
}

/// Records that an effect was abandoned if its future is dropped before it completes.
struct Aborted<'a> {
    log: &'a RunLog,
    path: &'a Path,
    attempt: u32,
    armed: bool,
}

impl<'a> Aborted<'a> {
    fn new(log: &'a RunLog, path: &'a Path, attempt: u32) -> Aborted<'a> {
        Aborted { log, path, attempt, armed: true }
    }

    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Aborted<'_> {
    fn drop(&mut self) {
        if self.armed && self.log.is_open() {
            self.log.note(self.path, self.attempt, Event::StepAborted { reason: "its branch or run ended".into() });
        }
    }
}

/// The budget of a run, shared by its branches.
pub(crate) struct Budget {
    state: Mutex<(Ledger, Vec<Waker>)>,
}

impl Budget {
    pub(crate) fn new(ledger: Ledger) -> Budget {
        Budget { state: Mutex::new((ledger, Vec::new())) }
    }

    fn state(&self) -> MutexGuard<'_, (Ledger, Vec<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the cost of a call that needed no reservation.
    fn book(&self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.state().0.settle(Claim::default(), used(usage));
        }
    }

    /// The limits, less the amounts spent.
    fn left(&self, limits: &Limits) -> Limits {
        let spent = self.state().0.settled();
        let rest = |budget: Option<u64>, spent: u64| budget.map(|budget| budget.saturating_sub(spent));
        Limits {
            tokens: rest(limits.tokens, spent.tokens),
            micro_usd: rest(limits.micro_usd, spent.micro_usd),
            ..limits.clone()
        }
    }

    fn tokens_left(&self, limits: &Limits) -> Option<u64> {
        self.state().0.tokens_left(limits)
    }

    /// Reserves `claim`; waits if only calls in flight prevent it.
    async fn reserve(&self, limits: &Limits, claim: Claim) -> Result<Held<'_>, StepError> {
        poll_fn(|context| {
            let mut state = self.state();
            match state.0.reserve(limits, claim) {
                Reservation::Granted => Poll::Ready(Ok(Held { budget: self, claim, used: Claim::default() })),
                Reservation::Later => {
                    state.1.push(context.waker().clone());
                    Poll::Pending
                }
                Reservation::Exceeded => Poll::Ready(Err(exceeded(&state.0, limits, claim))),
            }
        })
        .await
    }
}

fn exceeded(ledger: &Ledger, limits: &Limits, claim: Claim) -> StepError {
    let spent = ledger.settled();
    match limits.tokens {
        Some(budget) if spent.tokens + claim.tokens > budget => {
            let message =
                format!("the next model call may use {} tokens; {} of {budget} are used", claim.tokens, spent.tokens);
            StepError::new(Code::BudgetTokens, message)
        }
        _ => {
            let message = format!(
                "the next model call may cost {} millionths of a dollar; {} of {} are spent",
                claim.micro_usd,
                spent.micro_usd,
                limits.micro_usd.unwrap_or_default()
            );
            StepError::new(Code::BudgetMoney, message)
        }
    }
}

fn used(usage: &Usage) -> Claim {
    Claim { tokens: usage.input_tokens + usage.output_tokens, micro_usd: usage.micro_usd.unwrap_or_default() }
}

/// A reservation. It is released on drop, so a failed or abandoned call frees its amount.
struct Held<'a> {
    budget: &'a Budget,
    claim: Claim,
    used: Claim,
}

impl Held<'_> {
    fn settle(mut self, usage: &Usage) {
        self.used = used(usage);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.0.settle(self.claim, self.used);
        state.1.drain(..).for_each(Waker::wake);
    }
}
