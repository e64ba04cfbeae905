//! Configuration: `flowloom.toml`, under the environment, under what the caller gives.

pub mod author;
pub mod declarations;
mod egress;
pub mod engine;
mod env_file;
pub mod error;
mod fingerprint;
pub mod functions;
pub mod mcp;
pub mod project;
mod quotas;
mod renamed;
pub mod retention;
mod search;
mod secrets;
pub mod server;
mod setting;
mod syntax;
mod values;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flowloom_core::expr::{Template, TemplatePart};
use flowloom_core::limits::Limits;
use flowloom_core::rich::RichPiece;
use flowloom_formats::ToolHost;
use flowloom_store::{DEFAULT_LEASE, Database, Quotas, RecoveryScope, StoreSettings};
use flowloom_tools::WebSearch;
use flowloom_tools::secrets::parse_secret_text;
use serde::{Deserialize, Serialize};

use crate::definitions::reader::{MAX_CONFIG_BYTES, read_bounded_text};

pub use egress::EgressSettings;
use error::ConfigError;
pub use fingerprint::list_differences;
pub use functions::{AgentSettings, FunctionSettings};
use mcp::McpSettings;
use project::{CONFIG_FILE, Project, ProjectTarget};
use retention::Retention;
pub use search::SearchSettings;
pub use secrets::SecretSettings;
pub use setting::Setting;
use setting::pick_setting;

/// Default of `recovery_interval_ms`: milliseconds between two searches for abandoned runs.
const RECOVERY_INTERVAL_MS: u64 = 3000;

/// Range of `lease_ms` in milliseconds: a busy machine cannot renew shorter leases in time, and a longer one keeps the runs
/// of a dead worker for a day.
const LEASE_RANGE_MS: RangeInclusive<u64> = 100..=86_400_000;

/// Range of `recovery_interval_ms` in milliseconds.
const RECOVERY_RANGE_MS: RangeInclusive<u64> = 10..=3_600_000;

/// The content of `flowloom.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    project: Option<String>,
    default_model: Option<String>,
    data_dir: Option<PathBuf>,
    allow_readable: Option<bool>,
    durability: Option<String>,
    database: Option<String>,
    lease_ms: Option<u64>,
    #[serde(alias = "take_up_ms")]
    recovery_interval_ms: Option<u64>,
    models: ModelsTable,
    providers: BTreeMap<String, ProviderConfig>,
    embeddings: EmbeddingSettings,
    author: author::AuthorSettings,
    search: SearchSettings,
    limits: Option<Limits>,
    quotas: quotas::QuotaSettings,
    egress: EgressSettings,
    engine: engine::EngineSettings,
    files: FilesSettings,
    tools: ToolSettings,
    agents: BTreeMap<String, AgentSettings>,
    functions: BTreeMap<String, FunctionSettings>,
    mcp: BTreeMap<String, McpSettings>,
    secrets: BTreeMap<String, SecretSettings>,
    sandbox: SandboxSettings,
    retention: BTreeMap<String, String>,
    telemetry: TelemetrySettings,
    server: server::ServerSettings,
}

/// `[telemetry]`: where a server exports traces of its runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// URL of an OpenTelemetry collector that accepts OTLP over HTTP.
    pub otlp: Option<String>,
}

/// `[sandbox]`: settings for untrusted code; unset values use the defaults of the sandbox.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// The Python interpreter, relative to the configuration.
    pub python: Option<PathBuf>,
    /// Environment variables that code may read.
    pub env: Vec<String>,
    pub(crate) script_timeout_ms: Option<u64>,
    pub(crate) script_memory_mb: Option<u32>,
    pub(crate) python_timeout_ms: Option<u64>,
    pub(crate) python_memory_mb: Option<u32>,
    /// Time limit of a block in a trial or a dry run, in milliseconds.
    pub(crate) trial_timeout_ms: Option<u64>,
    /// The cgroup that workers join: a folder with a file `cgroup.procs`.
    pub(crate) cgroup: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelsTable {
    alias: BTreeMap<String, String>,
    cache_dir: Option<PathBuf>,
    proxy: Option<String>,
}

/// `[providers.NAME]`: an additional OpenAI-compatible provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The address of its API.
    pub base_url: String,
    pub(crate) key_env: Option<String>,
}

