//! Wires the parts together: store, models, tools and the engine, as configured.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Format, Plan, flow_function};
use flowloom_core::state::RunState;
use flowloom_formats::compile;
use flowloom_models::{ModelSettings, Models, ProcessEnvironment, ProviderSettings};
use flowloom_runtime::Engine;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Effects;
use flowloom_runtime::journal::Journal;
use flowloom_sandbox::{Sandbox, SandboxConfig};
use flowloom_store::Store;
use flowloom_tools::{
    Capabilities, EgressPolicy, FunctionConfig, HttpClient, HttpFunction, HttpLimits, PageScraper, Registry, Secrets,
    secrets::read_text,
};

use crate::authoring::{self, Author, BuiltIn};
use crate::blocks::Registry as Blocks;
use crate::bundle::Bundle;
use crate::config::{Agent, Config, Function};
use crate::mcp::{Declared, Servers};
use crate::memory_keys::scoped;
use crate::source::{self, Reading};
use crate::workflows::{self, Host};

/// The parts of the program that a run needs.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) store: Arc<Store>,
    pub(crate) servers: Servers,
    pub(crate) blocks: Arc<Blocks>,
    sandbox: Arc<Sandbox>,
    /// Bundles that were opened, by their hash: a server opens the same ones again and again.
    ready: Mutex<HashMap<Hash, Arc<Ready>>>,
}

/// Bundles that are kept ready at most.
const READY: usize = 256;

/// A bundle of the store, compiled.
pub(crate) struct Ready {
    pub(crate) bundle: Bundle,
    plan: Arc<Plan>,
    engine: OnceLock<Engine>,
}

impl App {
    pub(crate) fn open(config: Config) -> Result<App, StepError> {
        let servers = servers(&config)?;
        App::open_with(config, servers)
    }

    /// The same with MCP servers that may have been asked already.
    pub(crate) fn open_with(config: Config, servers: Servers) -> Result<App, StepError> {
        let store = Store::open_with(&config.store())?;
        let sandbox = Arc::new(sandbox(&config));
        let blocks = Arc::new(Blocks::new(store.clone(), &config));
        Ok(App { config, store, servers, blocks, sandbox, ready: Mutex::default() })
    }

    /// An engine for the runs of one bundle.
    pub(crate) fn engine(&self, bundle: &Bundle) -> Result<Engine, StepError> {
        let models = Arc::new(models(&self.config, bundle.model.clone(), &bundle.aliases));
        let client =
            Arc::new(HttpClient::new(policy(&self.config)?, Arc::new(EnvironmentSecrets), HttpLimits::default()));
        let host = Arc::new(Host::new(self.store.clone(), bundle.clone()));
        let author = self.author(bundle, &models);
        let registry = Arc::new(self.registry(bundle, &client, &host, author)?);
        let (scraper, sandbox) = (Arc::new(PageScraper::new(client.clone())), self.sandbox.clone());
        let (store, clock) = (self.store.clone(), Arc::new(SystemClock));
        let over = move |functions: Arc<Registry>, bundle: &Bundle| {
            let code = scoped(sandbox.clone(), bundle);
            let (model, http, scraper) = (models.clone(), client.clone(), scraper.clone());
            let effects = Effects { model, http, scraper, functions, code, clock: clock.clone() };
            Engine::new(effects, store.clone())
        };
        let engine = over(registry.clone(), bundle);
        // Functions that run workflows need the engine that needs the functions: what they hold of it keeps nothing alive.
        let functions = Arc::downgrade(&registry);
        host.set_engine(move |bundle| functions.upgrade().map(|functions| over(functions, bundle)));
        Ok(engine)
    }

    /// What makes pipelines of wishes.
    pub(crate) fn author(&self, bundle: &Bundle, models: &Arc<Models>) -> Author {
        Author {
            store: self.store.clone(),
            models: models.clone(),
            code: self.sandbox.clone(),
            blocks: self.blocks.clone(),
            sources: bundle.surroundings(),
        }
    }

    fn registry(
        &self,
        bundle: &Bundle,
        client: &Arc<HttpClient>,
        host: &Arc<Host>,
        author: Author,
    ) -> Result<Registry, StepError> {
        let grants: BTreeMap<String, Vec<String>> =
            bundle.agents.iter().map(|(id, agent)| (id.clone(), agent.tools.clone())).collect();
        let mut registry = Registry::new(client.clone()).with_capabilities(Capabilities::new(grants));
        if let Some(root) = &self.config.files_root {
            registry = registry.with_files(root);
        }
        if let Some(search) = &self.config.search {
            registry = registry.with_search(search.clone());
        }
        for (id, function) in workflows::built_in(host).into_iter().chain(authoring::functions(author)) {
            registry = registry.with_function(id, function);
        }
        for (name, mcp) in &bundle.mcp {
            registry = registry.with_server(self.servers.get(name, mcp));
        }
        for id in bundle.flows.iter().flat_map(BTreeMap::keys) {
            registry = registry.with_function(flow_function(id), workflows::of_flow(host, id));
        }
        for (id, function) in &bundle.functions {
            registry = registry.with_function(id, self.function(id, function, host)?);
        }
        Ok(registry)
    }

