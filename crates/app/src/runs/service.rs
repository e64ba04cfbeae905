//! Runs for the callers of one process: found by their workflow's id, started once for each idempotency key, and driven.

use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::trace::TraceContext;
use flowloom_core::trigger::RunTrigger;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandOutcome, CommandRecord};
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{IdempotentStart, KeyedCommand, StartKey};

use super::fork::{ForkChanges, prepare_fork};
use super::inputs::{check_message, narrow_by_budget};
use super::keyed_locks::KeyedLocks;
use super::start::StartRun;
use super::supervisor::{ActiveRun, RunCompletion, RunSupervisor, StartPlace};
use crate::definitions::alone::prepare_step;
use crate::definitions::catalog::{Catalog, CatalogEntry};
use crate::definitions::error::DefinitionError;
use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// The runs that a process starts and drives for those who call it.
#[derive(Clone)]
pub struct RunService {
    pub(crate) stored: StoredRuns,
    catalog: Arc<Catalog>,
    pub(crate) live: Arc<RunSupervisor>,
    starting: Arc<KeyedLocks>,
}

/// A request that starts a run.
#[derive(Clone)]
pub struct StartCall {
    /// The user whose run it is.
    pub user: String,
    /// The idempotency key of the call: the same key starts one run.
    pub idempotency_key: Option<String>,
    /// Whether the caller follows the run from its first event.
    pub needs_events: bool,
    /// The trace of the call.
    pub trace: Option<TraceContext>,
    /// The place that is reserved for the run.
    pub place: Option<Arc<StartPlace>>,
    /// The trigger of the run.
    pub trigger: RunTrigger,
}

impl StartCall {
    /// A call on behalf of a user, without an idempotency key, that does not follow the run.
    pub fn for_user(user: &str, trigger: RunTrigger) -> StartCall {
        StartCall {
            user: user.to_owned(),
            idempotency_key: None,
            needs_events: false,
            trace: None,
            place: None,
            trigger,
        }
    }

    /// The trigger of the run. It names the call if an idempotency key reserved the run's id.
    fn trigger_of(&self, reserved: Option<RunId>) -> RunTrigger {
        let key = self.idempotency_key.as_ref().filter(|_| reserved.is_some());
        RunTrigger { call: key.map(|key| KeyedCommand::command_id(&self.user, key)), ..self.trigger.clone() }
    }

    /// Frees the place of a run that was not started.
    fn release_place(&self) {
        if let Some(place) = &self.place {
            place.release();
        }
    }
}

/// The settings of a run of a definition.
pub struct StartRunRequest {
    /// Its inputs.
    pub inputs: Value,
    /// The agent as which the run acts.
    pub agent: Option<String>,
    /// Limits, as [`narrow_by_budget`] reads them.
    pub budget: Option<String>,
    /// The key of the conversation that it is a turn of.
    pub thread: Option<String>,
    /// The only step that runs; `None` for the whole workflow.
    pub step: Option<Path>,
    /// Whether a key authenticated the caller, who is then not the operator.
    pub has_key: bool,
    /// Whether the run is followed from its first event, regardless of the call.
    pub needs_events: bool,
    /// The id that was reserved for it.
    pub id: Option<RunId>,
}

impl StartRunRequest {
    /// A run with nothing but inputs.
    pub fn with_inputs(inputs: Value) -> StartRunRequest {
        StartRunRequest {
            inputs,
            agent: None,
            budget: None,
            thread: None,
            step: None,
            has_key: false,
            needs_events: false,
            id: None,
        }
    }
}

impl RunService {
    /// The runs of the definitions in `catalog`, driven by `live`.
    pub fn new(stored: StoredRuns, catalog: Arc<Catalog>, live: Arc<RunSupervisor>) -> RunService {
        RunService { stored, catalog, live, starting: Arc::default() }
    }

