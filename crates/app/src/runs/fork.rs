//! Forking a run: a new run that begins with the record of another one and differs from it in what a person changes.

use std::collections::HashSet;
use std::sync::Arc;

use flowloom_core::event::{Event, ForkOrigin, Record, SetVariables};
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::{Inputs, Plan};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_models::is_file_model;
use flowloom_runtime::Engine;
use flowloom_runtime::ForkedRun;
use flowloom_runtime::RunError;
use flowloom_runtime::reopen::select_steps;

use super::fork_calls::{CallComparison, list_changed_calls};
use super::fork_error::ForkError;
use super::fork_names::{carry_inputs, check_set_inputs, check_set_variables};
use super::inputs::{InvalidBudget, check_message, narrow_by_budget, parse_budget};
use super::named_step::find_named_step;
use super::start::{PreparedDefinition, StartRun, StartedRun};
use crate::definitions::bundle::{Bundle, compile_changed_bundle};
use crate::definitions::edit::StepEdit;
use crate::error::AppError;
use crate::model_choice::{check_model_choice, split_model_choice};
use crate::runs::stored::{LoadedRun, StoredRuns};

/// The changes of a fork.
#[derive(Default)]
pub struct ForkChanges {
    /// The step from which everything is performed, as a person writes its path. `None`: the step that failed, or else the
    /// first step whose request differs.
    pub at: Option<String>,
    /// New values: of variables before the step `at`, or of inputs without one.
    pub set: Vec<(String, Value)>,
    /// Changes of single steps.
    pub edits: Vec<StepEdit>,
    /// Another definition.
    pub definition: Option<Bundle>,
    /// Models, as `--model` names them: `p:m` for the default model, `name=p:m` for an alias.
    pub models: Vec<String>,
    /// Limits that replace those of the run, as [`narrow_by_budget`] reads them.
    pub budget: Option<String>,
    /// Whether the budget may exceed the configured limits, as that of the terminal does.
    pub exceeds_limits: bool,
    /// The user of the key with which the fork was requested. Changed steps and models become their definition, and chosen
    /// values make secrets without hosts unavailable. `None` for the operator.
    pub tenant: Option<String>,
    /// Whether effects that must not be repeated automatically are performed without asking a person.
    pub repeats_effects: bool,
}

/// A fork that can be started.
pub struct PreparedFork {
    workflow: PreparedDefinition,
    from: LoadedRun,
    origin: ForkOrigin,
    performed: Vec<Path>,
    calls: CallComparison,
    inputs: Value,
    limits: Limits,
}

/// Prepares a fork of a run: compiles what changes and finds the step at which it begins. Fails if the run has no such
/// step, if nothing would change, if the changed definition does not compile, or if an input, a variable or the budget
/// does not fit.
pub fn prepare_fork(runs: &StoredRuns, from: LoadedRun, changes: ForkChanges) -> Result<PreparedFork, AppError> {
    let at = find_start(runs, &from, &changes)?;
    let performed = find_performed(&from, &changes, at.as_ref());
    let inherited = find_inherited(&from, at.as_ref());
    let bundle = change_bundle(&from, &changes, &inherited)?;
    let plan = match (&changes.definition, changes.edits.as_slice()) {
        (None, []) => from.plan.clone(),
        _ => compile_changed_bundle(&bundle)?,
    };
    let inputs = match &changes.definition {
        Some(_) => carry_inputs(&plan, from.state().inputs(), !changes.set.is_empty())?,
        None => from.state().inputs(),
    };
    let (inputs, set) = match &at {
        Some(at) if changes.at.is_some() => {
            check_set_variables(&plan, at, &inputs, changes.set.iter().map(|(name, _)| name.as_str()))?;
            (inputs, changes.set)
        }
        _ => (set_inputs(&plan, inputs, changes.set)?, Vec::new()),
    };
    if changes.definition.is_some() {
        check_message(&plan, &inputs)?;
    }
    let configured = Some(&runs.config.limits).filter(|_| !changes.exceeds_limits);
    let limits = find_limits(&from, configured, changes.budget.as_deref())?;
    let origin = ForkOrigin { run: from.id, at, set, inherited, repeats_effects: changes.repeats_effects };
    let calls = CallComparison { keeps_models: origin.at.is_some(), reads_stored: changes.definition.is_some() };
    Ok(PreparedFork {
        workflow: runs.engines.prepare_definition(plan, &bundle)?,
        from,
        origin,
        performed,
        calls,
        inputs,
        limits,
    })
}

