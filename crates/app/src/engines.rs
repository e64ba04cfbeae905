//! Composition root: opens the store, builds the parts of the program by the configuration, and hands them out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::outage_log::OutageLog;
use flowloom_store::{Store, StoreError};

use crate::blocks::{BlockRegistry as Blocks, PythonSyntax};
use crate::config::Config;
use crate::definitions::catalog::Catalog;
use crate::definitions::catalog_parts::CatalogParts;
use crate::engine_factory::EngineFactory;
use crate::error::AppError;
use crate::quotas::build_sandbox_meter;
use crate::restate::RestateWorker;
use crate::runs::stored::StoredRuns;
use crate::telemetry::TraceExporter;
use crate::tools::mcp::McpServers;
use crate::wiring::{build_mcp_servers, build_sandbox};

/// The parts of the program. Components receive those that they use.
pub struct App {
    /// The configuration.
    pub config: Arc<Config>,
    /// The store.
    pub store: Arc<Store>,
    /// The MCP servers.
    pub servers: Arc<McpServers>,
    /// The block registry.
    pub blocks: Arc<Blocks>,
    /// Builds bundles and their engines.
    pub engines: Arc<EngineFactory>,
    /// The runs of the store.
    pub runs: StoredRuns,
    /// Outages of Restate, if it drives the runs.
    restate_outages: Arc<OutageLog>,
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
        Ok(App::wire_parts(config, store, Arc::new(servers)))
    }

    /// The same store and servers under another configuration.
    pub fn with_config(&self, config: Config) -> App {
        App::wire_parts(config, self.store.clone(), self.servers.clone())
    }

    fn wire_parts(config: Config, store: Arc<Store>, servers: Arc<McpServers>) -> App {
        let config = Arc::new(config);
        let sandbox = Arc::new(build_sandbox(&config, build_sandbox_meter(&store)));
        let blocks = Arc::new(Blocks::new(store.clone(), &config, PythonSyntax::new(sandbox.clone())));
        let restate_outages = Arc::new(OutageLog::new("Restate"));
        let engines = EngineFactory::new(
            config.clone(),
            store.clone(),
            servers.clone(),
            blocks.clone(),
            sandbox,
            restate_outages.clone(),
        );
        let runs = StoredRuns::new(config.clone(), store.clone(), engines.clone());
        App { config, store, servers, blocks, engines, runs, restate_outages }
    }

    /// The parts that catalogs use.
    pub fn catalog_parts(&self) -> CatalogParts {
        CatalogParts {
            config: self.config.clone(),
            store: self.store.clone(),
            servers: self.servers.clone(),
            blocks: self.blocks.clone(),
            engines: self.engines.clone(),
        }
    }

    /// The catalog of the definitions below `root` and of those in the store.
    pub fn build_catalog(&self, root: PathBuf) -> Arc<Catalog> {
        Arc::new(Catalog::new(root, self.catalog_parts()))
    }

    /// This process as a worker of the Restate server whose ingress has this address. Fails if the store cannot be read.
    pub fn build_restate_worker(&self, ingress: &str) -> Result<RestateWorker, AppError> {
        RestateWorker::new(self.runs.clone(), self.restate_outages.clone(), ingress)
    }

    /// Starts the export of traces if the configuration has a collector. It must come before the first run, and runs on
    /// the current thread pool. Fails if the address of the collector is invalid.
    pub fn start_telemetry(&self) -> Result<Option<TraceExporter>, AppError> {
        let Some(address) = &self.config.telemetry.otlp else { return Ok(None) };
        let exporter = TraceExporter::start(address)?;
        Ok(Some(self.engines.set_telemetry(exporter)))
    }

    /// Records in the audit log what secrets may be used for, if that has changed. Fails if the store cannot be written.
    pub async fn record_secret_bindings(&self) -> Result<(), AppError> {
        let bindings = serde_json::to_string(&self.config.secrets).map_err(StoreError::Unserializable)?;
        Ok(self.store.record_secret_bindings(bindings, SystemClock.now_ms()).await?)
    }
}

/// Keeps the data of a project out of git. A failure only means that git shows the folder.
fn exclude_from_git(folder: &Path) {
    let path = folder.join(".gitignore");
    if !path.exists() {
        let _ = std::fs::write(path, "*\n");
    }
}