    /// The definition called `id` that counts for `user`. Fails with `NotThere` if there is none.
    pub async fn find_definition(&self, user: &str, id: &str) -> Result<Arc<CatalogEntry>, AppError> {
        if let Some(at_hand) = self.catalog.find_compiled_file(id) {
            return Ok(at_hand);
        }
        let (catalog, name, user) = (self.catalog.clone(), id.to_owned(), user.to_owned());
        let found = tokio::task::spawn_blocking(move || catalog.find_definition(&user, &name)).await;
        found??.ok_or_else(|| DefinitionError::NotFound(id.to_owned()).into())
    }

    /// The run that `begin` starts under the id that it gets, or the one that the same call has started before under its
    /// idempotency key. `request` is what makes it the same call. Fails with `KeyReused` if another call has used the key.
    pub async fn start_once<E: From<AppError>>(
        &self,
        call: &StartCall,
        request: &str,
        begin: impl AsyncFnOnce(Option<RunId>) -> Result<ActiveRun, E>,
    ) -> Result<ActiveRun, E> {
        let started = self.find_or_begin(call, request, begin).await;
        call.release_place();
        started
    }

    async fn find_or_begin<E: From<AppError>>(
        &self,
        call: &StartCall,
        request: &str,
        begin: impl AsyncFnOnce(Option<RunId>) -> Result<ActiveRun, E>,
    ) -> Result<ActiveRun, E> {
        let Some(key) = &call.idempotency_key else { return begin(None).await };
        // Calls that come at the same time wait for the first of them, and then find its run.
        let _lock = self.starting.acquire_lock(&call.user, key).await;
        let request = Hash::of_bytes(request.as_bytes()).to_string();
        let new = RunId(uuid::Uuid::now_v7());
        let key = StartKey { user: &call.user, key };
        let start = self.stored.store.reserve_start(key, &request, new, SystemClock.now_ms()).await;
        let id = match start.map_err(AppError::from)? {
            IdempotentStart::Run(id) if self.has_started(id) => return Ok(self.find_call_result(key, id)?),
            IdempotentStart::Run(id) => id,
            IdempotentStart::Conflict => return Err(AppError::KeyReused.into()),
        };
        match begin(Some(id)).await {
            // Another server was faster.
            Err(_) if self.has_started(id) => Ok(self.live.find_started(id)),
            Err(error) => match self.stored.store.find_bound_run(key).map_err(AppError::from)? {
                Some(other) if other != id => Ok(self.find_call_result(key, other)?),
                _ => Err(error),
            },
            started => started,
        }
    }

    /// Whether a run whose start was attempted is stored, or may be, because the database cannot be asked.
    pub fn may_be_stored(&self, id: RunId, ending: Option<&RunCompletion>) -> bool {
        match self.stored.store.get_run(id) {
            Ok(found) => found.is_some(),
            Err(_) => !ending.is_some_and(RunCompletion::is_unstored),
        }
    }

    fn has_started(&self, id: RunId) -> bool {
        self.live.is_live(id) || matches!(self.stored.store.get_run(id), Ok(Some(_)))
    }

    /// Whether a call has an idempotency key under which it sent an answer to a run. Fails if the store cannot be read.
    pub fn has_answered(&self, call: &StartCall, run: RunId) -> Result<bool, AppError> {
        let Some(key) = &call.idempotency_key else { return Ok(false) };
        Ok(self.find_sent_command(StartKey { user: &call.user, key }, run)?.is_some())
    }

    /// The command that the call with a key has sent to a run; `None` if it has sent none.
    fn find_sent_command(&self, key: StartKey<'_>, run: RunId) -> Result<Option<CommandRecord>, AppError> {
        let found = self.stored.store.find_command_within(run, &KeyedCommand::command_id(key.user, key.key))?;
        Ok(found.map(|(_, command)| command))
    }

