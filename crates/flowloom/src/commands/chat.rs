//! `flowloom chat` and `flowloom agent`: a conversation in the terminal. Each turn is a run. The messages are stored
//! under the thread, so a later chat continues the conversation.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::find::{find_definition, name_conversation};
use flowloom_app::definitions::source::Loader;
use flowloom_app::definitions::stored::DefinitionContent;
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::client_calls::{find_user_question, read_user_answer};
use flowloom_app::runs::commands::new_command;
use flowloom_app::runs::start::{PreparedDefinition, StartRun};
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_app::runs::turns::{list_open_turns, list_waiting_turns};
use flowloom_app::tools::agents;
use flowloom_app::wiring;
use flowloom_core::code::Code;
use flowloom_core::event::{Event, MemoryWrite};
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::{StopFlag, agent, render_result};
use flowloom_runtime::command::CommandAction;
use flowloom_runtime::journal::{Journal as _, thread_namespace};
use flowloom_runtime::{Run, RunOutcome};

use super::display::{OnInterrupt, RunDisplay};
use super::plan_models::check_needs;
use super::resume::cancel_opened;
use super::run::{choose_models, report_refused};
use super::send::{Delivery, describe_stored, send_command};
use crate::cli::{AgentArgs, ChatArgs, Global, OutputArgs, TalkArgs};
use crate::failure::{CommandError, CommandResult};
use crate::hint;
use crate::stop;
use crate::terminal::diagnostics;

/// The context of every turn of a chat.
struct ChatSession<'a> {
    global: &'a Global,
    app: Arc<App>,
    workflow: Arc<PreparedDefinition>,
    /// Memory key of the conversation.
    thread: String,
    talk: TalkArgs,
    output: OutputArgs,
}

pub(crate) async fn chat_with_graph(global: &Global, arguments: ChatArgs) -> CommandResult {
    let ChatArgs { file, talk, lenient } = arguments;
    let mut config = global.load_config()?;
    choose_models(&mut config, &talk.model);
    let loader = Loader { lenient, ..Loader::new(&config) };
    let servers = wiring::build_mcp_servers(&config)?;
    let file = find_definition(&config, &file)?;
    let source = loader.compile_to_run(&file, &servers).await?;
    diagnostics::print_diagnostics(&source);
    let Some(plan) = source.compiled.plan.clone() else { return Ok(report_refused(global, &source)) };
    if plan.thread.is_none() {
        let message = format!("{} is not a conversation; run it with flowloom run", file.display());
        return Err(CommandError::usage(message));
    }
    let app = Arc::new(App::open_with(config, servers)?);
    let source = agents::attach_workflows(&app.catalog_parts(), &file, lenient, source, &talk.user).await?;
    let Some(plan) = source.compiled.plan.clone() else {
        diagnostics::print_diagnostics(&source);
        return Ok(report_refused(global, &source));
    };
    let bundle = app.engines.build_bundle(source.name(), source.files(), plan.format);
    let bundle = Bundle { lenient, ..bundle }.with_tools(source.available_tools());
    let thread = name_conversation(&app.config, &file, &plan);
    let chat = ChatSession {
        global,
        thread,
        workflow: Arc::new(app.engines.prepare_definition(Arc::new(plan), &bundle)?),
        app,
        talk,
        output: OutputArgs::default(),
    };
    chat.run_turns().await
}

/// Chats with the agent of a file, or with the default agent, which uses every workflow of a folder as a tool.
pub(crate) async fn chat_with_agent(global: &Global, arguments: AgentArgs) -> CommandResult {
    let AgentArgs { path, talk } = arguments;
    if !path.is_dir() {
        return chat_with_graph(global, ChatArgs { file: path, talk, lenient: false }).await;
    }
    let mut config = global.load_config()?;
    choose_models(&mut config, &talk.model);
    let app = Arc::new(App::open(config)?);
    let place = app.config.project.describe_below(&path);
    let catalog = app.build_catalog(path);
    let content = DefinitionContent::agent(agent::DEFAULT_DEFINITION.to_owned());
    let definition = catalog.compile_unstored(&talk.user, "agent:default", content, &StopFlag::default())?;
    report_unusable(&catalog, &talk.user)?;
    let refused = || CommandError::usage("the agent cannot be compiled");
    let prepared = definition.prepare_for_run(&catalog, &talk.user).await?.ok_or_else(refused)?;
    // Each folder has its own conversation.
    let thread = format!("{}/{place}", definition.id);
    ChatSession { global, app, workflow: prepared, thread, talk, output: OutputArgs::default() }.run_turns().await
}

