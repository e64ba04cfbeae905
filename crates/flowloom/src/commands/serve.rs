//! `flowloom serve DIR`: serves the definitions of a folder over HTTP.

use std::path::Path;
use std::process::Command;

use flowloom_app::config::Config;
use flowloom_app::config::server::LogStyle;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::function_files::list_unreadable_functions;
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::listing::count_noun;
use flowloom_app::redaction::build_log_redactor;
use flowloom_app::runs::inputs::is_conversation;
use flowloom_core::plan::{InputKind, Inputs, Plan};
use flowloom_server::{RunningServer, ServerOptions};

use super::run::choose_models;
use crate::cli::{Global, ServeArgs};
use crate::failure::{CommandError, CommandResult};
use crate::hint::{quote_argument, quote_text};
use crate::print::show_name;
use crate::style::{Style, paint_text};
use crate::terminal::log;
use crate::terminal::measure::pad_columns;

/// Columns for the ids of workflows in the greeting.
const ID_COLUMNS: usize = 32;

/// Whether and how a server offers the studio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StudioUse {
    /// It is not served.
    None,
    /// It is served.
    Served,
    /// It is served, and opened in the browser.
    Opened,
}

pub(crate) async fn serve_folder(global: &Global, arguments: ServeArgs, studio: StudioUse) -> CommandResult {
    let config = global.load_config();
    let asked = arguments.log.map(LogStyle::from);
    let style = asked.unwrap_or_else(|| config.as_ref().map_or(LogStyle::Text, |config| config.server.log));
    log::start_logging(style, config.as_ref().ok().and_then(build_log_redactor));
    let served = match config {
        Ok(config) => serve_configured(config, arguments, style, studio).await,
        Err(error) => Err(error.into()),
    };
    log::report_in_style(style, served)
}

async fn serve_configured(
    mut config: Config,
    arguments: ServeArgs,
    style: LogStyle,
    studio: StudioUse,
) -> CommandResult {
    choose_models(&mut config, &arguments.model);
    config.accepts_any_config = arguments.accept_config_change;
    if !arguments.folder.is_dir() {
        return Err(CommandError::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let folder = arguments.folder.clone();
    let options = ServerOptions {
        folder: arguments.folder,
        bind: arguments.bind,
        hosts: arguments.host,
        max_runs: arguments.max_runs,
        public_url: arguments.public_url,
        has_studio: studio != StudioUse::None,
    };
    for function in list_unreadable_functions(&config) {
        tracing::warn!("workflows that call this function are not served: {}", function.error);
    }
    let app = App::open(config)?;
    let serving = flowloom_server::serve_http(app, options).await?;
    if style == LogStyle::Text {
        print_greeting(&serving, &folder)?;
    }
    if studio != StudioUse::None && style == LogStyle::Text {
        eprintln!("Studio: http://{}/", serving.address());
    }
    if studio == StudioUse::Opened {
        open_browser(&format!("http://{}/", serving.address()));
    }
    let unfinished = serving.run().await;
    if style == LogStyle::Text {
        match unfinished {
            0 => eprintln!("Stopped."),
            1 => eprintln!("Stopped. 1 unfinished run will resume at the next start."),
            _ => eprintln!("Stopped. {unfinished} unfinished runs will resume at the next start."),
        }
    }
    Ok(0)
}

/// Shows the served workflows, and how they are called.
fn print_greeting(serving: &RunningServer, folder: &Path) -> Result<(), AppError> {
    let (address, public, definitions) = (serving.address(), serving.public_address(), serving.list_definitions()?);
    let count = definitions.iter().filter(|one| !one.is_refused).count();
    eprintln!("Serving {} at http://{address}", count_noun(count, "workflow"));
    for definition in &definitions {
        let mark = if definition.is_refused { paint_text(Style::Bad, "✗") } else { paint_text(Style::Good, "✓") };
        let place = definition.file_path().unwrap_or("(stored in the database)");
        eprintln!("  {mark} {} {}", pad_columns(&definition.id, ID_COLUMNS), show_name(place));
        if let Some(reason) = find_first_error(&definition.problems) {
            eprintln!("      {reason}");
        }
    }
    if definitions.iter().any(|one| one.is_refused) {
        eprintln!("✗ has errors and is not served; to see all of them: flowloom check {}", quote_argument(folder));
    }
    if let Some(first) = definitions.iter().find(|one| !one.is_refused) {
        let key = if serving.is_open() { "" } else { " -H 'Authorization: Bearer fl_…'" };
        let body = quote_text(&write_example_request(first));
        eprintln!("Call one: curl{key} --json {body} '{public}/api/v1/runs?wait=60'");
    }
    eprintln!("OpenAI-compatible API: {public}/v1; MCP: {public}/mcp");
    eprintln!("All routes: {public}/openapi.json");
    Ok(())
}

/// The body of a request that runs a definition, with a value for each input that it requires.
fn write_example_request(definition: &CatalogEntry) -> String {
    let named = serde_json::json!(definition.id);
    let inputs = definition.prepared.as_ref().and_then(|prepared| build_example_inputs(&prepared.plan));
    match inputs {
        Some(inputs) => format!("{{\"workflow\": {named}, \"inputs\": {inputs}}}"),
        None => format!("{{\"workflow\": {named}}}"),
    }
}

/// A value for each required input, or the message that begins a conversation; `None` if neither is required.
fn build_example_inputs(plan: &Plan) -> Option<serde_json::Value> {
    if is_conversation(plan) {
        return Some(serde_json::json!({"message": "…"}));
    }
    let Inputs::Named { declared, .. } = &plan.inputs else { return Some("…".into()) };
    let required = declared.iter().filter(|input| input.required);
    let examples: serde_json::Map<_, _> =
        required.map(|input| (input.name.clone(), choose_example_value(&input.kind))).collect();
    (!examples.is_empty()).then(|| examples.into())
}

fn choose_example_value(kind: &InputKind) -> serde_json::Value {
    match kind {
        InputKind::Any | InputKind::Text | InputKind::File => "…".into(),
        InputKind::Number => 1.into(),
        InputKind::Boolean => true.into(),
        InputKind::List => serde_json::json!(["…"]),
        InputKind::OneOf(options) => options.first().map(String::as_str).unwrap_or("…").into(),
    }
}

/// The first error among the problems of a definition, in one line.
fn find_first_error(problems: &[serde_json::Value]) -> Option<String> {
    let error = problems.iter().find(|problem| problem["severity"] == "error")?;
    Some(format!("error[{}]: {}", error["code"].as_str()?, error["message"].as_str()?))
}

/// Opens an address in the browser. If that is not possible, the address has been printed.
fn open_browser(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let nothing = std::process::Stdio::null;
    let opened = Command::new(program).arg(address).stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn();
    if opened.is_err() {
        eprintln!("  no browser was found; open the address yourself");
    }
}