impl PreparedFork {
    /// The plan of the fork.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.workflow.plan
    }

    /// The inputs of the fork.
    pub fn inputs(&self) -> &Value {
        &self.inputs
    }

    /// Replaces the engine that runs it.
    pub(super) fn map_engine(mut self, change: impl FnOnce(Engine) -> Engine) -> PreparedFork {
        self.workflow.engine = change(self.workflow.engine);
        self
    }

    /// Starts the fork. `adjust` can change how, for example give it the id that was reserved for it. Fails if the run
    /// cannot be replayed, if a quota is used up, or if the store cannot be written.
    pub async fn start(
        self,
        runs: &StoredRuns,
        adjust: impl FnOnce(StartRun<'_>) -> StartRun<'_>,
    ) -> Result<StartedRun, AppError> {
        let PreparedFork { workflow, from, origin, mut performed, calls, inputs, limits } = self;
        performed.extend(list_changed_calls(runs, &from, &workflow.parse_bundle()?, calls).await?);
        let created = from.state().created.ok_or(RunError::NothingToReplay)?;
        let start = StartRun {
            workflow_id: created.workflow.clone(),
            agent: created.agent.clone(),
            ..StartRun::new(&workflow, inputs, &created.user, limits)
        };
        let forked = ForkedRun { records: from.records.clone(), plan: from.plan.clone(), origin, performed };
        adjust(start).start_fork(&runs.store, forked).await
    }
}

/// The limits of the run, with those that the fork changes. They do not exceed the `configured` ones, if there are any.
fn find_limits(from: &LoadedRun, configured: Option<&Limits>, budget: Option<&str>) -> Result<Limits, InvalidBudget> {
    let mut limits = from.state().created.map(|created| created.limits.clone()).unwrap_or_default();
    match (budget, configured) {
        (Some(text), Some(configured)) => return narrow_by_budget(text, limits, configured),
        (Some(text), None) => parse_budget(text, &mut limits)?,
        (None, _) => {}
    }
    Ok(limits)
}

/// The variables that a run sets as a fork itself, before steps whose outcomes a fork of it reuses, or at which that begins.
/// Without `at`, only the fork finds out where it begins.
fn find_inherited(from: &LoadedRun, at: Option<&Path>) -> Vec<SetVariables> {
    let created = from.state().created;
    let fork = created.as_ref().and_then(|created| created.fork.as_ref());
    let mut set = fork.map(ForkOrigin::list_set_variables).unwrap_or_default();
    if set.is_empty() {
        return set;
    }
    // Composites have no record at their own path before they end.
    let first_seq =
        |path: &Path| from.records.iter().find(|record| record.path.is_within(path)).map(|record| record.seq);
    let own_seq = find_first_own_outcome(&from.records);
    // What the run did not set itself is not set again.
    let was_dropped = |at: &Path| own_seq.is_some_and(|own| first_seq(at).is_none_or(|seq| own < seq));
    set.retain(|set| !set.only_if_reused || !was_dropped(&set.at));
    if let Some(begin) = at.and_then(first_seq) {
        set.retain(|set| first_seq(&set.at).is_some_and(|seq| seq <= begin));
    }
    set.iter_mut().for_each(|set| set.only_if_reused = true);
    set
}

