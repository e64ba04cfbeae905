//! The memory that a run takes for what it keeps until its end: outputs, values of expressions, its transcript, variables.

use std::sync::atomic::Ordering;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, EventKind};
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use super::{Interpreter, Interrupt, StepContext};
use crate::divergence::is_same_error;

impl Interpreter {
    /// Counts a value that is kept. It may be a recorded one, so there is no limit.
    pub(super) fn count_value(&self, value: &Value) {
        self.kept_bytes.fetch_add(value.memory_bytes() as u64, Ordering::Relaxed);
    }

    /// Counts a new value that an event will hold. Fails if the run then keeps too much; the value is not counted, so that
    /// smaller ones may follow.
    pub(super) fn count_new_value(&self, value: &Value) -> Result<(), StepFailure> {
        let bytes = value.memory_bytes() as u64;
        let before = self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limits.total_output_bytes {
            return Ok(());
        }
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(self.describe_excess())
    }

    /// Counts what a step without an effect keeps. Fails if the run then keeps too much.
    ///
    /// No event says where that happens, and parallel branches may reach it in another order when a record is followed. So a
    /// recorded run fails where its end says that it did.
    pub(super) fn count_computed(&self, bytes: usize, place: &StepContext) -> Result<(), Interrupt> {
        let before = self.kept_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let is_excess = match self.log.is_following() {
            false => before.saturating_add(bytes as u64) > self.limits.total_output_bytes,
            true => self.has_recorded_excess(&place.path),
        };
        match is_excess {
            false => Ok(()),
            true => Err(Interrupt::Limit(Status::Failed, self.describe_excess(), place.path.clone())),
        }
    }

    /// Whether the record ends because the step at `path` kept too much.
    fn has_recorded_excess(&self, path: &Path) -> bool {
        let end = self.log.find_record(&Path::root(), 0, EventKind::RunFinished);
        end.is_some_and(|end| match &end.event {
            Event::RunFinished { error: Some(error), failed: Some(failed), .. } => {
                failed == path && is_same_error(error, &self.describe_excess())
            }
            _ => false,
        })
    }

    fn describe_excess(&self) -> StepFailure {
        let limit = self.limits.total_output_bytes;
        let message = format!("the outputs, texts and values of the run take more than {limit} bytes of memory");
        StepFailure::new(Code::LimitOutput, message)
    }
}
