//! `flowloom doctor`: reports the configuration, the origin of each value, missing parts, and damage.

mod stored_data;

use std::path::Path;

use flowloom_app::config::{Config, find_shared_data_folder};
use flowloom_app::definitions::function_files::list_unreadable_functions;
use flowloom_app::models::ModelList;
use flowloom_app::restate::{check_server, find_worker};
use flowloom_app::secrets::list_secret_names;
use flowloom_app::wiring;
use flowloom_models_local::check_processor;
use flowloom_runtime::effects::Model as _;
use flowloom_sandbox::Protection;
use flowloom_store::{DATABASE_FILE, Store};
use rustix::fs::{Access, access};

use crate::cli::Global;
use crate::commands::results::print_json;
use crate::failure::CommandResult;
use crate::hint;
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};

/// Continues a value in the next line, in its column.
const LINE_BREAK: &str = "\n                     ";

/// The column in which values start.
const VALUE_COLUMN: usize = 21;

/// One line of the report, or several if its value has several.
#[derive(Clone)]
struct DoctorCheck {
    is_fine: bool,
    name: String,
    value: String,
    origin: String,
    /// Whether a protection is active; `None` for other checks.
    is_active: Option<bool>,
}

pub(crate) async fn run_doctor(global: &Global, reads_data: bool) -> CommandResult {
    let config = match global.load_config() {
        Ok(config) => config,
        Err(error) => {
            // What does not depend on the settings is reported all the same, in front of the error.
            if !global.json {
                print_checks(&[passed_check("version", env!("CARGO_PKG_VERSION"), ""), check_machine()]);
            }
            return Err(error.into());
        }
    };
    let mut findings = [
        check_settings(&config),
        vec![check_machine()],
        check_parts(&config),
        vec![check_providers(&config).await],
        check_secrets(&config),
        check_sandbox(&config).await,
        check_servers(&config).await,
    ]
    .concat();
    findings.extend(check_engine(&config).await);
    if has_database(&config) {
        findings.extend(check_workers(&config).await);
        findings.push(check_writes(&config).await);
        findings.extend(match reads_data {
            true => stored_data::check_all_data(&config),
            false => stored_data::check_small_data(&config),
        });
    }
    if global.json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "name": finding.name, "value": finding.value.replace('\n', " "), "origin": finding.origin, "ok": finding.is_fine,
                    "active": finding.is_active,
                })
            })
            .collect();
        print_json(&serde_json::Value::from(list));
    } else {
        print_checks(&findings);
    }
    Ok(u8::from(findings.iter().any(|finding| !finding.is_fine)))
}

fn print_checks(findings: &[DoctorCheck]) {
    for finding in findings {
        let sign = match (finding.is_fine, finding.is_active) {
            (false, _) => paint_text(Style::Bad, "✗"),
            (true, Some(false)) => paint_text(Style::Attention, "!"),
            (true, _) => paint_text(Style::Good, "✓"),
        };
        let origin = if finding.origin.is_empty() { String::new() } else { format!("  ({})", finding.origin) };
        let line = format!("{sign} {:<18} {}{origin}", finding.name, finding.value.replace('\n', LINE_BREAK));
        print_wrapped(&line, VALUE_COLUMN);
    }
}

fn passed_check(name: &str, value: impl Into<String>, origin: &str) -> DoctorCheck {
    DoctorCheck {
        is_fine: true,
        name: name.to_owned(),
        value: value.into(),
        origin: origin.to_owned(),
        is_active: None,
    }
}

fn check_settings(config: &Config) -> Vec<DoctorCheck> {
    let file = config.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let mut rows = vec![
        passed_check("version", env!("CARGO_PKG_VERSION"), ""),
        passed_check("configuration", file, ""),
        passed_check("project", describe_project(config), config.project.reason.describe()),
        check_data_folder(config),
        passed_check("durability", format!("{:?}", config.durability.value).to_lowercase(), &config.durability.origin),
        check_default_model(config),
        passed_check("egress.allow", join_items(&config.egress.allow), ""),
        passed_check("files.root", join_items(config.files_root.iter().map(|root| root.display().to_string())), ""),
        passed_check("functions", join_items(config.functions.keys()), ""),
        passed_check("agents", join_items(config.agents.keys()), ""),
    ];
    let unreadable = list_unreadable_functions(config).into_iter().map(|function| function.error.to_string());
    rows.extend(unreadable.map(|why| DoctorCheck { is_fine: false, ..passed_check("function", why, "") }));
    rows.extend(check_env_file(config));
    rows.extend(check_earlier_data(config));
    rows
}

/// Reports variables in the project's `.env` file that are not set.
fn check_env_file(config: &Config) -> Option<DoctorCheck> {
    let ignored = config.project.list_ignored_variables().unwrap_or_default();
    let value = format!("ignored, because they also control other programs: {}", ignored.join(", "));
    (!ignored.is_empty()).then(|| passed_check(".env", value, ""))
}

