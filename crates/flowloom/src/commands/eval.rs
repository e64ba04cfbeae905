//! `flowloom eval author`: measures a model on twenty authoring tasks.
//!
//! Each task is processed like `flowloom new`, in a database of its own. The resulting pipeline then runs with the
//! pages, search results and memory of its task, and without access to anything else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flowloom_app::authoring::{BuiltIn, How, Job, rehearsed, value_of};
use flowloom_app::engines::App;
use flowloom_app::wiring;
use flowloom_author::evaluation::{Case, Row, cases, recorded};
use flowloom_author::rehearse::Rehearsal;
use flowloom_author::wire::definition;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::present;
use flowloom_runtime::Outcome as RunOutcome;
use flowloom_store::SHARED;
use serde_json::json;

use super::new::{Unseen, bounds, configured, performed};
use crate::cli::{EvalAuthorArgs, Global};
use crate::failure::{Failure, Outcome};

/// Errors of the installation, which every further task would meet, too.
const HOPELESS: [Code; 5] =
    [Code::ModelNone, Code::ModelUnknown, Code::ModelKeyMissing, Code::ModelFileMissing, Code::NoSandbox];

/// The result of a task and its duration.
struct Timed {
    row: Row,
    seconds: f64,
}

pub(crate) async fn author(global: &Global, arguments: EvalAuthorArgs) -> Outcome {
    let chosen = chosen(&arguments)?;
    let mut config = configured(global, &arguments.model, arguments.budget.as_deref())?;
    let scratch = Scratch::make(arguments.records.as_deref())?;
    config.data_dir.value.clone_from(&scratch.folder);
    config.database.value = None;
    let mut app = App::open(config)?;
    // If this fails, search uses full text only, and the stages report that.
    let _ = app.blocks.embed_missing().await;
    let (mut rows, mut is_cut_short) = (Vec::new(), false);
    for case in &chosen {
        if arguments.recorded {
            app.config.default_model.value = Some(scratch.script(case)?);
            (app.config.author.model, app.config.author.block_model) = (None, None);
        }
        let began = Instant::now();
        let row = tokio::select! {
            row = evaluated(&app, case) => row?,
            _ = tokio::signal::ctrl_c() => {
                is_cut_short = true;
                break;
            }
        };
        let timed = Timed { row, seconds: began.elapsed().as_secs_f64() };
        tell(&timed);
        rows.push(timed);
    }
    match global.json {
        true => println!("{:#}", summary(&rows)),
        false => print!("{}", table(&rows)),
    }
    if is_cut_short {
        return Ok(Status::Cancelled.row().exit_code);
    }
    Ok(u8::from(!rows.iter().all(|timed| timed.row.has_passed())))
}

/// The tasks selected on the command line.
fn chosen(arguments: &EvalAuthorArgs) -> Result<Vec<Case>, Failure> {
    let mut cases = cases().map_err(|error| Failure::usage(format!("cannot read the tasks: {error}")))?;
    if arguments.recorded {
        cases.retain(|case| recorded(&case.id).is_some());
    }
    for name in &arguments.wishes {
        if !cases.iter().any(|case| case.id == *name) {
            let known: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
            return Err(Failure::usage(format!("there is no task {name:?}; expected one of {}", known.join(", "))));
        }
    }
    cases.retain(|case| arguments.wishes.is_empty() || arguments.wishes.contains(&case.id));
    Ok(cases)
}

/// Evaluates one task. Fails only with errors that every task would meet.
async fn evaluated(app: &App, case: &Case) -> Result<Row, Failure> {
    let job = value_of(&Job::new(&case.intent, SHARED, How::of(&app.config)))?;
    let (outcome, plan) = performed(app, BuiltIn::Thinker, job, (SHARED, Box::new(Unseen))).await?;
    let made = present(&plan, &outcome.state, &outcome.env).output;
    let result = match refusal(&outcome) {
        Some(error) => Err(error),
        None => run(app, case, &made).await,
    };
    if let Some(error) = result.as_ref().err().filter(|error| HOPELESS.contains(&error.code)) {
        return Err(error.clone().into());
    }
    let mut row = case.row(result);
    row.usage.add(&outcome.state.usage);
    Ok(row)
}

