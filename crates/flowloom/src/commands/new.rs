//! `flowloom new`: creates a pipeline from plain language, as files.

use std::sync::Arc;

use flowloom_app::authoring::{BuiltIn, How, Job, Telling, read, value_of};
use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::plan_of;
use flowloom_app::definitions::source;
use flowloom_app::engines::App;
use flowloom_app::runs::inputs::budget;
use flowloom_app::runs::watch::Watcher;
use flowloom_app::wiring;
use flowloom_author::clarify::{Clarified, Said, Speaker};
use flowloom_core::json::parse_value;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::present;
use flowloom_runtime::Outcome as RunOutcome;
use flowloom_runtime::effects::Model as _;

use super::print;
use super::run::{choose_model, perform};
use crate::cli::{Global, NewArgs};
use crate::commands::pipeline_folder::{self, Folder};
use crate::failure::{Failure, Outcome};
use crate::inputs;
use crate::terminal::ask;
use crate::terminal::stages::Stages;

pub(crate) async fn new(global: &Global, arguments: NewArgs) -> Outcome {
    let config = configured(global, &arguments.model, arguments.budget.as_deref())?;
    let into = source::format(arguments.into.as_deref())?;
    if let Some(format) = into.filter(|format| !flowloom_author::TARGETS.contains(format)) {
        return Err(Failure::usage(format!("--into expects flow, steps or markdown, not {}", format.name())));
    }
    let folder = arguments.out.as_deref().map(Folder::prepare).transpose()?;
    let mut answers = Answers::of(&arguments)?;
    let wish = match arguments.wish.clone() {
        Some(wish) => wish,
        None => answers.give("What should it do?")?,
    };
    if wish.trim().is_empty() {
        return Err(Failure::usage("the description is empty; say what the pipeline should do".to_owned()));
    }
    let app = App::open(config)?;
    // Blocks may have been stored by a process without a model. If this fails, search uses full text only, and the
    // stages report that.
    let _ = app.blocks.embed_missing().await;
    let author = Author { app: &app, how: How::of(&app.config), arguments: &arguments, is_quiet: global.json };
    let intent = if arguments.yes { wish } else { author.clarified(wish, &mut answers).await? };
    let (outcome, plan) = author.think(&intent).await?;
    if outcome.state.status != Status::Succeeded {
        return Ok(refused(global, &outcome));
    }
    let made = present(&plan, &outcome.state, &outcome.env).output;
    let folder = folder.unwrap_or_else(|| Folder::free(&made));
    let mut written = folder.write(&made)?;
    let lacks = match into {
        Some(format) => folder.write_as(format, &made, &author.model()?, &mut written)?,
        None => Vec::new(),
    };
    match global.json {
        true => print(&summary(&made, &outcome, &folder, &written)),
        false => pipeline_folder::tell(&made, &folder, &written),
    }
    if !lacks.is_empty() {
        let problems = lacks.join("\n  ");
        let format = into.as_ref().map_or("", Format::name);
        return Err(Failure::usage(format!("the pipeline was written, but {format} cannot express it:\n  {problems}")));
    }
    Ok(0)
}

/// The configuration, with the models and the budget of the command line taking precedence.
pub(super) fn configured(global: &Global, models: &[String], budget: Option<&str>) -> Result<Config, Failure> {
    let mut config = global.load_config()?;
    if !models.is_empty() {
        (config.author.model, config.author.block_model) = (None, None);
    }
    choose_model(&mut config, models);
    if let Some(text) = budget {
        inputs::budget(text, &mut Limits::default())?;
    }
    config.author.budget = budget.map(str::to_owned).or(config.author.budget);
    Ok(config)
}

/// Prints why there is no pipeline. The stages have printed their own failures already.
fn refused(global: &Global, outcome: &RunOutcome) -> u8 {
    if let Some(error) = outcome.broken.as_ref().or(outcome.state.error.as_ref()) {
        eprintln!("error[{}]: {}", error.code, error.message);
    }
    eprintln!("  nothing was written; for the completed stages: flowloom show {}", outcome.id);
    if let Some(error) = &outcome.state.error {
        eprintln!("  for details: flowloom explain {}", error.code);
    }
    if global.json {
        let error = outcome.state.error.as_ref().map_or(Value::Null, |error| error.message.as_str().into());
        print(&Value::map([("run_id", outcome.id.to_string().into()), ("error", error)]));
    }
    outcome.state.status.row().exit_code
}

fn summary(made: &Value, outcome: &RunOutcome, folder: &Folder, written: &[String]) -> Value {
    let mut telling = Telling::default();
    outcome.records.iter().for_each(|record| drop(telling.hear(record)));
    let field = |name: &str| made.get(name).cloned().unwrap_or_default();
    Value::map([
        ("run_id", outcome.id.to_string().into()),
        ("folder", folder.path().display().to_string().into()),
        ("files", Value::list(written.iter().map(|file| file.as_str().into()).collect())),
        ("pipeline_json", field("pipeline_json")),
        ("tried", field("tried")),
        ("usage", telling.usage()),
    ])
}

