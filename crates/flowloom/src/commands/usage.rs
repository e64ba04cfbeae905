//! `flowloom usage`: prints what a user has used of each quota.

use flowloom_app::engines::App;
use flowloom_app::quotas::measure_user;
use flowloom_app::times::format_time;
use flowloom_server::UserUsage;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::CommandResult;

pub(crate) async fn print_usage(global: &Global, user: &str) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let measured = measure_user(&app, user).await?;
    if global.json {
        print_json(&UserUsage::new(user, &measured));
        return Ok(0);
    }
    for row in &measured {
        let used = row.used.map_or_else(|| "not counted".to_owned(), |amount| amount.to_string());
        let limit = row.limit.map_or_else(|| "no limit".to_owned(), |amount| format!("of {amount}"));
        let until = row.resets_at.map(|at| format!("until {}", format_time(at))).unwrap_or_default();
        println!("{}", format!("{:<23} {used:>12} {limit:<16} {until}", row.name).trim_end());
    }
    Ok(0)
}
