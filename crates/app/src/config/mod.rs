//! Configuration: `flowloom.toml`, under the environment, under what the caller gives.

pub mod author;
pub mod mcp;
pub mod retention;
pub mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::EffectClass;
use flowloom_core::rich::Piece;
use flowloom_core::template::{Part, Template};
use flowloom_core::value::Value;
use flowloom_formats::{FunctionDeclaration, ToolHost};
use flowloom_store::{Database, LEASE, Settings};
use flowloom_tools::secrets::read_text;
use flowloom_tools::{SearchProvider, WebSearch};
use serde::{Deserialize, Serialize};

use mcp::Mcp;
use retention::Retention;

/// Between two looks for runs whose process has gone, in milliseconds.
const TAKE_UP_MS: u64 = 3000;

/// A lease that a busy machine can keep.
const MIN_LEASE_MS: u64 = 100;

/// The file's content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    default_model: Option<String>,
    data_dir: Option<PathBuf>,
    durability: Option<String>,
    database: Option<String>,
    lease_ms: Option<u64>,
    take_up_ms: Option<u64>,
    models: ModelsTable,
    providers: BTreeMap<String, Provider>,
    embeddings: Embeddings,
    author: author::Settings,
    search: Search,
    limits: Option<Limits>,
    egress: Egress,
    files: Files,
    tools: Tools,
    agents: BTreeMap<String, Agent>,
    functions: BTreeMap<String, Function>,
    mcp: BTreeMap<String, Mcp>,
    sandbox: Sandboxing,
    retention: BTreeMap<String, String>,
    telemetry: Telemetry,
    server: server::Settings,
}

/// Where a server tells of its runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP.
    pub otlp: Option<String>,
}

/// How untrusted code is run; what is not given is the sandbox's own default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sandboxing {
    /// The Python interpreter, relative to the configuration.
    pub python: Option<PathBuf>,
    /// Environment variables that code may read.
    pub env: Vec<String>,
    pub(crate) script_timeout_ms: Option<u64>,
    pub(crate) script_memory_mb: Option<u32>,
    pub(crate) python_timeout_ms: Option<u64>,
    pub(crate) python_memory_mb: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelsTable {
    alias: BTreeMap<String, String>,
    cache_dir: Option<PathBuf>,
    proxy: Option<String>,
}

/// A further OpenAI-compatible provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The address of its API.
    pub base_url: String,
    pub(crate) key_env: Option<String>,
}

/// How blocks are found by what they do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embeddings {
    /// The model, or `none`; without it the local one, if its file is there.
    pub model: Option<String>,
    /// How like what is wanted a block must be to be taken for it, from 0 to 1.
    pub(crate) likeness: Option<f32>,
}

/// Who searches the web for definitions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    provider: Option<String>,
    url: Option<String>,
    /// The name of the secret that is its key.
    key: Option<String>,
}

impl Search {
    /// What it says, if it says anything.
    fn read(self) -> Result<Option<WebSearch>, StepError> {
        let invalid = |message: String| Err(StepError::new(Code::ConfigInvalid, message));
        let Some(name) = &self.provider else {
            return match (self.url, self.key) {
                (None, None) => Ok(None),
                _ => invalid("[search] names no provider".to_owned()),
            };
        };
        let Some(provider) = SearchProvider::parse(name) else {
            let known: Vec<&str> = SearchProvider::ALL.iter().map(|provider| provider.name()).collect();
            return invalid(format!("[search] provider is one of {}, not {name:?}", known.join(", ")));
        };
        match self.url.or_else(|| provider.address().map(str::to_owned)) {
            Some(url) => Ok(Some(WebSearch { provider, url, key: self.key })),
            None => invalid(format!("[search] needs the url of your {name}: http://HOST/search")),
        }
    }
}

/// Which addresses may be reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Hosts (`host:port`) that are allowed besides public ones.
    pub allow: Vec<String>,
    pub(crate) ports: Option<Vec<u16>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Files {
    root: Option<PathBuf>,
}

/// The server that the HTTP tools of a graph's agents are on; its host is allowed by being named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_user: Option<bool>,
}

impl Tools {
    /// Whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        *self == Tools::default()
    }

    /// What compiling reads of it.
    pub fn host(&self) -> ToolHost {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Part::Text(text.as_str().into()),
            Piece::Secret(name) => Part::Secret(name.clone()),
        };
        let value = |text: &str| Template { parts: read_text(text).pieces().iter().map(part).collect() };
        ToolHost {
            base: self.base_url.clone(),
            headers: self.headers.iter().map(|(name, text)| (name.clone(), value(text))).collect(),
            forwards_user: self.forward_user.unwrap_or(true),
        }
    }
}

