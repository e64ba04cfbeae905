//! `flowloom usage`: prints what a user has used of each quota.

use flowloom_app::engines::App;
use flowloom_app::quotas::{QuotaUsage, measure_user};
use flowloom_app::times::format_time;
use flowloom_server::UserUsage;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::CommandResult;
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};
use crate::terminal::table::print_header;

pub(crate) async fn print_usage(global: &Global, user: &str) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let measured = measure_user(&app.store, &app.config, user).await?;
    if global.json {
        print_json(&UserUsage::new(user, &measured));
        return Ok(0);
    }
    print_header(&format!("{:<23} {:>12} {:<16} RESETS", "QUOTA", "USED", "LIMIT"));
    for row in &measured {
        let used = row.used.map_or_else(|| "not counted".to_owned(), |amount| amount.to_string());
        let limit = row.limit.map_or_else(|| "no limit".to_owned(), |amount| format!("of {amount}"));
        let until = row.resets_at.map(|at| format!("until {}", format_time(at))).unwrap_or_default();
        let used = paint_text(find_style(row), &format!("{used:>12}"));
        print_wrapped(format!("{:<23} {used} {limit:<16} {until}", row.name).trim_end(), 24);
    }
    Ok(0)
}

/// Whether a quota is used up.
fn find_style(row: &QuotaUsage) -> Style {
    match (row.used, row.limit) {
        (Some(used), Some(limit)) if used >= limit => Style::Bad,
        (Some(_), Some(_)) => Style::Good,
        _ => Style::Dim,
    }
}
