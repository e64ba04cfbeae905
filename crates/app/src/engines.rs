//! Composition root: opens the store and builds models, tools, sandbox and engine from the configuration.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flowloom_core::event::{Event, Record, RunProject};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Format, Plan, flow_function_id};
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_models_local::LocalEngine;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Clock as _, Effects, Model};
use flowloom_runtime::journal::Journal;
use flowloom_runtime::outage_log::OutageLog;
use flowloom_runtime::remote::RunDriver;
use flowloom_runtime::{Engine, RunError};
use flowloom_sandbox::Sandbox;
use flowloom_store::{Corruption, Store, StoreError};
use flowloom_tools::secrets::parse_secret_text;
use flowloom_tools::{
    Capabilities, FunctionConfig, FunctionRegistry, HttpClient, HttpFunction, HttpLimits, PageScraper,
};

use crate::authoring::{self, AuthoringEnv, BuiltInWorkflow};
use crate::blocks::{BlockRegistry as Blocks, PythonSyntax};
use crate::config::error::{ConfigError, TableProblem};
use crate::config::{AgentSettings, Config, FunctionSettings};
use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::definitions::secret_check::find_unbound_secret;
use crate::definitions::source::Loader;
use crate::definitions::sources::ServerTools;
use crate::error::AppError;
use crate::quotas::{build_sandbox_meter, meter_model};
use crate::redaction::UserRedactors;
use crate::restate::RestateDriver;
use crate::runs::start::PreparedDefinition;
use crate::secrets::EnvironmentSecrets;
use crate::telemetry::TraceExporter;
use crate::tools::mcp::McpServers;
use crate::tools::memory_keys::scope_to_bundle;
use crate::tools::workflows::{self, WorkflowHost};
use crate::wiring::{ModelChoice, build_egress_policy, build_mcp_servers, build_models, build_sandbox, limit_trials};

/// The parts of the program that a run needs.
pub struct App {
    /// The configuration.
    pub config: Config,
    /// The store.
    pub store: Arc<Store>,
    /// The MCP servers.
    pub servers: McpServers,
    /// The block registry.
    pub blocks: Arc<Blocks>,
    sandbox: Arc<Sandbox>,
    /// Built with the first engine: commands that run nothing do not need it.
    redactors: OnceLock<Arc<UserRedactors>>,
    /// Loads each local model once for all runs.
    local_engine: Arc<LocalEngine>,
    /// Outages of Restate, if it drives the runs.
    pub(crate) restate_outages: Arc<OutageLog>,
    /// Started by the commands that drive runs for others.
    telemetry: OnceLock<TraceExporter>,
    /// Opened bundles by hash. A server opens the same ones repeatedly.
    ready: Mutex<HashMap<Hash, Arc<CompiledBundle>>>,
}

/// Maximum number of compiled bundles held in memory.
const MAX_CACHED_BUNDLES: usize = 256;

/// A stored bundle with its plan and, once needed, its engine.
pub struct CompiledBundle {
    /// The bundle.
    pub bundle: Bundle,
    plan: Arc<Plan>,
    engine: OnceLock<Engine>,
}

impl App {
    /// Opens the store and prepares everything else. Fails if the database cannot be opened.
    pub fn open(config: Config) -> Result<App, AppError> {
        let servers = build_mcp_servers(&config)?;
        App::open_with(config, servers)
    }

    /// Opens the store with the given MCP servers, which may already have been queried.
    pub fn open_with(config: Config, servers: McpServers) -> Result<App, AppError> {
        let store = Store::open_with(&config.store_settings())?;
        if config.data_dir.value == config.project.data_folder() && config.database.value.is_none() {
            exclude_from_git(&config.data_dir.value);
        }
        let sandbox = Arc::new(build_sandbox(&config, build_sandbox_meter(&store)));
        let blocks = Arc::new(Blocks::new(store.clone(), &config, PythonSyntax::new(sandbox.clone())));
        let (redactors, local_engine, ready) = (OnceLock::new(), Arc::default(), Mutex::default());
        let telemetry = OnceLock::new();
        let restate_outages = Arc::new(OutageLog::new("Restate"));
        Ok(App { config, store, servers, blocks, sandbox, redactors, local_engine, restate_outages, telemetry, ready })
    }