/// Reports which workflows of the folder the agent cannot use, and why.
fn report_unusable(catalog: &Catalog, user: &str) -> Result<(), CommandError> {
    for definition in catalog.list_definitions(user)?.iter().filter(|definition| definition.is_refused) {
        let mut problems = definition.problems.iter().filter(|problem| problem["severity"] == "error");
        let why = problems.next_back().and_then(|problem| problem["message"].as_str()).unwrap_or("it has errors");
        eprintln!("warning: the agent cannot use {}: {why}", definition.file_path().unwrap_or(&definition.id));
    }
    Ok(())
}

/// A turn that this process drove until it ended or waits.
struct DrivenTurn {
    plan: Arc<Plan>,
    outcome: RunOutcome,
    exit: u8,
}

impl ChatSession<'_> {
    async fn run_turns(&self) -> CommandResult {
        check_needs(&self.app, &self.workflow.parse_bundle()?, &self.workflow.plan)?;
        // Until the first turn of a new conversation is stored, the messages are those of the earlier one.
        let mut is_new = self.talk.new;
        let mut waiting = None;
        if is_new {
            self.cancel_open_turns().await?;
        } else {
            waiting = self.find_waiting_turn().await?;
            self.print_message_count().await?;
        }
        let mut source = MessageSource::new(self.talk.message.clone());
        let mut exit = 0;
        while let Some(line) = source.next_message() {
            // Another process may have continued the conversation. A question that the user has not seen is not answered.
            if waiting.is_none() && !is_new {
                waiting = self.find_waiting_turn().await?;
                if waiting.is_some() && self.talk.message.is_none() {
                    eprintln!("your message was not sent; the next one is the answer");
                    continue;
                }
            }
            let turn = match waiting.take() {
                Some(run) => match self.answer_question(run, &line).await {
                    // The next line can correct the answer.
                    Err(error) if error.code == Code::AnswerInvalid && self.talk.message.is_none() => {
                        eprintln!("{}", error.message);
                        waiting = Some(run);
                        continue;
                    }
                    // Another process has answered.
                    Err(error) if error.code == Code::RunOwned && self.talk.message.is_none() => {
                        eprintln!("{}", error.message);
                        continue;
                    }
                    turn => turn?,
                },
                None => {
                    let messages = if is_new { None } else { self.read_messages().await? };
                    Some(self.run_turn(messages, &line).await?)
                }
            };
            let Some(DrivenTurn { plan, outcome, exit: of_turn }) = turn else { return Ok(0) };
            exit = of_turn;
            is_new &= outcome.state.status != Status::Waiting && !has_stored_messages(&outcome);
            match outcome.state.status {
                Status::Waiting => {
                    // The final event of a finished run stores the messages; a waiting run has no final event yet.
                    if let Some(messages) = render_result(&plan, &outcome.state, &outcome.env).result.get("messages") {
                        let write = MemoryWrite { key: self.thread.clone(), value: Some(messages.clone()) };
                        self.app.store.write_memory(self.memory_namespace(), vec![write]).await?;
                    }
                    waiting = Some(outcome.id);
                }
                Status::Cancelled if !source.is_prompt() => return Ok(stop::EXIT_CODE),
                _ => {}
            }
        }
        // In an interactive chat the user has seen errors; a script needs the exit code of its message.
        Ok(if self.talk.message.is_some() { exit } else { 0 })
    }

    fn memory_namespace(&self) -> String {
        thread_namespace(&self.app.store.owner_of(&self.talk.user))
    }

    /// The stored messages of the conversation.
    async fn read_messages(&self) -> Result<Option<Value>, CommandError> {
        Ok(self.app.store.read_memory(&self.memory_namespace(), &self.thread).await?)
    }

    async fn print_message_count(&self) -> Result<(), CommandError> {
        let count = self.read_messages().await?.as_ref().and_then(Value::as_list).map_or(0, <[Value]>::len);
        if count > 0 {
            eprintln!("continuing with {count} messages; start a new conversation with --new");
        }
        Ok(())
    }

    /// Cancels the turns of the earlier conversation that wait or need a decision.
    async fn cancel_open_turns(&self) -> Result<(), CommandError> {
        for run in list_open_turns(&self.app.store, &self.talk.user, &self.thread)? {
            let opened = self.app.runs.open_run_by_id(run).await?;
            if !opened.state().status.is_final() {
                cancel_opened(&self.app, &opened, &self.talk.user).await?;
                eprintln!("cancelled {run}, a turn of the conversation before");
            }
        }
        Ok(())
    }

    /// The turn that waits for an answer. Prints its question: the next message is the answer.
    async fn find_waiting_turn(&self) -> Result<Option<RunId>, CommandError> {
        for run in list_waiting_turns(&self.app.store, &self.talk.user, &self.thread)? {
            let opened = self.app.runs.open_run_by_id(run).await?;
            if let Some((_, question)) = find_user_question(run, &opened.plan, &opened.state())? {
                eprintln!("the conversation waits for an answer: {}", question.question);
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// Runs one turn of the conversation.
    async fn run_turn(&self, messages: Option<Value>, text: &str) -> Result<DrivenTurn, CommandError> {
        let is_agent = self.workflow.plan.format == agent::FORMAT;
        let text = if is_agent { agents::strip_mention(text) } else { text };
        let messages = messages.unwrap_or_else(|| Value::list(Vec::new()));
        let inputs = Value::map([("messages", messages), ("message", text.into())]);
        let limits = self.app.config.limits.narrow_to(&self.workflow.plan.limits);
        let start = StartRun {
            thread: Some(self.thread.clone()),
            trigger: Some(TriggerKind::Terminal.to_trigger()),
            ..StartRun::new(&self.workflow, inputs, &self.talk.user, limits)
        };
        let (plan, display) = (self.workflow.plan.clone(), self.open_display());
        let run = start.start(&self.app.store)?.run;
        let outcome = display.drive_run(&plan, &Value::Null, run).await?;
        let exit = display.print_outcome(&plan, &outcome);
        Ok(DrivenTurn { plan, outcome, exit })
    }

    fn open_display(&self) -> RunDisplay<'_> {
        let is_interactive = self.talk.message.is_none() && std::io::stdin().is_terminal();
        let on_interrupt = if is_interactive { OnInterrupt::Cancel } else { OnInterrupt::Leave };
        RunDisplay::new(self.global, &self.app, &self.output)
            .with_interrupt(on_interrupt)
            .with_lines(self.talk.message.is_none())
    }

    /// Answers the question of a waiting run and drives the run; `None` if another process drives it.
    async fn answer_question(&self, run: RunId, text: &str) -> Result<Option<DrivenTurn>, CommandError> {
        let opened = self.app.runs.open_run_by_id(run).await?;
        let Some((path, value)) = read_user_answer(run, &opened.plan, &opened.state(), text)? else {
            return Err(AppError::ThreadBusy.into());
        };
        let command = new_command(None, &self.talk.user, CommandAction::Answer { path, value });
        let display = self.open_display();
        let drive = async |run: Run, loaded: &LoadedRun| display.drive_loaded(run, loaded).await;
        match send_command(&self.app, &opened, command, drive).await? {
            Delivery::Driven(driven) => {
                let exit = display.print_outcome(&driven.plan, &driven.outcome);
                Ok(Some(DrivenTurn { plan: driven.plan, outcome: driven.outcome, exit }))
            }
            Delivery::Applied => {
                let follow = hint::command_line(&format!("show {run} --follow"));
                eprintln!("applied by the worker of the run; follow it with {follow}");
                Ok(None)
            }
            Delivery::Stored => Err(describe_stored(run)),
        }
    }
}

/// Whether the end of a turn has stored the messages of the conversation.
fn has_stored_messages(outcome: &RunOutcome) -> bool {
    outcome.records.iter().any(|record| matches!(record.event, Event::RunFinished { thread: Some(_), .. }))
}

/// Source of the user's messages.
enum MessageSource {
    /// A single message.
    Single(Option<String>),
    /// Lines from stdin.
    Lines { is_terminal: bool },
}

impl MessageSource {
    fn new(once: Option<String>) -> MessageSource {
        if once.is_some() {
            return MessageSource::Single(once);
        }
        let is_terminal = std::io::stdin().is_terminal();
        if is_terminal {
            eprintln!("type /exit to end the chat; Ctrl-C cancels an answer");
        }
        MessageSource::Lines { is_terminal }
    }

    /// Whether a person types the messages.
    fn is_prompt(&self) -> bool {
        matches!(self, MessageSource::Lines { is_terminal: true })
    }

    /// The next message; `None` at the end of input.
    fn next_message(&mut self) -> Option<String> {
        let is_terminal = match self {
            MessageSource::Single(once) => return once.take(),
            MessageSource::Lines { is_terminal } => *is_terminal,
        };
        loop {
            if is_terminal {
                eprint!("\n> ");
                // The chat works without a prompt, too.
                let _ = std::io::stderr().flush();
            }
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            if read.is_err() || read.is_ok_and(|bytes| bytes == 0) {
                // Ctrl-D leaves the cursor behind the prompt.
                if is_terminal {
                    eprintln!();
                }
                return None;
            }
            if line.trim() == "/exit" {
                return None;
            }
            if !line.trim().is_empty() {
                return Some(line.trim().to_owned());
            }
        }
    }
}
