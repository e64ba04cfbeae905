//! Builds the engine of a run from its bundle. The models, the functions and the rights of a run are those of its own
//! definition, so a child run gets an engine of its own, and never that of the run that starts it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use flowloom_core::event::RunProject;
use flowloom_core::hash::Hash;
use flowloom_core::plan::{Format, Plan, flow_function_id};
use flowloom_models_local::LocalEngine;
use flowloom_runtime::Engine;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{CodeRunner, Effects, Model};
use flowloom_runtime::outage_log::OutageLog;
use flowloom_runtime::remote::RunDriver;
use flowloom_sandbox::Sandbox;
use flowloom_store::Store;
use flowloom_tools::secrets::parse_secret_text;
use flowloom_tools::{
    Capabilities, FunctionConfig, FunctionRegistry, HttpClient, HttpFunction, HttpLimits, PageScraper, UserFiles,
};

use crate::authoring::{self, AuthoringEnv, BuiltInWorkflow};
use crate::blocks::BlockRegistry as Blocks;
use crate::bounded_cache::BoundedCache;
use crate::config::error::{ConfigError, TableProblem};
use crate::config::{Config, FunctionSettings};
use crate::daily_reservations::DailyReservations;
use crate::definitions::bundle::{Bundle, compile_bundle};
use crate::definitions::function_files::FunctionFiles;
use crate::definitions::reachable_secrets::{list_called_workflows, list_reachable_secrets};
use crate::error::AppError;
use crate::quotas::meter_model;
use crate::redaction::UserRedactors;
use crate::restate::RestateDriver;
use crate::run_models::RunModels;
use crate::runs::start::PreparedDefinition;
use crate::secrets::EnvironmentSecrets;
use crate::telemetry::TraceExporter;
use crate::tools::mcp::McpServers;
use crate::tools::memory_keys::scope_to_bundle;
use crate::tools::workflows::{self, ChildPlaces, WorkflowHost};
use crate::user_files::build_user_files;
use crate::wiring::{ModelChoice, build_egress_policy, build_models, limit_dry_runs, limit_trials};

/// Maximum number of compiled bundles held in memory, and of engines of child runs.
const MAX_CACHED_BUNDLES: usize = 256;

/// The parts that all engines of a process share.
pub struct EngineFactory {
    pub(crate) config: Arc<Config>,
    pub(crate) store: Arc<Store>,
    servers: Arc<McpServers>,
    blocks: Arc<Blocks>,
    sandbox: Arc<Sandbox>,
    restate_outages: Arc<OutageLog>,
    pub(crate) child_places: ChildPlaces,
    telemetry: OnceLock<TraceExporter>,
    function_files: FunctionFiles,
    /// The factory, for functions that start runs. They are part of engines, which the factory holds.
    itself: Weak<EngineFactory>,
    /// The calls of models in progress, for the daily quotas of users.
    model_calls: Arc<DailyReservations>,
    /// The files of users. All bundles share the sizes that are known.
    files: Option<UserFiles>,
    /// Loads each local model once for all runs.
    local_engine: Arc<LocalEngine>,
    /// Built with the first engine, like the redactors: commands that run nothing do not need it.
    client: OnceLock<Arc<HttpClient>>,
    redactors: OnceLock<Arc<UserRedactors>>,
    /// Compiled bundles by hash. Runs of a server, and child runs, share few.
    ready: BoundedCache<Hash, Arc<CompiledBundle>>,
    /// Engines of child runs, by the hash of the bundle and the number of the models of the calling run.
    children: BoundedCache<(Hash, u64), Engine>,
}

/// A bundle with its plan and, once needed, its engine.
pub(crate) struct CompiledBundle {
    pub(crate) bundle: Bundle,
    pub(crate) plan: Arc<Plan>,
    engine: OnceLock<Engine>,
    secrets: OnceLock<Vec<String>>,
}

