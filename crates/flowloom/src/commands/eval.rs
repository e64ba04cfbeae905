//! `flowloom eval author`: measures a model on twenty authoring tasks.
//!
//! Each task is processed like `flowloom new`, in a database of its own. The resulting pipeline then runs with the
//! pages, search results and memory of its task, and without access to anything else.

use std::path::{Path, PathBuf};
use std::time::Instant;

use flowloom_app::authoring::{AuthoringJob, AuthoringOptions, BuiltInWorkflow, dry_run_definition, to_value};
use flowloom_app::engines::App;
use flowloom_author::dry_run::DryRun;
use flowloom_author::evaluation::{Task, TaskResult, load_tasks, recorded_conversation};
use flowloom_author::wire::build_definition;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::RunOutcome;
use flowloom_store::SHARED_USER;
use serde_json::json;

use super::new::{SilentWatcher, authoring_limits, load_config, run_built_in, with_scripted_model};
use super::results::print_json;
use crate::cli::{EvalAuthorArgs, Global};
use crate::failure::{CommandError, CommandResult, format_error};

/// Errors of the installation, which every further task would meet, too.
const FATAL_CODES: [Code; 5] =
    [Code::ModelNone, Code::ModelUnknown, Code::ModelKeyMissing, Code::ModelFileMissing, Code::NoSandbox];

/// The result of a task and its duration.
struct TimedResult {
    row: TaskResult,
    seconds: f64,
}

pub(crate) async fn evaluate_author(global: &Global, arguments: EvalAuthorArgs) -> CommandResult {
    let chosen = select_tasks(&arguments)?;
    let mut config = load_config(global, &arguments.model, arguments.budget.as_deref())?;
    let scratch = WorkFolder::create(arguments.records.as_deref())?;
    config.data_dir.value.clone_from(&scratch.folder);
    config.database.value = None;
    let mut app = App::open(config)?;
    // If this fails, search uses full text only, and the stages report that.
    let _ = app.blocks.embed_missing().await;
    let (mut rows, mut is_cut_short) = (Vec::new(), false);
    for case in &chosen {
        if arguments.recorded {
            app = with_scripted_model(&app, scratch.write_script(case)?);
        }
        let began = Instant::now();
        let row = tokio::select! {
            row = evaluate_task(&app, case) => row?,
            _ = tokio::signal::ctrl_c() => {
                is_cut_short = true;
                break;
            }
        };
        let timed = TimedResult { row, seconds: began.elapsed().as_secs_f64() };
        print_result(&timed);
        rows.push(timed);
    }
    match global.json {
        true => print_json(&build_summary(&rows)),
        false => print!("{}", render_table(&rows)),
    }
    if is_cut_short {
        return Ok(Status::Cancelled.table_row().exit_code);
    }
    Ok(u8::from(!rows.iter().all(|timed| timed.row.has_passed())))
}

/// The tasks selected on the command line.
fn select_tasks(arguments: &EvalAuthorArgs) -> Result<Vec<Task>, CommandError> {
    let mut cases = load_tasks().map_err(|error| CommandError::usage(format!("cannot read the tasks: {error}")))?;
    if arguments.recorded {
        cases.retain(|case| recorded_conversation(&case.id).is_some());
    }
    for name in &arguments.tasks {
        if !cases.iter().any(|case| case.id == *name) {
            let known: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
            return Err(CommandError::usage(format!(
                "there is no task {name:?}; expected one of {}",
                known.join(", ")
            )));
        }
    }
    cases.retain(|case| arguments.tasks.is_empty() || arguments.tasks.contains(&case.id));
    Ok(cases)
}

/// Evaluates one task. Fails only with errors that every task would meet.
async fn evaluate_task(app: &App, case: &Task) -> Result<TaskResult, CommandError> {
    let job = to_value(&AuthoringJob::new(&case.intent, SHARED_USER, AuthoringOptions::from_config(&app.config)))?;
    let (outcome, plan) = run_built_in(
        app,
        BuiltInWorkflow::Planner,
        job,
        SHARED_USER,
        authoring_limits(&app.config)?,
        Box::new(SilentWatcher),
    )
    .await?;
    let made = render_result(&plan, &outcome.state, &outcome.env).output;
    let result = match authoring_error(&outcome) {
        Some(error) => Err(error),
        None => run_pipeline(app, case, &made).await,
    };
    if let Some(error) = result.as_ref().err().filter(|error| FATAL_CODES.contains(&error.code)) {
        return Err(error.clone().into());
    }
    let mut row = case.evaluate_run(result);
    row.usage.add(&outcome.state.usage);
    Ok(row)
}

