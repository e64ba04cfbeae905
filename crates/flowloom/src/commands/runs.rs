//! `flowloom runs` and `replay`: reads stored runs.

use std::io::IsTerminal as _;

use flowloom_app::definitions::find::find_workflow_id;
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::input_line::write_input_line;
use flowloom_app::runs::summary;
use flowloom_app::runs::trigger::parse_trigger;
use flowloom_app::times::parse_time_before;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::status::{STATUS_TABLE, Status};
use flowloom_core::trigger::RunTrigger;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Damage, RunFilter, RunRow};
use serde::Serialize;

use super::results::print_json;
use crate::cli::{ExistingData, Global, RunsArgs};
use crate::failure::{CommandError, CommandResult, print_error};
use crate::terminal::report;
use crate::terminal::table::print_header;
use crate::terminal::width::terminal_columns;

/// Number of characters of an id that a table shows: its end, because ids of the same minute begin alike.
const SHORT_ID_CHARS: usize = 8;

/// The fields that `runs --json` adds to the summary of a run.
#[derive(Serialize)]
struct ListedFields<'a> {
    name: &'a str,
    workflow: Option<&'a str>,
    trigger: Option<&'a RunTrigger>,
    /// Its inputs in one line.
    input: Option<String>,
    /// The run of which it is a child run.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
}

pub(crate) async fn list_runs(global: &Global, arguments: &RunsArgs) -> CommandResult {
    check_status(arguments.status.as_deref())?;
    let app = match global.find_data()? {
        ExistingData::Open(app) => *app,
        ExistingData::Missing(message) => {
            eprintln!("{message}");
            if global.json {
                println!("[]");
            }
            return Ok(0);
        }
    };
    let filter = build_filter(&app, arguments)?;
    let (rows, mut damaged) = app.store.list_intact_runs(&filter)?;
    if global.json {
        print_summaries(&app, &rows, &mut damaged).await?;
    } else {
        if rows.is_empty() && damaged.is_empty() {
            let RunsArgs { status, name, workflow, trigger, before, since, limit } = arguments;
            let options = [status, name, workflow, trigger, before, since];
            let is_filtered = *limit == 0 || options.iter().any(|option| option.is_some());
            eprintln!("{}", if is_filtered { "no runs match" } else { "no runs yet; start one with flowloom run" });
        }
        print_table(&rows);
    }
    for damage in &damaged {
        print_error(Code::StoreCorrupt, "", &damage.problem);
    }
    if damaged.is_empty() {
        return Ok(0);
    }
    let advice = "the runs above are intact; check the others with flowloom doctor --read-data, and restore a backup";
    Err(CommandError::new(Code::StoreCorrupt, advice))
}

/// Fails if there is no such status.
fn check_status(status: Option<&str>) -> Result<(), CommandError> {
    let Some(status) = status.filter(|status| Status::parse(status).is_none()) else { return Ok(()) };
    let known: Vec<&str> = STATUS_TABLE.iter().map(|row| row.name).collect();
    Err(CommandError::usage(format!("there is no status {status:?}; it is one of {}", known.join(", "))))
}

/// The runs of this project that the options name.
fn build_filter(app: &App, arguments: &RunsArgs) -> Result<RunFilter, CommandError> {
    let before = arguments.before.as_deref().map(|run| app.store.find_run(run)).transpose()?;
    let since = arguments.since.as_deref().map(|time| parse_time_before(time, SystemClock.now_ms())).transpose();
    let since = since.map_err(AppError::from)?;
    let trigger = arguments.trigger.as_deref().map(parse_trigger).transpose().map_err(CommandError::usage)?;
    Ok(RunFilter {
        status: arguments.status.clone(),
        name: arguments.name.clone(),
        workflow: arguments.workflow.as_deref().map(|name| name_workflow(app, name)),
        before: before.map(|run| run.id),
        since,
        trigger,
        limit: arguments.limit,
        ..RunFilter::default()
    })
}

/// The id of a workflow that is named by its file or its id. One that is in no file has the name itself.
fn name_workflow(app: &App, name: &str) -> String {
    find_workflow_id(&app.config, name).unwrap_or_else(|| name.to_owned())
}

/// Prints runs for people on a terminal, or for programs: then ids are whole, and there is no header.
fn print_table(rows: &[RunRow]) {
    let is_terminal = std::io::stdout().is_terminal();
    if !rows.is_empty() {
        let header = format!("{:<8}  {:<15} {:>7} {:>7}  {:<8} NAME", "RUN", "STATUS", "AGE", "TIME", "FORMAT");
        print_header(&header);
    }
    let now = SystemClock.now_ms();
    for row in rows {
        let status = row.current_status();
        let took =
            row.finished_at.map(|end| report::format_duration(end.saturating_sub(row.created_at))).unwrap_or_default();
        // Spaces are added before the colour, which has no width.
        let status = report::paint_status(status) + &" ".repeat(15_usize.saturating_sub(status.len()));
        let id = row.id.to_string();
        if is_terminal {
            let age = report::format_age(now.saturating_sub(row.created_at));
            let name = report::truncate_line(&row.name, terminal_columns().saturating_sub(53));
            println!("{}  {status} {age:>7} {took:>7}  {:<8} {name}", &id[id.len() - SHORT_ID_CHARS..], row.format);
        } else {
            println!("{id}  {status} {took:>7}  {:<8} {}", row.format, report::clean_line(&row.name));
        }
    }
}

/// Prints the summaries of these runs as JSON, and adds to `damaged` those that cannot be read.
async fn print_summaries(app: &App, rows: &[RunRow], damaged: &mut Vec<Damage>) -> Result<(), CommandError> {
    let mut pasts = Vec::new();
    for row in rows {
        match app.runs.open_run_by_id(row.id).await {
            Ok(opened) => pasts.push((row, read_outcome(&app.runs, &opened).await?, opened.plan)),
            Err(error) if error.is_damage() => {
                damaged.push(Damage { run: Some(row.id), problem: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let listed = pasts.iter().map(|(row, past, plan)| {
        let summary = summary::summarize_run(row.id, plan, &past.state, &past.env);
        summary.with_fields(ListedFields {
            name: &row.name,
            workflow: row.workflow.as_deref(),
            trigger: row.trigger.as_ref(),
            input: past.state.created.as_ref().and_then(|created| write_input_line(&created.inputs)),
            parent: row.parent.as_ref().map(|parent| parent.run),
        })
    });
    print_json(&listed.collect::<Vec<_>>());
    Ok(())
}

pub(crate) async fn replay_run(global: &Global, name: &str) -> CommandResult {
    let app = global.open_existing()?;
    let opened = app.runs.open_run(name).await?;
    let engine = app.runs.engine_for_run(&opened)?;
    let outcome = engine.replay_run(opened.records.clone(), opened.plan.clone()).await?;
    if global.json {
        print_json(&summary::summarize_run(opened.id, &opened.plan, &outcome.state, &outcome.env));
    } else {
        println!("replayed {} events of {}: no divergence, no effects performed", outcome.records.len(), opened.id);
    }
    Ok(0)
}
