//! Drives a run with its progress and its answer on the terminal, and prints how it ended.

use std::time::Duration;

use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::commands::new_command;
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::inputs::parse_answer;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::{summary, watch};
use flowloom_core::RunId;
use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::CommandAction;
use flowloom_runtime::effects::{Clock as _, effect_key};
use flowloom_runtime::{Run, RunError, RunOutcome};
use tokio::task::AbortHandle;

use super::budget_limits::describe_larger_budget;
use super::results::{build_error, print_explanation, print_json, print_json_line};
use super::send::{Delivery, DrivenRun, send_command};
use crate::cli::{Global, OutputArgs};
use crate::failure::{CommandError, print_error, print_failure};
use crate::hint;
use crate::print::print_wrapped;
use crate::stop::{self, StopSignal};
use crate::terminal::answer::StreamedText;
use crate::terminal::ask;
use crate::terminal::screen::ProgressScreen;

/// The function that leaves a notification.
const NOTIFY_FUNCTION: &str = "notify::push";

/// The terminal of a command that drives a run.
pub(super) struct RunDisplay<'a> {
    pub(super) global: &'a Global,
    pub(super) app: &'a App,
    output: &'a OutputArgs,
    streamed: StreamedText,
    on_interrupt: OnInterrupt,
    /// Whether the JSON of a result is one line, because others follow.
    prints_lines: bool,
}

/// The effect of Ctrl-C on the driven run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnInterrupt {
    /// It stays interrupted, and can be resumed.
    Leave,
    /// It is cancelled, and the command continues.
    Cancel,
}

impl<'a> RunDisplay<'a> {
    pub(super) fn new(global: &'a Global, app: &'a App, output: &'a OutputArgs) -> RunDisplay<'a> {
        let streamed = StreamedText::default();
        // Events and result together are lines of JSON.
        RunDisplay { global, app, output, streamed, on_interrupt: OnInterrupt::Leave, prints_lines: output.events }
    }

    /// With `--json`, results are one line each if `prints_lines`.
    pub(super) fn with_lines(self, prints_lines: bool) -> RunDisplay<'a> {
        RunDisplay { prints_lines, ..self }
    }