fn authoring_error(outcome: &RunOutcome) -> Option<StepFailure> {
    let cancelled = || StepFailure::new(Code::Cancelled, "the pipeline was not completed");
    outcome.find_error().or_else(|| (outcome.state.status != Status::Succeeded).then(cancelled))
}

/// Runs the new pipeline as a dry run with the task's data.
async fn run_pipeline(app: &App, case: &Task, made: &Value) -> Result<DryRun, StepFailure> {
    let bundle = app.engines.build_built_in_bundle(BuiltInWorkflow::Planner);
    let models = app.engines.build_models(&bundle);
    let limits = authoring_limits(&app.config)?;
    let block_model = app.config.author.block_model.as_deref();
    let dry_runner = app.engines.build_author(&bundle, &models).build_dry_runner(block_model, limits, SHARED_USER);
    let pipeline = made.get("pipeline_json").cloned().unwrap_or_default();
    let blocks = made.get("blocks").and_then(Value::as_list).unwrap_or_default();
    dry_run_definition(dry_runner, &build_definition(&pipeline, blocks), &case.initial_inputs()).await
}

/// Prints the result of a task and its failed checks.
fn print_result(timed: &TimedResult) {
    let TaskResult { id, title, error, failures, .. } = &timed.row;
    let word = if timed.row.has_passed() { "passed" } else { "failed" };
    eprintln!("{word}  {id}: {title} ({:.1} s)", timed.seconds);
    match error {
        Some(error) => eprintln!("        {}", format_error(error.code, "", &error.message)),
        None => failures.iter().for_each(|failure| eprintln!("        check failed: {failure}")),
    }
}

fn render_table(rows: &[TimedResult]) -> String {
    let mut text =
        format!("{:<22} {:<7} {:>6} {:>9} {:>9} {:>8}\n", "task", "result", "checks", "tokens", "usd", "time");
    for TimedResult { row, seconds } in rows {
        let word = if row.has_passed() { "passed" } else { "failed" };
        let (checks, tokens) =
            (format!("{}/{}", row.passed_checks(), row.checks), row.usage.input_tokens + row.usage.output_tokens);
        let (usd, time) = (format_usd(row.usage.micro_usd), format!("{seconds:.1} s"));
        text.push_str(&format!("{:<22} {word:<7} {checks:>6} {tokens:>9} {usd:>9} {time:>8}\n", row.id));
    }
    let passed = rows.iter().filter(|timed| timed.row.has_passed()).count();
    let sum = |count: fn(&TaskResult) -> usize| rows.iter().map(|timed| count(&timed.row)).sum::<usize>();
    let (held, checks) = (sum(TaskResult::passed_checks), sum(|row| row.checks));
    text.push_str(&format!("\n{passed} of {} tasks passed; {held} of {checks} checks passed\n", rows.len()));
    text
}

fn format_usd(micro: Option<u64>) -> String {
    micro.map_or_else(|| "?".to_owned(), |micro| format!("{:.4}", micro as f64 / 1e6))
}

fn build_summary(rows: &[TimedResult]) -> serde_json::Value {
    let shown = rows.iter().map(|TimedResult { row, seconds }| {
        let mut shown = serde_json::to_value(row).unwrap_or_default();
        shown["passed"] = row.has_passed().into();
        shown["seconds"] = json!(seconds);
        shown
    });
    json!({"passed": rows.iter().filter(|timed| timed.row.has_passed()).count(), "tasks": shown.collect::<Vec<_>>()})
}

/// The folder of the database and the scripts. It is deleted at the end unless the user named it.
struct WorkFolder {
    folder: PathBuf,
    is_persistent: bool,
}

impl WorkFolder {
    fn create(named: Option<&Path>) -> Result<WorkFolder, CommandError> {
        let own = || std::env::temp_dir().join(format!("flowloom-eval-{}", uuid::Uuid::new_v4()));
        let folder = named.map_or_else(own, Path::to_owned);
        let unwritable = |error| CommandError::usage(format!("{} cannot be written: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(unwritable)?;
        Ok(WorkFolder { folder: folder.clone(), is_persistent: named.is_some() })
    }

    /// Writes the recorded conversation of a task and returns the scripted model that replays it.
    fn write_script(&self, case: &Task) -> Result<String, CommandError> {
        let file = self.folder.join(format!("{}.script.json", case.id));
        let written = std::fs::write(&file, recorded_conversation(&case.id).unwrap_or_default());
        written.map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", file.display())))?;
        Ok(format!("scripted:{}", file.display()))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if !self.is_persistent {
            // A leftover temporary folder is harmless.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
