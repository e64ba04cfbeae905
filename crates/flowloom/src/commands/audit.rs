//! `flowloom audit`: prints the audit log.

use flowloom_app::engines::App;
use flowloom_app::times::{format_time, parse_time_before};
use flowloom_core::id::RunId;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::CommandOutcome;
use flowloom_runtime::effects::Clock as _;
use flowloom_server::AuditEntry;
use flowloom_store::{Actor, AuditFilter, AuditRow};
use serde_json::Value;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult};
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};
use crate::terminal::report::clean_line;

pub(crate) fn print_audit(global: &Global, since: Option<&str>, user: Option<String>, limit: u32) -> CommandResult {
    let since = since.map(|time| parse_time_before(time, SystemClock.now_ms())).transpose()?.unwrap_or_default();
    let app = App::open(global.load_config()?)?;
    let rows = app.store.list_audit(&AuditFilter { user, since, before: None, limit })?;
    if global.json {
        print_json(&rows.into_iter().map(AuditEntry::from_row).collect::<Vec<_>>());
        return Ok(0);
    }
    if rows.is_empty() {
        eprintln!("no recorded changes");
    }
    for row in &rows {
        print_row(row, &describe_command(&app, row)?);
    }
    Ok(0)
}

/// The command to a run that an entry records, and what has become of it; empty for other entries.
fn describe_command(app: &App, row: &AuditRow) -> Result<String, CommandError> {
    let detail =
        row.detail.as_deref().and_then(|detail| serde_json::from_str::<Value>(detail).ok()).unwrap_or_default();
    let Some(command) = detail["command"].as_str() else { return Ok(String::new()) };
    let named = [&detail["path"], &detail["how"]].into_iter().filter_map(Value::as_str);
    let text: Vec<&str> = [command].into_iter().chain(named).collect();
    let run = row.object.strip_prefix("run ").and_then(RunId::parse);
    let found = match run.zip(detail["id"].as_str()) {
        Some((run, id)) => app.store.find_command(run, id)?,
        None => None,
    };
    let outcome = found.map(|command| match command.outcome {
        None => "not applied yet".to_owned(),
        Some(CommandOutcome::Applied) => "applied".to_owned(),
        Some(CommandOutcome::Rejected(error)) => format!("rejected, {}", error.code),
    });
    Ok(format!(": {}{}", text.join(" "), outcome.map(|outcome| format!(" ({outcome})")).unwrap_or_default()))
}

fn print_row(row: &AuditRow, command: &str) {
    let owner = row.user.as_deref().map(|user| format!(" of {user}")).unwrap_or_default();
    let mark = if row.result == "failed" { Style::Bad } else { Style::Good };
    let result = paint_text(mark, &format!("{:<8}", row.result));
    let what = format!("{}  {:<17} {result} {}{owner}{command}", format_time(row.at), row.action, row.object);
    let actor = format!("    by {}", describe_actor(&row.actor));
    print_wrapped(&clean_line(&what), 4);
    print_wrapped(&clean_line(&actor), 4);
}

fn describe_actor(actor: &Actor) -> String {
    let Actor { key_id, key_name, user, source } = actor;
    let user_text = user.as_deref().map(|user| format!(" of {user}")).unwrap_or_default();
    match key_name.as_ref().or(key_id.as_ref()) {
        Some(key) => format!("the key {key}{user_text}, from {source}"),
        None if source.starts_with("run ") => format!("the {source}{user_text}"),
        None => format!("the operator, from {source}"),
    }
}