    pub(super) fn with_interrupt(self, on_interrupt: OnInterrupt) -> RunDisplay<'a> {
        RunDisplay { on_interrupt, ..self }
    }

    /// Drives a run of `plan` with these inputs, and shows its progress and its answer.
    pub(super) async fn drive_run(&self, plan: &Plan, inputs: &Value, run: Run) -> Result<RunOutcome, CommandError> {
        let screen = Box::new(self.open_screen(plan, inputs));
        drive_watched(self.app, run, screen, self.on_interrupt).await
    }

    fn open_screen(&self, plan: &Plan, inputs: &Value) -> ProgressScreen {
        ProgressScreen::new(self.output, self.global.json).with_answer(plan, inputs, self.streamed.clone())
    }

    /// Drives a run that was loaded.
    pub(super) async fn drive_loaded(&self, run: Run, loaded: &LoadedRun) -> Result<RunOutcome, CommandError> {
        let state = loaded.state();
        let screen = self.open_screen(&loaded.plan, &state.inputs());
        let screen = screen.with_open_attempts(&state, SystemClock.now_ms());
        drive_watched(self.app, run, Box::new(screen), self.on_interrupt).await
    }

    /// Asks the person at the terminal what a run waits for, and drives it on. Without a person, or without an answer, it
    /// stays as it is.
    pub(super) async fn answer_questions(&self, driven: DrivenRun, user: &str) -> Result<DrivenRun, CommandError> {
        let mut driven = driven;
        if self.global.json || self.output.events || !ask::can_prompt() {
            return Ok(driven);
        }
        while driven.outcome.state.status == Status::Waiting {
            let open = driven.outcome.state.open_steps().find_map(|step| Some((step.path, step.question?)));
            let Some((path, question)) = open else { break };
            let Some(text) = tokio::task::block_in_place(|| ask::prompt_answer(question)) else { break };
            let action = CommandAction::Answer { path: path.clone(), value: parse_answer(question, &text) };
            let opened = self.app.runs.open_run_by_id(driven.outcome.id).await?;
            let command = new_command(None, user, action);
            let drive = async |run: Run, loaded: &LoadedRun| self.drive_loaded(run, loaded).await;
            match send_command(self.app, &opened, command, drive).await {
                Ok(Delivery::Driven(next)) => driven = *next,
                Ok(Delivery::Applied | Delivery::Stored) => break,
                Err(error) if error.code == Code::AnswerInvalid => eprintln!("{}", error.message),
                Err(error) => {
                    let now = self.app.runs.open_run_by_id(driven.outcome.id).await?;
                    if now.state().open_steps().any(|step| step.path == path) {
                        return Err(error);
                    }
                    eprintln!("someone else has answered this question");
                    driven.outcome = read_outcome(&self.app.runs, &now).await?;
                }
            }
        }
        Ok(driven)
    }

    /// Prints the notifications that a run has left. What cannot be read is listed by `flowloom notifications`.
    fn print_notifications(&self, run: RunId, state: &RunState) {
        let steps = state.steps().iter().filter(|step| step.target.as_deref() == Some(NOTIFY_FUNCTION));
        let keys: Vec<String> = steps.map(|step| effect_key(run, &step.path, step.attempts)).collect();
        for row in self.app.store.find_notifications(&keys).unwrap_or_default() {
            eprintln!("notification for {}: {}", row.user, row.title);
            row.body.lines().for_each(|line| eprintln!("  {line}"));
        }
    }

    /// Prints how to learn more about a failed run.
    fn print_failed_footer(&self, id: RunId, state: &RunState, code: Code) {
        print_explanation(code);
        let last = self.app.store.find_run("last");
        let is_last = last.is_ok_and(|last| last.id == id);
        let name = if is_last { "last".to_owned() } else { id.to_string() };
        eprintln!("  for its steps: {}", hint::command_line(&format!("show {name}")));
        if let Some(larger) = describe_larger_budget(&name, state) {
            eprintln!("  {larger}");
        }
    }

    /// Prints the error of a run of which nothing could be stored.
    fn print_unstored(&self, error: &RunError) -> u8 {
        if self.global.json {
            print_json(&build_error(error.code(), &error.to_string()));
        }
        print_error(error.code(), "", &error.to_string());
        eprintln!("  nothing was run");
        1
    }

    /// Prints the result of a run, unless it was streamed. Returns the exit code.
    pub(super) fn print_outcome(&self, plan: &Plan, outcome: &RunOutcome) -> u8 {
        let (id, state) = (outcome.id, &outcome.state);
        if let Some(error) = &outcome.broken {
            if matches!(self.app.store.get_run(id), Ok(None)) {
                return self.print_unstored(error);
            }
            if self.global.json {
                let mut broken = state.clone();
                broken.error = Some(error.clone().into());
                print_json(&summary::summarize_run(id, plan, &broken, &outcome.env));
            }
            print_error(error.code(), "", &error.to_string());
            if error.is_store_gone() {
                eprintln!("  later steps are not stored");
                return 1;
            }
            eprintln!("  finished steps are stored; continue with {}", hint::command_line(&format!("resume {id}")));
            return 1;
        }
        if self.global.json {
            let summary = summary::summarize_run(id, plan, state, &outcome.env);
            if self.prints_lines { print_json_line(&summary) } else { print_json(&summary) }
        } else if !self.output.events && state.status == Status::Succeeded {
            let text = summary::render_output(&render_result(plan, state, &outcome.env).output);
            if !self.streamed.is_shown(&text) {
                print_wrapped(&text, 0);
            }
        }
        if !self.global.json {
            self.print_notifications(id, state);
        }
        if state.status == Status::Cancelled && self.on_interrupt == OnInterrupt::Cancel {
            eprintln!("cancelled; earlier messages stay in the conversation");
        } else if let Some(error) = &state.error {
            let place = state.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
            print_failure(error.code, &place, &error.message);
            if state.status != Status::Cancelled {
                self.print_failed_footer(id, state, error.code);
            }
        }
        match state.status {
            Status::Waiting => eprint!("{}", describe_waiting(id, state)),
            Status::Uncertain => eprint!("{}", describe_uncertain(id, state)),
            _ => {}
        }
        state.status.table_row().exit_code
    }
}

