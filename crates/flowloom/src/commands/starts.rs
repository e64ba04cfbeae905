//! `flowloom schedule` and `flowloom hooks`: manages schedules and webhooks, which start runs on a server.

use std::path::Path;

use flowloom_core::value::Map;
use flowloom_store::{HookRow, Kind, ScheduleRow};
use serde_json::json;

use crate::app::App;
use crate::cli::{Global, HooksCommand, ScheduleCommand};
use crate::config::Config;
use crate::definitions::{self, is_id, sync};
use crate::failure::{Failure, Outcome};
use crate::inputs;
use crate::server::{hooks as served_hooks, schedules};
use crate::source;

/// Returns the id of the named workflow. A file is uploaded to the database first.
async fn workflow(app: &App, holder: &str, named: &str) -> Result<String, Failure> {
    let file = Path::new(named);
    if !file.is_file() {
        return match definitions::find(&app.store, holder, Kind::Workflow, named)? {
            Some(_) => Ok(named.to_owned()),
            None => Err(Failure::usage(format!("{named} is neither a file nor the id of a workflow in the database"))),
        };
    }
    sync::keep_file(app, holder, file).await?.map_err(|source| {
        eprint!("{}", source::render(&source));
        Failure::usage(format!("{named} has errors"))
    })
}

fn id_or(given: Option<String>, workflow: &str) -> Result<String, Failure> {
    let id = given.unwrap_or_else(|| workflow.to_owned());
    if is_id(&id) { Ok(id) } else { Err(Failure::usage(format!("{id:?} is not a valid id; choose one with --id"))) }
}

pub(crate) async fn schedule(global: &Global, command: ScheduleCommand) -> Outcome {
    let app = App::open(Config::load(global)?)?;
    match command {
        ScheduleCommand::Add { workflow: named, cron, timezone, input_values, missed, id, user } => {
            let given = |text: &String| inputs::pair(text).map(|(name, value)| (name.into(), value));
            let inputs = input_values.iter().map(given).collect::<Result<Map, Failure>>()?;
            // Validates the schedule before anything is stored.
            crate::schedule::Times::parse(&cron, &timezone)?;
            let workflow = workflow(&app, &user, &named).await?;
            let id = id_or(id, &workflow)?;
            let row = schedules::row((user, id), (workflow, inputs.into()), (cron, Some(timezone), missed))?;
            app.store.put_schedule(row.clone()).await?;
            show(global, vec![row]);
        }
        ScheduleCommand::List => show(global, app.store.schedules(None)?),
        ScheduleCommand::Remove { id, user } => {
            app.store.delete_schedule(&user, &id).await?;
            eprintln!("removed {id}");
        }
    }
    Ok(0)
}

fn show(global: &Global, rows: Vec<ScheduleRow>) {
    if global.json {
        return println!("{:#}", json!(rows.into_iter().map(schedules::Schedule::of).collect::<Vec<_>>()));
    }
    for row in rows {
        let next = jiff::Timestamp::from_millisecond(row.next_at as i64).map(|at| at.to_string()).unwrap_or_default();
        println!("{:<24} {:<24} {:<16} {:<16} next {next}", row.id, row.workflow, row.cron, row.timezone);
    }
}

pub(crate) async fn hooks(global: &Global, command: HooksCommand) -> Outcome {
    let app = App::open(Config::load(global)?)?;
    match command {
        HooksCommand::Add { workflow: named, secret, id, user } => {
            let workflow = workflow(&app, &user, &named).await?;
            let id = id_or(id, &workflow)?;
            let (row, secret) = served_hooks::row(user, id, workflow, secret);
            app.store.put_hook(row.clone()).await?;
            tell(global, row, secret);
        }
        HooksCommand::List => {
            let rows = app.store.hooks(None)?;
            match global.json {
                true => {
                    let shown: Vec<_> = rows.into_iter().map(|row| served_hooks::Hook::of(row, None)).collect();
                    println!("{:#}", json!(shown));
                }
                false => rows.iter().for_each(|row| println!("/hooks/{:<24} {}", row.id, row.workflow)),
            }
        }
        HooksCommand::Remove { id, user } => {
            app.store.delete_hook(&user, &id).await?;
            eprintln!("removed {id}");
        }
    }
    Ok(0)
}

fn tell(global: &Global, row: HookRow, secret: Option<String>) {
    if global.json {
        return println!("{:#}", json!(served_hooks::Hook::of(row, secret)));
    }
    eprintln!("POST /hooks/{} starts {}", row.id, row.workflow);
    match secret {
        Some(secret) => {
            eprintln!("Callers send this secret as X-Hook-Secret; it is shown only once:");
            println!("{secret}");
        }
        None => {
            let name = row.secret_name.unwrap_or_default();
            eprintln!("Callers sign the body with the secret {name} (X-Hub-Signature-256: sha256=…)");
        }
    }
}
