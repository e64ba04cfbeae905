//! The runs of `flowloom new`: a clarifier for each question, then the planner. Each clarifier's input describes what
//! follows it, so that a command that resumes it continues with that.

use std::sync::Arc;

use flowloom_app::authoring::{AuthoringJob, AuthoringOptions, BuiltInWorkflow, parse_as, to_value};
use flowloom_app::engines::App;
use flowloom_app::runs::watch::Watcher;
use flowloom_app::wiring;
use flowloom_author::clarify::{Clarification, Conversation, ConversationMessage, ConversationRole};
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::effects::Model as _;
use serde::{Deserialize, Serialize};

use super::authored::{AuthoredRun, finish_authoring};
use super::new::{SilentWatcher, authoring_limits, load_config, run_built_in};
use super::spent_budget::{SpentBudget, as_budget_error};
use crate::cli::{Global, SMALL_MODEL};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::ask;
use crate::terminal::stages::StageDisplay;

/// The key of a clarifier's input that describes what follows.
const PLAN_KEY: &str = "then";

/// The question asked if the model wants clarification but does not name a question.
const DEFAULT_QUESTION: &str = "What should it work on, and what should come out in the end?";

/// The options for the steps after a clarification.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AuthoringPlan {
    /// The options of the pipeline's creation.
    pub(super) options: AuthoringOptions,
    /// The user for whom it is created.
    pub(super) user: String,
    /// The models of the command line.
    pub(super) models: Vec<String>,
    /// The budget of the command line.
    pub(super) budget: Option<String>,
    /// The answers of `--answers` that are left.
    pub(super) answers: Option<Vec<String>>,
    /// What the earlier runs of the command have used of its budget.
    pub(super) spent: SpentBudget,
}

/// The context in which the built-in workflows run.
pub(super) struct AuthoringSession<'a> {
    pub(super) global: &'a Global,
    pub(super) app: &'a App,
    pub(super) plan: AuthoringPlan,
}

impl AuthoringSession<'_> {
    /// Reports immediately that the small model in the program cannot write pipelines, which would fail after a minute.
    pub(super) fn warn_of_small_model(&self) {
        let model = wiring::build_default_models(&self.app.config).resolve(None);
        if model.is_ok_and(|model| model == SMALL_MODEL) {
            eprintln!(
                "warning: {SMALL_MODEL} is too small to write pipelines; choose a larger model: --model openai:gpt-4o-mini, \
                 --model ollama:MODEL (docs/author.md)"
            );
        }
    }

    /// Clarifies the goal: asks questions until the goal is clear.
    pub(super) async fn clarify_goal(
        &mut self,
        goal: String,
        mut history: Vec<ConversationMessage>,
        answers: &mut PromptAnswers,
    ) -> Result<String, CommandError> {
        let mut message = goal;
        loop {
            let clarified = self.run_clarifier(&message, &history, answers).await?;
            if let Some(intent) = clarified.refined_intent {
                return Ok(intent);
            }
            message = add_answer(&mut history, message, clarified.question, answers)?;
        }
    }

    async fn run_clarifier(
        &mut self,
        message: &str,
        history: &[ConversationMessage],
        answers: &PromptAnswers,
    ) -> Result<Clarification, CommandError> {
        let how = AuthoringOptions::from_config(&self.app.config);
        let plan = AuthoringPlan { answers: answers.list_remaining(), ..self.plan.clone() };
        let input = Value::map([
            ("message", message.into()),
            ("history", to_value(&history)?),
            ("how", to_value(&how)?),
            (PLAN_KEY, to_value(&plan)?),
        ]);
        let watcher = Box::new(SilentWatcher);
        let (outcome, plan) = self.run_workflow(BuiltInWorkflow::Clarifier, input, watcher).await?;
        self.plan.spent.add_run(&outcome.state);
        if let Some(error) = outcome.find_error() {
            return Err(as_budget_error(error.into()));
        }
        read_clarification(&plan, &outcome)
    }

    /// Runs a built-in workflow within what is left of the budget: one budget is for all runs of the command.
    async fn run_workflow(
        &self,
        which: BuiltInWorkflow,
        input: Value,
        watcher: Box<dyn Watcher>,
    ) -> Result<(RunOutcome, Arc<Plan>), CommandError> {
        let limits = self.plan.spent.remaining_limits(&authoring_limits(&self.app.config)?)?;
        run_built_in(self.app, which, input, &self.plan.user, limits, watcher).await
    }

    /// Creates the pipeline for a clear goal, and writes its files.
    pub(super) async fn create_pipeline(&self, intent: &str) -> CommandResult {
        let job = to_value(&AuthoringJob::new(intent, &self.plan.user, self.plan.options.clone()))?;
        let watcher: Box<dyn Watcher> =
            if self.global.json { Box::new(SilentWatcher) } else { Box::new(StageDisplay::new()) };
        let (outcome, plan) = self.run_workflow(BuiltInWorkflow::Planner, job, watcher).await?;
        let target = self.plan.options.output.clone().unwrap_or_default();
        let authored = AuthoredRun { outcome: &outcome, plan: &plan, target: &target, is_resumed: false };
        finish_authoring(self.global, self.app, &authored).await
    }
}