/// Drives a run until it ends or waits, and reports its events to `watcher`. A stop leaves the run interrupted; Ctrl-C
/// may also cancel it.
pub(super) async fn drive_watched(
    app: &App,
    run: Run,
    watcher: Box<dyn watch::Watcher>,
    on_interrupt: OnInterrupt,
) -> Result<RunOutcome, CommandError> {
    let (id, is_remote) = (run.id(), !run.is_local());
    let stopped = || if is_remote { CommandError::of_detachment(id) } else { CommandError::of_interruption(id) };
    let stop = stop::defer_stop();
    let forwarding = tokio::spawn(watch::forward_events(run.subscribe(), app.store.clone(), id, watcher));
    let mut driving = run.spawn();
    let _aborted = AbortOnDrop(driving.abort_handle());
    let joined = tokio::select! {
        joined = &mut driving => Some(joined),
        () = report_missing_worker(app, id), if is_remote => None,
        signal = stop.wait_for_request() => {
            if on_interrupt == OnInterrupt::Cancel && signal == StopSignal::Interrupt {
                let cancel = new_command(None, "chat", CommandAction::Cancel {});
                app.store.post_command(id, cancel, SystemClock.now_ms()).await?;
                Some((&mut driving).await)
            } else {
                driving.abort();
                // The run may have ended meanwhile.
                let joined = driving.await.ok().map(Ok);
                // Only now does nothing write to the run any more. A failure only delays others: the lease expires.
                let _ = app.store.announce_shutdown().await;
                joined
            }
        }
    };
    // Waits for the last lines; an error would only mean that they could not be displayed.
    let _ = forwarding.await;
    let outcome = joined.ok_or_else(stopped)?.map_err(AppError::from)?;
    // A stop that came when the run was about to wait is not lost: the person is not asked any more.
    match stop.end_deferral() {
        Some(StopSignal::Interrupt) if on_interrupt == OnInterrupt::Cancel => stop::complete_request(),
        Some(_) if outcome.broken.is_none() && !outcome.state.status.is_final() => return Err(stopped()),
        _ => {}
    }
    // A retry continues the child runs that this run has cancelled, so they end before this process does.
    if outcome.broken.is_none() && outcome.state.status.is_final() {
        // A failure only delays them: the next worker ends them.
        let _ = app.runs.end_child_runs(id).await;
    }
    Ok(outcome)
}

/// Aborts a task when it is dropped: a command that stops waiting for a run ends its process.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a run on Restate may stay where it is before the person is told that no worker takes it.
const WORKER_NOTE_DELAY: Duration = Duration::from_secs(5);

/// Tells the person once if no worker of Restate takes a run that is followed. Never resolves.
async fn report_missing_worker(app: &App, run: RunId) {
    tokio::time::sleep(WORKER_NOTE_DELAY).await;
    let explained = async { app.runs.explain_standstill(&app.runs.open_run_by_id(run).await?).await };
    if let Ok(Some(reason)) = explained.await {
        eprintln!("note: {reason}");
    }
    std::future::pending().await
}

/// The open questions of a run, and the commands that answer them.
pub(super) fn describe_waiting(run: RunId, state: &RunState) -> String {
    let asked: Vec<_> = state.open_steps().filter_map(|step| Some((step.path, step.question?))).collect();
    let describe = |(path, question): &(Path, &AskRequest)| {
        let command = match asked.len() {
            1 => String::new(),
            _ => {
                let path = hint::quote_text(path.as_str());
                format!("  {}\n", hint::command_line(&format!("answer {run} --path {path}")))
            }
        };
        format!("{path} asks: {}\n{command}", question.question)
    };
    let mut text: String = asked.iter().map(describe).collect();
    if asked.len() <= 1 {
        text.push_str(&format!("waiting for an answer: {}\n", hint::command_line(&format!("answer {run}"))));
    }
    text + &format!("end it without an answer: {}\n", hint::command_line(&format!("cancel {run}")))
}

/// The uncertain effects of a run, and the command that decides each.
pub(super) fn describe_uncertain(run: RunId, state: &RunState) -> String {
    let uncertain = state.open_steps().filter(|step| step.question.is_none());
    let describe = uncertain.map(|step| {
        let (path, target) = (&step.path, step.target.map(|target| &**target).unwrap_or_default());
        let command = hint::command_line(&format!("resolve {run} {path} --resend | --fail | --value JSON"));
        format!("{path}: {target} may or may not have happened; it is not sent again automatically\n  {command}\n")
    });
    describe.collect()
}
