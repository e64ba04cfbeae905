//! `flowloom schedule` and `flowloom hooks`: manages schedules and webhooks, which start runs on a server.

use std::path::PathBuf;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::cron_times::CronTimes;
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::definitions::find::find_definition;
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored::{self, is_definition_id};
use flowloom_app::definitions::sync;
use flowloom_app::engines::App;
use flowloom_app::hooks::NewHook;
use flowloom_app::schedules::{self, NewSchedule};
use flowloom_app::times::format_time;
use flowloom_core::value::{Map, Value};
use flowloom_server::{HookInfo, Schedule};
use flowloom_store::{Actor, DefinitionKind, HookRow, ScheduleRow};
use serde_json::json;

use super::results::print_json;
use crate::cli::{DEFAULT_ADDRESS, Global, HooksCommand, MissedPolicy, OverlapPolicy, ScheduleCommand};
use crate::failure::{CommandError, CommandResult};
use crate::hint::{self, quote_text};
use crate::inputs;
use crate::terminal::diagnostics;
use crate::terminal::table::{LastCell, print_table};

/// Returns the id of the named workflow. A file is uploaded to the database first, also one that is found by its name.
async fn resolve_workflow(app: &App, user: &str, named: &str) -> Result<String, CommandError> {
    let mut file = PathBuf::from(named);
    if !file.is_file() {
        if stored::find_definition(&app.store, user, DefinitionKind::Workflow, named)?.is_some() {
            return Ok(named.to_owned());
        }
        file = find_definition(&app.config, &file)?;
        if !file.is_file() {
            let message = format!("{named} is neither a file nor the id of a workflow in the database");
            return Err(CommandError::usage(message));
        }
    }
    let loader = Loader::new(&app.config);
    sync::store_file(&app.store, &loader, user, &file, &Actor::command_line()).await?.map_err(|source| {
        diagnostics::print_diagnostics(&source);
        CommandError::usage(format!("{named} has errors"))
    })
}

fn choose_id(given: Option<String>, workflow: &str) -> Result<String, CommandError> {
    let id = given.unwrap_or_else(|| workflow.to_owned());
    if is_definition_id(&id) {
        Ok(id)
    } else {
        Err(CommandError::usage(format!("{id:?} is not a valid id; choose one with --id")))
    }
}

/// The inputs of the runs of a schedule, read as those of `run`. Fails if a run would be refused.
fn read_inputs_of(app: &App, definition: &CatalogEntry, given: &[String]) -> Result<Value, CommandError> {
    let Some(prepared) = &definition.prepared else {
        let inputs = parse_inputs(given)?;
        definition.check_start(&inputs)?;
        return Ok(inputs);
    };
    let inputs = inputs::read_inputs(&app.config, &prepared.plan, given, None)?;
    inputs::check_subject(&prepared.plan, &inputs)?;
    definition.check_start(&inputs)?;
    Ok(inputs)
}

/// The inputs for a workflow that cannot be read.
fn parse_inputs(given: &[String]) -> Result<Value, CommandError> {
    let parse = |text: &String| inputs::parse_pair("-i", text).map(|(name, value)| (name.into(), value));
    Ok(given.iter().map(parse).collect::<Result<Map, CommandError>>()?.into())
}

pub(crate) async fn manage_schedules(global: &Global, command: ScheduleCommand) -> CommandResult {
    let app = Arc::new(App::open(global.load_config()?)?);
    match command {
        ScheduleCommand::Add { workflow: named, cron, timezone, input_values, missed, overlap, id, user } => {
            // Validates the schedule before anything is stored.
            CronTimes::parse(&cron, &timezone)?;
            let workflow = resolve_workflow(&app, &user, &named).await?;
            let id = choose_id(id, &workflow)?;
            let catches_up = missed == MissedPolicy::Once;
            let catalog = app.build_catalog(app.config.project.root.clone());
            let inputs = match catalog.find_definition(&user, &workflow)? {
                Some(definition) => read_inputs_of(&app, &definition, &input_values)?,
                None => parse_inputs(&input_values)?,
            };
            let timezone = Some(timezone);
            let allows_overlap = overlap == OverlapPolicy::Allow;
            let schedule = NewSchedule { user, id, workflow, inputs, cron, timezone, catches_up, allows_overlap };
            print_schedules(global, vec![schedules::put_schedule(&app.store, schedule, &Actor::command_line()).await?]);
        }
        ScheduleCommand::List => {
            let rows = app.store.list_schedules(None)?;
            if rows.is_empty() {
                eprintln!("no schedules; add one: {}", hint::command_line("schedule add WORKFLOW --cron '0 6 * * *'"));
            }
            print_schedules(global, rows);
        }
        ScheduleCommand::Pause { id, user } => {
            let paused = schedules::pause_schedule(&app.store, &user, &id, &Actor::command_line()).await;
            print_schedules(global, vec![paused.map_err(|error| suggest_schedule(&app, &user, &id, error))?]);
        }
        ScheduleCommand::Resume { id, user } => {
            let resumed = schedules::resume_schedule(&app.store, &user, &id, &Actor::command_line()).await;
            print_schedules(global, vec![resumed.map_err(|error| suggest_schedule(&app, &user, &id, error))?]);
        }
        ScheduleCommand::Remove { id, user } => {
            let deleted = app.store.delete_schedule(&user, &id, &Actor::command_line()).await;
            deleted.map_err(|error| suggest_schedule(&app, &user, &id, error))?;
            print_removal(global, &id);
        }
    }
    Ok(0)
}

