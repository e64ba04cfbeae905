//! The demo's last part: creates a pipeline from a plain-language goal and runs it from its files.

use std::sync::Arc;
use std::time::Instant;

use flowloom_app::authoring::{BuiltIn, How, Job, value_of};
use flowloom_app::definitions::source::Loader;
use flowloom_app::engines::App;
use flowloom_app::runs::summary;
use flowloom_app::runs::watch::Watcher;
use flowloom_author::evaluation::{cases, recorded};
use flowloom_core::value::Map;
use flowloom_formats::present;
use flowloom_store::SHARED;

use super::Row;
use crate::cli::{Global, OutputArgs};
use crate::commands::new::{Unseen, performed};
use crate::commands::pipeline_folder::{self, Folder};
use crate::commands::run::perform;
use crate::failure::Failure;
use crate::terminal::screen::Screen;
use crate::terminal::stages::Stages;
use crate::terminal::{diagnostics, report};

/// The goal, one of the evaluation tasks.
const WISH: &str = "clean-table";

/// Creates a pipeline with the answers of a recorded conversation and runs it.
pub(super) async fn authored(global: &Global, app: &mut App) -> Result<Row, Failure> {
    let lost = |what: &str| Failure::usage(format!("the bundled demo has no {what}"));
    let case = cases().ok().and_then(|cases| cases.into_iter().find(|case| case.id == WISH));
    let case = case.ok_or_else(|| lost("goal"))?;
    eprintln!("\n── flowloom new \"{}\"", case.title);
    eprintln!("These answers come from a recorded conversation: {} is too small for this.", super::SMALL);
    let script = app.store.folder().join("demo.author.json");
    let text = recorded(WISH).ok_or_else(|| lost("conversation"))?;
    std::fs::write(&script, text).map_err(|error| Failure::usage(format!("{}: {error}", script.display())))?;
    app.config.default_model.value = Some(format!("scripted:{}", script.display()));
    (app.config.author.model, app.config.author.block_model) = (None, None);
    let began = Instant::now();
    let job = value_of(&Job::new(&case.intent, SHARED, How::of(&app.config)))?;
    let watcher: Box<dyn Watcher> = if global.json { Box::new(Unseen) } else { Box::new(Stages::new()) };
    let (outcome, plan) = performed(app, BuiltIn::Thinker, job, (SHARED, watcher)).await?;
    if let Some(error) = outcome.broken.or(outcome.state.error.clone()) {
        return Err(error.into());
    }
    let made = present(&plan, &outcome.state, &outcome.env).output;
    let folder = app.store.folder().join("authored");
    // Removes the output of an earlier demo.
    let _ = std::fs::remove_dir_all(&folder);
    let folder = Folder::prepare(&folder)?;
    pipeline_folder::tell(&made, &folder, &folder.write(&made)?);
    let (status, steps) = run(global, app, &folder).await?;
    let took = report::duration(began.elapsed().as_millis() as u64);
    Ok(Row { file: "(authored) pipeline.json", status, steps, took })
}

/// Runs the new pipeline. Returns its status and the number of steps.
async fn run(global: &Global, app: &App, folder: &Folder) -> Result<(&'static str, usize), Failure> {
    let source = Loader { config: &app.config, format: None, lenient: false }.compile(folder.path());
    eprint!("{}", diagnostics::render(&source));
    let refused = || Failure::usage(format!("{} cannot be run", folder.path().display()));
    let plan = Arc::new(source.compiled.plan.clone().ok_or_else(refused)?);
    let bundle = app.bundle(source.name(), source.files(), plan.format)?;
    let watcher = Box::new(Screen::new(&OutputArgs::default(), global.json));
    let limits = app.config.limits.clone();
    let outcome = perform(app, (&bundle, &plan), Map::new().into(), (SHARED, limits), watcher).await?;
    println!("{}", summary::for_people(&present(&plan, &outcome.state, &outcome.env).output));
    let steps = outcome.state.steps().iter().filter(|step| step.kind.is_some()).count();
    Ok((outcome.state.status.name(), steps))
}
