//! The comparison of a replayed event with the recorded one.

use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};

/// The plan does not reproduce the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Divergence {
    pub(crate) message: String,
    /// Whether the replay produced an event that the record does not have.
    pub(crate) is_beyond_record: bool,
}

impl Divergence {
    /// A difference between an event of the record and the replay.
    pub(crate) fn new(message: String) -> Divergence {
        Divergence { message, is_beyond_record: false }
    }

    /// An event that the record does not have.
    pub(crate) fn beyond_record(message: String) -> Divergence {
        Divergence { message, is_beyond_record: true }
    }
}

/// Compares an event of the interpreter with the recorded one. Fails if they differ.
pub(crate) fn compare_event(record: &Record, event: &Event) -> Result<(), Divergence> {
    let (was, is) = match (&record.event, event) {
        (was, is) if is_same_decision(was, is) => return Ok(()),
        (Event::StepStarted { target: was, hash: old, .. }, Event::StepStarted { target: is, hash: new, .. }) => {
            (format!("a request to {was} ({old})"), format!("a request to {is} ({new})"))
        }
        (was, is) => (format!("{was:?}"), format!("{is:?}")),
    };
    Err(Divergence::new(format!("at {}, the record has {was}, and the replay produced {is}", record.path)))
}

/// Whether two errors are the same. Messages for people may differ: another version of the program may word them
/// differently, so errors are compared by their code.
pub(crate) fn is_same_error(was: &StepFailure, is: &StepFailure) -> bool {
    was.code == is.code
}

/// Whether two events let a run continue in the same way.
fn is_same_decision(was: &Event, is: &Event) -> bool {
    match (was, is) {
        (Event::StepStarted { hash: was, .. }, Event::StepStarted { hash: is, .. }) => was == is,
        (Event::StepSkipped { .. }, Event::StepSkipped { .. }) => true,
        // The time at which a question expires depends on when it was asked.
        (Event::Asked(was), Event::Asked(is)) => *was == AskRequest { expires_at: was.expires_at, ..is.clone() },
        (Event::StepFailed { error: was, then: old, .. }, Event::StepFailed { error: is, then: new, .. }) => {
            is_same_error(was, is) && old == new
        }
        (
            Event::RunFinished { status: old, error: was, failed: old_path, thread: old_thread },
            Event::RunFinished { status: new, error: is, failed: new_path, thread: new_thread },
        ) => {
            let is_same = match (was, is) {
                (Some(was), Some(is)) => is_same_error(was, is),
                (was, is) => was == is,
            };
            // Earlier versions ended a run that had used up its steps as failed.
            let had_no_steps = is.as_ref().is_some_and(|is| is.code == Code::LimitSteps);
            is_same && (old == new || had_no_steps) && (old_path, old_thread) == (new_path, new_thread)
        }
        (was, is) => was == is,
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::code::Code;
    use flowloom_core::event::AfterFailure;
    use flowloom_core::id::RunId;
    use flowloom_core::path::Path;
    use flowloom_core::status::Status;

    use super::*;

    fn failed(code: Code, message: &str) -> Event {
        Event::StepFailed {
            error: StepFailure::new(code, message),
            then: AfterFailure::Fail,
            usage: None,
            reused: false,
        }
    }

    fn finished(status: Status, message: &str) -> Event {
        let error = Some(StepFailure::new(Code::LimitOutput, message));
        Event::RunFinished { status, error, failed: Some(Path::root()), thread: None }
    }

    fn compare(was: Event, is: &Event) -> bool {
        let record = Record { run: RunId::new(0, [0; 10]), seq: 1, at: 0, path: Path::root(), attempt: 1, event: was };
        compare_event(&record, is).is_ok()
    }

    #[test]
    fn the_wording_of_a_message_is_not_compared() {
        assert!(compare(failed(Code::LimitOutput, "old words"), &failed(Code::LimitOutput, "new words")));
        assert!(compare(finished(Status::Failed, "old words"), &finished(Status::Failed, "new words")));
        let skipped = |reason: &str| Event::StepSkipped { reason: reason.into() };
        assert!(compare(skipped("old words"), &skipped("new words")));
    }

    #[test]
    fn codes_and_consequences_are_compared() {
        assert!(!compare(failed(Code::LimitOutput, "words"), &failed(Code::LimitSteps, "words")));
        assert!(!compare(finished(Status::Failed, "words"), &finished(Status::Cancelled, "words")));
        let no_steps = |status| {
            let error = Some(StepFailure::new(Code::LimitSteps, "words"));
            Event::RunFinished { status, error, failed: Some(Path::root()), thread: None }
        };
        assert!(compare(no_steps(Status::Failed), &no_steps(Status::BudgetExceeded)), "a record of an earlier version");
        let retried = Event::StepFailed {
            error: StepFailure::new(Code::LimitOutput, "words"),
            then: AfterFailure::Retry(5),
            usage: None,
            reused: false,
        };
        assert!(!compare(failed(Code::LimitOutput, "words"), &retried));
    }
}