/// A clarifier of `new` that has ended, and what follows it.
pub(super) struct ClarifiedRun {
    conversation: Conversation,
    clarification: Clarification,
    plan: AuthoringPlan,
}

impl ClarifiedRun {
    /// The clarifier in a finished run of `new`; `None` for other runs, and for one that did not succeed.
    pub(super) fn find(plan: &Arc<Plan>, outcome: &RunOutcome) -> Option<ClarifiedRun> {
        let is_clarifier = plan.id.as_deref() == Some(BuiltInWorkflow::Clarifier.id());
        let inputs = outcome.state.inputs();
        let then = inputs.get(PLAN_KEY).filter(|_| is_clarifier && outcome.state.status == Status::Succeeded)?;
        let mut next: AuthoringPlan = parse_as(then, "what follows a clarification").ok()?;
        next.spent.add_run(&outcome.state);
        Some(ClarifiedRun {
            conversation: parse_as(&inputs, "a conversation").ok()?,
            clarification: read_clarification(plan, outcome).ok()?,
            plan: next,
        })
    }

    /// Continues as `new` would have: asks the remaining questions, creates the pipeline and writes its files.
    pub(super) async fn continue_authoring(self, global: &Global) -> CommandResult {
        let ClarifiedRun { conversation, clarification, plan } = self;
        let app = App::open(load_config(global, &plan.models, plan.budget.as_deref())?)?;
        let mut answers = PromptAnswers::new(plan.answers.clone(), false);
        let mut session = AuthoringSession { global, app: &app, plan };
        let intent = match clarification.refined_intent {
            Some(intent) => intent,
            None => {
                let Conversation { message, mut history } = conversation;
                let message = add_answer(&mut history, message, clarification.question, &mut answers)?;
                session.clarify_goal(message, history, &mut answers).await?
            }
        };
        session.create_pipeline(&intent).await
    }
}

fn read_clarification(plan: &Arc<Plan>, outcome: &RunOutcome) -> Result<Clarification, CommandError> {
    Ok(parse_as(&render_result(plan, &outcome.state, &outcome.env).output, "a result of the clarifier")?)
}

/// Asks a question about a message. Adds both to the history, and returns the answer.
fn add_answer(
    history: &mut Vec<ConversationMessage>,
    message: String,
    question: Option<String>,
    answers: &mut PromptAnswers,
) -> Result<String, CommandError> {
    let question = question.unwrap_or_else(|| DEFAULT_QUESTION.to_owned());
    let answer = answers.answer(&question)?;
    history.push(ConversationMessage { role: ConversationRole::User, content: message });
    history.push(ConversationMessage { role: ConversationRole::Assistant, content: question });
    Ok(answer)
}

/// Source of answers to questions.
pub(super) enum PromptAnswers {
    /// The person at the terminal.
    Terminal,
    /// A file with the answers in order.
    File(std::vec::IntoIter<String>),
    /// No source: every question is an error.
    None,
}

impl PromptAnswers {
    /// The answers of `--answers`, or else the person at the terminal, unless `is_silent`.
    pub(super) fn new(answers: Option<Vec<String>>, is_silent: bool) -> PromptAnswers {
        match answers {
            Some(answers) => PromptAnswers::File(answers.into_iter()),
            None if ask::can_prompt() && !is_silent => PromptAnswers::Terminal,
            None => PromptAnswers::None,
        }
    }

    /// The answers of a file that are left.
    fn list_remaining(&self) -> Option<Vec<String>> {
        if let PromptAnswers::File(answers) = self { Some(answers.as_slice().to_vec()) } else { None }
    }

    /// Returns the answer to a question. Fails if there is none.
    pub(super) fn answer(&mut self, question: &str) -> Result<String, CommandError> {
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