/// `[embeddings]`: settings of block search.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// The embedding model, or `none`. Default: the local model, if its file exists.
    pub model: Option<String>,
    /// Minimum similarity (0 to 1) for a block to match.
    #[serde(alias = "likeness")]
    pub(crate) similarity_threshold: Option<f32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FilesSettings {
    root: Option<PathBuf>,
    per_user: Option<bool>,
}

/// `[tools]`: the server that provides the HTTP tools of a graph's agents. Its host may be reached by their calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_user: Option<bool>,
}

impl ToolSettings {
    /// Whether no setting of the table is given.
    pub fn is_empty(&self) -> bool {
        *self == ToolSettings::default()
    }

    /// The tool host as the compiler needs it.
    pub fn to_tool_host(&self) -> ToolHost {
        let part = |piece: &RichPiece| match piece {
            RichPiece::Text(text) => TemplatePart::Text(text.as_str().into()),
            RichPiece::Secret(name) => TemplatePart::Secret(name.clone()),
        };
        let value = |text: &str| Template { parts: parse_secret_text(text).pieces().iter().map(part).collect() };
        ToolHost {
            base: self.base_url.clone(),
            headers: self.headers.iter().map(|(name, text)| (name.clone(), value(text))).collect(),
            forwards_user: self.forward_user.unwrap_or(true),
        }
    }
}

/// Settings that the caller of [`Config::load`] makes itself. Each value names where it comes from, for example a flag.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The file in the place of `flowloom.toml`.
    pub file: Option<PathBuf>,
    /// The file, folder or name that the command was given; the project search starts there.
    pub target: Option<ProjectTarget>,
    /// The folder of the database.
    pub data_dir: Option<Setting<PathBuf>>,
    /// The address of a Postgres.
    pub database: Option<Setting<String>>,
    /// Whether a data folder is used that others can read.
    pub allow_readable: Option<Setting<bool>>,
}

/// The validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The folder whose configuration and data are used.
    pub project: Project,
    /// The name of the project, which its runs record. Empty if the project has none.
    pub project_name: String,
    /// The fingerprint of the settings that can change the result of a run.
    pub fingerprint: String,
    /// Whether a server continues abandoned runs of the project that were started under another configuration.
    pub accepts_any_config: bool,
    /// The folder of the database.
    pub data_dir: Setting<PathBuf>,
    /// Whether a data folder is used that others than its owner can read.
    pub allow_readable: Setting<bool>,
    /// The durability of commits.
    pub durability: Setting<flowloom_store::Durability>,
    /// The Postgres database to use instead of SQLite.
    pub database: Setting<Option<Database>>,
    /// How long a worker may miss heartbeats before others reclaim its runs.
    pub(crate) lease: Duration,
    /// Interval between two searches of a server for runs of dead workers.
    pub recovery_interval: Duration,
    /// The model of steps that do not set one.
    pub default_model: Setting<Option<String>>,
    /// Aliases of models: name and model.
    pub aliases: Vec<(String, String)>,
    pub(crate) model_cache: Option<PathBuf>,
    /// The proxy for requests to providers and model files.
    pub proxy: Option<String>,
    /// Further model providers, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// How blocks are embedded.
    pub embeddings: EmbeddingSettings,
    /// How pipelines are created from goals.
    pub author: author::AuthorSettings,
    /// The provider of web searches, if there is one.
    pub search: Option<WebSearch>,
    /// Limits of every run.
    pub limits: Limits,
    /// How much each user may use.
    pub quotas: Quotas,
    /// The egress policy.
    pub egress: EgressSettings,
    /// The engine that drives runs.
    pub engine: engine::EngineSettings,
    /// The folder that file functions may use.
    pub files_root: Option<PathBuf>,
    /// Whether each user has files of their own in it.
    pub files_per_user: bool,
    /// The server that provides the HTTP tools of a graph's agents.
    pub tools: ToolSettings,
    /// Agents, by id.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Functions, by id.
    pub functions: BTreeMap<String, FunctionSettings>,
    /// MCP servers, by name.
    pub mcp: BTreeMap<String, McpSettings>,
    /// Permitted uses of secrets, by name. Secrets without an entry have no restrictions, but are not available to
    /// tenants.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// The sandbox settings.
    pub sandbox: SandboxSettings,
    /// How long finished runs are retained.
    pub retention: Retention,
    /// The table `[server]`.
    pub server: server::ServerSettings,
    /// The table `[telemetry]`.
    pub telemetry: TelemetrySettings,
    /// Settings that still have an old name, as warnings for the person who maintains the file.
    pub warnings: Vec<String>,
}

