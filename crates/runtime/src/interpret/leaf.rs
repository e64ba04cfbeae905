//! Leaves: the request of each kind, and the handling of failures.

use flowloom_core::chat::content;
use flowloom_core::chat::{GenerateOptions, Message, Messages, Role};
use flowloom_core::code::Code;
use flowloom_core::effect::{
    AskRequest, CallRequest, GenerateRequest, HttpRequest, Purpose, PythonRequest, Request, ScrapeRequest,
};
use flowloom_core::error::{Retry, StepFailure};
use flowloom_core::event::{AfterFailure, Event, EventKind, Record};
use flowloom_core::expr::{Data, Lookup};
use flowloom_core::hash::Hasher;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::{Block, BlockCode, Env, Generate, Leaf, OnError, Policy, RetryRule, Scrape, Step, Summary};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;

use super::block;
use super::effect::{Effect, EffectFailure, FailedAttempt, RecordedFailure};
use super::requests::{block_payload, call_request, memory_request, merge_options, reject_secrets, resolve_model};
use super::{Interpreter, Interrupt, StepContext, StepResult};
use crate::effects::BoxFuture;
use crate::log::Mode;
use crate::scope;

impl Interpreter {
    pub(super) async fn run_leaf(&self, step: &Step, leaf: &Leaf, env: &mut Env, place: &StepContext) -> StepResult {
        if let (Some(agent), Some(capability)) = (&self.agent, &step.capability)
            && let Err(error) = self.effects.functions.check_permission(agent, capability)
        {
            let (error, _) = self.record_failure(&step.policy, place, 0, error.into())?;
            return Err(Interrupt::Failed(error, place.path.clone()));
        }
        match leaf {
            Leaf::Scrape(scrape) => Box::pin(self.run_scrape(step, scrape, env, place)).await,
            Leaf::Generate(generate) => self.run_generate(step, leaf, generate, env, place).await,
            Leaf::Block(block) => self.run_block(step, leaf, block, env, place).await,
            Leaf::Fail { .. }
            | Leaf::Http(_)
            | Leaf::Call(_)
            | Leaf::Memory(_)
            | Leaf::Ask { .. }
            | Leaf::Wait { .. } => self.run_effect(step, leaf, env, place).await,
        }
    }

