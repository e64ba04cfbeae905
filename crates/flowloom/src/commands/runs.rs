//! `flowloom runs`, `show` and `replay`: reads stored runs.

use std::sync::Arc;

use flowloom_app::engines::App;
use flowloom_app::runs::finished::recorded;
use flowloom_app::runs::summary;
use flowloom_core::event::Record;
use serde::Serialize;

use super::print;
use crate::cli::Global;
use crate::failure::Outcome;
use crate::terminal::report;

/// The fields that `runs --json` adds to the summary of a run.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    workflow: Option<&'a str>,
}

/// The fields that `show --json` adds to the summary of a run.
#[derive(Serialize)]
struct Recorded<'a> {
    events: &'a [Arc<Record>],
}

pub(crate) async fn list(global: &Global, limit: u32) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let rows = app.store.runs(limit)?;
    if global.json {
        let mut pasts = Vec::new();
        for row in &rows {
            let opened = app.open_id(row.id).await?;
            pasts.push((recorded(&app, &opened).await?, opened.plan));
        }
        let listed = rows.iter().zip(&pasts).map(|(row, (past, plan))| {
            let summary = summary::summary(row.id, plan, &past.state, &past.env);
            summary.with(Listed { name: &row.name, workflow: row.workflow.as_deref() })
        });
        print(&listed.collect::<Vec<_>>());
        return Ok(0);
    }
    if rows.is_empty() {
        eprintln!("no runs yet; try: flowloom run examples/steps/review-document.json");
    }
    for row in rows {
        let interrupted = row.status == "running" && !row.is_driven;
        let status = if interrupted { "interrupted" } else { &row.status };
        let took = row.finished_at.map(|end| report::duration(end.saturating_sub(row.created_at))).unwrap_or_default();
        println!("{}  {:<15} {:>7}  {:<8} {}", row.id, status, took, row.format, report::clip(&row.name, 60));
    }
    Ok(0)
}

pub(crate) async fn show(global: &Global, name: &str) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let past = recorded(&app, &opened).await?;
    if global.json {
        let summary = summary::summary(opened.id, &opened.plan, &past.state, &past.env);
        print(&summary.with(Recorded { events: &opened.records }));
        return Ok(0);
    }
    print!("{}", report::waterfall(opened.id, &opened.plan, &past.state));
    Ok(0)
}

pub(crate) async fn replay(global: &Global, name: &str) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let engine = app.engine_of(&opened)?;
    let outcome = engine.replay(opened.records.clone(), opened.plan.clone()).await?;
    if global.json {
        print(&summary::summary(opened.id, &opened.plan, &outcome.state, &outcome.env));
    } else {
        println!("replayed {} events of {}: no divergence, no effects performed", outcome.records.len(), opened.id);
    }
    Ok(0)
}