fn refusal(outcome: &RunOutcome) -> Option<StepError> {
    let cancelled = || StepError::new(Code::Cancelled, "the pipeline was not completed");
    let error = outcome.broken.clone().or_else(|| outcome.state.error.clone());
    error.or_else(|| (outcome.state.status != Status::Succeeded).then(cancelled))
}

/// Runs the new pipeline as a dry run with the task's data.
async fn run(app: &App, case: &Case, made: &Value) -> Result<Rehearsal, StepError> {
    let bundle = app.bundle_of(BuiltIn::Thinker)?;
    let models = Arc::new(wiring::models(&app.config, bundle.model.clone(), &bundle.aliases));
    let limits = bounds(&app.config).map_err(|failure| failure.error)?;
    let block_model = app.config.author.block_model.as_deref();
    let rehearser = app.author(&bundle, &models).rehearser(block_model, limits, SHARED);
    let pipeline = made.get("pipeline_json").cloned().unwrap_or_default();
    let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
    rehearsed(rehearser, &definition(&pipeline, blocks), &case.given()).await
}

/// Prints the result of a task and its failed checks.
fn tell(timed: &Timed) {
    let Row { id, title, error, failures, .. } = &timed.row;
    let word = if timed.row.has_passed() { "passed" } else { "failed" };
    eprintln!("{word}  {id}: {title} ({:.1} s)", timed.seconds);
    match error {
        Some(error) => eprintln!("        error[{}]: {}", error.code, error.message),
        None => failures.iter().for_each(|failure| eprintln!("        check failed: {failure}")),
    }
}

fn table(rows: &[Timed]) -> String {
    let mut text =
        format!("{:<22} {:<7} {:>6} {:>9} {:>9} {:>8}\n", "task", "result", "checks", "tokens", "usd", "time");
    for Timed { row, seconds } in rows {
        let word = if row.has_passed() { "passed" } else { "failed" };
        let (checks, tokens) =
            (format!("{}/{}", row.held(), row.checks), row.usage.input_tokens + row.usage.output_tokens);
        let (usd, time) = (usd(row.usage.micro_usd), format!("{seconds:.1} s"));
        text.push_str(&format!("{:<22} {word:<7} {checks:>6} {tokens:>9} {usd:>9} {time:>8}\n", row.id));
    }
    let passed = rows.iter().filter(|timed| timed.row.has_passed()).count();
    let sum = |count: fn(&Row) -> usize| rows.iter().map(|timed| count(&timed.row)).sum::<usize>();
    let (held, checks) = (sum(Row::held), sum(|row| row.checks));
    text.push_str(&format!("\n{passed} of {} tasks passed; {held} of {checks} checks passed\n", rows.len()));
    text
}

fn usd(micro: Option<u64>) -> String {
    micro.map_or_else(|| "?".to_owned(), |micro| format!("{:.4}", micro as f64 / 1e6))
}

fn summary(rows: &[Timed]) -> serde_json::Value {
    let shown = rows.iter().map(|Timed { row, seconds }| {
        let mut shown = serde_json::to_value(row).unwrap_or_default();
        shown["passed"] = row.has_passed().into();
        shown["seconds"] = json!(seconds);
        shown
    });
    json!({"passed": rows.iter().filter(|timed| timed.row.has_passed()).count(), "wishes": shown.collect::<Vec<_>>()})
}

/// The folder of the database and the scripts. It is deleted at the end unless the user named it.
struct Scratch {
    folder: PathBuf,
    is_kept: bool,
}

impl Scratch {
    fn make(named: Option<&Path>) -> Result<Scratch, Failure> {
        let own = || std::env::temp_dir().join(format!("flowloom-eval-{}", uuid::Uuid::new_v4()));
        let folder = named.map_or_else(own, Path::to_owned);
        let unwritable = |error| Failure::usage(format!("{} cannot be written: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(unwritable)?;
        Ok(Scratch { folder: folder.clone(), is_kept: named.is_some() })
    }

    /// Writes the recorded conversation of a task and returns the scripted model that replays it.
    fn script(&self, case: &Case) -> Result<String, Failure> {
        let file = self.folder.join(format!("{}.script.json", case.id));
        let written = std::fs::write(&file, recorded(&case.id).unwrap_or_default());
        written.map_err(|error| Failure::usage(format!("{} cannot be written: {error}", file.display())))?;
        Ok(format!("scripted:{}", file.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // A leftover temporary folder is harmless.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
