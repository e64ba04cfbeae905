//! `flowloom doctor`: reports the configuration, the origin of each value, and what is missing.

use flowloom_app::config::Config;
use flowloom_app::wiring;
use flowloom_models_local::{check_processor, processor_hint};
use flowloom_store::Store;

use crate::cli::Global;
use crate::failure::Outcome;

/// One line of the report.
#[derive(Clone)]
struct Finding {
    is_fine: bool,
    name: String,
    value: String,
    origin: String,
}

pub(crate) async fn doctor(global: &Global) -> Outcome {
    let config = global.load_config()?;
    let findings =
        [settings(&config), machine(), parts(&config), sandbox(&config).await, servers(&config).await].concat();
    if global.json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "name": finding.name, "value": finding.value, "origin": finding.origin, "ok": finding.is_fine,
                })
            })
            .collect();
        println!("{:#}", serde_json::Value::from(list));
    } else {
        for finding in &findings {
            let sign = if finding.is_fine { "✓" } else { "✗" };
            let origin = if finding.origin.is_empty() { String::new() } else { format!("  ({})", finding.origin) };
            println!("{sign} {:<18} {}{origin}", finding.name, finding.value);
        }
    }
    Ok(u8::from(findings.iter().any(|finding| !finding.is_fine)))
}

fn fine(name: &str, value: impl Into<String>, origin: &str) -> Finding {
    Finding { is_fine: true, name: name.to_owned(), value: value.into(), origin: origin.to_owned() }
}

fn settings(config: &Config) -> Vec<Finding> {
    let file = config.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let model = config.default_model.value.clone().unwrap_or_else(|| "none".to_owned());
    vec![
        fine("version", env!("CARGO_PKG_VERSION"), ""),
        fine("configuration", file, ""),
        fine("data folder", config.data_dir.value.display().to_string(), &config.data_dir.origin),
        fine("durability", format!("{:?}", config.durability.value).to_lowercase(), &config.durability.origin),
        fine("default model", model, &config.default_model.origin),
        fine("egress.allow", listed(&config.egress.allow), ""),
        fine("files.root", listed(config.files_root.iter().map(|root| root.display().to_string())), ""),
        fine("functions", listed(config.functions.keys()), ""),
        fine("agents", listed(config.agents.keys()), ""),
    ]
}

fn listed(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn machine() -> Vec<Finding> {
    let processor = match check_processor() {
        Ok(()) => fine("processor", processor_hint().unwrap_or_else(|| "supported by this build".to_owned()), ""),
        Err(problem) => Finding { is_fine: false, ..fine("processor", problem, "") },
    };
    vec![processor]
}

/// Checks that untrusted code can run here, by starting some.
async fn sandbox(config: &Config) -> Vec<Finding> {
    let available = wiring::sandbox(config).available().await;
    let row = |name: &str, result: Result<String, String>| match result {
        Ok(how) => fine(name, how, ""),
        Err(missing) => Finding { is_fine: false, ..fine(name, missing, "") },
    };
    vec![row("javascript sandbox", available.script), row("python sandbox", available.python)]
}

/// Checks that the MCP servers can be used, by starting them.
async fn servers(config: &Config) -> Vec<Finding> {
    let servers = match wiring::servers(config) {
        Ok(servers) => servers,
        Err(error) => return vec![Finding { is_fine: false, ..fine("mcp", error.message, "") }],
    };
    let mut rows = Vec::new();
    for (name, mcp) in &config.mcp {
        let row = format!("mcp {name}");
        rows.push(match servers.ask(name, mcp).await {
            Ok(tools) => fine(&row, format!("started; tools: {}", listed(tools.iter().map(|tool| &tool.name))), ""),
            Err(error) => Finding { is_fine: false, ..fine(&row, error.message, "") },
        });
    }
    rows
}

fn parts(config: &Config) -> Vec<Finding> {
    let opened = Store::open_with(&config.store()).and_then(|store| store.describe());
    let database = match opened {
        Ok(which) => fine("database", which, &config.database.origin),
        Err(error) => Finding { is_fine: false, ..fine("database", error.message, "") },
    };
    let models = wiring::models(config, config.default_model.value.clone(), &config.aliases);
    let local = match models.local_models().as_slice() {
        [] => "none; download one with flowloom models pull".to_owned(),
        names => names.join(", "),
    };
    let usable: Vec<String> =
        models.providers().into_iter().filter(|provider| provider.problem.is_none()).map(|p| p.name).collect();
    let named = config.embeddings.model.as_deref();
    let embeddings = match models.embedder(named) {
        _ if named == Some("none") => fine("embeddings", "none: block search uses full text only", ""),
        Ok(embedder) => fine("embeddings", embedder.model(), ""),
        // The default model was never requested, so its absence is not a problem.
        Err(error) => {
            let message = format!("none: block search uses full text only; {}", error.message);
            Finding { is_fine: named.is_none(), ..fine("embeddings", message, "") }
        }
    };
    let search = config.search.as_ref().map_or("none", |search| search.provider.name());
    vec![
        database,
        embeddings,
        fine("web search", search, ""),
        fine("local models", local, &models.local_dir().display().to_string()),
        fine("providers", if usable.is_empty() { "no API key configured".to_owned() } else { usable.join(", ") }, ""),
    ]
}