impl Config {
    /// Whether the project has data: a database is configured, or the data folder exists. A folder whose parent cannot be
    /// read counts, so that opening it fails with the reason.
    pub fn has_data(&self) -> bool {
        self.database.value.is_some() || !matches!(self.data_dir.value.try_exists(), Ok(false))
    }

    /// Reads the configuration; `overrides` go before the environment and the file. Fails if a file cannot be read, if
    /// a setting is unknown or has an invalid value, or if settings contradict each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_app::config::{Config, Overrides};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("flowloom.toml");
    /// std::fs::write(&file, "[limits]\nsteps = 20\n")?;
    /// let config = Config::load(Overrides { file: Some(file), ..Overrides::default() })?;
    /// assert_eq!(config.limits.steps, 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(overrides: Overrides) -> Result<Config, ConfigError> {
        let project = Project::find(overrides.file.as_deref(), overrides.target.as_ref())?;
        let ReadConfig { file, fingerprint, warnings } = read_config_file(project.file.as_deref())?;
        let path = project.file.clone();
        let origin = path.as_ref().map_or_else(|| CONFIG_FILE.to_owned(), |path| path.display().to_string());
        let data_dir = pick_data_dir(overrides.data_dir, file.data_dir, &project)?;
        let allow_readable = pick_setting(
            overrides.allow_readable,
            "FLOWLOOM_ALLOW_READABLE",
            |text| text.parse().ok(),
            Setting::from_file(file.allow_readable, &origin),
            || false,
        )?;
        let durability = parse_durability(Setting::from_file(file.durability, &origin))?;
        let database = parse_database(overrides.database, Setting::from_file(file.database, &origin))?;
        let default_model = pick_setting(
            None,
            "FLOWLOOM_DEFAULT_MODEL",
            |text| Some(Some(text.to_owned())),
            Setting::from_file(file.default_model.map(Some), &origin),
            || None,
        )?;
        let base = path.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        mcp::validate(&file.mcp)?;
        functions::validate(&file.functions)?;
        file.engine.validate(durability.value)?;
        check_range("lease_ms", file.lease_ms, &LEASE_RANGE_MS, path.as_deref())?;
        check_range("recovery_interval_ms", file.recovery_interval_ms, &RECOVERY_RANGE_MS, path.as_deref())?;
        Ok(Config {
            project_name: file.project.unwrap_or_default(),
            project,
            fingerprint,
            accepts_any_config: false,
            data_dir,
            allow_readable,
            durability,
            database,
            lease: file.lease_ms.map_or(DEFAULT_LEASE, Duration::from_millis),
            recovery_interval: Duration::from_millis(file.recovery_interval_ms.unwrap_or(RECOVERY_INTERVAL_MS)),
            default_model,
            aliases: file.models.alias.into_iter().collect(),
            model_cache: file.models.cache_dir,
            proxy: file.models.proxy,
            providers: file.providers,
            embeddings: file.embeddings,
            author: file.author.validate()?,
            search: file.search.validate()?,
            limits: file.limits.unwrap_or_default(),
            quotas: file.quotas.validate()?,
            egress: file.egress,
            engine: file.engine,
            tools: file.tools,
            files_root: file.files.root.map(|root| base.join(root)),
            files_per_user: file.files.per_user.unwrap_or(true),
            agents: file.agents,
            functions: file.functions,
            mcp: file.mcp,
            secrets: secrets::validate_secrets(file.secrets)?,
            sandbox: file.sandbox,
            retention: Retention::parse(&file.retention)?,
            server: file.server,
            telemetry: file.telemetry,
            warnings,
            file: path,
        })
    }

    /// Checks what drives runs. Fails with `ConfigInvalid`.
    pub fn validate_engine(&self) -> Result<(), ConfigError> {
        self.engine.validate(self.durability.value)
    }

    /// The settings for opening the store.
    pub fn store_settings(&self) -> StoreSettings {
        let (durability, database) = (self.durability.value, self.database.value.clone());
        let allow_readable = self.allow_readable.value;
        let (folder, quotas) = (self.data_dir.value.clone(), self.quotas.clone());
        let config = (!self.accepts_any_config).then(|| self.fingerprint.clone());
        let recovery = RecoveryScope { project: self.project_name.clone(), config };
        StoreSettings { folder, durability, database, lease: self.lease, allow_readable, quotas, recovery }
    }

    /// The folder against which relative paths in the configuration are resolved.
    pub fn base_folder(&self) -> PathBuf {
        self.file.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }
}

