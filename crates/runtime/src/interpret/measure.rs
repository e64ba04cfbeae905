//! Counts how long effects take, for the metrics of the process.

use flowloom_core::effect::Request;

use super::effect::{Effect, EffectFailure, EffectOutcome};
use super::{Interpreter, StepContext};
use crate::metrics::{self, PerformedEffect};

impl Interpreter {
    /// Performs an effect, and counts how long it takes.
    pub(super) async fn perform_measured(
        &self,
        place: &StepContext,
        attempt: u32,
        effect: &Effect<'_>,
    ) -> Result<EffectOutcome, EffectFailure> {
        let since = self.log.now_ms();
        let performed = self.perform_with_timeout(place, attempt, effect).await;
        metrics::record_effect(&PerformedEffect {
            kind: effect.request.kind_name(),
            model: match effect.request {
                Request::Generate(request) => Some(request.model.as_str()),
                _ => None,
            },
            has_failed: performed.is_err(),
            usage: performed.as_ref().ok().and_then(|outcome| outcome.usage.as_ref()),
            duration_ms: self.log.now_ms().saturating_sub(since),
        });
        performed
    }
}
