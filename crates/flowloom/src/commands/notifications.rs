//! `flowloom notifications`: lists what runs have left for a user.

use flowloom_app::times::format_time;
use flowloom_store::NotificationRow;
use serde_json::json;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::CommandResult;
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};
use crate::terminal::report::clean_line;

pub(crate) fn list_notifications(global: &Global, user: &str, limit: u32) -> CommandResult {
    let app = global.open_existing()?;
    let rows = app.store.list_notifications(Some(user), limit)?;
    if global.json {
        let all: Vec<_> = rows.iter().map(to_json).collect();
        print_json(&all);
        return Ok(0);
    }
    if rows.is_empty() {
        eprintln!("no notifications for {user}");
    }
    for row in &rows {
        let title = paint_text(Style::Heading, &clean_line(&row.title));
        print_wrapped(&format!("{}  {title}", format_time(row.at)), 4);
        row.body.lines().for_each(|line| print_wrapped(&format!("  {line}"), 2));
    }
    Ok(0)
}

fn to_json(row: &NotificationRow) -> serde_json::Value {
    let metadata: serde_json::Value = serde_json::from_str(&row.metadata).unwrap_or_default();
    json!({
        "id": row.id, "title": row.title, "body": row.body, "metadata": metadata, "created_at": row.at, "is_read": row.is_read,
    })
}