/// Reports the default model, and why steps cannot use the configured one.
fn check_default_model(config: &Config) -> DoctorCheck {
    let configured = &config.default_model;
    let report = |value: String| passed_check("default model", value, &configured.origin);
    match (&configured.value, wiring::build_default_models(config).resolve(None)) {
        (Some(named), Err(failure)) => {
            DoctorCheck { is_fine: false, ..report(format!("{named}\n{}", failure.message)) }
        }
        (Some(named), Ok(_)) => report(named.clone()),
        (None, used) => report(used.unwrap_or_else(|_| "none".to_owned())),
    }
}

/// The folder of the project, and its name if it shares a database.
fn describe_project(config: &Config) -> String {
    let root = &config.project.root;
    let folder = if root.as_os_str().is_empty() { ".".to_owned() } else { root.display().to_string() };
    if config.project_name.is_empty() { folder } else { format!("{} in {folder}", config.project_name) }
}

/// Reports data of earlier versions, which kept the data of all projects of a user in one folder.
fn check_earlier_data(config: &Config) -> Option<DoctorCheck> {
    let folder = find_shared_data_folder()?;
    let is_used = config.database.value.is_some() || config.data_dir.value == folder;
    if is_used || !folder.join("flowloom.db").is_file() {
        return None;
    }
    // The data of the project is kept aside, and named by the command.
    let restore =
        if has_database(config) { "flowloom restore earlier.db --replace" } else { "flowloom restore earlier.db" };
    let value = format!(
        "{} has the runs of all projects of an earlier version\nto copy them into this project:\n\
         flowloom --data-dir {} backup earlier.db\n{restore}",
        folder.display(),
        hint::quote_argument(&folder)
    );
    Some(passed_check("earlier data", value, ""))
}

/// Reports the data folder, whether other users can read it, and why it cannot be created.
fn check_data_folder(config: &Config) -> DoctorCheck {
    let folder = &config.data_dir;
    let checked = flowloom_store::check_private(&folder.value).map_err(|error| error.to_string());
    match checked.and_then(|()| check_creatable(&folder.value)) {
        Err(problem) => DoctorCheck { is_fine: false, ..passed_check("data folder", problem, &folder.origin) },
        Ok(()) => passed_check("data folder", folder.value.display().to_string(), &folder.origin),
    }
}

/// Checks that a folder exists, or that the one it would be created in is a folder that this user can write to.
fn check_creatable(folder: &Path) -> Result<(), String> {
    let existing = folder.ancestors().find(|ancestor| ancestor.exists()).filter(|found| !found.as_os_str().is_empty());
    let existing = existing.unwrap_or(Path::new("."));
    let problem = match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !existing.is_dir() => format!("{} is not a folder", existing.display()),
        Err(error) => format!("{}: {error}", existing.display()),
        Ok(()) => return Ok(()),
    };
    Err(match existing == folder {
        true => problem,
        false => format!("{} cannot be created: {problem}", folder.display()),
    })
}

