//! `flowloom runs`, `show` and `replay`: reads stored runs.

use std::sync::Arc;

use flowloom_app::engines::App;
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::summary;
use flowloom_core::code::Code;
use flowloom_core::event::Record;
use flowloom_store::{Damage, RunRow};
use serde::Serialize;

use super::print_json;
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult, print_error};
use crate::terminal::report;

/// The fields that `runs --json` adds to the summary of a run.
#[derive(Serialize)]
struct ListedFields<'a> {
    name: &'a str,
    workflow: Option<&'a str>,
}

/// The fields that `show --json` adds to the summary of a run.
#[derive(Serialize)]
struct RecordFields<'a> {
    events: &'a [Arc<Record>],
}

pub(crate) async fn list_runs(global: &Global, limit: u32) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let (rows, mut damaged) = app.store.list_intact_runs(limit)?;
    if global.json {
        print_summaries(&app, &rows, &mut damaged).await?;
    } else {
        if rows.is_empty() && damaged.is_empty() {
            eprintln!("no runs yet; try: flowloom run examples/steps/review-document.json");
        }
        rows.iter().for_each(print_row);
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

fn print_row(row: &RunRow) {
    let status = row.current_status();
    let took =
        row.finished_at.map(|end| report::format_duration(end.saturating_sub(row.created_at))).unwrap_or_default();
    println!("{}  {:<15} {:>7}  {:<8} {}", row.id, status, took, row.format, report::truncate_line(&row.name, 60));
}

/// Prints the summaries of these runs as JSON, and adds to `damaged` those that cannot be read.
async fn print_summaries(app: &App, rows: &[RunRow], damaged: &mut Vec<Damage>) -> Result<(), CommandError> {
    let mut pasts = Vec::new();
    for row in rows {
        match app.open_run_by_id(row.id).await {
            Ok(opened) => pasts.push((row, read_outcome(app, &opened).await?, opened.plan)),
            Err(error) if error.code() == Code::StoreCorrupt => {
                damaged.push(Damage { run: Some(row.id), problem: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let listed = pasts.iter().map(|(row, past, plan)| {
        let summary = summary::summarize_run(row.id, plan, &past.state, &past.env);
        summary.with_fields(ListedFields { name: &row.name, workflow: row.workflow.as_deref() })
    });
    print_json(&listed.collect::<Vec<_>>());
    Ok(())
}

pub(crate) async fn show_run(global: &Global, name: &str) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let past = read_outcome(&app, &opened).await?;
    if global.json {
        let summary = summary::summarize_run(opened.id, &opened.plan, &past.state, &past.env);
        print_json(&summary.with_fields(RecordFields { events: &opened.records }));
        return Ok(0);
    }
    print!("{}", report::render_waterfall(opened.id, &opened.plan, &past.state));
    Ok(0)
}

pub(crate) async fn replay_run(global: &Global, name: &str) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let engine = app.engine_for_run(&opened)?;
    let outcome = engine.replay_run(opened.records.clone(), opened.plan.clone()).await?;
    if global.json {
        print_json(&summary::summarize_run(opened.id, &opened.plan, &outcome.state, &outcome.env));
    } else {
        println!("replayed {} events of {}: no divergence, no effects performed", outcome.records.len(), opened.id);
    }
    Ok(0)
}