impl CompiledBundle {
    /// The secrets that its runs can send: those of its files, without those of functions that it never calls.
    pub(crate) fn reachable_secrets(&self) -> &[String] {
        self.secrets.get_or_init(|| list_reachable_secrets(&self.bundle, &self.plan))
    }
}

impl EngineFactory {
    /// A factory of engines under a configuration.
    pub(crate) fn new(
        config: Arc<Config>,
        store: Arc<Store>,
        servers: Arc<McpServers>,
        blocks: Arc<Blocks>,
        sandbox: Arc<Sandbox>,
        restate_outages: Arc<OutageLog>,
    ) -> Arc<EngineFactory> {
        let files = build_user_files(&config);
        Arc::new_cyclic(|itself| EngineFactory {
            config,
            store,
            servers,
            blocks,
            sandbox,
            restate_outages,
            child_places: ChildPlaces::default(),
            telemetry: OnceLock::new(),
            function_files: FunctionFiles::default(),
            itself: itself.clone(),
            model_calls: Arc::default(),
            files,
            local_engine: Arc::default(),
            client: OnceLock::new(),
            redactors: OnceLock::new(),
            ready: BoundedCache::new(MAX_CACHED_BUNDLES),
            children: BoundedCache::new(MAX_CACHED_BUNDLES),
        })
    }

    /// Sets where the ends of child runs are reported, and returns what was set first.
    pub(crate) fn set_telemetry(&self, exporter: TraceExporter) -> TraceExporter {
        self.telemetry.get_or_init(|| exporter).clone()
    }

    /// Where the ends of child runs are reported.
    pub(crate) fn trace_exporter(&self) -> Option<&TraceExporter> {
        self.telemetry.get()
    }

    /// The files of the workflows that run as functions, by their paths in bundles, as far as they can be read.
    pub(crate) fn read_function_files(
        &self,
        functions: &BTreeMap<String, FunctionSettings>,
    ) -> BTreeMap<String, String> {
        self.function_files.read_all(&self.config, functions)
    }

    /// Fails with `ConfigInvalid` if a plan calls a function, itself or through others, whose workflow cannot be read.
    pub(crate) fn check_called_functions(&self, bundle: &Bundle, plan: &Plan) -> Result<(), AppError> {
        let unreadable = self.function_files.list_unreadable(&self.config, &bundle.functions);
        if unreadable.is_empty() {
            return Ok(());
        }
        let called = list_called_workflows(bundle, plan);
        match unreadable.into_iter().find(|one| called.contains(&one.workflow)) {
            Some(called) => Err(called.error.into()),
            None => Ok(()),
        }
    }

    /// Builds an engine for runs of one bundle. Fails with `ConfigInvalid` if a function or the egress policy is
    /// misconfigured.
    pub fn build_engine(&self, bundle: &Bundle) -> Result<Engine, AppError> {
        self.build_engine_with(bundle, Arc::new(RunModels::new(self.build_models(bundle), bundle)))
    }

    /// A plan that was compiled from a bundle, ready to be run. Fails with `ConfigInvalid` if it calls a function whose
    /// workflow cannot be read.
    pub fn prepare_definition(&self, plan: Arc<Plan>, bundle: &Bundle) -> Result<PreparedDefinition, AppError> {
        self.check_called_functions(bundle, &plan)?;
        PreparedDefinition::new(plan, self.build_engine(bundle)?, bundle)
    }

    /// Builds the bundle of a new run from the files of a definition. `read` holds the files by path, `file` names the
    /// entry.
    pub fn build_bundle(&self, file: &str, read: &BTreeMap<String, Vec<u8>>, format: Format) -> Bundle {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut files: BTreeMap<String, String> =
            read.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect();
        files.extend(self.read_function_files(&self.config.functions));
        Bundle { entry: file.to_owned(), format, files, ..Bundle::from_config(&self.config) }
    }

