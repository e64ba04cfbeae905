//! `flowloom delete`: deletes runs that have ended.

use flowloom_store::{Actor, RunRow};
use serde_json::json;

use super::results::print_json;
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult};

pub(crate) async fn delete_runs(global: &Global, names: &[String]) -> CommandResult {
    let app = global.open_existing()?;
    // All are looked up first: a wrong name deletes nothing, and `last` does not change its meaning.
    let find = |name: &String| app.store.find_run(name);
    let mut rows: Vec<RunRow> = Vec::new();
    for name in names {
        let row = find(name)?;
        if rows.iter().all(|other| other.id != row.id) {
            rows.push(row);
        }
    }
    let (mut deleted, mut kept) = (Vec::new(), None);
    for row in &rows {
        match app.runs.delete_run(row, &Actor::command_line()).await {
            Ok(()) => deleted.push(row.id),
            // It was a child run of one that is deleted by now.
            Err(_) if app.store.get_run(row.id)?.is_none() => deleted.push(row.id),
            Err(error) => {
                kept.get_or_insert(CommandError::from(error));
                continue;
            }
        }
        if !global.json {
            println!("deleted {}", row.id);
        }
    }
    match kept {
        None if global.json => print_json(&json!({"deleted": deleted})),
        None => {}
        Some(error) => {
            let message = format!("{}; deleted {} of {} runs", error.message, deleted.len(), rows.len());
            return Err(CommandError { message, ..error });
        }
    }
    Ok(0)
}
