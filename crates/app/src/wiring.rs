//! The parts that engines are made of, as configured: models, the sandbox, MCP servers, the egress policy and secrets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_models::{ModelSettings, Models, ProcessEnvironment, ProviderSettings};
use flowloom_models_local::LocalEngine;
use flowloom_sandbox::{BlockLimits, Sandbox, SandboxConfig, SandboxMeter};
use flowloom_tools::{Download, EgressPolicy, HttpClient, HttpLimits, ToolError};

use crate::config::Config;
use crate::error::AppError;
use crate::secrets::EnvironmentSecrets;
use crate::tools::mcp::McpServers;

/// Builds the configured MCP servers without starting any. Fails if an allowed host of the configuration is invalid.
pub fn build_mcp_servers(config: &Config) -> Result<McpServers, AppError> {
    let secrets = Arc::new(EnvironmentSecrets::new(config));
    let client = Arc::new(HttpClient::new(build_egress_policy(config)?, secrets.clone(), HttpLimits::default()));
    Ok(McpServers::new(config, secrets, client))
}

/// Downloads a URL that a person names, under the egress policy. Fails with `HttpStatus` if there is nothing.
pub async fn download_file(config: &Config, url: &str) -> Result<Download, AppError> {
    let secrets = Arc::new(EnvironmentSecrets::new(config));
    let client = HttpClient::new(build_egress_policy(config)?, secrets, HttpLimits::default());
    let download = client.download_url(url).await?;
    if !(200..300).contains(&download.status) {
        let message = format!("{} answers with the status {}", download.url, download.status);
        return Err(StepFailure::new(Code::HttpStatus, message).into());
    }
    Ok(download)
}

/// Builds the egress policy: which hosts and ports may be reached. Fails if an allowed host is invalid.
pub(crate) fn build_egress_policy(config: &Config) -> Result<EgressPolicy, AppError> {
    let mut policy = EgressPolicy::with_allow_list(&config.egress.allow).map_err(ToolError::from)?;
    // The hosts of [tools] and [search], for the calls that these tables describe.
    let named = config.tools.base_url.as_deref().into_iter().chain(config.search.as_ref().map(|it| it.url.as_str()));
    let named: Vec<String> = named.filter_map(parse_host_and_port).collect();
    policy.configured = EgressPolicy::with_allow_list(&named).map_err(ToolError::from)?.allow;
    if let Some(ports) = &config.egress.ports {
        policy.ports.clone_from(ports);
    }
    let hosts = config.egress.hosts.iter().filter(|(_, host)| host.idempotency_key);
    policy.idempotent = hosts.map(|(host, _)| host.to_lowercase()).collect();
    Ok(policy)
}

/// Builds the configured sandbox without starting a worker. Workers run this same executable, even after the file on
/// disk was replaced by a newer version.
pub fn build_sandbox(config: &Config, meter: Option<Arc<dyn SandboxMeter>>) -> Sandbox {
    let settings = &config.sandbox;
    let interpreters = match &settings.python {
        Some(python) => vec![config.base_folder().join(python)],
        None => find_python_interpreters(),
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
    sandbox.cgroup.clone_from(&settings.cgroup);
    sandbox.meter = meter;
    Sandbox::new(sandbox)
}

/// Time limit of a generated block in a trial, unless the configuration has another.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of requests of a generated block in a trial. Time does not end a loop that calls a model: it passes while
/// the block waits.
const TRIAL_REQUESTS: usize = 20;

/// The sandbox of dry runs: the same workers, with a lower time limit.
pub(crate) fn limit_dry_runs(sandbox: &Sandbox, config: &Config) -> Sandbox {
    sandbox.limit_blocks(BlockLimits { timeout: trial_timeout(config), requests: usize::MAX })
}

/// The sandbox in which generated blocks are tried: that of dry runs, with fewer requests.
pub(crate) fn limit_trials(sandbox: &Sandbox, config: &Config) -> Sandbox {
    sandbox.limit_blocks(BlockLimits { timeout: trial_timeout(config), requests: TRIAL_REQUESTS })
}

fn trial_timeout(config: &Config) -> Duration {
    config.sandbox.trial_timeout_ms.map_or(TRIAL_TIMEOUT, Duration::from_millis)
}

/// Every `python3` on the search path, in `/usr/bin` and in `/usr/local/bin`.
fn find_python_interpreters() -> Vec<PathBuf> {
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

/// The models that definitions may choose from.
pub struct ModelChoice<'a> {
    /// Default model for steps without one.
    pub default: Option<String>,
    /// Other names of models.
    pub aliases: &'a [(String, String)],
    /// Whether a definition may name a file as its model.
    pub allows_named_files: bool,
}

/// Builds the models from the configuration, for definitions of the operator or of a tenant, with their default model
/// and aliases. A process that builds several shares `local` among them, so that each model file is loaded once.
pub fn build_models(config: &Config, choice: ModelChoice<'_>, local: Arc<LocalEngine>) -> Models {
    let providers = config.providers.iter().map(|(name, provider)| ProviderSettings {
        name: name.clone(),
        base_url: provider.base_url.clone(),
        key_env: provider.key_env.clone(),
    });
    let settings = ModelSettings {
        default: choice.default,
        aliases: choice.aliases.to_vec(),
        allows_named_files: choice.allows_named_files,
        cache_dir: config.model_cache.clone(),
        providers: providers.collect(),
        proxy: config.proxy.clone(),
        script_folder: config.base_folder(),
        ..ModelSettings::default()
    };
    Models::new(settings, Arc::new(ProcessEnvironment)).with_local(local)
}

/// Builds the models with the configured default model, for a command that does not run workflows.
pub fn build_default_models(config: &Config) -> Models {
    let default = config.default_model.value.clone();
    build_models(config, ModelChoice { default, aliases: &config.aliases, allows_named_files: true }, Arc::default())
}

/// The `host:port` of a URL, in the form the egress policy expects.
pub(crate) fn parse_host_and_port(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().filter(|text| !text.is_empty())?;
    let default = if address.starts_with("https:") { 443 } else { 80 };
    Some(if authority.contains(':') { authority.to_owned() } else { format!("{authority}:{default}") })
}