/// What an agent may call: prefixes of function ids; and for graphs, where its prompt and tools are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Prefixes of the ids of functions that it may call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// A folder with `systemPrompt.md` and `jsonSchema.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl Agent {
    /// The folders of those agents that have one, as `base` leads to them.
    pub fn folders(agents: &BTreeMap<String, Agent>, base: &Path) -> BTreeMap<String, String> {
        let folder = |agent: &Agent| agent.folder.as_ref().map(|folder| base.join(folder).display().to_string());
        agents.iter().filter_map(|(id, agent)| Some((id.clone(), folder(agent)?))).collect()
    }
}

/// A function of the user's: an HTTP endpoint or another workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// The address that is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The HTTP method; `POST` if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The file of the workflow that it runs, relative to the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The effect class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// What it does, for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments, for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<serde_json::Value>,
    /// Whether a person must agree to each call that a model asks for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) needs_approval: bool,
    /// Values that the attributes of its action in Markdown read as `$`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) helpers: BTreeMap<String, serde_json::Value>,
}

impl Function {
    /// The helpers of those functions that have some.
    pub(crate) fn helpers(functions: &BTreeMap<String, Function>) -> BTreeMap<String, Value> {
        let lending = functions.iter().filter(|(_, function)| !function.helpers.is_empty());
        let helpers = |function: &Function| {
            Value::map(function.helpers.iter().map(|(name, helper)| (name.as_str(), plain(helper))))
        };
        lending.map(|(id, function)| (id.clone(), helpers(function))).collect()
    }

    /// What models are told of them.
    pub fn declared(functions: &BTreeMap<String, Function>) -> BTreeMap<String, FunctionDeclaration> {
        let declaration = |function: &Function| FunctionDeclaration {
            description: function.description.clone(),
            parameters: function.parameters.as_ref().map(plain),
            needs_approval: function.needs_approval,
        };
        functions.iter().map(|(id, function)| (id.clone(), declaration(function))).collect()
    }
}

fn plain(value: &serde_json::Value) -> Value {
    parse_value(&value.to_string()).unwrap_or_default()
}

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The source of the value: a flag, a variable, a file, or `default`.
    pub origin: String,
}

/// What the caller of [`Config::load`] sets itself. Each value names where it comes from, for example a flag.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The file in the place of `flowloom.toml`.
    pub file: Option<PathBuf>,
    /// The folder of the database.
    pub data_dir: Option<Setting<PathBuf>>,
    /// The address of a Postgres.
    pub database: Option<Setting<String>>,
}

/// Everything that is configured.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The folder of the database.
    pub data_dir: Setting<PathBuf>,
    /// The durability of commits.
    pub durability: Setting<flowloom_store::Durability>,
    /// The Postgres in the place of SQLite.
    pub database: Setting<Option<Database>>,
    /// How long a process that shares a database may be silent until others take up its runs.
    pub(crate) lease: Duration,
    /// Between two looks of a server for runs whose process has gone.
    pub take_up: Duration,
    /// The model of steps that name none.
    pub default_model: Setting<Option<String>>,
    /// Aliases of models: name and model.
    pub aliases: Vec<(String, String)>,
    pub(crate) model_cache: Option<PathBuf>,
    pub(crate) proxy: Option<String>,
    /// Further model providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// How blocks are embedded.
    pub embeddings: Embeddings,
    /// How pipelines are made of wishes.
    pub author: author::Settings,
    /// The provider of web searches, if there is one.
    pub search: Option<WebSearch>,
    /// Limits of every run.
    pub limits: Limits,
    /// The egress policy.
    pub egress: Egress,
    /// The folder that file functions may use.
    pub files_root: Option<PathBuf>,
    /// The server that the HTTP tools of a graph's agents are on.
    pub tools: Tools,
    /// Agents, by id.
    pub agents: BTreeMap<String, Agent>,
    /// Functions, by id.
    pub functions: BTreeMap<String, Function>,
    /// MCP servers, by name.
    pub mcp: BTreeMap<String, Mcp>,
    /// The sandbox settings.
    pub sandbox: Sandboxing,
    /// How long runs are kept after their end.
    pub retention: Retention,
    /// The table `[server]`.
    pub server: server::Settings,
    /// The table `[telemetry]`.
    pub telemetry: Telemetry,
}

