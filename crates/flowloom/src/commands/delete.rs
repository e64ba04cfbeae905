//! `flowloom delete`: deletes runs that have ended.

use flowloom_store::Actor;
use serde_json::json;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::CommandResult;

pub(crate) async fn delete_runs(global: &Global, names: &[String]) -> CommandResult {
    let app = global.open_existing()?;
    // All are looked up first: a wrong name deletes nothing, and `last` does not change its meaning.
    let find = |name: &String| app.store.find_run(name, &app.config.project_name);
    let rows = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    for row in &rows {
        app.runs.delete_run(row, &Actor::command_line()).await?;
        if !global.json {
            println!("deleted {}", row.id);
        }
    }
    if global.json {
        print_json(&json!({"deleted": rows.iter().map(|row| row.id).collect::<Vec<_>>()}));
    }
    Ok(0)
}
