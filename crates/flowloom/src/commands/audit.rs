//! `flowloom audit`: prints the audit log.

use flowloom_app::engines::App;
use flowloom_app::times::{format_time, parse_time_before};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_server::AuditEntry;
use flowloom_store::{Actor, AuditFilter, AuditRow};

use super::results::print_json;
use crate::cli::Global;
use crate::failure::CommandResult;
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
    rows.iter().for_each(print_row);
    Ok(0)
}

fn print_row(row: &AuditRow) {
    let owner = row.user.as_deref().map(|user| format!(" of {user}")).unwrap_or_default();
    let mark = if row.result == "failed" { Style::Bad } else { Style::Good };
    let result = paint_text(mark, &format!("{:<8}", row.result));
    let what = format!("{}  {:<17} {result} {}{owner}", format_time(row.at), row.action, row.object);
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