impl Config {
    /// Reads the configuration; `overrides` go before the environment and the file.
    pub fn load(overrides: Overrides) -> Result<Config, StepError> {
        let (path, file) = read(overrides.file.as_deref())?;
        let origin = path.as_ref().map_or_else(|| "flowloom.toml".to_owned(), |path| path.display().to_string());
        let data_dir = pick(
            overrides.data_dir,
            ("FLOWLOOM_DATA_DIR", |text| Some(PathBuf::from(text))),
            (file.data_dir, &origin),
            default_data_dir,
        )?;
        let durability =
            pick(None, ("FLOWLOOM_DURABILITY", |text| Some(text.to_owned())), (file.durability, &origin), || {
                "normal".to_owned()
            })?;
        let parsed = flowloom_store::Durability::parse(&durability.value).ok_or_else(|| {
            let message = format!(
                "durability is full, normal, off or memory, not {:?} ({})",
                durability.value, durability.origin
            );
            StepError::new(Code::ConfigInvalid, message)
        })?;
        let database = database(overrides.database, file.database, &origin)?;
        let default_model = pick(
            None,
            ("FLOWLOOM_DEFAULT_MODEL", |text| Some(Some(text.to_owned()))),
            (file.default_model.map(Some), &origin),
            || None,
        )?;
        let base = path.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        mcp::check(&file.mcp)?;
        Ok(Config {
            data_dir,
            durability: Setting { value: parsed, origin: durability.origin },
            database,
            lease: file.lease_ms.map_or(LEASE, |ms| Duration::from_millis(ms.max(MIN_LEASE_MS))),
            take_up: Duration::from_millis(file.take_up_ms.unwrap_or(TAKE_UP_MS).max(1)),
            default_model,
            aliases: file.models.alias.into_iter().collect(),
            model_cache: file.models.cache_dir,
            proxy: file.models.proxy,
            providers: file.providers,
            embeddings: file.embeddings,
            author: file.author.checked()?,
            search: file.search.read()?,
            limits: file.limits.unwrap_or_default(),
            egress: file.egress,
            tools: file.tools,
            files_root: file.files.root.map(|root| base.join(root)),
            agents: file.agents,
            functions: file.functions,
            mcp: file.mcp,
            sandbox: file.sandbox,
            retention: Retention::parse(&file.retention)?,
            server: file.server,
            telemetry: file.telemetry,
            file: path,
        })
    }

    /// How the store is opened.
    pub fn store(&self) -> Settings {
        let (durability, database) = (self.durability.value, self.database.value.clone());
        Settings { folder: self.data_dir.value.clone(), durability, database, lease: self.lease }
    }

    /// The folder that paths in the configuration are relative to.
    pub fn base(&self) -> PathBuf {
        self.file.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }
}

/// The database, whose address is never repeated: there is a password in it.
fn database(
    given: Option<Setting<String>>,
    file: Option<String>,
    origin: &str,
) -> Result<Setting<Option<Database>>, StepError> {
    let given = given.map(|url| Setting { value: Some(url.value), origin: url.origin });
    let of_environment = ("FLOWLOOM_DATABASE", (|text| Some(Some(text.to_owned()))) as fn(&str) -> _);
    let url = pick(given, of_environment, (file.map(Some), origin), || None)?;
    let value = url
        .value
        .map(|url| Database::parse(&url))
        .transpose()
        .map_err(|error| StepError::new(error.code, format!("{} ({})", error.message, url.origin)))?;
    Ok(Setting { value, origin: url.origin })
}

/// The value that was given, else that of the environment, else of the file, else the default.
fn pick<T>(
    given: Option<Setting<T>>,
    environment: (&str, fn(&str) -> Option<T>),
    file: (Option<T>, &str),
    default: impl FnOnce() -> T,
) -> Result<Setting<T>, StepError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let (variable, parse) = environment;
    if let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) {
        let value = parse(&text)
            .ok_or_else(|| StepError::new(Code::ConfigInvalid, format!("{variable} cannot be {text:?}")))?;
        return Ok(Setting { value, origin: format!("${variable}") });
    }
    Ok(match file {
        (Some(value), origin) => Setting { value, origin: origin.to_owned() },
        (None, _) => Setting { value: default(), origin: "default".to_owned() },
    })
}

fn read(given: Option<&Path>) -> Result<(Option<PathBuf>, File), StepError> {
    let path = given.map_or_else(|| PathBuf::from("flowloom.toml"), Path::to_owned);
    let invalid = |message: String| StepError::new(Code::ConfigInvalid, message);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let file = toml::from_str(&text)
                .map_err(|error| invalid(format!("{}: {}", path.display(), without_addresses(&error.to_string()))))?;
            Ok((Some(path), file))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && given.is_none() => Ok((None, File::default())),
        Err(error) => Err(invalid(format!("{}: {error}", path.display()))),
    }
}

/// The parser shows the line where it stopped, which may hold a password.
fn without_addresses(message: &str) -> String {
    let shown =
        |line: &str| if line.contains("postgres") { "(a line with an address)".to_owned() } else { line.to_owned() };
    message.lines().map(shown).collect::<Vec<_>>().join("\n")
}

fn default_data_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("flowloom")
}
