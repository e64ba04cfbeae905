//! `runs`, `show` and `replay`: what happened.

use flowloom_core::value::Value;

use super::print;
use super::run::recorded;
use crate::app::App;
use crate::cli::Global;
use crate::config::Config;
use crate::failure::Outcome;
use crate::report;

pub(crate) async fn list(global: &Global, limit: u32) -> Outcome {
    let app = App::open(Config::load(global)?)?;
    let rows = app.store.runs(limit)?;
    if global.json {
        let mut summaries = Vec::new();
        for row in &rows {
            let opened = app.open_id(row.id).await?;
            let past = recorded(&app, &opened).await?;
            let mut summary = report::fields(row.id, &opened.plan, &past.state, &past.env);
            let workflow = row.workflow.as_deref().map_or(Value::Null, Value::from);
            summary.extend([("name".into(), row.name.as_str().into()), ("workflow".into(), workflow)]);
            summaries.push(summary.into());
        }
        print(&Value::list(summaries));
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
    let app = App::open(Config::load(global)?)?;
    let opened = app.open_run(name).await?;
    let past = recorded(&app, &opened).await?;
    if global.json {
        let records: Result<Vec<String>, _> =
            opened.records.iter().map(|record| serde_json::to_string(&**record)).collect();
        let events = records.unwrap_or_default().join(",");
        let events = flowloom_core::json::parse_value(&format!("[{events}]")).unwrap_or_default();
        let mut summary =
            report::summary(opened.id, &opened.plan, &past.state, &past.env).as_map().cloned().unwrap_or_default();
        summary.insert("events".into(), events);
        print(&summary.into());
        return Ok(0);
    }
    print!("{}", report::waterfall(opened.id, &opened.plan, &past.state));
    Ok(0)
}

pub(crate) async fn replay(global: &Global, name: &str) -> Outcome {
    let app = App::open(Config::load(global)?)?;
    let opened = app.open_run(name).await?;
    let engine = app.engine_of(&opened)?;
    let outcome = engine.replay(opened.records.clone(), opened.plan.clone()).await?;
    if global.json {
        print(&report::summary(opened.id, &opened.plan, &outcome.state, &outcome.env));
    } else {
        println!("replayed {} events of {}: the same, and nothing was performed", outcome.records.len(), opened.id);
    }
    Ok(0)
}