    /// Builds the bundle of a built-in workflow.
    pub fn build_built_in_bundle(&self, which: BuiltInWorkflow) -> Bundle {
        let content = which.load_content();
        let files = content.files.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        self.build_bundle(&content.entry, &files, flowloom_formats::steps::FORMAT)
    }

    fn build_engine_with(&self, bundle: &Bundle, models: Arc<RunModels>) -> Result<Engine, AppError> {
        let (model, client) = (models.model.clone(), self.http_client()?);
        let functions = Arc::new(self.build_registry(bundle, &client, models)?);
        let effects = Effects {
            model,
            scraper: Arc::new(PageScraper::new(client.clone())),
            http: client,
            functions,
            code: scope_to_bundle(self.sandbox.clone(), bundle),
            clock: Arc::new(SystemClock),
        };
        let engine = Engine::new(effects, self.store.clone())
            .with_definition(bundle.definition_identity())
            .with_project(self.run_project());
        let redactors = self.user_redactors();
        let engine = if redactors.is_empty() { engine } else { engine.with_redactors(redactors) };
        Ok(self.build_driver().into_iter().fold(engine, Engine::with_driver))
    }

    /// Evaluates expressions.
    pub(crate) fn code_runner(&self) -> &dyn CodeRunner {
        &*self.sandbox
    }

    /// The redactors of the secrets of this process.
    pub(crate) fn user_redactors(&self) -> Arc<UserRedactors> {
        self.redactors.get_or_init(|| Arc::new(UserRedactors::new(&self.config))).clone()
    }