    /// Starts the export of traces if the configuration has a collector. It must come before the first run, and runs on
    /// the current thread pool.
    pub fn start_telemetry(&self) -> Result<Option<TraceExporter>, AppError> {
        let Some(address) = &self.config.telemetry.otlp else { return Ok(None) };
        let exporter = TraceExporter::start(address)?;
        Ok(Some(self.telemetry.get_or_init(|| exporter).clone()))
    }

    /// Builds an engine for runs of one bundle. Fails with `ConfigInvalid` if a function or the egress policy is
    /// misconfigured.
    pub fn build_engine(&self, bundle: &Bundle) -> Result<Engine, AppError> {
        let models = self.build_models(bundle);
        let client = Arc::new(HttpClient::new(
            build_egress_policy(&self.config)?,
            Arc::new(EnvironmentSecrets::new(&self.config)),
            HttpLimits::default(),
        ));
        let host = Arc::new(WorkflowHost::new(self.store.clone(), bundle.clone(), self.telemetry.get().cloned()));
        let author = self.build_author(bundle, &models);
        let registry = Arc::new(self.build_registry(bundle, &client, &host, author)?);
        let (scraper, sandbox) = (Arc::new(PageScraper::new(client.clone())), self.sandbox.clone());
        let (store, clock) = (self.store.clone(), Arc::new(SystemClock));
        let redactors = self.redactors.get_or_init(|| Arc::new(UserRedactors::new(&self.config))).clone();
        let (project, driver) = (self.run_project(), self.build_driver());
        let over = move |functions: Arc<FunctionRegistry>, bundle: &Bundle| {
            let code = scope_to_bundle(sandbox.clone(), bundle);
            let (model, http, scraper) = (models.clone(), client.clone(), scraper.clone());
            let effects = Effects { model, http, scraper, functions, code, clock: clock.clone() };
            let (redactors, driver) = (redactors.clone(), driver.clone());
            let engine = Engine::new(effects, store.clone())
                .with_definition(bundle.definition_identity())
                .with_project(project.clone());
            let engine = if redactors.is_empty() { engine } else { engine.with_redactors(redactors) };
            driver.into_iter().fold(engine, Engine::with_driver)
        };
        let engine = over(registry.clone(), bundle);
        // Functions that run workflows need the engine, which needs the functions: a weak reference avoids the cycle.
        let functions = Arc::downgrade(&registry);
        host.set_engine(move |bundle| functions.upgrade().map(|functions| over(functions, bundle)));
        Ok(engine)
    }

    /// What drives the runs of this process, if it does not do so itself.
    fn build_driver(&self) -> Option<Arc<dyn RunDriver>> {
        let ingress = self.config.engine.restate.as_ref()?;
        let accepted = self.config.accepts_any_config.then(|| self.config.fingerprint.clone());
        Some(Arc::new(RestateDriver::new(ingress, self.store.clone(), accepted, self.restate_outages.clone())))
    }

    /// Builds the models of a bundle, whose calls count for the quotas of users. All bundles share one engine for local
    /// models.
    pub fn build_models(&self, bundle: &Bundle) -> Arc<dyn Model> {
        let local = self.local_engine.clone();
        let (default, allows_named_files) = (bundle.model.clone(), bundle.tenant.is_none());
        let choice = ModelChoice { default, aliases: &bundle.aliases, allows_named_files };
        let models = build_models(&self.config, choice, local);
        meter_model(Arc::new(models), &self.store)
    }

