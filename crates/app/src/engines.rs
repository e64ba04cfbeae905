//! Composition root: opens the store and what engines are built from, by the configuration; reads bundles and runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record, RunProject};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Clock as _, Model};
use flowloom_runtime::journal::Journal;
use flowloom_runtime::outage_log::OutageLog;
use flowloom_runtime::{Engine, RunError};
use flowloom_store::{Corruption, Store, StoreError};
use flowloom_tools::HiddenSecret;

use crate::authoring::{AuthoringEnv, BuiltInWorkflow};
use crate::blocks::syntax::effectless_context;
use crate::blocks::{BlockRegistry as Blocks, PythonSyntax};
use crate::config::Config;
use crate::definitions::bundle::Bundle;
use crate::engine_factory::{CompiledBundle, EngineFactory};
use crate::error::AppError;
use crate::quotas::build_sandbox_meter;
use crate::runs::start::PreparedDefinition;
use crate::telemetry::TraceExporter;
use crate::tools::mcp::McpServers;
use crate::wiring::{build_mcp_servers, build_sandbox};

/// The parts of the program that a run needs.
pub struct App {
    /// The configuration.
    pub config: Arc<Config>,
    /// The store.
    pub store: Arc<Store>,
    /// The MCP servers.
    pub servers: Arc<McpServers>,
    /// The block registry.
    pub blocks: Arc<Blocks>,
    /// Outages of Restate, if it drives the runs.
    pub(crate) restate_outages: Arc<OutageLog>,
    pub(crate) engines: Arc<EngineFactory>,
}

impl App {
    /// Opens the store and prepares everything else. Fails if the database cannot be opened.
    pub fn open(config: Config) -> Result<App, AppError> {
        let servers = build_mcp_servers(&config)?;
        App::open_with(config, servers)
    }

    /// Opens the store with the given MCP servers, which may already have been queried. Fails if the data folder cannot
    /// be created or others may read it, or if the database cannot be opened.
    pub fn open_with(config: Config, servers: McpServers) -> Result<App, AppError> {
        let store = Store::open_with(&config.store_settings())?;
        if config.data_dir.value == config.project.data_folder() && config.database.value.is_none() {
            exclude_from_git(&config.data_dir.value);
        }
        let config = Arc::new(config);
        let sandbox = Arc::new(build_sandbox(&config, build_sandbox_meter(&store)));
        let blocks = Arc::new(Blocks::new(store.clone(), &config, PythonSyntax::new(sandbox.clone())));
        let (servers, restate_outages) = (Arc::new(servers), Arc::new(OutageLog::new("Restate")));
        let engines = EngineFactory::new(
            config.clone(),
            store.clone(),
            servers.clone(),
            blocks.clone(),
            sandbox,
            restate_outages.clone(),
        );
        Ok(App { config, store, servers, blocks, restate_outages, engines })
    }

    /// Starts the export of traces if the configuration has a collector. It must come before the first run, and runs on
    /// the current thread pool. Fails if the address of the collector is invalid.
    pub fn start_telemetry(&self) -> Result<Option<TraceExporter>, AppError> {
        let Some(address) = &self.config.telemetry.otlp else { return Ok(None) };
        let exporter = TraceExporter::start(address)?;
        Ok(Some(self.engines.set_telemetry(exporter)))
    }

    /// Builds an engine for runs of one bundle. Fails with `ConfigInvalid` if a function or the egress policy is
    /// misconfigured.
    pub fn build_engine(&self, bundle: &Bundle) -> Result<Engine, AppError> {
        self.engines.build_engine(bundle)
    }

    /// Builds the models of a bundle, whose calls count for the quotas of users.
    pub fn build_models(&self, bundle: &Bundle) -> Arc<dyn Model> {
        self.engines.build_models(bundle)
    }

    /// A plan that was compiled from a bundle, ready to be run. Fails with `ConfigInvalid` if it calls a function whose
    /// workflow cannot be read.
    pub fn prepare(&self, plan: Arc<Plan>, bundle: &Bundle) -> Result<PreparedDefinition, AppError> {
        self.engines.check_called_functions(bundle, &plan)?;
        PreparedDefinition::new(plan, self.build_engine(bundle)?, bundle)
    }

    /// Builds the context of the authoring functions, which create pipelines from goals.
    pub fn build_author(&self, bundle: &Bundle, models: &Arc<dyn Model>) -> AuthoringEnv {
        self.engines.build_author(bundle, models)
    }

    /// Builds the bundle of a new run from the files of a definition. `read` holds the files by path, `file` names the
    /// entry. Cannot fail at present.
    pub fn build_bundle(
        &self,
        file: &str,
        read: &BTreeMap<String, Vec<u8>>,
        format: Format,
    ) -> Result<Bundle, AppError> {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut files: BTreeMap<String, String> =
            read.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect();
        files.extend(self.engines.read_function_files(&self.config.functions));
        Ok(Bundle { entry: file.to_owned(), format, files, ..Bundle::from_config(&self.config) })
    }

    /// Builds the bundle of a built-in workflow. Cannot fail at present.
    pub fn build_built_in_bundle(&self, which: BuiltInWorkflow) -> Result<Bundle, AppError> {
        let content = which.load_content();
        let files = content.files.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        self.build_bundle(&content.entry, &files, flowloom_formats::steps::FORMAT)
    }

    /// Records in the audit log what secrets may be used for, if that has changed. Fails if the store cannot be
    /// written.
    pub async fn record_secret_bindings(&self) -> Result<(), AppError> {
        let bindings = serde_json::to_string(&self.config.secrets).map_err(StoreError::Unserializable)?;
        Ok(self.store.record_secret_bindings(bindings, SystemClock.now_ms()).await?)
    }

    /// Whether commands to a run wait for a decision. A run that has ended and has some may be reopened. Fails if the
    /// store cannot be read.
    pub async fn has_pending_commands(&self, run: RunId) -> Result<bool, AppError> {
        Ok(!self.store.pending_commands(run).await?.is_empty())
    }

    /// Opens the run with this id, unique id prefix, or `last`, with its records and its plan. Fails if no run or
    /// several runs match, or if the record or the bundle is damaged.
    pub async fn open_run(&self, name: &str) -> Result<LoadedRun, AppError> {
        let id = self.store.find_run(name, &self.config.project_name)?.id;
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

    /// Evaluates an expression of a user in the sandbox. Fails if the expression throws or exceeds a limit, or if there
    /// is no sandbox.
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

    /// Returns the engine of a stored run. Fails if an engine cannot be built from the settings in its bundle.
    pub fn engine_for_run(&self, opened: &LoadedRun) -> Result<Engine, AppError> {
        self.engines.engine_of(&opened.ready)
    }
}

/// Keeps the data of a project out of git. A failure only means that git shows the folder.
fn exclude_from_git(folder: &Path) {
    let path = folder.join(".gitignore");
    if !path.exists() {
        let _ = std::fs::write(path, "*\n");
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
    pub(crate) fn bundle(&self) -> &Bundle {
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
