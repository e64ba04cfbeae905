//! A step of a definition alone: prepared for a run, and the values with which a recorded run began it.

use std::sync::Arc;

use flowloom_core::event::Event;
use flowloom_core::path::Path;
use flowloom_core::plan::{NotAlone, Plan, has_own_scope, inputs_from_env, isolate_step};
use flowloom_core::value::Map;

use super::error::DefinitionError;
use crate::engine_factory::EngineFactory;
use crate::error::AppError;
use crate::runs::start::PreparedDefinition;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// The input with the conversation before the step.
const CONVERSATION: &str = "messages";

/// The plan of a run of one step. Fails with `NotThere` if there is none, and with `StepRefused` if it cannot run alone.
pub fn plan_step(plan: &Plan, step: &Path) -> Result<Plan, DefinitionError> {
    let refuse = |reason: NotAlone| DefinitionError::NotAlone { path: step.clone(), reason };
    isolate_step(plan, step).map_err(refuse)
}

/// A definition of which only one step runs. `is_steered` states whether a caller with a key chose its inputs. Fails if the
/// definition has no such step, or if the step cannot run alone.
pub(crate) async fn prepare_step(
    engines: &Arc<EngineFactory>,
    whole: Arc<PreparedDefinition>,
    step: &Path,
    is_steered: bool,
) -> Result<Arc<PreparedDefinition>, AppError> {
    let (engines, step) = (engines.clone(), step.clone());
    let prepare = move || {
        let plan = plan_step(&whole.plan, &step)?;
        let mut bundle = whole.parse_bundle()?;
        bundle.step = Some(step);
        bundle.is_steered |= is_steered;
        engines.prepare_definition(Arc::new(plan), &bundle).map(Arc::new)
    };
    // The bundle of a large definition takes a while.
    tokio::task::spawn_blocking(prepare).await?
}

impl StoredRuns {
    /// The values of the inputs of a step alone, as a recorded run had them when it first began the step; empty if it did
    /// not. Names that exist only in an iteration have none. `alone` is the plan of the step. Nothing is performed.
    /// Fails if an engine cannot be built from the settings in the bundle of the run.
    pub async fn find_step_inputs(&self, opened: &LoadedRun, step: &Path, alone: &Plan) -> Result<Map, AppError> {
        let begins = |event: &Event| matches!(event, Event::StepStarted { .. } | Event::Asked(_));
        let is_within = |path: &Path| Path::parse(&path.drop_repetitions()).is_some_and(|plain| plain.is_within(step));
        let found = opened.records.iter().position(|record| begins(&record.event) && is_within(&record.path));
        let Some(position) = found else { return Ok(Map::new()) };
        let records = opened.records[..position].to_vec();
        let env = self.find_env(opened, records).await?;
        let mut inputs = inputs_from_env(alone, &env);
        // The environment is that of the run, whose conversation is another one.
        if has_own_scope(&opened.plan, step) {
            inputs.shift_remove(CONVERSATION);
        }
        Ok(inputs)
    }
}