    /// A plan that was compiled from a bundle, ready to be run.
    pub fn prepare(&self, plan: Arc<Plan>, bundle: &Bundle) -> Result<PreparedDefinition, AppError> {
        PreparedDefinition::new(plan, self.build_engine(bundle)?, bundle)
    }

    /// Builds the context of the authoring functions, which create pipelines from goals.
    pub fn build_author(&self, bundle: &Bundle, models: &Arc<dyn Model>) -> AuthoringEnv {
        AuthoringEnv {
            store: self.store.clone(),
            models: models.clone(),
            code: Arc::new(limit_trials(&self.sandbox, &self.config)),
            blocks: self.blocks.clone(),
            sources: bundle.to_sources_without_files().with_files(BTreeMap::new()),
        }
    }

    fn build_registry(
        &self,
        bundle: &Bundle,
        client: &Arc<HttpClient>,
        host: &Arc<WorkflowHost>,
        author: AuthoringEnv,
    ) -> Result<FunctionRegistry, AppError> {
        let grants: BTreeMap<String, Vec<String>> =
            bundle.agents.iter().map(|(id, agent)| (id.clone(), agent.tools.clone())).collect();
        let mut registry = FunctionRegistry::new(client.clone()).with_capabilities(Capabilities::new(grants));
        if let Some(root) = &self.config.files_root {
            registry = registry.with_files(root);
        }
        if let Some(search) = &self.config.search {
            registry = registry.with_search(search.clone());
        }
        for (id, function) in workflows::built_in_functions(host).into_iter().chain(authoring::build_functions(author))
        {
            registry = registry.with_function(id, function);
        }
        for (name, mcp) in &bundle.mcp {
            registry = registry.with_server(self.servers.get_or_create(name, mcp));
        }
        for id in bundle.flows.iter().flat_map(BTreeMap::keys) {
            registry = registry.with_function(flow_function_id(id), workflows::tool_function(host, id));
        }
        for (id, function) in &bundle.functions {
            registry = registry.with_function(id, self.build_function(id, function, host)?);
        }
        Ok(registry)
    }

    fn build_function(
        &self,
        id: &str,
        function: &FunctionSettings,
        host: &Arc<WorkflowHost>,
    ) -> Result<FunctionConfig, AppError> {
        match (&function.url, &function.workflow) {
            (Some(url), None) => {
                let mut http = HttpFunction::with_post(parse_secret_text(url));
                if let Some(method) = &function.method {
                    http.method.clone_from(method);
                }
                http.headers =
                    function.headers.iter().map(|(name, value)| (name.clone(), parse_secret_text(value))).collect();
                http.effect = function.effect;
                http.timeout_ms = function.timeout_ms.or(http.timeout_ms);
                Ok(FunctionConfig::Http(http))
            }
            (None, Some(file)) => Ok(workflows::file_function(host, file)),
            _ => Err(ConfigError::in_table(format!("functions.{id:?}"), TableProblem::UrlOrWorkflow).into()),
        }
    }

    /// Reads the files of the workflow of the function `id`, by their paths relative to the configuration's folder.
    fn read_workflow_files(&self, id: &str, file: &str) -> Result<BTreeMap<String, String>, AppError> {
        let base = self.config.base_folder();
        let loader = Loader::new(&self.config);
        let source = loader.compile(&base.join(file));
        if source.files().is_empty() {
            let why = source.compiled.diagnostics.first().map(|problem| problem.message.clone()).unwrap_or_default();
            let table = format!("functions.{id:?}");
            return Err(ConfigError::in_table(table, TableProblem::UnreadableWorkflow(why)).into());
        }
        let below =
            |path: &String| Path::new(path).strip_prefix(&base).map_or(path.clone(), |path| path.display().to_string());
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(source.files().iter().map(|(path, bytes)| (below(path), text(bytes))).collect())
    }

