//! Questions to people: asks them, and waits for the answer or until the question expires.

use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;

use super::effect::{EffectFailure, EffectOutcome, plain_outcome};
use super::{Interpreter, StepContext};
use crate::divergence::Divergence;
use crate::log::TimerKind;
use crate::scope;

/// When a question expires.
#[derive(Clone, Copy)]
pub(super) struct Expiry {
    /// The time, in milliseconds since the Unix epoch.
    expires_at: u64,
    /// The time of the question, in milliseconds since the Unix epoch.
    asked_at: u64,
    /// The time limit of the question, in milliseconds.
    timeout_ms: u64,
}

impl Interpreter {
    /// Asks a question that expires after `timeout_ms`. The record decides when a question expires that was asked before.
    pub(super) fn ask_question(
        &self,
        path: &Path,
        attempt: u32,
        question: &AskRequest,
        timeout_ms: Option<u64>,
    ) -> Result<Option<Expiry>, Divergence> {
        let now = self.log.now_ms();
        let expires_at = timeout_ms.map(|timeout_ms| now.saturating_add(timeout_ms));
        let asked = Event::Asked(AskRequest { expires_at, ..question.clone() });
        let (expires_at, asked_at) = match self.log.emit_event(path, attempt, asked)?.as_deref() {
            Some(Record { event: Event::Asked(recorded), at, .. }) => (recorded.expires_at, *at),
            _ => (expires_at, now),
        };
        let expiry = expires_at.zip(timeout_ms);
        Ok(expiry.map(|(expires_at, timeout_ms)| Expiry { expires_at, asked_at, timeout_ms }))
    }

    /// Waits for the answer to a question. Fails if it expires first.
    pub(super) async fn wait_for_answer(
        &self,
        place: &StepContext,
        attempt: u32,
        question: &AskRequest,
        expiry: Option<Expiry>,
    ) -> Result<EffectOutcome, EffectFailure> {
        let answer = Box::pin(self.log.wait_for_answer(&place.path, attempt, question.schema.as_ref()));
        let Some(Expiry { expires_at, asked_at, timeout_ms }) = expiry else { return Ok(plain_outcome(answer.await)) };
        let _timer = self.log.start_timer(expires_at, TimerKind::Question);
        let start_expiry = || {
            Box::pin(async {
                let remaining_ms = self.log.remaining_ms(expires_at, asked_at);
                let is_known = Box::pin(self.log.wait_for_known_time(expires_at));
                scope::run_until(is_known, || self.effects.clock.sleep_for(remaining_ms)).await;
                self.log.wait_for_decisions().await;
            })
        };
        match scope::run_until(answer, start_expiry).await {
            Some(answer) => Ok(plain_outcome(answer)),
            None => {
                let message = format!("no answer within {timeout_ms} ms");
                Err(StepFailure::new_retryable(Code::StepTimeout, message).into())
            }
        }
    }
}
