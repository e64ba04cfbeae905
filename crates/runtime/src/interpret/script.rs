//! Scripts: expressions that need the sandbox. Each is evaluated just before the step that reads it. Its value is
//! recorded with the next commit, so following a record needs no sandbox.

use std::sync::Arc;

use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepError;
use flowloom_core::event::{AfterFailure, Event, EventKind};
use flowloom_core::expr::{Lookup, Script};
use flowloom_core::hash::Hasher;
use flowloom_core::path::Key;
use flowloom_core::plan::Env;
use flowloom_core::value::Value;

use super::{Halt, Interpreter, Place};
use crate::log::Mode;

impl Interpreter {
    /// Evaluates scripts at `place` and stores their values for the step there.
    pub(super) async fn evaluate(&self, scripts: &[Arc<Script>], env: &mut Env, place: &Place) -> Result<(), Halt> {
        env.scripts.retain(|(slot, _)| !scripts.iter().any(|script| script.slot == *slot));
        for (index, script) in scripts.iter().enumerate() {
            let at = place.at(place.path.child(&Key::nth("expression", index + 1)));
            let value = match self.recorded_script(&at) {
                Some(recorded) => recorded,
                None => self.live_script(script, env, &at).await?,
            };
            match value {
                Ok(value) => env.scripts.push((script.slot.clone(), value)),
                Err(error) => return Err(Halt::Failed(error, place.path.clone())),
            }
        }
        Ok(())
    }

    fn recorded_script(&self, at: &Place) -> Option<Result<Option<Value>, StepError>> {
        let record = self
            .log
            .take(&at.path, 0, EventKind::Evaluated)
            .or_else(|| self.log.take(&at.path, 0, EventKind::StepFailed))?;
        match &record.event {
            Event::Evaluated { value } => Some(Ok(value.clone())),
            Event::StepFailed { error, .. } => Some(Err(error.clone())),
            _ => None,
        }
    }

    async fn live_script(
        &self,
        script: &Script,
        env: &Env,
        at: &Place,
    ) -> Result<Result<Option<Value>, StepError>, Halt> {
        if self.log.mode == Mode::Replay {
            self.log.forever().await;
        }
        let request = ScriptRequest {
            source: script.source.clone(),
            names: script.names.iter().map(|name| (name.clone(), env.lookup(name).cloned())).collect(),
            now_ms: self.log.now_ms(),
            seed: seed(&self.log.lease.run.to_string(), at),
        };
        let evaluated = {
            let _activity = self.log.activity();
            let evaluated = self.effects.code.script(&request, &self.context(at, 1)).await;
            evaluated.map_err(|error| script.place.blame(error))
        };
        let event = match &evaluated {
            Ok(value) => Event::Evaluated { value: value.clone() },
            Err(error) => Event::StepFailed { error: error.clone(), then: AfterFailure::Fail },
        };
        self.emit(at, 0, event)?;
        Ok(evaluated)
    }
}

/// The seed of `Math.random()`: the same for every evaluation at this path in this run.
fn seed(run: &str, at: &Place) -> u64 {
    let hash = Hasher::new().text(run).text(at.path.as_str()).finish();
    hash.bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}