    /// Builds the bundle of a new run from the files of a definition. `read` holds the files by path, `file` names the
    /// entry.
    pub fn build_bundle(
        &self,
        file: &str,
        read: &BTreeMap<String, Vec<u8>>,
        format: Format,
    ) -> Result<Bundle, AppError> {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut files: BTreeMap<String, String> =
            read.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect();
        for (id, function) in &self.config.functions {
            if let Some(workflow) = &function.workflow {
                files.extend(self.read_workflow_files(id, workflow)?);
            }
        }
        Ok(Bundle {
            entry: file.to_owned(),
            format,
            files,
            functions: self.config.functions.clone(),
            mcp: self.config.mcp.clone(),
            server_tools: ServerTools::new(),
            flows: None,
            agents: self.config.agents.clone(),
            model: self.config.default_model.value.clone(),
            aliases: self.config.aliases.clone(),
            lenient: false,
            agent_folders: AgentSettings::resolve_folders(&self.config.agents, &self.config.base_folder()),
            tools: self.config.tools.clone(),
            tenant: None,
            step: None,
            is_steered: false,
        })
    }

    /// Builds the bundle of a built-in workflow.
    pub fn build_built_in_bundle(&self, which: BuiltInWorkflow) -> Result<Bundle, AppError> {
        let content = which.load_content();
        let files = content.files.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        self.build_bundle(&content.entry, &files, flowloom_formats::steps::FORMAT)
    }

    /// Records in the audit log what secrets may be used for, if that has changed.
    pub async fn record_secret_bindings(&self) -> Result<(), AppError> {
        let bindings = serde_json::to_string(&self.config.secrets).map_err(StoreError::Unserializable)?;
        Ok(self.store.record_secret_bindings(bindings, SystemClock.now_ms()).await?)
    }

    /// Whether commands to a run wait for a decision. A run that has ended and has some may be reopened.
    pub async fn has_pending_commands(&self, run: RunId) -> Result<bool, AppError> {
        Ok(!self.store.pending_commands(run).await?.is_empty())
    }

    /// Opens the run with this id, unique id prefix, or `last`, with its records and its plan.
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
        if state.status == Status::Running
            && let Some(row) = self.store.get_run(id)?.filter(|row| !row.is_driven)
        {
            if row.current_status() == Status::Interrupted.name() {
                state.status = Status::Interrupted;
            } else if !self.store.read(id, records.len() as u64).await?.is_empty() {
                // The run ended, or began to wait, after its events were read.
                return Box::pin(self.open_run_by_id(id)).await;
            }
        }
        let ready = self.load_bundle(created.bundle)?;
        Ok(LoadedRun { id, records, plan: ready.plan.clone(), ready, state })
    }

    /// Returns the compiled bundle with this hash, from the cache or the store.
    fn load_bundle(&self, hash: Hash) -> Result<Arc<CompiledBundle>, AppError> {
        let all = || self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = all().get(&hash) {
            return Ok(ready.clone());
        }
        let bundle = Bundle::parse(&self.store.read_bundle(hash)?)?;
        let plan = compile_bundle(&bundle)?;
        let ready = Arc::new(CompiledBundle { bundle, plan, engine: OnceLock::new() });
        let mut all = all();
        if all.len() >= MAX_CACHED_BUNDLES {
            all.clear();
        }
        all.insert(hash, ready.clone());
        Ok(ready)
    }

    /// Returns the engine of a stored run.
    pub fn engine_for_run(&self, opened: &LoadedRun) -> Result<Engine, AppError> {
        let ready = &opened.ready;
        if let Some(engine) = ready.engine.get() {
            return Ok(engine.clone());
        }
        let engine = self.build_engine(&ready.bundle)?;
        Ok(ready.engine.get_or_init(|| engine).clone())
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

    /// The bundle that its plan is compiled from.
    pub(crate) fn bundle(&self) -> &Bundle {
        &self.ready.bundle
    }

    /// A secret without hosts that its definition names, if the definition is the operator's own.
    pub fn find_unbound_secret(&self, config: &Config) -> Option<&str> {
        find_unbound_secret(config, self.bundle())
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