fn suggest_schedule(app: &App, user: &str, id: &str, error: impl Into<CommandError>) -> CommandError {
    let known = app.store.list_schedules(Some(user)).unwrap_or_default();
    let ids: Vec<String> = known.into_iter().map(|row| row.id).collect();
    error.into().suggest_known_name(id, &ids)
}

fn suggest_hook(app: &App, user: &str, id: &str, error: impl Into<CommandError>) -> CommandError {
    let known = app.store.list_hooks(Some(user)).unwrap_or_default();
    let ids: Vec<String> = known.into_iter().map(|row| row.id).collect();
    error.into().suggest_known_name(id, &ids)
}

fn print_removal(global: &Global, id: &str) {
    match global.json {
        true => print_json(&json!({"removed": id})),
        false => eprintln!("removed {id}"),
    }
}

fn print_schedules(global: &Global, rows: Vec<ScheduleRow>) {
    if global.json {
        return print_json(&json!(rows.into_iter().map(Schedule::from_row).collect::<Vec<_>>()));
    }
    let cells = |row: ScheduleRow| {
        let next = if row.is_paused { "paused".to_owned() } else { format_time(row.next_at) };
        let problem = row.last_error.unwrap_or_default();
        [row.id, row.workflow, row.cron, row.timezone, next, problem]
    };
    let rows: Vec<_> = rows.into_iter().map(cells).collect();
    if !rows.is_empty() {
        print_table(["SCHEDULE", "WORKFLOW", "CRON", "TIME ZONE", "NEXT", "LAST PROBLEM"], &rows, LastCell::Wrap);
    }
}

pub(crate) async fn manage_hooks(global: &Global, command: HooksCommand) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    match command {
        HooksCommand::Add { workflow: named, secret, id, user } => {
            let workflow = resolve_workflow(&app, &user, &named).await?;
            let id = choose_id(id, &workflow)?;
            let (row, secret) =
                NewHook { user: user.clone(), id, workflow, secret_name: secret }.into_row(&app.config)?;
            let replaced = app.store.find_hooks(&row.id, Some(&user))?.pop();
            app.store.put_hook(row.clone(), &Actor::command_line()).await?;
            if replaced.is_some_and(|old| old.secret_hash.is_some()) {
                eprintln!("replaced the webhook {}: its earlier secret is no longer accepted", row.id);
            }
            print_hook(global, &app.config, row, secret);
        }
        HooksCommand::List => {
            let rows = app.store.list_hooks(None)?;
            if rows.is_empty() {
                eprintln!("no webhooks; add one: {}", hint::command_line("hooks add WORKFLOW"));
            }
            list_hooks(global, rows);
        }
        HooksCommand::Remove { id, user } => {
            let deleted = app.store.delete_hook(&user, &id, &Actor::command_line()).await;
            deleted.map_err(|error| suggest_hook(&app, &user, &id, error))?;
            print_removal(global, &id);
        }
    }
    Ok(0)
}

fn list_hooks(global: &Global, rows: Vec<HookRow>) {
    if global.json {
        let hooks: Vec<_> = rows.into_iter().map(|row| HookInfo::from_row(row, None)).collect();
        return print_json(&json!(hooks));
    }
    let describe = |row: HookRow| {
        let authenticated = row.secret_name.as_ref().map_or("secret".to_owned(), |name| format!("signature, {name}"));
        [row.address(), authenticated, row.workflow]
    };
    let rows: Vec<_> = rows.into_iter().map(describe).collect();
    if !rows.is_empty() {
        print_table(["ADDRESS", "AUTHENTICATED BY", "WORKFLOW"], &rows, LastCell::Wrap);
    }
}

fn print_hook(global: &Global, config: &Config, row: HookRow, secret: Option<String>) {
    if global.json {
        return print_json(&json!(HookInfo::from_row(row, secret)));
    }
    let url = format!("{}{}", find_server_url(config), row.address());
    eprintln!("POST {url} starts {}", row.workflow);
    match secret {
        Some(secret) => {
            eprintln!(r#"  curl -H "X-Hook-Secret: $SECRET" --json '{{}}' {}"#, quote_text(&url));
            eprintln!("The secret is shown only once:");
            println!("{secret}");
        }
        None => {
            let name = row.secret_name.unwrap_or_default();
            let variable = format!("FLOWLOOM_SECRET_{name}");
            eprintln!("Callers sign the body with the secret {name}. With its value in ${variable}:");
            eprintln!("  body='{{}}'");
            eprintln!(
                r#"  signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "${variable}" -r | cut -d' ' -f1)"#
            );
            eprintln!(r#"  curl -H "X-Hub-Signature-256: sha256=$signature" --json "$body" {}"#, quote_text(&url));
        }
    }
}

/// The URL of the server: as clients of its proxy reach it, or else on this machine.
fn find_server_url(config: &Config) -> String {
    match &config.server.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{DEFAULT_ADDRESS}"),
    }
}