/// The context in which the built-in workflows run.
struct Author<'a> {
    app: &'a App,
    how: How,
    arguments: &'a NewArgs,
    is_quiet: bool,
}

impl Author<'_> {
    /// The default model, for formats whose prompts must name one.
    fn model(&self) -> Result<String, Failure> {
        let models =
            wiring::models(&self.app.config, self.app.config.default_model.value.clone(), &self.app.config.aliases);
        Ok(models.resolve(None)?)
    }

    /// Clarifies the goal: asks questions until the goal is clear.
    async fn clarified(&self, wish: String, answers: &mut Answers) -> Result<String, Failure> {
        let (mut message, mut history) = (wish, Vec::new());
        loop {
            let clarified = self.clarify(&message, &history).await?;
            if let Some(intent) = clarified.refined_intent {
                return Ok(intent);
            }
            let question = clarified.question.unwrap_or_default();
            let answer = answers.give(&question)?;
            history.push(Said { role: Speaker::User, content: message });
            history.push(Said { role: Speaker::Assistant, content: question });
            message = answer;
        }
    }

    async fn clarify(&self, message: &str, history: &[Said]) -> Result<Clarified, Failure> {
        let entries = [("message", message.into()), ("history", value_of(&history)?), ("how", value_of(&self.how)?)];
        let given = (self.arguments.user.as_str(), Box::new(Unseen) as Box<dyn Watcher>);
        let (outcome, plan) = performed(self.app, BuiltIn::Clarifier, Value::map(entries), given).await?;
        if let Some(error) = outcome.broken.as_ref().or(outcome.state.error.as_ref()) {
            return Err(error.clone().into());
        }
        Ok(read(&present(&plan, &outcome.state, &outcome.env).output, "a result of the clarifier")?)
    }

    async fn think(&self, intent: &str) -> Result<(RunOutcome, Arc<Plan>), Failure> {
        let job = value_of(&Job::new(intent, &self.arguments.user, self.how.clone()))?;
        let watcher: Box<dyn Watcher> = if self.is_quiet { Box::new(Unseen) } else { Box::new(Stages::new()) };
        performed(self.app, BuiltIn::Thinker, job, (&self.arguments.user, watcher)).await
    }
}

/// Runs a built-in workflow for a user and reports its events to `watcher`.
pub(super) async fn performed(
    app: &App,
    which: BuiltIn,
    input: Value,
    (owner, watcher): (&str, Box<dyn Watcher>),
) -> Result<(RunOutcome, Arc<Plan>), Failure> {
    let bundle = app.bundle_of(which)?;
    let plan = plan_of(&bundle)?;
    let outcome = perform(app, (&bundle, &plan), input, (owner, bounds(&app.config)?), watcher).await?;
    Ok((outcome, plan))
}

/// The limits of one authoring run: the configured ones, reduced by `[author] budget`.
pub(super) fn bounds(config: &Config) -> Result<Limits, Failure> {
    let mut limits = config.limits.clone();
    if let Some(text) = &config.author.budget {
        budget(text, &mut limits)?;
    }
    Ok(limits)
}

/// A watcher that displays nothing.
pub(super) struct Unseen;

impl Watcher for Unseen {
    fn event(&mut self, _record: &flowloom_core::event::Record) {}
}

/// Source of answers to questions.
enum Answers {
    /// The person at the terminal.
    Terminal,
    /// A file with the answers in order.
    Given(std::vec::IntoIter<String>),
    /// No source: every question is an error.
    Nobody,
}

impl Answers {
    fn of(arguments: &NewArgs) -> Result<Answers, Failure> {
        match &arguments.answers {
            Some(file) => Ok(Answers::Given(list(&inputs::read_file(file)?).into_iter())),
            None if ask::is_possible() && !arguments.yes => Ok(Answers::Terminal),
            None => Ok(Answers::Nobody),
        }
    }

    /// Returns the answer to a question. Fails if there is none.
    fn give(&mut self, question: &str) -> Result<String, Failure> {
        let lacking = |why: &str| {
            let message = format!("{why}: {question}\n  answer with --answers FILE, or skip questions with --yes");
            Failure::usage(message)
        };
        match self {
            Answers::Terminal => tokio::task::block_in_place(|| ask::line(question, None)),
            Answers::Given(answers) => {
                let answer = answers.next().ok_or_else(|| lacking("no answer is left for this question"))?;
                eprintln!("? {question}\n> {answer}");
                Ok(answer)
            }
            Answers::Nobody => Err(lacking("the description is not clear")),
        }
    }
}

/// Parses a JSON array of strings, or else the non-empty lines of a text.
fn list(text: &str) -> Vec<String> {
    let texts = |value: Value| -> Option<Vec<String>> {
        value.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    parse_value(text).ok().and_then(texts).unwrap_or_else(lines)
}
