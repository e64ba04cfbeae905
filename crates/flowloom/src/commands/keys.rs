//! `flowloom keys`: manages the API keys of the server.

use flowloom_app::engines::App;
use flowloom_app::keys::{Scope, create_key};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::StoreError;
use serde_json::json;

use crate::cli::{Global, KeysCommand};
use crate::failure::CommandResult;

pub(crate) async fn manage_keys(global: &Global, command: KeysCommand) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let now = SystemClock.now_ms();
    match command {
        KeysCommand::Create { name, scopes, user } => {
            let (secret, row) = create_key(&name, &Scope::parse(&scopes)?, user, now);
            let id = row.id.clone();
            app.store.put_key(row).await?;
            match global.json {
                true => println!("{:#}", json!({"id": id, "key": secret})),
                false => println!("{secret}"),
            }
            eprintln!("The key {id} is shown only once. Running servers require it after a restart.");
        }
        KeysCommand::List => list_keys(global, &app)?,
        KeysCommand::Revoke { id } => {
            app.store.revoke_key(&id, now).await?;
            println!("revoked {id}");
        }
    }
    Ok(0)
}

fn list_keys(global: &Global, app: &App) -> Result<(), StoreError> {
    let keys = app.store.list_keys()?;
    if global.json {
        let key_rows = keys.iter().map(|key| {
            json!({
                "id": key.id, "name": key.name, "scopes": key.scopes.split(',').collect::<Vec<_>>(), "user": key.user,
                "created_at": key.created_at, "revoked_at": key.revoked_at,
            })
        });
        println!("{:#}", serde_json::Value::Array(key_rows.collect()));
        return Ok(());
    }
    for key in &keys {
        let state = if key.revoked_at.is_some() { "revoked" } else { "" };
        let user = key.user.as_deref().unwrap_or("any user");
        println!("{}", format!("{}  {:<16} {:<20} {user:<12} {state}", key.id, key.name, key.scopes).trim_end());
    }
    Ok(())
}
