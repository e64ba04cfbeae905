//! `flowloom sync DIR`: makes the database, or a server, match the workflows of a folder, in one transaction.

use flowloom_app::config::Config;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::sync::{self, SyncFolder, SyncOutcome};
use flowloom_app::engines::App;
use flowloom_store::SHARED_USER;
use reqwest::Method;
use serde_json::json;

use super::remote;
use super::results::print_json;
use crate::cli::{Global, SyncArgs};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::diagnostics;

pub(crate) async fn sync_folder(global: &Global, arguments: SyncArgs) -> CommandResult {
    let config = global.load_config()?;
    if !arguments.folder.is_dir() {
        return Err(CommandError::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let (folder, refused) = sync::read_folder(&arguments.folder, &Loader::new(&config));
    if !refused.is_empty() {
        refused.iter().for_each(diagnostics::print_diagnostics);
        eprintln!("Nothing was changed: {} of {} have errors", refused.len(), refused.len() + folder.items.len());
        if global.json {
            let problems: Vec<_> = refused.iter().flat_map(|source| source.problems()).collect();
            print_json(&json!({"problems": problems}));
        }
        return Ok(2);
    }
    let synced = match &arguments.server {
        Some(server) => sync_to_server(server, &arguments, &folder).await?,
        None => sync_to_store(config, &arguments, folder).await?,
    };
    match global.json {
        true => print_json(&json!(synced)),
        false => print_changes(&synced, arguments.dry_run),
    }
    Ok(0)
}

/// Applies the changes to the configured database.
async fn sync_to_store(config: Config, arguments: &SyncArgs, folder: SyncFolder) -> Result<SyncOutcome, CommandError> {
    let app = App::open(config)?;
    let loader = Loader::new(&app.config);
    let planned =
        sync::plan_sync(&app.store, &loader, &arguments.user, folder, arguments.prune)?.map_err(|problems| {
            let messages: Vec<&str> = problems.iter().filter_map(|problem| problem["message"].as_str()).collect();
            CommandError::usage(messages.join("; "))
        })?;
    Ok(sync::apply_plan(&app.store, planned, arguments.dry_run, &flowloom_store::Actor::command_line()).await?)
}

/// Sends the workflows to a server.
async fn sync_to_server(server: &str, arguments: &SyncArgs, folder: &SyncFolder) -> Result<SyncOutcome, CommandError> {
    let is = |flag: bool| if flag { "true" } else { "false" };
    let mut query = vec![("prune", is(arguments.prune)), ("dry_run", is(arguments.dry_run))];
    // A key that belongs to a user already names the owner.
    if arguments.user != SHARED_USER {
        query.push(("user", &arguments.user));
    }
    remote::call_server(server, Method::PUT, "/api/v1/workflows", &query, &json!(folder)).await
}

fn print_changes(synced: &SyncOutcome, is_dry: bool) {
    let SyncOutcome { created, updated, unchanged, deleted, replaced } = synced;
    for (sign, word, ids) in [("+", "created", created), ("~", "updated", updated), ("-", "deleted", deleted)] {
        ids.iter().for_each(|id| println!("{sign} {word} {id}"));
    }
    if !replaced.is_empty() {
        eprintln!(
            "replaced what was stored through the API: {}; the earlier version is kept (flowloom diff NAME@1 NAME@2)",
            replaced.join(", ")
        );
    }
    let mood = if is_dry { " (nothing was changed: --dry-run)" } else { "" };
    let counts = [("created", created), ("updated", updated), ("deleted", deleted), ("unchanged", unchanged)];
    let counts: Vec<String> = counts.iter().map(|(word, ids)| format!("{} {word}", ids.len())).collect();
    println!("{}{mood}", counts.join(", "));
}