fn join_items(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn check_machine() -> DoctorCheck {
    match check_processor() {
        Ok(()) => passed_check("processor", "runs local models", ""),
        Err(problem) => DoctorCheck { is_fine: false, ..passed_check("processor", problem, "") },
    }
}

/// The secrets that are set, and those that are bound to no host.
fn check_secrets(config: &Config) -> Vec<DoctorCheck> {
    let names = list_secret_names();
    let is_bound = |name: &&String| config.secrets.get(*name).is_some_and(|secret| !secret.hosts.is_empty());
    let unbound: Vec<&String> = names.iter().filter(|name| !is_bound(name)).collect();
    let mut rows = vec![passed_check("secrets", join_items(&names), "")];
    if !unbound.is_empty() {
        let advice = "set `hosts` in [secrets.NAME]; without it, a definition can send the secret anywhere";
        let value = format!("bound to no host: {}\n{advice}", join_items(unbound));
        rows.push(DoctorCheck { is_active: Some(false), ..passed_check("unbound secrets", value, "") });
    }
    rows
}

/// Checks that untrusted code can run here, by starting some.
async fn check_sandbox(config: &Config) -> Vec<DoctorCheck> {
    let available = wiring::build_sandbox(config, None).check_availability().await;
    let row = |name: &str, result: Result<String, String>| match result {
        Ok(how) => passed_check(name, how, ""),
        Err(missing) => DoctorCheck { is_fine: false, ..passed_check(name, missing, "") },
    };
    let mut rows = vec![row("javascript sandbox", available.script), row("python sandbox", available.python)];
    rows.extend(available.protections.iter().map(protection_check));
    rows
}

/// A protection of Python blocks. Code runs only with those that it needs, so a missing one is not an error.
fn protection_check(protection: &Protection) -> DoctorCheck {
    let Protection { name, is_active, detail, advice } = protection;
    let value = match advice {
        None => detail.clone(),
        Some(advice) => format!("missing: {detail}\n{advice}"),
    };
    DoctorCheck { is_active: Some(*is_active), ..passed_check(name, value, "") }
}

/// Checks that the MCP servers can be used, by starting them.
async fn check_servers(config: &Config) -> Vec<DoctorCheck> {
    let servers = match wiring::build_mcp_servers(config) {
        Ok(servers) => servers,
        Err(error) => return vec![DoctorCheck { is_fine: false, ..passed_check("mcp", error.to_string(), "") }],
    };
    let mut rows = Vec::new();
    for (name, mcp) in &config.mcp {
        let row = format!("mcp {name}");
        rows.push(match servers.query_tools(name, mcp).await {
            Ok(tools) => {
                passed_check(&row, format!("started; tools: {}", join_items(tools.iter().map(|tool| &tool.name))), "")
            }
            Err(error) => DoctorCheck { is_fine: false, ..passed_check(&row, error.to_string(), "") },
        });
    }
    rows
}

/// Opens the database, if there is one: a report creates none.
fn check_database(config: &Config) -> DoctorCheck {
    if !has_database(config) {
        return passed_check("database", "none yet; the first run creates it", &config.database.origin);
    }
    let opened = Store::open_with(&config.store_settings()).and_then(|store| store.describe_database());
    match opened {
        Ok(which) => passed_check("database", which, &config.database.origin),
        Err(error) => DoctorCheck { is_fine: false, ..passed_check("database", error.to_string(), "") },
    }
}

/// Writes existing data to the database again.
async fn check_writes(config: &Config) -> DoctorCheck {
    let written = async { Store::open_with(&config.store_settings())?.check_writable().await };
    match written.await {
        Ok(()) => passed_check("database writes", "accepted", ""),
        Err(error) => DoctorCheck { is_fine: false, ..passed_check("database writes", error.to_string(), "") },
    }
}

/// The engine that drives runs, if it is another one.
async fn check_engine(config: &Config) -> Option<DoctorCheck> {
    let ingress = config.engine.restate.as_ref()?;
    Some(match check_server(ingress).await {
        Ok(()) => passed_check("engine", format!("Restate at {ingress} answers"), ""),
        Err(error) => DoctorCheck { is_fine: false, ..passed_check("engine", error.to_string(), "") },
    })
}

/// Whether a worker of Restate answers that drives runs of this project and configuration. `None` if that cannot be asked: the
/// admin API can have an address that only workers know.
async fn check_workers(config: &Config) -> Option<DoctorCheck> {
    let ingress = config.engine.restate.as_ref()?;
    let store = Store::open_with(&config.store_settings()).ok()?;
    let found = find_worker(config, &store, ingress).await.ok()?;
    Some(match found {
        Some(address) => passed_check("workers", format!("one answers at {address}"), ""),
        None => {
            let message = "none with this project and configuration answers; start one with flowloom worker";
            DoctorCheck { is_fine: false, ..passed_check("workers", message, "") }
        }
    })
}

/// Whether there is a database. One that cannot be found out about counts, so that opening it fails with the reason.
fn has_database(config: &Config) -> bool {
    config.database.value.is_some() || !matches!(config.data_dir.value.join(DATABASE_FILE).try_exists(), Ok(false))
}

fn check_parts(config: &Config) -> Vec<DoctorCheck> {
    let database = check_database(config);
    let models = wiring::build_default_models(config);
    let local = match models.list_local_models().as_slice() {
        [] => "none; download one with flowloom models pull".to_owned(),
        names => names.join(", "),
    };
    let named = config.embeddings.model.as_deref();
    let embeddings = match models.open_embedder(named) {
        _ if named == Some("none") => passed_check("embeddings", "none: block search uses full text only", ""),
        Ok(embedder) => passed_check("embeddings", embedder.model_name(), ""),
        // The default model was never requested, so its absence is not a problem.
        Err(error) => {
            let message = format!("none: block search uses full text only; {error}");
            DoctorCheck { is_fine: named.is_none(), ..passed_check("embeddings", message, "") }
        }
    };
    let search = config.search.as_ref().map_or("none", |search| search.provider.name());
    vec![
        database,
        embeddings,
        passed_check("web search", search, ""),
        passed_check("local models", local, &models.local_dir().display().to_string()),
    ]
}

/// The providers that can be used: those with a key, and those nearby that answer.
async fn check_providers(config: &Config) -> DoctorCheck {
    let list = ModelList::collect(config).await;
    let configured = list.providers.iter().filter(|provider| provider.problem.is_none());
    let (usable, silent): (Vec<_>, Vec<_>) =
        configured.partition(|provider| !provider.probed || provider.models.is_some());
    let mut value = match usable.as_slice() {
        [] => "none: no API key is set, and no local model server answers".to_owned(),
        usable => join_items(usable.iter().map(|provider| &provider.name)),
    };
    if !usable.is_empty() && !silent.is_empty() {
        value += &format!("\ndoes not answer: {}", join_items(silent.iter().map(|provider| &provider.name)));
    }
    let is_active = usable.is_empty().then_some(false);
    DoctorCheck { is_active, ..passed_check("providers", value, "") }
}
