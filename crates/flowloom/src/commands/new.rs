//! `flowloom new`: creates a pipeline from plain language, as files.

use std::sync::Arc;

use flowloom_app::authoring::{AuthoringOptions, BuiltInWorkflow, OutputTarget};
use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::compile_bundle;
use flowloom_app::definitions::find::find_definitions;
use flowloom_app::definitions::source::{self, Loader};
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::inputs::parse_budget;
use flowloom_app::runs::watch::Watcher;
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_runtime::RunOutcome;

use super::author_session::{AuthoringPlan, AuthoringSession, PromptAnswers};
use super::run::{choose_models, run_workflow};
use super::spent_budget::SpentBudget;
use crate::cli::{Global, NewArgs};
use crate::commands::pipeline_folder::OutputFolder;
use crate::failure::{CommandError, CommandResult};
use crate::inputs;

pub(crate) async fn create_pipeline(global: &Global, arguments: NewArgs) -> CommandResult {
    let config = load_config(global, &arguments.model, arguments.budget.as_deref())?;
    let into = source::parse_format(arguments.into.as_deref())?;
    if let Some(format) = into.filter(|format| !flowloom_author::EXPORT_FORMATS.contains(format)) {
        return Err(CommandError::usage(format!("--into expects flow, steps or markdown, not {}", format.name())));
    }
    arguments.out.as_deref().map(OutputFolder::prepare).transpose()?;
    let target = choose_target(&arguments)?;
    let taken = find_definitions(&config.project.root, &Loader::new(&config)).definitions;
    let answers = match &arguments.answers {
        Some(file) => {
            let advice = "--answers names a JSON file, or - for stdin";
            Some(parse_answers(&inputs::read_text_file(file, "file of answers", advice)?)?)
        }
        None => None,
    };
    let mut answers = PromptAnswers::new(answers, arguments.yes);
    let goal = match arguments.goal.clone() {
        Some(goal) => goal,
        None => answers.answer("What should it do?")?,
    };
    if goal.trim().is_empty() {
        return Err(CommandError::usage("the description is empty; say what the pipeline should do".to_owned()));
    }
    let app = App::open(config)?;
    // Blocks may have been stored by a process without a model. If this fails, search uses full text only, and the
    // stages report that.
    let _ = app.blocks.embed_missing().await;
    let plan = AuthoringPlan {
        options: AuthoringOptions {
            output: Some(target),
            taken: taken.into_iter().map(|file| file.id).collect(),
            ..AuthoringOptions::from_config(&app.config)
        },
        user: arguments.user.clone(),
        models: arguments.model.clone(),
        budget: arguments.budget.clone(),
        answers: None,
        spent: SpentBudget::default(),
    };
    let mut session = AuthoringSession { global, app: &app, plan };
    session.warn_of_small_model();
    let intent = if arguments.yes { goal } else { session.clarify_goal(goal, Vec::new(), &mut answers).await? };
    session.create_pipeline(&intent).await
}

/// Where the pipeline is written, as paths that do not depend on the working directory.
fn choose_target(arguments: &NewArgs) -> Result<OutputTarget, CommandError> {
    let unreadable = |error| CommandError::usage(format!("the working directory cannot be read: {error}"));
    let base = std::env::current_dir().map_err(unreadable)?;
    let folder = arguments.out.as_ref().map(|folder| base.join(folder));
    Ok(OutputTarget { folder, base, into: arguments.into.clone() })
}

/// The configuration, with the models and the budget of the command line taking precedence.
pub(super) fn load_config(global: &Global, models: &[String], budget: Option<&str>) -> Result<Config, CommandError> {
    let mut config = global.load_config()?;
    if !models.is_empty() {
        (config.author.model, config.author.block_model) = (None, None);
    }
    choose_models(&mut config, models);
    if let Some(text) = budget {
        inputs::parse_budget(text, &mut Limits::default())?;
    }
    config.author.budget = budget.map(str::to_owned).or(config.author.budget);
    Ok(config)
}

/// The program with one model, which is scripted, that answers for all models of the planner.
pub(super) fn with_scripted_model(app: &App, model: String) -> App {
    let mut config = Config::clone(&app.config);
    config.default_model.value = Some(model);
    (config.author.model, config.author.block_model) = (None, None);
    app.with_config(config)
}

/// Runs a built-in workflow for a user within limits, and reports its events to `watcher`.
pub(super) async fn run_built_in(
    app: &App,
    which: BuiltInWorkflow,
    input: Value,
    user: &str,
    limits: Limits,
    watcher: Box<dyn Watcher>,
) -> Result<(RunOutcome, Arc<Plan>), CommandError> {
    let bundle = app.engines.build_built_in_bundle(which);
    let workflow = app.engines.prepare_definition(compile_bundle(&bundle)?, &bundle)?;
    let outcome = run_workflow(app, &workflow, input, user, limits, watcher).await?;
    Ok((outcome, workflow.plan))
}

/// The limits of an authoring: the configured ones, reduced by `[author] budget`.
pub(super) fn authoring_limits(config: &Config) -> Result<Limits, AppError> {
    let mut limits = config.limits.clone();
    if let Some(text) = &config.author.budget {
        parse_budget(text, &mut limits)?;
    }
    Ok(limits)
}

/// A watcher that displays nothing.
pub(super) struct SilentWatcher;

impl Watcher for SilentWatcher {
    fn on_event(&mut self, _record: &flowloom_core::event::Record) {}
}

/// Parses a JSON array of strings, or else the non-empty lines of a text. Fails if a text that begins like an array is none.
fn parse_answers(text: &str) -> Result<Vec<String>, CommandError> {
    if !text.trim_start().starts_with('[') {
        return Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect());
    }
    let invalid =
        |why: String| CommandError::usage(format!("--answers expects a JSON array of strings, or lines; {why}"));
    let list = parse_value(text).map_err(|error| invalid(error.to_string()))?;
    let answer = |item: &Value| {
        item.as_str().map(str::to_owned).ok_or_else(|| invalid(format!("{} is not a string", item.kind_name())))
    };
    list.as_list().unwrap_or_default().iter().map(answer).collect()
}