    fn function(&self, id: &str, function: &Function, host: &Arc<Host>) -> Result<FunctionConfig, StepError> {
        match (&function.url, &function.workflow) {
            (Some(url), None) => {
                let mut http = HttpFunction::post(read_text(url));
                if let Some(method) = &function.method {
                    http.method.clone_from(method);
                }
                http.headers = function.headers.iter().map(|(name, value)| (name.clone(), read_text(value))).collect();
                http.effect = function.effect;
                http.timeout_ms = function.timeout_ms.or(http.timeout_ms);
                Ok(FunctionConfig::Http(http))
            }
            (None, Some(file)) => Ok(workflows::of_file(host, file, function.effect)),
            _ => {
                let message = format!("[functions.{id:?}] needs either a url or a workflow");
                Err(StepError::new(Code::ConfigInvalid, message))
            }
        }
    }

    /// The files of a workflow that the configuration names, by their paths below the configuration's folder.
    fn workflow(&self, file: &str) -> Result<BTreeMap<String, String>, StepError> {
        let base = self.config.base();
        let reading = Reading { config: &self.config, format: None, lenient: false };
        let source = source::load(&base.join(file), &reading);
        if source.files.is_empty() {
            let why = source.compiled.diagnostics.first().map(|problem| problem.message.clone()).unwrap_or_default();
            return Err(StepError::new(Code::ConfigInvalid, format!("the workflow of a function: {why}")));
        }
        let below =
            |path: String| Path::new(&path).strip_prefix(&base).map_or(path.clone(), |path| path.display().to_string());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(source.files.into_iter().map(|(path, bytes)| (below(path), text(bytes))).collect())
    }

    /// The bundle of a new run of a file.
    pub(crate) fn bundle(
        &self,
        file: &str,
        read: &BTreeMap<String, Vec<u8>>,
        format: Format,
    ) -> Result<Bundle, StepError> {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut files: BTreeMap<String, String> =
            read.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect();
        for function in self.config.functions.values() {
            if let Some(workflow) = &function.workflow {
                files.extend(self.workflow(workflow)?);
            }
        }
        Ok(Bundle {
            entry: file.to_owned(),
            format,
            files,
            functions: self.config.functions.clone(),
            mcp: self.config.mcp.clone(),
            offered: Declared::new(),
            flows: None,
            agents: self.config.agents.clone(),
            model: self.config.default_model.value.clone(),
            aliases: self.config.aliases.clone(),
            lenient: false,
            agent_folders: Agent::folders(&self.config.agents, &self.config.base()),
            tools: self.config.tools.clone(),
        })
    }

    /// The bundle of a workflow that every installation has.
    pub(crate) fn bundle_of(&self, which: BuiltIn) -> Result<Bundle, StepError> {
        let content = which.content();
        let files = content.files.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        self.bundle(&content.entry, &files, flowloom_formats::steps::FORMAT)
    }

    /// The run that a person means, with its record and its plan.
    pub(crate) async fn open_run(&self, name: &str) -> Result<Opened, StepError> {
        let id = self.store.find(name)?.id;
        self.open_id(id).await
    }

    pub(crate) async fn open_id(&self, id: RunId) -> Result<Opened, StepError> {
        let records = self.store.read(id, 0).await?;
        let Some(Event::RunCreated(created)) = records.first().map(|record| record.event.clone()) else {
            return Err(StepError::new(Code::StoreCorrupt, format!("run {id} has no beginning")));
        };
        let state = RunState::of(records.iter().map(|record| &**record))?;
        let ready = self.ready(created.bundle)?;
        Ok(Opened { id, records, plan: ready.plan.clone(), ready, state })
    }

    /// The bundle with this hash, compiled.
    fn ready(&self, hash: Hash) -> Result<Arc<Ready>, StepError> {
        let all = || self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = all().get(&hash) {
            return Ok(ready.clone());
        }
        let bundle = Bundle::parse(&self.store.bundle(hash)?)?;
        let plan = plan_of(&bundle)?;
        let ready = Arc::new(Ready { bundle, plan, engine: OnceLock::new() });
        let mut all = all();
        if all.len() >= READY {
            all.clear();
        }
        all.insert(hash, ready.clone());
        Ok(ready)
    }