    /// Runs a leaf that is a single effect; boxed separately from the steps around it.
    fn run_effect<'a>(
        &'a self,
        step: &'a Step,
        leaf: &'a Leaf,
        env: &'a Env,
        place: &'a StepContext,
    ) -> BoxFuture<'a, StepResult> {
        scope::box_small(self.run_attempts(&step.policy, place, move || self.build_request(leaf, env, place)))
    }

    /// A model call, possibly as part of a conversation.
    async fn run_generate(
        &self,
        step: &Step,
        leaf: &Leaf,
        generate: &Generate,
        env: &mut Env,
        place: &StepContext,
    ) -> StepResult {
        let output = self.run_effect(step, leaf, env, place).await?;
        if let Some(thread) = &generate.thread {
            let messages_sent = self.build_messages(&generate.messages, env, place);
            let messages_sent = messages_sent.map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
            let text = match &output {
                Some(output) if generate.schema.is_some() => content::fence_json(output),
                Some(output) => render::render_text(output, TextStyle::Json),
                None => String::new(),
            };
            messages_sent
                .into_iter()
                .chain([Message::new(Role::Assistant, text)])
                .for_each(|message| env.append_message(thread, message));
        }
        Ok(output)
    }

    /// A block: its output is checked, and its memory writes become visible to later steps.
    async fn run_block(
        &self,
        step: &Step,
        leaf: &Leaf,
        block: &Block,
        env: &mut Env,
        place: &StepContext,
    ) -> StepResult {
        let output = self.run_effect(step, leaf, env, place).await?;
        self.apply_memory_writes(&place.path, env);
        if let Some(problem) = block::check_output(block, output.as_ref()) {
            let (error, _) = self.record_failure(&step.policy, place, 0, problem.into())?;
            return Err(Interrupt::Failed(error, place.path.clone()));
        }
        Ok(output)
    }

    /// Applies the memory writes of the block at `path` to the variables.
    pub(super) fn apply_memory_writes(&self, path: &Path, env: &mut Env) {
        let Some(writes) = self.pending_memory_writes.lock().get(path).cloned() else {
            return;
        };
        let mut memory = env.lookup_name("memory").and_then(Value::as_map).cloned().unwrap_or_default();
        for write in writes {
            match write.value {
                Some(value) => memory.insert(write.key.as_str().into(), value),
                None => memory.shift_remove(write.key.as_str()),
            };
        }
        env.vars.set("memory".into(), memory.into());
    }

    /// Attempts an effect as often as its policy allows.
    pub(super) async fn run_attempts(
        &self,
        policy: &Policy,
        place: &StepContext,
        request: impl Fn() -> Result<Request, StepFailure>,
    ) -> StepResult {
        let mut first: Option<StepFailure> = None;
        for attempt in self.log.last_forgotten_attempt(&place.path) + 1.. {
            let failure = 'tried: {
                // Reports that came before belong to an earlier request.
                self.missing.discard_messages();
                // Bound first: a temporary of the `match` would be stored in the future across the await.
                let request = match request() {
                    Ok(request) => request,
                    Err(error) => break 'tried error.into(),
                };
                if self.log.is_following()
                    && let Some(failed) = Box::pin(self.take_unstarted_failure(&place.path, attempt)).await
                {
                    break 'tried EffectFailure::Step(failed);
                }
                let class = self.effect_class(&request);
                let mut effect = Effect { request: &request, class, timeout_ms: policy.timeout_ms, expiry: None };
                match self.run_attempt(place, attempt, &mut effect).await {
                    Ok(output) => return Ok(output),
                    Err(failure) => failure,
                }
            };
            let failed = match failure {
                EffectFailure::Interrupt(halt) => return Err(halt),
                EffectFailure::Step(failed) => failed,
            };
            let (error, then, failed_at) = match failed {
                FailedAttempt { error, recorded: Some(RecordedFailure { then, at }), .. } => (error, then, at),
                failed => {
                    let (error, then) = self.record_failure(policy, place, attempt, failed)?;
                    (error, then, self.log.now_ms())
                }
            };
            let first = first.get_or_insert(error);
            match then {
                AfterFailure::Retry(at) => self.wait_for_retry(place, attempt, at, failed_at).await,
                AfterFailure::Fail | AfterFailure::Continue => {
                    return Err(Interrupt::Failed(first.clone(), place.path.clone()));
                }
            }
        }
        Ok(None)
    }

    /// Decides the consequence of a failure and records it.
    fn record_failure(
        &self,
        policy: &Policy,
        place: &StepContext,
        attempt: u32,
        failed: FailedAttempt,
    ) -> Result<(StepFailure, AfterFailure), Interrupt> {
        let FailedAttempt { mut error, usage, .. } = failed;
        if let Some(prefix) = policy.error_prefix {
            error.message.insert_str(0, prefix);
        }
        // Attempts before the run was reopened are no retries.
        let tries = attempt.saturating_sub(self.log.last_forgotten_attempt(&place.path));
        let then = match (&policy.retry, policy.on_error) {
            // Without an attempt there is nothing to retry, and an effect with too large an output has happened.
            (Some(rule), _) if (1..=rule.max).contains(&tries) && error.code != Code::LimitOutput => {
                let delay = delay_ms(rule, tries, error.retry, &place.path);
                AfterFailure::Retry(self.log.now_ms().saturating_add(delay))
            }
            (_, OnError::Fail) => AfterFailure::Fail,
            (_, OnError::Continue) => AfterFailure::Continue,
        };
        let failed = Event::StepFailed { error: error.clone(), then: then.clone(), usage, reused: false };
        // A newer program may word the message differently; the run continues with the recorded one.
        match self.emit_or_adopt(place, attempt, failed)?.as_deref() {
            Some(Record { event: Event::StepFailed { error, then, .. }, .. }) => Ok((error.clone(), then.clone())),
            _ => Ok((error, then)),
        }
    }

    /// Waits until the time `at` of the next attempt, unless the record already contains it. `failed_at` is the time of the
    /// failure.
    async fn wait_for_retry(&self, place: &StepContext, attempt: u32, at: u64, failed_at: u64) {
        let is_recorded = self.log.find_record(&place.path, attempt + 1, EventKind::StepStarted).is_some()
            || self.log.has_reusable_attempt(&place.path, attempt + 1);
        if !is_recorded {
            self.log.wait_until_live().await;
            if self.log.mode == Mode::Replay {
                // The record ends during this wait.
                self.log.wait_forever().await;
            }
            let _activity = self.log.start_activity(place.enclosing.as_ref());
            crate::failpoint::hit("retry_wait_before");
            self.effects.clock.sleep_for(self.log.remaining_ms(at, failed_at)).await;
        }
    }

    fn build_request(&self, leaf: &Leaf, env: &Env, place: &StepContext) -> Result<Request, StepFailure> {
        match leaf {
            Leaf::Generate(generate) => Ok(Request::Generate(Box::new(self.generate_request(generate, env, place)?))),
            Leaf::Http(spec) => Ok(Request::Http(HttpRequest::resolve(spec, env, place.text)?)),
            Leaf::Scrape(scrape) => self.scrape_request(scrape, env, place),
            Leaf::Call(call) => Ok(Request::Call(call_request(call, env, place)?)),
            Leaf::Block(block) => self.block_request(block, env, place),
            Leaf::Memory(step) => memory_request(step, env, place),
            Leaf::Ask { question, schema } => {
                let question = reject_secrets(question.resolve(env, place.text)?)?;
                Ok(Request::Ask(AskRequest { question, schema: schema.clone(), subject: None, expires_at: None }))
            }
            Leaf::Wait { duration_ms } => Ok(Request::Wait { duration_ms: *duration_ms }),
            Leaf::Fail { code, message } => Err(StepFailure::new(*code, message.clone())),
        }
    }

    fn block_request(&self, block: &Block, env: &Env, place: &StepContext) -> Result<Request, StepFailure> {
        let inputs = block::coerce_inputs(block, block.inputs.resolve(env, place.text)?)?;
        match &block.code {
            BlockCode::Python { source, effect } => {
                let user = env.lookup_name("user").cloned().unwrap_or_default();
                let memory = env.lookup_name("memory").cloned().unwrap_or_default();
                Ok(Request::Python(PythonRequest { source: source.clone(), inputs, user, memory, class: *effect }))
            }
            BlockCode::Function(function) => {
                let payload = block_payload(block, inputs, env, place)?;
                Ok(Request::Call(CallRequest { function: function.clone(), payload }))
            }
            BlockCode::Prompt { generate, text, raw_field } => {
                let mut inner = env.clone();
                inner.locals.push(("inputs".into(), inputs));
                let place = StepContext { text: *text, ..place.clone() };
                let mut request = self.generate_request(generate, &inner, &place)?;
                if let Some(field) = raw_field {
                    request.purpose = Purpose::ObjectOr(field.clone());
                }
                Ok(Request::Generate(Box::new(request)))
            }
        }
    }

    /// The request of a model call.
    pub(super) fn generate_request(
        &self,
        generate: &Generate,
        env: &Env,
        place: &StepContext,
    ) -> Result<GenerateRequest, StepFailure> {
        let named = generate.model.as_ref().map(|model| resolve_model(model, env, place)).transpose()?;
        let model = self.effects.model.find_model_name(named.as_deref())?;
        let system = generate.system.as_ref().map(|system| self.render_message(system, env, place)).transpose()?;
        let thread = generate.thread.as_ref().map(|thread| env.find_thread(thread)).unwrap_or_default();
        let new = self.build_messages(&generate.messages, env, place)?;
        Ok(GenerateRequest {
            model,
            messages: Messages::new(system, thread, new),
            tools: Vec::new(),
            schema: generate.schema.clone(),
            options: merge_options(generate, env)?,
            purpose: Purpose::Step,
        })
    }

    fn build_messages(
        &self,
        messages: &[(Role, Data)],
        env: &Env,
        place: &StepContext,
    ) -> Result<Vec<Message>, StepFailure> {
        // Not collected, which would allocate space for four: many runs wait for the answer to one message.
        let mut messages_sent = Vec::with_capacity(messages.len());
        for (role, data) in messages {
            messages_sent.push(Message::new(*role, self.render_message(data, env, place)?));
        }
        Ok(messages_sent)
    }

    /// The text of a message.
    fn render_message(&self, data: &Data, env: &Env, place: &StepContext) -> Result<String, StepFailure> {
        match data {
            Data::Text(template) => reject_secrets(template.resolve(env, place.text)?),
            data => Ok(render::render_text(&data.resolve(env, place.text)?, place.text.style)),
        }
    }

    fn scrape_request(&self, scrape: &Scrape, env: &Env, place: &StepContext) -> Result<Request, StepFailure> {
        let url = reject_secrets(scrape.url.resolve(env, place.text)?)?;
        if url.is_empty() {
            return Err(StepFailure::new(Code::ScrapeFailed, scrape.messages.no_url));
        }
        Ok(Request::Scrape(ScrapeRequest { url, capture: scrape.capture }))
    }

    /// Reads a page, applies the selector, and summarises text that exceeds the model's context window.
    ///
    /// Reading the page is an effect of its own below the step. The output of the step is stored only if it differs
    /// from the page.
    async fn run_scrape(&self, step: &Step, scrape: &Scrape, env: &Env, place: &StepContext) -> StepResult {
        let fetch = place.with_path(place.path.child_path(&Key::numbered_key("page", 1)));
        let fetched = self.run_attempts(&step.policy, &fetch, || self.scrape_request(scrape, env, place)).await?;
        let page = fetched.as_ref().and_then(Value::as_str).unwrap_or_default();
        let output = match self.extract_content(step, scrape, page, env, place).await {
            Ok(output) => Value::from(output),
            Err(Interrupt::Failed(error, _)) => {
                // The page was read; the failure is in this step.
                let (error, _) = self.record_failure(&step.policy, place, 0, error.into())?;
                return Err(Interrupt::Failed(error, place.path.clone()));
            }
            Err(halt) => return Err(halt),
        };
        let stored = (output.as_str() != Some(page)).then(|| output.clone());
        self.emit_finished(place, stored)?;
        Ok(Some(output))
    }

    /// The output of the step for a page.
    async fn extract_content(
        &self,
        step: &Step,
        scrape: &Scrape,
        page: &str,
        env: &Env,
        place: &StepContext,
    ) -> Result<String, Interrupt> {
        let content = self.apply_selector(scrape, page, env, place);
        let content = content.map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
        let summary = match &scrape.summary {
            Some(summary) => self.summarize_content(step, summary, &content, place).await?,
            None => None,
        };
        Ok(summary.unwrap_or(content))
    }

    fn apply_selector(
        &self,
        scrape: &Scrape,
        page: &str,
        env: &Env,
        place: &StepContext,
    ) -> Result<String, StepFailure> {
        let Some(selector) = &scrape.selector else { return Ok(page.to_owned()) };
        let selector = selector.resolve(env, place.text)?.to_redacted_text();
        if selector.is_empty() {
            return Ok(page.to_owned());
        }
        let hits = self.effects.scraper.select_html(page, &selector)?;
        if hits.is_empty() {
            let message = format!("{}: the selector {selector:?} matches nothing", scrape.messages.no_match);
            return Err(StepFailure::new(Code::NoSelector, message));
        }
        let content = hits.join("\n");
        if content.is_empty() {
            return Err(StepFailure::new(Code::ScrapeFailed, scrape.messages.no_content));
        }
        Ok(content)
    }

    /// The key points of a text that exceeds the context window of the model, part by part; `None` if it fits.
    async fn summarize_content(
        &self,
        step: &Step,
        summary: &Summary,
        content: &str,
        place: &StepContext,
    ) -> Result<Option<String>, Interrupt> {
        let part_place = |index: usize| {
            let path = place.path.child_path(&Key::numbered_key("summary", 1)).iteration_path(index as u64);
            place.with_path(path)
        };
        let model = match self.effects.model.resolve(None) {
            Ok(model) => model,
            // A recorded step needs no usable model.
            Err(error) if self.is_recorded(&part_place(0).path) => {
                let name = self.effects.model.find_model_name(None);
                name.map_err(|_| Interrupt::Failed(error, place.path.clone()))?
            }
            // Without a model there is no context window. A text that fits any window is passed on unchanged.
            Err(_) if content.len() < summary.max_bytes_without_model => return Ok(None),
            Err(error) => return Err(Interrupt::Failed(error, place.path.clone())),
        };
        let window = self.effects.model.context_window(&model).max(1);
        let tokens = self.effects.model.count_tokens(&model, content);
        if tokens < window {
            return Ok(None);
        }
        let part_tokens = (window * summary.part_percent / 100).max(1);
        let characters = content.chars().count();
        let part_characters = (characters as u64 * part_tokens / tokens.max(1)).max(1) as usize;
        let parts = split_chunks(content, part_characters);
        let mut notes = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let purpose = Purpose::Summary { characters, part: index, parts: parts.len() };
            let request = summary_request(&model, summary.instructions, part, purpose, window);
            let at = part_place(index);
            let output =
                self.run_attempts(&step.policy, &at, || Ok(Request::Generate(Box::new(request.clone())))).await?;
            notes.extend(output.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned));
        }
        Ok(Some(notes.join("\n")))
    }
}