    /// The run to which a key is bound. If the call with the key sent the run a command, its rejection is the result of the
    /// call, also when it is repeated.
    pub(crate) fn find_call_result(&self, key: StartKey<'_>, run: RunId) -> Result<ActiveRun, AppError> {
        match self.find_sent_command(key, run)? {
            Some(CommandRecord { outcome: Some(CommandOutcome::Rejected(reason)), .. }) => Err(reason.into()),
            _ => Ok(self.live.find_started(run)),
        }
    }

    /// Starts a run of a definition and drives it. Fails if the definition has errors or no such step, if an input or
    /// the budget does not fit, or if a quota is used up.
    pub async fn start_run(
        &self,
        call: &StartCall,
        definition: &CatalogEntry,
        new: StartRunRequest,
    ) -> Result<ActiveRun, AppError> {
        let Some(prepared) = definition.prepare_for_run(&self.catalog, &call.user).await? else {
            return Err(definition.invalid_error().into());
        };
        let prepared = match &new.step {
            Some(step) => prepare_step(&self.stored.engines, prepared, step, new.has_key).await?,
            None => prepared,
        };
        if new.step.is_none() {
            check_message(&prepared.plan, &new.inputs)?;
        }
        let mut limits = self.stored.config.limits.narrow_to(&prepared.plan.limits);
        if let Some(text) = &new.budget {
            limits = narrow_by_budget(text, limits, &self.stored.config.limits)?;
        }
        let (id, trace) = self.continue_trace(call.trace.clone(), new.id);
        let start = StartRun {
            workflow_id: Some(definition.id.clone()),
            agent: new.agent,
            thread: new.thread,
            id,
            trace,
            trigger: Some(call.trigger_of(new.id)),
            ..StartRun::new(&prepared, new.inputs, &call.user, limits)
        };
        let started = start.start(&self.stored.store)?;
        Ok(self.live.start_run(started, call.place.as_deref(), call.needs_events || new.needs_events).await)
    }

    /// Forks a run and drives the fork. `workflow` is the id of the definition that it follows, if not that of the run.
    /// Fails if there is no such definition or it has errors, if the changes do not fit the run, or if a quota is used
    /// up.
    pub async fn fork_run(
        &self,
        call: &StartCall,
        from: LoadedRun,
        workflow: Option<&str>,
        changes: ForkChanges,
        reserved: Option<RunId>,
    ) -> Result<ActiveRun, AppError> {
        let definition = match workflow {
            None => None,
            Some(workflow) => {
                let entry = self.find_definition(&call.user, workflow).await?;
                let Some(prepared) = entry.prepare_for_run(&self.catalog, &call.user).await? else {
                    return Err(entry.invalid_error().into());
                };
                Some(prepared.parse_bundle()?)
            }
        };
        let (runs, changes) = (self.stored.clone(), ForkChanges { definition, ..changes });
        // Compiling a large definition takes a while.
        let prepared = tokio::task::spawn_blocking(move || prepare_fork(&runs, from, changes)).await??;
        let (id, trace) = self.continue_trace(call.trace.clone(), reserved);
        let (runs, place, needs_events) = (self.clone(), call.place.clone(), call.needs_events);
        let trigger = Some(call.trigger_of(reserved));
        // A caller who leaves in between would leave a stored run that no worker drives.
        let start = async move {
            let started = prepared.start(&runs.stored, |start| StartRun { id, trace, trigger, ..start }).await?;
            Ok(runs.live.start_run(started, place.as_deref(), needs_events).await)
        };
        tokio::spawn(start).await?
    }

    /// The trace of a new run and its id: the trace of the call, or, if runs are exported, one that begins with the run.
    fn continue_trace(&self, given: Option<TraceContext>, id: Option<RunId>) -> (Option<RunId>, Option<TraceContext>) {
        match (given, self.live.exports_traces()) {
            (Some(given), is_exported) => (id, Some(TraceContext { is_exported, ..given })),
            (None, true) => {
                let id = id.unwrap_or_else(|| RunId(uuid::Uuid::now_v7()));
                (Some(id), Some(TraceContext::of_run(id)))
            }
            (None, false) => (id, None),
        }
    }
}
