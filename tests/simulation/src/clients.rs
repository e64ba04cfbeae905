//! Clients: they start runs, answer questions, decide about uncertain effects, and cancel, resume and retry runs. A client
//! whose process dies may send its command again to another process.

use std::sync::Arc;

use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;
use flowloom_runtime::RunError;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::Clock as _;
use tokio::sync::oneshot;

use crate::process::{Process, SentCommand};
use crate::world::World;

/// Longest pause of a client between two commands, in milliseconds.
const MAX_PAUSE_MS: u64 = 600;

/// Interval of looking whether something has happened, in milliseconds.
const LOOK_MS: u64 = 100;

impl World {
    /// A living process, once there is one.
    pub(crate) async fn choose_process(&self) -> Arc<Process> {
        loop {
            let living = self.living_processes();
            if !living.is_empty() {
                return living[self.choices.index(living.len())].clone();
            }
            self.clock.sleep_for(LOOK_MS).await;
        }
    }

    /// Starts a run, again if the process dies before it is stored.
    pub(crate) async fn start_run_surely(self: Arc<World>, run: RunId) {
        loop {
            let process = self.choose_process().await;
            process.start_run(run);
            loop {
                self.clock.sleep_for(LOOK_MS).await;
                if self.database.read_lease(run).is_some() {
                    return;
                }
                let lives = self.living_processes().iter().any(|living| living.id == process.id);
                if !lives || !process.is_driving(run) {
                    break;
                }
            }
        }
    }

    /// Sends a command through a process and notes what it confirms. `None` if the process dies or cannot answer.
    pub(crate) async fn send_command(
        self: &Arc<World>,
        process: &Arc<Process>,
        run: RunId,
        command: RunCommand,
    ) -> Option<SentCommand> {
        self.observed.note_sent(run, &command);
        if self.is_traced {
            self.trace(format!("client sends {command:?} to {run} through p{}", process.id));
        }
        let (done, answered) = oneshot::channel();
        let (world, sender) = (self.clone(), process.clone());
        process.spawn("command", async move {
            let acknowledged = world.clone();
            let id = command.id.clone();
            let acknowledge = |record: &flowloom_runtime::CommandRecord| {
                acknowledged.confirm_command(run, &id, record.outcome.as_ref());
            };
            let sent = sender.send_command(run, command, acknowledge).await;
            if let Ok(SentCommand { record, outcome }) = &sent {
                world.confirm_command(run, &record.command.id, outcome.as_ref());
            }
            let _ = done.send(sent);
        });
        match answered.await {
            Ok(Ok(sent)) => Some(sent),
            Ok(Err(RunError::Journal(_))) | Err(_) => None,
            Ok(Err(error)) => {
                self.report_violation(format!("a command failed: {error}"));
                None
            }
        }
    }

    fn confirm_command(&self, run: RunId, id: &str, outcome: Option<&flowloom_runtime::CommandOutcome>) {
        if self.is_traced {
            self.trace(format!("confirmed: {id} to {run}: {outcome:?}"));
        }
        // A command to a run that has ended is rejected and not stored, so that it is a new one if the run is retried.
        let is_stored = self.database.runs.find_command(run, id).is_some();
        if is_stored && self.observed.note_confirmed(run, id, outcome, self.clock.now_ms()) {
            self.report_violation(format!("the command {id} has two different outcomes"));
        }
    }

    /// The state of a run; `None` if it is not stored.
    pub(crate) fn read_state(&self, run: RunId) -> Option<RunState> {
        let records = self.database.runs.read_records(run, 0).ok()?;
        match RunState::from_records(records.iter().map(|record| &**record)) {
            Ok(state) => Some(state),
            Err(error) => {
                self.report_violation(format!("the journal has an impossible order of events: {error}"));
                None
            }
        }
    }

    /// One client: sends `commands` commands to random runs.
    pub(crate) async fn run_client(self: Arc<World>, number: u64, runs: Vec<RunId>) {
        let mut earlier: Vec<(RunId, RunCommand)> = Vec::new();
        for count in 0..self.settings.commands {
            self.sleep_up_to(MAX_PAUSE_MS).await;
            let run = self.choose_run(&runs);
            let (run, command) = match earlier.is_empty() || !self.choices.one_in(6) {
                false => earlier[self.choices.index(earlier.len())].clone(),
                true => {
                    let Some(action) = self.choose_action(run, number) else { continue };
                    let (id, sender) = (format!("c{number}-{count}"), format!("client {number}"));
                    self.route_command(run, RunCommand { id, sender, action })
                }
            };
            earlier.push((run, command.clone()));
            let process = self.choose_process().await;
            // A client does not always wait for its answer, and repeats a command that failed.
            let repeats = self.choices.one_in(2);
            if self.send_command(&process, run, command.clone()).await.is_none() && repeats {
                let process = self.choose_process().await;
                self.send_command(&process, run, command).await;
            }
        }
        self.clients_left.lock().remove(&number);
    }

    /// One of `runs`, or, if there are child runs, any run.
    fn choose_run(&self, runs: &[RunId]) -> RunId {
        let all = self.database.run_ids();
        match all.len() > runs.len() && self.choices.one_in(2) {
            true => all[self.choices.index(all.len())],
            false => runs[self.choices.index(runs.len())],
        }
    }

    /// The run that receives a command to `run`, and the command in its terms.
    pub(crate) fn route_command(&self, mut run: RunId, mut command: RunCommand) -> (RunId, RunCommand) {
        while let Some((child, routed)) = self.read_state(run).and_then(|state| command.route_to_child(&state)) {
            (run, command) = (child, routed);
        }
        (run, command)
    }

    fn choose_action(&self, run: RunId, client: u64) -> Option<CommandAction> {
        let state = self.read_state(run)?;
        let open: Vec<_> = state.open_steps().collect();
        let choice = self.choices.below(16);
        if !open.is_empty() && choice < 11 {
            let step = &open[self.choices.index(open.len())];
            return Some(self.choose_reply(step.path.clone(), step.question.is_some(), client));
        }
        let planned = self.planned_run(run)?;
        let questions = &planned.questions;
        Some(match choice {
            0..=1 => CommandAction::Cancel {},
            2..=4 => CommandAction::RESUME,
            // A child run is retried with its parent run, unless both have ended.
            5..=8 if self.database.runs.find_driving_run(run) != run => return None,
            5..=8 => CommandAction::Retry { from: self.choose_first_step(&state) },
            _ if questions.is_empty() => return None,
            // The question may be asked in this moment.
            _ => self.choose_reply(questions[self.choices.index(questions.len())].clone(), true, client),
        })
    }

    /// The step from which a run is retried; `None` if only what failed is.
    fn choose_first_step(&self, state: &RunState) -> Option<Path> {
        if !self.settings.retries_from_steps || state.steps().is_empty() || self.choices.one_in(2) {
            return None;
        }
        Some(state.steps()[self.choices.index(state.steps().len())].path.clone())
    }

    /// An answer, or a decision about an uncertain effect.
    pub(crate) fn choose_reply(&self, path: Path, is_question: bool, client: u64) -> CommandAction {
        if is_question {
            return CommandAction::Answer { path, value: Value::from(client as i64) };
        }
        let how = match self.choices.below(4) {
            0..=1 => Resolution::Resend,
            2 => Resolution::Fail,
            _ => Resolution::Value(Value::from(client as i64)),
        };
        CommandAction::Resolve { path, how }
    }
}
