//! Scripts: expressions that need the sandbox. Each is evaluated just before the step that reads it. Its value is
//! recorded with the next commit, so following a record needs no sandbox.

use std::sync::Arc;

use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{AfterFailure, Event, EventKind};
use flowloom_core::expr::js::ExpressionPlace;
use flowloom_core::expr::{Lookup, Script};
use flowloom_core::hash::{Hash, Hasher};
use flowloom_core::path::Key;
use flowloom_core::plan::Env;
use flowloom_core::value::Value;

use super::{Interpreter, Interrupt, StepContext};
use crate::error::JournalError;
use crate::log::Mode;

impl Interpreter {
    /// Evaluates scripts at `place` and stores their values for the step there.
    pub(super) async fn evaluate_scripts(
        &self,
        scripts: &[Arc<Script>],
        env: &mut Env,
        place: &StepContext,
    ) -> Result<(), Interrupt> {
        env.scripts.retain(|(slot, _)| !scripts.iter().any(|script| script.slot == *slot));
        for (index, script) in scripts.iter().enumerate() {
            let at = place.with_path(place.path.child_path(&Key::numbered_key("expression", index + 1)));
            self.note_rounded_numbers(script, env);
            if let Some(requests) = &self.requests {
                requests.add_script(&at.path, hash_script(script, env));
            }
            let value = match self.find_known_value(script, env, &at)? {
                Some(known) => known.inspect(|value| value.iter().for_each(|value| self.count_value(value))),
                None => self.evaluate_live(script, env, &at).await?,
            };
            match value {
                Ok(value) => env.scripts.push((script.slot.clone(), value)),
                Err(error) => return Err(Interrupt::Failed(error, place.path.clone())),
            }
        }
        Ok(())
    }

    /// The value that is recorded, or reused from another run; `None` if the script is to be evaluated.
    fn find_known_value(
        &self,
        script: &Script,
        env: &Env,
        at: &StepContext,
    ) -> Result<Option<Result<Option<Value>, StepFailure>>, Interrupt> {
        if let Some(recorded) = self.take_recorded_script(at) {
            return Ok(Some(recorded));
        }
        let Some(value) = self.log.reuse_script(&at.path, || hash_script(script, env)) else { return Ok(None) };
        self.emit_event(at, 0, Event::Evaluated { value: value.clone() })?;
        Ok(Some(Ok(value)))
    }

    fn take_recorded_script(&self, at: &StepContext) -> Option<Result<Option<Value>, StepFailure>> {
        let record = self
            .log
            .take_record(&at.path, 0, EventKind::Evaluated)
            .or_else(|| self.log.take_record(&at.path, 0, EventKind::StepFailed))?;
        match &record.event {
            Event::Evaluated { value } => Some(Ok(value.clone())),
            Event::StepFailed { error, .. } => Some(Err(error.clone())),
            _ => None,
        }
    }

    async fn evaluate_live(
        &self,
        script: &Script,
        env: &Env,
        at: &StepContext,
    ) -> Result<Result<Option<Value>, StepFailure>, Interrupt> {
        if self.log.mode == Mode::Replay {
            self.log.wait_forever().await;
        }
        let request = ScriptRequest {
            source: script.source.clone(),
            names: script.names.iter().map(|name| (name.clone(), env.lookup_name(name).cloned())).collect(),
            now_ms: self.log.now_ms(),
            seed: script_seed(&self.log.lease.run.to_string(), at),
        };
        let evaluated = {
            let _activity = self.log.start_activity(at.enclosing.as_ref());
            let context = self.effect_context(at, 1);
            let evaluate = || self.effects.code.evaluate_script(&request, &context);
            let evaluated = self.repeat_in_outage(|| true, evaluate).await;
            if let Some(outage) = evaluated.as_ref().err().filter(|error| error.code.is_store_outage()) {
                return Err(JournalError::Unavailable(outage.clone()).into());
            }
            evaluated
                .and_then(|value| value.iter().try_for_each(|value| self.count_new_value(value)).map(|()| value))
                .map_err(|error| script.place.locate_error(error))
        };
        let event = match &evaluated {
            Ok(value) => Event::Evaluated { value: value.clone() },
            Err(error) => {
                Event::StepFailed { error: error.clone(), then: AfterFailure::Fail, usage: None, reused: false }
            }
        };
        self.emit_event(at, 0, event)?;
        Ok(evaluated)
    }

    /// Notes which numbers JavaScript rounds in what an expression reads; the next step reports them.
    fn note_rounded_numbers(&self, script: &Script, env: &Env) {
        let mut rounded = Vec::new();
        script
            .names
            .iter()
            .filter_map(|name| env.lookup_name(name))
            .for_each(|value| find_rounded(value, &mut rounded));
        for (number, double) in rounded {
            let ExpressionPlace { at, source } = &*script.place;
            self.missing.hold_message(format!(
                "{at}: {number} is {double} in {}, because JavaScript cannot hold it; make it a text, in quotes, to keep all \
                 its digits",
                source.trim()
            ));
        }
    }
}

/// Maximum number of rounded numbers that are reported for one expression.
const MAX_ROUNDED: usize = 3;

/// Adds the first few numbers in a value that JavaScript rounds, each with what it becomes.
fn find_rounded(value: &Value, found: &mut Vec<(String, String)>) {
    if found.len() == MAX_ROUNDED {
        return;
    }
    match value {
        Value::Number(number) => {
            if let Some(double) = number.rounded_text() {
                let pair = (number.to_text(), double);
                if !found.contains(&pair) {
                    found.push(pair);
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| find_rounded(item, found)),
        Value::Map(map) => map.values().for_each(|item| find_rounded(item, found)),
        _ => {}
    }
}

/// The hash of a script: its source and the variables that it reads. Two scripts with the same hash have the same
/// value, unless they read the clock or random numbers.
fn hash_script(script: &Script, env: &Env) -> Hash {
    let mut hasher = Hasher::new();
    hasher.add_text(&script.source);
    for name in script.names.iter() {
        hasher.add_text(name);
        match env.lookup_name(name) {
            Some(value) => hasher.add_number(1).add_value(value),
            None => hasher.add_number(0),
        };
    }
    hasher.finish()
}

/// The seed of `Math.random()`: the same for every evaluation at this path in this run.
fn script_seed(run: &str, at: &StepContext) -> u64 {
    let hash = Hasher::new().add_text(run).add_text(at.path.as_str()).finish();
    hash.as_bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}