fn summary_request(model: &str, instructions: &str, part: &str, purpose: Purpose, window: u64) -> GenerateRequest {
    GenerateRequest {
        model: model.to_owned(),
        messages: vec![Message::new(Role::System, instructions), Message::new(Role::User, part)].into(),
        tools: Vec::new(),
        schema: None,
        options: GenerateOptions {
            temperature: Some(0.0),
            max_tokens: Some(u32::try_from(window / 4).unwrap_or(u32::MAX).max(16)),
            ..Default::default()
        },
        purpose,
    }
}

/// Splits text into parts of at most `size` characters.
fn split_chunks(text: &str, size: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

/// The delay before the next attempt, in milliseconds. It doubles each time; jitter subtracts up to half of it. The
/// jitter is a hash of the path, so that it is the same in a replay and after a crash. The delay is never shorter than
/// the other side requested.
fn delay_ms(rule: &RetryRule, attempt: u32, requested: Retry, path: &Path) -> u64 {
    let full = rule.base_ms.saturating_mul(1u64.checked_shl(attempt - 1).unwrap_or(u64::MAX)).min(rule.cap_ms);
    let hash = Hasher::new().add_text(path.as_str()).add_number(u64::from(attempt)).finish();
    let jitter = u64::from(hash.as_bytes()[0]) * (full / 2) / 255;
    let own = full - jitter;
    match requested {
        Retry::After(timeout) => own.max(timeout.min(rule.cap_ms.max(60_000))),
        Retry::Never | Retry::Maybe => own,
    }
}
