//! `flowloom new`: creates a pipeline from plain language, as files.

use std::sync::Arc;

use flowloom_app::authoring::{AuthoringJob, AuthoringOptions, BuiltInWorkflow, OutputTarget, parse_as, to_value};
use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::compile_bundle;
use flowloom_app::definitions::source;
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::inputs::parse_budget;
use flowloom_app::runs::watch::Watcher;
use flowloom_author::clarify::{Clarification, ConversationMessage, ConversationRole};
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::effects::Model as _;

use super::authored::{AuthoredRun, finish_authoring};
use super::run::{choose_models, run_workflow};
use crate::cli::{Global, NewArgs, SMALL_MODEL};
use crate::commands::pipeline_folder::OutputFolder;
use crate::failure::{CommandError, CommandResult};
use crate::inputs;
use crate::terminal::ask;
use crate::terminal::stages::StageDisplay;
use flowloom_app::wiring;

pub(crate) async fn create_pipeline(global: &Global, arguments: NewArgs) -> CommandResult {
    let config = load_config(global, &arguments.model, arguments.budget.as_deref())?;
    let into = source::parse_format(arguments.into.as_deref())?;
    if let Some(format) = into.filter(|format| !flowloom_author::EXPORT_FORMATS.contains(format)) {
        return Err(CommandError::usage(format!("--into expects flow, steps or markdown, not {}", format.name())));
    }
    arguments.out.as_deref().map(OutputFolder::prepare).transpose()?;
    let target = choose_target(&arguments)?;
    let mut answers = PromptAnswers::from_arguments(&arguments)?;
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
    let author = AuthoringSession {
        app: &app,
        options: AuthoringOptions {
            keeps_partial: true,
            output: Some(target.clone()),
            ..AuthoringOptions::from_config(&app.config)
        },
        arguments: &arguments,
        is_quiet: global.json,
    };
    author.warn_of_small_model();
    let intent = if arguments.yes { goal } else { author.clarify_goal(goal, &mut answers).await? };
    let (outcome, plan) = author.run_planner(&intent).await?;
    finish_authoring(global, &app, &AuthoredRun { outcome: &outcome, plan: &plan, target: &target, is_resumed: false })
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

/// The context in which the built-in workflows run.
struct AuthoringSession<'a> {
    app: &'a App,
    options: AuthoringOptions,
    arguments: &'a NewArgs,
    is_quiet: bool,
}

impl AuthoringSession<'_> {
    /// Says at once that the small model in the program cannot write pipelines, which would fail after a minute.
    fn warn_of_small_model(&self) {
        let model = wiring::build_default_models(&self.app.config).resolve(None);
        if model.is_ok_and(|model| model == SMALL_MODEL) {
            eprintln!(
                "warning: {SMALL_MODEL} is too small to write pipelines; choose a larger model: --model openai:gpt-4o-mini, \
                 --model ollama:MODEL (docs/author.md)"
            );
        }
    }

    /// Clarifies the goal: asks questions until the goal is clear.
    async fn clarify_goal(&self, goal: String, answers: &mut PromptAnswers) -> Result<String, CommandError> {
        let (mut message, mut history) = (goal, Vec::new());
        loop {
            let clarified = self.run_clarifier(&message, &history).await?;
            if let Some(intent) = clarified.refined_intent {
                return Ok(intent);
            }
            let question = clarified.question.unwrap_or_default();
            let answer = answers.answer(&question)?;
            history.push(ConversationMessage { role: ConversationRole::User, content: message });
            history.push(ConversationMessage { role: ConversationRole::Assistant, content: question });
            message = answer;
        }
    }

    async fn run_clarifier(
        &self,
        message: &str,
        history: &[ConversationMessage],
    ) -> Result<Clarification, CommandError> {
        let how = AuthoringOptions::from_config(&self.app.config);
        let entries = [("message", message.into()), ("history", to_value(&history)?), ("how", to_value(&how)?)];
        let (user, input) = (&self.arguments.user, Value::map(entries));
        let (outcome, plan) =
            run_built_in(self.app, BuiltInWorkflow::Clarifier, input, user, Box::new(SilentWatcher)).await?;
        if let Some(error) = outcome.find_error() {
            return Err(error.into());
        }
        Ok(parse_as(&render_result(&plan, &outcome.state, &outcome.env).output, "a result of the clarifier")?)
    }

    async fn run_planner(&self, intent: &str) -> Result<(RunOutcome, Arc<Plan>), CommandError> {
        let job = to_value(&AuthoringJob::new(intent, &self.arguments.user, self.options.clone()))?;
        let watcher: Box<dyn Watcher> =
            if self.is_quiet { Box::new(SilentWatcher) } else { Box::new(StageDisplay::new()) };
        run_built_in(self.app, BuiltInWorkflow::Planner, job, &self.arguments.user, watcher).await
    }
}

/// Runs a built-in workflow for a user and reports its events to `watcher`.
pub(super) async fn run_built_in(
    app: &App,
    which: BuiltInWorkflow,
    input: Value,
    user: &str,
    watcher: Box<dyn Watcher>,
) -> Result<(RunOutcome, Arc<Plan>), CommandError> {
    let bundle = app.build_built_in_bundle(which)?;
    let workflow = app.prepare(compile_bundle(&bundle)?, &bundle)?;
    let outcome = run_workflow(app, &workflow, input, user, authoring_limits(&app.config)?, watcher).await?;
    Ok((outcome, workflow.plan))
}

/// The limits of one authoring run: the configured ones, reduced by `[author] budget`.
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

/// Source of answers to questions.
enum PromptAnswers {
    /// The person at the terminal.
    Terminal,
    /// A file with the answers in order.
    File(std::vec::IntoIter<String>),
    /// No source: every question is an error.
    None,
}

impl PromptAnswers {
    fn from_arguments(arguments: &NewArgs) -> Result<PromptAnswers, CommandError> {
        match &arguments.answers {
            Some(file) => Ok(PromptAnswers::File(parse_answers(&inputs::read_text_file(file)?).into_iter())),
            None if ask::can_prompt() && !arguments.yes => Ok(PromptAnswers::Terminal),
            None => Ok(PromptAnswers::None),
        }
    }

    /// Returns the answer to a question. Fails if there is none.
    fn answer(&mut self, question: &str) -> Result<String, CommandError> {
        let lacking = |why: &str| {
            let message = format!("{why}: {question}\n  answer with --answers FILE, or skip questions with --yes");
            CommandError::usage(message)
        };
        match self {
            PromptAnswers::Terminal => tokio::task::block_in_place(|| ask::prompt_line(question, None)),
            PromptAnswers::File(answers) => {
                let answer = answers.next().ok_or_else(|| lacking("no answer is left for this question"))?;
                eprintln!("? {question}\n> {answer}");
                Ok(answer)
            }
            PromptAnswers::None => Err(lacking("the description is not clear")),
        }
    }
}

/// Parses a JSON array of strings, or else the non-empty lines of a text.
fn parse_answers(text: &str) -> Vec<String> {
    let texts = |value: Value| -> Option<Vec<String>> {
        value.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    parse_value(text).ok().and_then(texts).unwrap_or_else(lines)
}