    /// The engine of a run of the store.
    pub(crate) fn engine_of(&self, opened: &Opened) -> Result<Engine, StepError> {
        let ready = &opened.ready;
        if let Some(engine) = ready.engine.get() {
            return Ok(engine.clone());
        }
        let engine = self.engine(&ready.bundle)?;
        Ok(ready.engine.get_or_init(|| engine).clone())
    }
}

/// A run of the store.
pub(crate) struct Opened {
    pub(crate) id: RunId,
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) plan: Arc<Plan>,
    ready: Arc<Ready>,
    state: RunState,
}

impl Opened {
    /// The text of its definition.
    pub(crate) fn definition(&self) -> &str {
        let bundle = &self.ready.bundle;
        bundle.files.get(&bundle.entry).map_or("", String::as_str)
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> RunState {
        self.state.clone()
    }
}

/// Compiles a bundle, which compiled when its run was created.
pub(crate) fn plan_of(bundle: &Bundle) -> Result<Arc<Plan>, StepError> {
    let compiled = compile(&bundle.entry, &bundle.sources(), Some(bundle.format));
    compiled.plan.map(Arc::new).ok_or_else(|| {
        let why = compiled.diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let why = why.map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
        StepError::new(Code::StoreCorrupt, format!("the run's own definition does not compile any more: {why}"))
    })
}

/// The MCP servers as configured; none is started yet.
pub(crate) fn servers(config: &Config) -> Result<Servers, StepError> {
    let secrets = Arc::new(EnvironmentSecrets);
    let client = Arc::new(HttpClient::new(policy(config)?, secrets.clone(), HttpLimits::default()));
    Ok(Servers::new(config, secrets, client))
}

/// What may be reached, as configured.
fn policy(config: &Config) -> Result<EgressPolicy, StepError> {
    let mut allowed = config.egress.allow.clone();
    // A host that is named is allowed by that.
    let named = config.tools.base_url.as_deref().into_iter().chain(config.search.as_ref().map(|it| it.url.as_str()));
    allowed.extend(named.filter_map(host_and_port));
    let mut policy = EgressPolicy::allowing(&allowed)?;
    if let Some(ports) = &config.egress.ports {
        policy.ports.clone_from(ports);
    }
    Ok(policy)
}

/// The sandbox as configured; it starts nothing yet. Its workers are this program, also after a newer one took its place.
pub(crate) fn sandbox(config: &Config) -> Sandbox {
    let settings = &config.sandbox;
    let interpreters = match &settings.python {
        Some(python) => vec![config.base().join(python)],
        None => interpreters(),
    };
    let mut sandbox = SandboxConfig::new("/proc/self/exe", interpreters);
    sandbox.environment =
        settings.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect();
    if let Some(bound) = settings.script_timeout_ms {
        sandbox.script.timeout = Duration::from_millis(bound);
    }
    if let Some(bound) = settings.script_memory_mb {
        sandbox.script.memory_bytes = (bound.max(1) as usize) << 20;
    }
    if let Some(bound) = settings.python_timeout_ms {
        sandbox.python.timeout = Duration::from_millis(bound);
    }
    if let Some(bound) = settings.python_memory_mb {
        sandbox.python.memory_bytes = u64::from(bound.max(64)) << 20;
    }
    Sandbox::new(sandbox)
}

/// Every `python3` of the search path, and the system's own.
fn interpreters() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths(&path).chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/local/bin")]) {
        let python = folder.join("python3");
        if python.is_absolute() && python.exists() && !found.contains(&python) {
            found.push(python);
        }
    }
    found
}

/// Models as configured, with the choice of a run.
pub(crate) fn models(config: &Config, default: Option<String>, aliases: &[(String, String)]) -> Models {
    let providers = config.providers.iter().map(|(name, provider)| ProviderSettings {
        name: name.clone(),
        base_url: provider.base_url.clone(),
        key_env: provider.key_env.clone(),
    });
    let settings = ModelSettings {
        default,
        aliases: aliases.to_vec(),
        cache_dir: config.model_cache.clone(),
        providers: providers.collect(),
        proxy: config.proxy.clone(),
        ..ModelSettings::default()
    };
    Models::new(settings, Arc::new(ProcessEnvironment))
}

/// `host:port` of an address, as addresses are allowed.
fn host_and_port(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().filter(|text| !text.is_empty())?;
    let default = if address.starts_with("https:") { 443 } else { 80 };
    Some(if authority.contains(':') { authority.to_owned() } else { format!("{authority}:{default}") })
}

/// The secret called `name`.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(format!("FLOWLOOM_SECRET_{name}")).ok().filter(|value| !value.is_empty())
}

/// Secrets from the environment: `FLOWLOOM_SECRET_<NAME>`.
struct EnvironmentSecrets;

impl Secrets for EnvironmentSecrets {
    fn value(&self, name: &str) -> Option<String> {
        secret(name)
    }
}
