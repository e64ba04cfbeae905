//! `flowloom keys`: manages the API keys of the server.

use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::keys::{NewKey, Scope, rotate_secret};
use flowloom_app::times::{self, format_time, parse_time_after};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, KeyRow, StoreError};
use serde_json::json;

use super::results::print_json;
use crate::cli::{Global, KeysCommand};
use crate::failure::{CommandError, CommandResult};
use crate::hint;
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};
use crate::terminal::measure::{count_columns, pad_columns};
use crate::terminal::table::print_header;

pub(crate) async fn manage_keys(global: &Global, command: KeysCommand) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let (by, now) = (Actor::command_line(), SystemClock.now_ms());
    match command {
        KeysCommand::Create { name, scopes, user, expires } => {
            let expires_at = parse_expiry(expires.as_deref(), now)?;
            let new = NewKey { name, scopes: Scope::parse(&scopes)?, user, expires_at };
            let (secret, row) = new.create(now).map_err(AppError::from)?;
            let id = row.id.clone();
            let is_first = !app.store.requires_key()?;
            app.store.put_key(row, &by).await?;
            print_secret(global, &id, &secret);
            let effect = if is_first { " Running servers require a key after a restart." } else { "" };
            eprintln!("The key {id} is shown only once.{effect}");
        }
        KeysCommand::List => list_keys(global, &app, now)?,
        KeysCommand::Rotate { key, overlap, expires } => {
            let expires_at = parse_expiry(expires.as_deref(), now)?;
            let old_until = parse_time_after(&overlap, now).map_err(AppError::from)?;
            let row = app.store.find_key(&key)?;
            if expires_at.is_none() && row.expires_at.is_some_and(|end| end <= now) {
                return Err(CommandError::usage(format!("the key {} has expired; renew it with --expires", row.id)));
            }
            let id = row.id;
            let (secret, rotation) = rotate_secret(old_until, expires_at);
            app.store.rotate_key(&id, rotation, &by, now).await?;
            print_secret(global, &id, &secret);
            let old =
                if old_until > now { format!("until {}", format_time(old_until)) } else { "no longer".to_owned() };
            eprintln!("The new secret of the key {id} is shown only once. The old secret works {old}.");
        }
        KeysCommand::Revoke { key } => {
            let id = app.store.find_key(&key)?.id;
            app.store.revoke_key(&id, &by, now).await?;
            super::results::print_result(global, json!({"revoked": id}), &format!("revoked {id}"));
            if !app.store.requires_key()? {
                eprintln!(
                    "No key is left: after a restart, servers take calls of their own user and of root without a key."
                );
            }
        }
    }
    Ok(0)
}

fn parse_expiry(expires: Option<&str>, now: u64) -> Result<Option<u64>, AppError> {
    Ok(expires.map(|time| times::parse_expiry(time, now)).transpose()?)
}

fn print_secret(global: &Global, id: &str, secret: &str) {
    match global.json {
        true => print_json(&json!({"id": id, "key": secret})),
        false => println!("{secret}"),
    }
}

fn list_keys(global: &Global, app: &App, now: u64) -> Result<(), StoreError> {
    let keys = app.store.list_keys()?;
    if global.json {
        let key_rows = keys.iter().map(|key| {
            json!({
                "id": key.id, "name": key.name, "scopes": key.scopes.split(',').collect::<Vec<_>>(), "user": key.user,
                "created_at": key.created_at, "revoked_at": key.revoked_at, "expires_at": key.expires_at,
                "last_used_at": key.last_used_at,
                "old_secret_until": key.old_secret.as_ref().map(|old| old.until),
            })
        });
        print_json(&serde_json::Value::Array(key_rows.collect()));
        return Ok(());
    }
    if keys.is_empty() {
        eprintln!("no keys; create one: {}", hint::command_line("keys create --name NAME --scopes read,run"));
        return Ok(());
    }
    let name_width = keys.iter().map(|key| count_columns(&key.name)).max().unwrap_or_default().max("NAME".len());
    print_header(&format!("{:<name_width$}  {:<16} USER", "NAME", "SCOPES"));
    for key in &keys {
        let user = key.user.as_deref().unwrap_or("any user");
        let mark = if key.revoked_at.is_some() || key.is_expired(now) { Style::Bad } else { Style::Good };
        print_wrapped(
            &format!("{}  {:<16} {user}", paint_text(mark, &pad_columns(&key.name, name_width)), key.scopes),
            4,
        );
        print_wrapped(&format!("    {}", paint_text(Style::Dim, &key.id)), 4);
        print_wrapped(&format!("    {}", describe_validity(key, now)), 4);
    }
    Ok(())
}

/// When a key was used, and until when it is valid.
fn describe_validity(key: &KeyRow, now: u64) -> String {
    let mut parts = vec![match key.last_used_at {
        Some(at) => format!("last used {}", format_time(at)),
        None => "never used".to_owned(),
    }];
    parts.extend(key.revoked_at.map(|at| format!("revoked {}", format_time(at))));
    parts.extend(key.expires_at.map(|at| {
        let verb = if key.is_expired(now) { "expired" } else { "expires" };
        format!("{verb} {}", format_time(at))
    }));
    let old = key.old_secret.as_ref().filter(|old| now < old.until);
    parts.extend(old.map(|old| format!("old secret until {}", format_time(old.until))));
    parts.join(", ")
}
