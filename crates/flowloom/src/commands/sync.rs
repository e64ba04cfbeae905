//! `flowloom sync DIR`: makes the database, or a server, match the workflows of a folder, in one transaction.

use flowloom_app::config::Config;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::sync::{self, Item, Synced};
use flowloom_app::engines::App;
use flowloom_store::SHARED;
use reqwest::Method;
use serde_json::json;

use super::remote;
use crate::cli::{Global, SyncArgs};
use crate::failure::{Failure, Outcome};
use crate::terminal::diagnostics;

pub(crate) async fn sync(global: &Global, arguments: SyncArgs) -> Outcome {
    let config = global.load_config()?;
    if !arguments.folder.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", arguments.folder.display())));
    }
    let (items, refused) = sync::read(&arguments.folder, &Loader { config: &config, format: None, lenient: false });
    if !refused.is_empty() {
        refused.iter().for_each(|source| eprint!("{}", diagnostics::render(source)));
        eprintln!("Nothing was changed: {} of {} have errors", refused.len(), refused.len() + items.len());
        return Ok(2);
    }
    let synced = match &arguments.server {
        Some(server) => put(server, &arguments, items).await?,
        None => keep(config, &arguments, items).await?,
    };
    match global.json {
        true => println!("{:#}", json!(synced)),
        false => tell(&synced, arguments.dry_run),
    }
    Ok(0)
}

/// Applies the changes to the configured database.
async fn keep(config: Config, arguments: &SyncArgs, items: Vec<Item>) -> Result<Synced, Failure> {
    let app = App::open(config)?;
    let loader = Loader { config: &app.config, format: None, lenient: false };
    let planned = sync::plan(&app.store, &loader, &arguments.user, items, arguments.prune)?.map_err(|problems| {
        let messages: Vec<&str> = problems.iter().filter_map(|problem| problem["message"].as_str()).collect();
        Failure::usage(messages.join("; "))
    })?;
    Ok(sync::apply(&app.store, planned, arguments.dry_run).await?)
}

/// Sends the workflows to a server.
async fn put(server: &str, arguments: &SyncArgs, items: Vec<Item>) -> Result<Synced, Failure> {
    let is = |flag: bool| if flag { "true" } else { "false" };
    let mut query = vec![("prune", is(arguments.prune)), ("dry_run", is(arguments.dry_run))];
    // A key that belongs to a user already names the owner.
    if arguments.user != SHARED {
        query.push(("user", &arguments.user));
    }
    remote::call(server, (Method::PUT, "/api/v1/workflows"), &query, &json!({"items": items})).await
}

fn tell(synced: &Synced, is_dry: bool) {
    let Synced { created, updated, unchanged, deleted } = synced;
    for (sign, word, ids) in [("+", "created", created), ("~", "updated", updated), ("-", "deleted", deleted)] {
        ids.iter().for_each(|id| println!("{sign} {word} {id}"));
    }
    let mood = if is_dry { " (nothing was changed: --dry-run)" } else { "" };
    let counts = [("created", created), ("updated", updated), ("deleted", deleted), ("unchanged", unchanged)];
    let counts: Vec<String> = counts.iter().map(|(word, ids)| format!("{} {word}", ids.len())).collect();
    println!("{}{mood}", counts.join(", "));
}