    /// The client of all engines: what may be reached, and with which secrets, depends on the configuration and on the
    /// definition that each request names.
    fn http_client(&self) -> Result<Arc<HttpClient>, AppError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let secrets = Arc::new(EnvironmentSecrets::new(&self.config));
        let client = HttpClient::new(build_egress_policy(&self.config)?, secrets, HttpLimits::default());
        Ok(self.client.get_or_init(|| Arc::new(client)).clone())
    }

    /// The project and configuration that runs of this process record.
    fn run_project(&self) -> RunProject {
        RunProject { name: self.config.project_name.clone(), config: self.config.fingerprint.clone() }
    }

    /// The driver of this process's runs, if another engine drives them.
    fn build_driver(&self) -> Option<Arc<dyn RunDriver>> {
        let ingress = self.config.engine.restate.as_ref()?;
        let accepted = self.config.accepts_any_config.then(|| self.config.fingerprint.clone());
        Some(Arc::new(RestateDriver::new(ingress, self.store.clone(), accepted, self.restate_outages.clone())))
    }

    /// Builds the models of a bundle, whose calls count for the quotas of users. All bundles share one engine for local
    /// models.
    pub fn build_models(&self, bundle: &Bundle) -> Arc<dyn Model> {
        let (default, allows_named_files) = (bundle.model.clone(), bundle.tenant.is_none());
        let choice = ModelChoice { default, aliases: &bundle.aliases, allows_named_files };
        let models = Arc::new(build_models(&self.config, choice, self.local_engine.clone()));
        meter_model(models, &self.store, &self.model_calls)
    }

    /// Builds the context of the authoring functions, which create pipelines from goals.
    pub fn build_author(&self, bundle: &Bundle, models: &Arc<dyn Model>) -> AuthoringEnv {
        AuthoringEnv {
            store: self.store.clone(),
            models: models.clone(),
            trial_code: Arc::new(limit_trials(&self.sandbox, &self.config)),
            dry_run_code: Arc::new(limit_dry_runs(&self.sandbox, &self.config)),
            blocks: self.blocks.clone(),
            sources: bundle.to_sources_without_files().with_files(BTreeMap::new()),
        }
    }

    fn build_registry(
        &self,
        bundle: &Bundle,
        client: &Arc<HttpClient>,
        models: Arc<RunModels>,
    ) -> Result<FunctionRegistry, AppError> {
        let author = self.build_author(bundle, &models.model);
        let host = Arc::new(WorkflowHost::new(self.itself.clone(), self.store.clone(), bundle.clone(), models));
        let grants: BTreeMap<String, Vec<String>> =
            bundle.agents.iter().map(|(id, agent)| (id.clone(), agent.tools.clone())).collect();
        let mut registry = FunctionRegistry::new(client.clone()).with_capabilities(Capabilities::new(grants));
        if let Some(files) = &self.files {
            registry = registry.with_files(files.clone());
        }
        if let Some(search) = &self.config.search {
            registry = registry.with_search(search.clone());
        }
        let own = workflows::built_in_functions(&host).into_iter().chain(authoring::build_functions(author));
        for (id, function) in own {
            registry = registry.with_function(id, function);
        }
        for (name, mcp) in &bundle.mcp {
            registry = registry.with_server(self.servers.get_or_create(name, mcp));
        }
        for id in bundle.flows.iter().flat_map(BTreeMap::keys) {
            registry = registry.with_function(flow_function_id(id), workflows::tool_function(&host, id));
        }
        for (id, function) in &bundle.functions {
            registry = registry.with_function(id, build_function(id, function, &host)?);
        }
        Ok(registry)
    }

    /// The compiled bundle with this hash, from memory or the store. Fails if the bundle is missing or damaged, or does
    /// not compile any more.
    pub(crate) fn load_bundle(&self, hash: Hash) -> Result<Arc<CompiledBundle>, AppError> {
        self.find_or_compile(hash, || Ok(self.store.read_bundle(hash)?))
    }

    /// The engine of the runs of a bundle. Fails if an engine cannot be built from its settings.
    pub(crate) fn engine_of(&self, ready: &CompiledBundle) -> Result<Engine, AppError> {
        if let Some(engine) = ready.engine.get() {
            return Ok(engine.clone());
        }
        let engine = self.build_engine(&ready.bundle)?;
        Ok(ready.engine.get_or_init(|| engine).clone())
    }

    /// The text of the bundle of a child run as a definition that can be run. `caller` has the models of the calling run. A
    /// step that calls a workflow again and again compiles it once, and builds one engine. Fails if the bundle does not
    /// compile, or if an engine cannot be built from its settings.
    pub(crate) fn prepare_child(
        &self,
        text: Arc<str>,
        caller: &Arc<RunModels>,
    ) -> Result<PreparedDefinition, AppError> {
        let hash = Hash::of_bytes(text.as_bytes());
        let ready = self.find_or_compile(hash, || Ok(text.clone()))?;
        let engine = self.child_engine(hash, &ready.bundle, caller)?;
        Ok(PreparedDefinition::of_text(ready.plan.clone(), engine, hash, text))
    }

    fn child_engine(&self, hash: Hash, bundle: &Bundle, caller: &Arc<RunModels>) -> Result<Engine, AppError> {
        let key = (hash, caller.number);
        if let Some(engine) = self.children.get(&key) {
            return Ok(engine);
        }
        let engine = match caller.fits_bundle(bundle) {
            true => self.build_engine_with(bundle, caller.clone())?,
            false => self.build_engine(bundle)?,
        };
        self.children.insert(key, engine.clone());
        Ok(engine)
    }

    /// The compiled bundle with this hash. `read` reads its text if it is not in memory.
    fn find_or_compile(
        &self,
        hash: Hash,
        read: impl FnOnce() -> Result<Arc<str>, AppError>,
    ) -> Result<Arc<CompiledBundle>, AppError> {
        if let Some(ready) = self.ready.get(&hash) {
            return Ok(ready);
        }
        let bundle = Bundle::parse(&read()?)?;
        let plan = compile_bundle(&bundle)?;
        let ready = Arc::new(CompiledBundle { bundle, plan, engine: OnceLock::new(), secrets: OnceLock::new() });
        self.ready.insert(hash, ready.clone());
        Ok(ready)
    }
}

fn build_function(id: &str, function: &FunctionSettings, host: &Arc<WorkflowHost>) -> Result<FunctionConfig, AppError> {
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
