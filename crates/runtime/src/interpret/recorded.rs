//! The outcomes of effects that are not performed, because a record has them.

use flowloom_core::event::EventKind;
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::value::Value;

use super::effect::{Effect, EffectFailure, FailedAttempt, RecordedFailure};
use super::{Interpreter, StepContext};
use crate::log::{Mode, RecordedOutcome};

impl Interpreter {
    /// Whether the record of this run, or that of the run that it was forked from, has an effect at `path`.
    pub(super) fn is_recorded(&self, path: &Path) -> bool {
        self.log.find_record(path, 1, EventKind::StepStarted).is_some() || self.log.has_reusable_attempt(path, 1)
    }

    /// The recorded failure of an attempt whose request could not be built at that time.
    pub(super) async fn take_unstarted_failure(&self, path: &Path, attempt: u32) -> Option<FailedAttempt> {
        match self.log.wait_for_unstarted_failure(path, attempt).await? {
            RecordedOutcome::Failed { error, then, usage, at, .. } => {
                Some(FailedAttempt { error, usage, recorded: Some(RecordedFailure { then, at }) })
            }
            RecordedOutcome::Finished { .. } => None,
        }
    }

    /// Follows the record for an attempt that has started: returns its outcome if it is recorded. Otherwise waits until the
    /// effect may be performed, which in a replay is never.
    pub(super) async fn follow_record(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
        hash: &Hash,
        was_started: bool,
    ) -> Option<Result<Option<Value>, EffectFailure>> {
        if let Some(recorded) = self.take_recorded_outcome(place, attempt, effect, hash).await {
            return Some(recorded);
        }
        let aborted = was_started && self.log.take_record(&place.path, attempt, EventKind::StepAborted).is_some();
        if aborted || self.log.mode == Mode::Replay {
            self.log.wait_forever().await;
        }
        self.log.wait_until_live().await;
        None
    }

    /// The outcome of an attempt in the record of this run, or in that of the run that it was forked from.
    async fn take_recorded_outcome(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
        hash: &Hash,
    ) -> Option<Result<Option<Value>, EffectFailure>> {
        let path = &place.path;
        let recorded = match self.log.wait_for_outcome(path, attempt).await {
            Some(recorded) => recorded,
            None => {
                let reused = self.log.reuse_outcome(path, attempt, effect.request, hash).await?;
                if let Err(divergence) = self.log.emit_event(path, attempt, reused.to_event()) {
                    return Some(Err(divergence.into()));
                }
                reused
            }
        };
        if !recorded.is_reused() {
            self.log.note_own_outcome();
        }
        Some(match recorded {
            RecordedOutcome::Finished { output, usage, memory, is_reused, .. } => {
                if !is_reused {
                    self.ledger.add_usage(usage.as_ref());
                }
                self.hold_memory_writes(effect.request, path, &memory);
                if let Some(output) = &output {
                    self.count_value(output);
                }
                Ok(output)
            }
            RecordedOutcome::Failed { error, then, usage, at, is_reused } => {
                if !is_reused {
                    self.ledger.add_usage(usage.as_ref());
                }
                let recorded = Some(RecordedFailure { then, at });
                Err(EffectFailure::Step(FailedAttempt { error, usage, recorded }))
            }
        })
    }
}
