//! Checks and changes to the outcome of an effect before it is recorded: its size, the size of the memory that it
//! writes, secrets, and whether the journal failed instead of the effect.

use flowloom_core::code::Code;
use flowloom_core::effect::{Request, ResponseFacts};
use flowloom_core::error::StepFailure;
use flowloom_core::event::MemoryWrite;
use flowloom_core::plan::EffectClass;

use super::Interpreter;
use super::effect::{EffectFailure, EffectOutcome, FailedAttempt};
use crate::error::JournalError;
use crate::memory_quota::MemoryUsage;
use crate::redact::{Redactor, redact_value};

impl Interpreter {
    /// Counts a new output. Fails if it exceeds the limit of one, or with other values that of all. The memory of a user has
    /// a limit of its own, which is checked when it is written.
    pub(super) fn count_new_output(&self, request: &Request, outcome: &EffectOutcome) -> Result<(), FailedAttempt> {
        let Some(output) = &outcome.output else { return Ok(()) };
        let is_memory = matches!(request, Request::Memories | Request::Profile | Request::MemoryGet { .. });
        let limit = self.limits.output_bytes;
        let counted = match !is_memory && output.approximate_bytes() as u64 > limit {
            true => Err(StepFailure::new(Code::LimitOutput, format!("the output is larger than {limit} bytes"))),
            false => self.count_new_value(output),
        };
        counted.map_err(|error| FailedAttempt { usage: outcome.usage, ..error.into() })
    }

    /// Fails if the writes of an outcome exceed the size of the user's memory, or if a database cannot keep one of their keys.
    /// Other runs may write at the same time, so the limit can be exceeded by what they write meanwhile.
    pub(super) async fn check_memory_writes(&self, outcome: EffectOutcome) -> Result<EffectOutcome, EffectFailure> {
        if outcome.memory.iter().any(|write| write.key.contains('\0')) {
            let message = "a key of the memory cannot contain a null character";
            return Err(StepFailure::new(Code::StepRefused, message).into());
        }
        let lock_usage = || self.memory_usage.lock();
        let is_known = lock_usage().is_some();
        if !is_known {
            // The effect was performed. It does not fail because the database cannot be reached now.
            let Ok(memories) = self.memory.read_memories(&self.memory_owner).await else { return Ok(outcome) };
            lock_usage().get_or_insert_with(|| MemoryUsage::of_memories(&memories));
        }
        lock_usage().get_or_insert_default().add_writes(&outcome.memory, self.limits.memory_bytes)?;
        Ok(outcome)
    }
}

/// A journal that cannot be reached is no failure of the step: the run stops being driven, as if it could not append, and
/// continues when the journal is back.
impl From<JournalError> for EffectFailure {
    fn from(error: JournalError) -> EffectFailure {
        match error {
            error if error.is_outage() => EffectFailure::Interrupt(error.into()),
            error => EffectFailure::Step(StepFailure::from(error).into()),
        }
    }
}

/// Effects read the store, too: quotas, definitions, blocks. If it stays out of reach, an effect that may be repeated is, when
/// the run continues. A block has no effects but its child effects, each of which is decided about by itself.
pub(super) fn halt_on_outage(failure: EffectFailure, request: &Request, class: EffectClass) -> EffectFailure {
    let may_repeat = class == EffectClass::AtLeastOnce || matches!(request, Request::Python(_));
    match failure {
        EffectFailure::Step(FailedAttempt { error, recorded: None, .. })
            if may_repeat && error.code.is_store_outage() =>
        {
            JournalError::Unavailable(error).into()
        }
        failure => failure,
    }
}

/// The name of the model is a text of the provider, which knows the key of the call.
fn redact_response(redactor: &dyn Redactor, response: ResponseFacts) -> ResponseFacts {
    let model = response.model.map(|name| redactor.redact_text(&name).into_owned());
    ResponseFacts { model, ..response }
}

/// Removes secrets from the outcome of an effect, or from the message of its failure.
pub(super) fn redact_result(
    redactor: &dyn Redactor,
    result: Result<EffectOutcome, EffectFailure>,
) -> Result<EffectOutcome, EffectFailure> {
    match result {
        Ok(outcome) => Ok(EffectOutcome {
            output: outcome.output.map(|output| redact_value(redactor, output)),
            usage: outcome.usage,
            response: redact_response(redactor, outcome.response),
            memory: outcome.memory.into_iter().map(|write| redact_memory_write(redactor, write)).collect(),
        }),
        Err(EffectFailure::Step(mut failed)) => {
            failed.error.message = redactor.redact_text(&failed.error.message).into_owned();
            Err(EffectFailure::Step(failed))
        }
        Err(halt) => Err(halt),
    }
}

fn redact_memory_write(redactor: &dyn Redactor, write: MemoryWrite) -> MemoryWrite {
    MemoryWrite { value: write.value.map(|value| redact_value(redactor, value)), ..write }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::redact::RedactedStream;

    struct HiddenKey;

    impl Redactor for HiddenKey {
        fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
            text.replace("sk-123", "{{secret.KEY}}").into()
        }

        fn start_stream(&self) -> Box<dyn RedactedStream> {
            unreachable!("an outcome is no stream")
        }
    }

    #[test]
    fn a_provider_cannot_put_a_key_into_the_name_of_its_model() {
        let response = ResponseFacts { model: Some("m-sk-123".to_owned()), ..ResponseFacts::default() };
        let outcome = EffectOutcome { output: None, usage: None, memory: Vec::new(), response };
        let Ok(redacted) = redact_result(&HiddenKey, Ok(outcome)) else { panic!("it succeeded") };
        assert_eq!(redacted.response.model.as_deref(), Some("m-{{secret.KEY}}"));
    }
}