/// Fails if a time of the configuration is out of range.
fn check_range(
    setting: &'static str,
    value: Option<u64>,
    range: &RangeInclusive<u64>,
    file: Option<&Path>,
) -> Result<(), ConfigError> {
    match value {
        Some(ms) if !range.contains(&ms) => Err(ConfigError::Value {
            setting,
            expected: format!("{} to {} (milliseconds)", range.start(), range.end()),
            value: ms.to_string(),
            origin: file.map(|file| file.display().to_string()).unwrap_or_default(),
        }),
        _ => Ok(()),
    }
}

/// Parses the durability of commits.
fn parse_durability(file: Option<Setting<String>>) -> Result<Setting<flowloom_store::Durability>, ConfigError> {
    let parse = |text: &str| Some(text.to_owned());
    let Setting { value, origin } = pick_setting(None, "FLOWLOOM_DURABILITY", parse, file, || "normal".to_owned())?;
    match flowloom_store::Durability::parse(&value) {
        Some(value) => Ok(Setting { value, origin }),
        None => {
            let expected = "full, normal, off or memory".to_owned();
            Err(ConfigError::Value { setting: "durability", expected, value, origin })
        }
    }
}

/// Parses the database URL. Messages never contain it, because it may contain a password.
fn parse_database(
    given: Option<Setting<String>>,
    file: Option<Setting<String>>,
) -> Result<Setting<Option<Database>>, ConfigError> {
    let optional = |url: Setting<String>| Setting { value: Some(url.value), origin: url.origin };
    let parse = |text: &str| Some(Some(text.to_owned()));
    let url = pick_setting(given.map(optional), "FLOWLOOM_DATABASE", parse, file.map(optional), || None)?;
    let value = url
        .value
        .map(|url| Database::parse(&url))
        .transpose()
        .map_err(|source| ConfigError::Database { source, origin: url.origin.clone() })?;
    Ok(Setting { value, origin: url.origin })
}

/// The folder of the database: that of the caller, the environment or the file, or the one in the project. A relative
/// folder in the file is below the folder of that file.
fn pick_data_dir(
    given: Option<Setting<PathBuf>>,
    from_file: Option<PathBuf>,
    project: &Project,
) -> Result<Setting<PathBuf>, ConfigError> {
    let origin = project.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    // As in the environment, an empty value sets nothing.
    let from_file = from_file.filter(|folder| !folder.as_os_str().is_empty()).map(|folder| project.root.join(folder));
    let from_file = Setting::from_file(from_file, &origin);
    let parse = |text: &str| Some(PathBuf::from(text));
    let mut picked = pick_setting(given, "FLOWLOOM_DATA_DIR", parse, from_file, || project.data_folder())?;
    if picked.origin == "default" {
        picked.origin = project.reason.describe().to_owned();
    }
    Ok(picked)
}

/// A configuration file that was read.
#[derive(Default)]
struct ReadConfig {
    file: ConfigFile,
    fingerprint: String,
    warnings: Vec<String>,
}

fn read_config_file(path: Option<&Path>) -> Result<ReadConfig, ConfigError> {
    let Some(path) = path else { return Ok(ReadConfig::default()) };
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let text = read_bounded_text(path, MAX_CONFIG_BYTES).map_err(unreadable)?;
    let file = toml::from_str(&text).map_err(|_| {
        let problems = syntax::list_problems::<ConfigFile>(&text);
        ConfigError::Malformed { path: path.to_owned(), problems }
    })?;
    values::check_values(path, &text)?;
    let (fingerprint, warnings) = (fingerprint::fingerprint_file(&text), renamed::find_renamed_settings(path, &text));
    Ok(ReadConfig { file, fingerprint, warnings })
}

/// The folder that earlier versions used for the data of all projects of a user.
pub fn find_shared_data_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("flowloom"))
}
