//! Stored runs: opened by id, explained, continued and deleted.

use std::sync::Arc;

use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record, RunProject};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::{Engine, RunError};
use flowloom_store::{Corruption, Store, StoreError};
use flowloom_tools::HiddenSecret;

use crate::blocks::syntax::effectless_context;
use crate::config::Config;
use crate::definitions::bundle::Bundle;
use crate::engine_factory::{CompiledBundle, EngineFactory};
use crate::error::AppError;

/// The runs of a store, with the engines that follow them. Clones are handles of the same.
#[derive(Clone)]
pub struct StoredRuns {
    /// The configuration under which they continue.
    pub config: Arc<Config>,
    /// The store that holds them.
    pub store: Arc<Store>,
    pub(crate) engines: Arc<EngineFactory>,
}

impl StoredRuns {
    /// The runs of `store` under a configuration.
    pub(crate) fn new(config: Arc<Config>, store: Arc<Store>, engines: Arc<EngineFactory>) -> StoredRuns {
        StoredRuns { config, store, engines }
    }

    /// Whether commands to a run wait for a decision. A run that has ended and has some may be reopened. Fails if the store
    /// cannot be read.
    pub async fn has_pending_commands(&self, run: RunId) -> Result<bool, AppError> {
        Ok(!self.store.pending_commands(run).await?.is_empty())
    }

    /// Opens the run with this id, unique id prefix, or `last`, with its records and its plan. Fails if no run or several
    /// runs match, or if the record or the bundle is damaged.
    pub async fn open_run(&self, name: &str) -> Result<LoadedRun, AppError> {
        let id = self.store.find_run(name)?.id;
        self.open_run_by_id(id).await
    }

    /// The run with this id. Fails if there is none, or if its record is damaged.
    pub async fn open_run_by_id(&self, id: RunId) -> Result<LoadedRun, AppError> {
        let records = self.store.read(id, 0).await?;
        let Some(Event::RunCreated(created)) = records.first().map(|record| record.event.clone()) else {
            return Err(StoreError::Corrupt(Corruption::NotCreated(id)).into());
        };
        let mut state = RunState::from_records(records.iter().map(|record| &**record)).map_err(RunError::from)?;
        let is_settled = state.status.is_final() || state.status == Status::Queued;
        if !is_settled && let Some(row) = self.store.get_run(id)?.filter(|row| !row.is_driven) {
            if row.current_status() == Status::Interrupted.name() {
                if row.is_left {
                    self.note_decisions(id, &mut state).await?;
                }
                state.status = Status::Interrupted;
            } else if state.status == Status::Running && !self.store.read(id, records.len() as u64).await?.is_empty() {
                // The run ended, or began to wait, after its events were read.
                return Box::pin(self.open_run_by_id(id)).await;
            }
        }
        self.load_bundle_of(id, created.bundle, records, state)
    }

    /// A run that this process drives, with its events. Fails if its bundle is missing or cannot be used here.
    pub(crate) fn load_run(&self, id: RunId, records: Vec<Arc<Record>>) -> Result<LoadedRun, AppError> {
        let Some(Event::RunCreated(created)) = records.first().map(|record| &record.event) else {
            return Err(StoreError::Corrupt(Corruption::NotCreated(id)).into());
        };
        let bundle = created.bundle;
        let state = RunState::from_records(records.iter().map(|record| &**record)).map_err(RunError::from)?;
        self.load_bundle_of(id, bundle, records, state)
    }

    fn load_bundle_of(
        &self,
        id: RunId,
        bundle: Hash,
        records: Vec<Arc<Record>>,
        state: RunState,
    ) -> Result<LoadedRun, AppError> {
        let ready = self.engines.load_bundle(bundle).map_err(|error| error.of_run(id))?;
        Ok(LoadedRun { id, records, plan: ready.plan.clone(), ready, state })
    }

    /// Evaluates an expression of a user in the sandbox.
    pub(crate) async fn evaluate_script(
        &self,
        request: &ScriptRequest,
        user: &str,
    ) -> Result<Option<Value>, StepFailure> {
        self.engines.code_runner().evaluate_script(request, &effectless_context(user)).await
    }

    /// The secrets that are hidden from the texts of a user.
    pub(crate) fn list_hidden_secrets(&self, user: &str) -> Vec<HiddenSecret> {
        self.engines.user_redactors().list_hidden(user)
    }

    /// The engine of a stored run. Fails if it cannot be built from the settings in the bundle of the run.
    pub fn engine_for_run(&self, opened: &LoadedRun) -> Result<Engine, AppError> {
        self.engines.engine_of(&opened.ready)
    }

    /// The variables, conversations and transcript of a stored run after these of its records. They are empty, with a warning in
    /// the log, if this version cannot follow the record. Fails if an engine cannot be built from the settings in the bundle of
    /// the run.
    pub(crate) async fn find_env(&self, opened: &LoadedRun, records: Vec<Arc<Record>>) -> Result<Env, AppError> {
        let env = self.engine_for_run(opened)?.final_env(records, opened.plan.clone()).await;
        Ok(env.unwrap_or_else(|error| {
            tracing::warn!(run = %opened.id, %error, "the record of the run cannot be followed, so its variables are unknown");
            Env::default()
        }))
    }
}

/// A run read from the store, with its records and its plan.
#[derive(Clone)]
pub struct LoadedRun {
    /// Its id.
    pub id: RunId,
    /// Its events, in order.
    pub records: Vec<Arc<Record>>,
    /// The plan that it follows.
    pub plan: Arc<Plan>,
    ready: Arc<CompiledBundle>,
    state: RunState,
}

impl LoadedRun {
    /// The text of the run's definition.
    pub fn definition(&self) -> &str {
        let bundle = &self.ready.bundle;
        bundle.files.get(&bundle.entry).map_or("", String::as_str)
    }

    /// The path of the run's definition, as it was given.
    pub fn entry(&self) -> &str {
        &self.ready.bundle.entry
    }

    /// Whether a user has stored its definition or sent it with the run, so that it is no file of the operator.
    pub fn is_from_tenant(&self) -> bool {
        self.ready.bundle.tenant.is_some()
    }

    /// The bundle that its plan is compiled from.
    pub fn bundle(&self) -> &Bundle {
        &self.ready.bundle
    }

    /// The configuration under which it was started. Old versions did not record it.
    pub(crate) fn project(&self) -> Option<&RunProject> {
        self.state.created.as_ref()?.project.as_ref()
    }

    /// The state of the run after its last record.
    pub fn state(&self) -> RunState {
        self.state.clone()
    }
}