/// The position of the first outcome of an effect that a run has performed itself.
fn find_first_own_outcome(records: &[Arc<Record>]) -> Option<u64> {
    let mut started: HashSet<(&Path, u32)> = HashSet::new();
    for record in records {
        let attempt = (&record.path, record.attempt);
        match &record.event {
            Event::StepStarted { .. } => drop(started.insert(attempt)),
            // A request that could not be built fails in each fork.
            Event::StepFinished { reused: false, .. } | Event::StepFailed { reused: false, .. }
                if started.contains(&attempt) =>
            {
                return Some(record.seq);
            }
            _ => {}
        }
    }
    None
}

/// The steps that a fork performs, whatever is recorded: the one at which it begins, or those whose failures ended the run.
/// A graph of nodes fails as a whole, but its nodes that succeeded are not performed again.
fn find_performed(from: &LoadedRun, changes: &ForkChanges, at: Option<&Path>) -> Vec<Path> {
    let state = from.state();
    let has_failed = changes.at.is_none() && state.status == Status::Failed;
    let causes = has_failed.then(|| select_steps(&state, &from.records, &from.plan, None));
    match causes {
        Some(Ok(causes)) => causes.reset,
        _ => at.cloned().into_iter().collect(),
    }
}

/// The step at which the fork begins to perform. Fails if the run has no such step, or if nothing would change.
fn find_start(runs: &StoredRuns, from: &LoadedRun, changes: &ForkChanges) -> Result<Option<Path>, AppError> {
    let state = from.state();
    if let Some(text) = &changes.at {
        return Ok(Some(find_named_step(runs, from, text)?));
    }
    let is_same =
        changes.set.is_empty() && changes.edits.is_empty() && changes.definition.is_none() && changes.models.is_empty();
    match state.status {
        Status::Succeeded if is_same => Err(ForkError::NothingChanges.into()),
        Status::Failed => Ok(state.failed),
        _ => Ok(None),
    }
}

fn change_bundle(from: &LoadedRun, changes: &ForkChanges, inherited: &[SetVariables]) -> Result<Bundle, AppError> {
    let mut bundle = changes.definition.clone().unwrap_or_else(|| from.bundle().clone());
    for edit in &changes.edits {
        let plan = compile_changed_bundle(&bundle)?;
        bundle = bundle.edit_step(&plan, edit).map_err(ForkError::from)?;
    }
    for model in &changes.models {
        check_model_choice(model).map_err(ForkError::from)?;
        let (alias, target) = split_model_choice(model);
        if changes.tenant.is_some() && is_file_model(target) {
            return Err(ForkError::FileModel(target.to_owned()).into());
        }
        match alias {
            Some(named) => {
                bundle.aliases.retain(|(name, _)| name != named);
                bundle.aliases.push((named.to_owned(), target.to_owned()));
            }
            None => bundle.model = Some(target.to_owned()),
        }
    }
    // What a tenant writes into a definition of the operator has the rights of the tenant.
    if changes.tenant.is_some() && !(changes.edits.is_empty() && changes.models.is_empty()) {
        bundle.tenant.clone_from(&changes.tenant);
    }
    // Values that replace what earlier steps computed, or outcomes that another definition had.
    let chooses_values = changes.definition.is_some() || (changes.at.is_some() && !changes.set.is_empty());
    bundle.is_steered |= changes.tenant.is_some() && chooses_values;
    // Another definition gets the values that a caller chose for the earlier fork.
    bundle.is_steered |= !inherited.is_empty() && from.bundle().is_steered;
    Ok(bundle)
}

fn set_inputs(plan: &Plan, inputs: Value, set: Vec<(String, Value)>) -> Result<Value, ForkError> {
    check_set_inputs(plan, &inputs, set.iter().map(|(name, _)| name.as_str()))?;
    if let (Inputs::Whole(name), [(set, value)]) = (&plan.inputs, set.as_slice())
        && **set == **name
    {
        return Ok(value.clone());
    }
    let mut inputs = match inputs {
        Value::Map(map) => (*map).clone(),
        other => {
            return match set.into_iter().next() {
                Some((name, _)) => Err(ForkError::InputWithoutNames(name)),
                None => Ok(other),
            };
        }
    };
    for (name, value) in set {
        inputs.insert(name.as_str().into(), value);
    }
    Ok(inputs.into())
}
