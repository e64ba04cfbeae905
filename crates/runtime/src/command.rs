//! Commands: durable requests to a run from outside. Each run has one inbox in its journal; the worker that drives the
//! run decides about each command, and stores the decision together with the event that the command causes.

use std::collections::HashSet;

use flowloom_core::error::StepFailure;
use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// A durable request to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCommand {
    /// Its id, unique within the run: the idempotency key of the sender, or a generated one.
    pub id: String,
    /// The person or program that sent it.
    pub sender: String,
    /// The requested action.
    pub action: CommandAction,
}

impl RunCommand {
    /// The child run that receives a command to the run with this state, because it is about a step of the child run, and
    /// the command in the terms of the child run; `None` if the run itself receives it.
    pub fn route_to_child(&self, state: &RunState) -> Option<(RunId, RunCommand)> {
        let child = state.find_child_step(self.action.path()?)?;
        let action = self.action.clone().with_path(child.path.clone());
        Some((child.run, RunCommand { action, ..self.clone() }))
    }
}

/// The request of a command to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandAction {
    /// Cancel the run.
    Cancel {},
    /// Continue the run, if no worker drives it.
    Resume {
        /// The time in milliseconds since the Unix epoch, if the sender knows that it is at least this late: questions that
        /// expire by then do so, although the clock of the worker may be behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now_ms: Option<u64>,
    },
    /// Answer a question.
    Answer {
        /// The step that asked.
        path: Path,
        /// The answer.
        value: Value,
    },
    /// Decide about an uncertain effect.
    Resolve {
        /// The effect.
        path: Path,
        /// The decision.
        how: Resolution,
    },
    /// Reopen a run that has ended, and perform some of its steps again.
    Retry {
        /// The step from which the run is repeated; `None` repeats only what failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Path>,
    },
    /// A command of a newer program, which this one rejects.
    Unknown {},
}

impl CommandAction {
    /// Continue the run.
    pub const RESUME: CommandAction = CommandAction::Resume { now_ms: None };

    /// The name of the action.
    pub fn name(&self) -> &'static str {
        match self {
            CommandAction::Cancel {} => "cancel",
            CommandAction::Resume { .. } => "resume",
            CommandAction::Answer { .. } => "answer",
            CommandAction::Resolve { .. } => "resolve",
            CommandAction::Retry { .. } => "retry",
            CommandAction::Unknown {} => "unknown",
        }
    }

    /// The same action about another step. Unchanged if it is about the whole run.
    fn with_path(self, path: Path) -> CommandAction {
        match self {
            CommandAction::Answer { value, .. } => CommandAction::Answer { path, value },
            CommandAction::Resolve { how, .. } => CommandAction::Resolve { path, how },
            action => action,
        }
    }

    /// The step that the command is about; `None` if it is about the whole run.
    pub fn path(&self) -> Option<&Path> {
        match self {
            CommandAction::Cancel {} | CommandAction::Resume { .. } | CommandAction::Unknown {} => None,
            CommandAction::Answer { path, .. } | CommandAction::Resolve { path, .. } => Some(path),
            CommandAction::Retry { from } => from.as_ref(),
        }
    }

    /// Whether it decides what a step waits for: only one such command to a step has an effect.
    pub fn decides_step(&self) -> bool {
        matches!(self, CommandAction::Answer { .. } | CommandAction::Resolve { .. })
    }

    /// Whether it gives a step an output that the step did not have.
    pub fn chooses_output(&self) -> bool {
        matches!(self, CommandAction::Resolve { how: Resolution::Value(_), .. })
    }

    /// Whether the command is for a run that has ended. Every other command is for one that has not.
    pub fn needs_ended_run(&self) -> bool {
        matches!(self, CommandAction::Retry { .. })
    }
}

/// The decision about a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandOutcome {
    /// The run did what the command asks.
    Applied,
    /// The command had no effect.
    Rejected(StepFailure),
}

/// A command and the decision about it, stored in the transaction of the event that the command causes.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidedCommand {
    /// Id of the command.
    pub id: String,
    /// The decision.
    pub outcome: CommandOutcome,
}

/// A command in the inbox of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRecord {
    /// The command.
    pub command: RunCommand,
    /// Time at which it was sent, in milliseconds since the Unix epoch.
    pub sent_at: u64,
    /// The decision; `None` while the command is pending.
    pub outcome: Option<CommandOutcome>,
    /// Time of the decision, in milliseconds since the Unix epoch.
    pub decided_at: Option<u64>,
}

impl CommandRecord {
    /// A command that is pending.
    pub fn new_pending(command: RunCommand, sent_at: u64) -> CommandRecord {
        CommandRecord { command, sent_at, outcome: None, decided_at: None }
    }

    /// A command that is rejected when it is sent.
    pub fn new_rejected(command: RunCommand, sent_at: u64, reason: StepFailure) -> CommandRecord {
        let outcome = Some(CommandOutcome::Rejected(reason));
        CommandRecord { command, sent_at, outcome, decided_at: Some(sent_at) }
    }

    /// The decision about a command to a run that has ended with `status`. Such a run needs no resuming, and rejects
    /// every other command.
    pub fn decide_late(command: RunCommand, sent_at: u64, status: Status) -> CommandRecord {
        let outcome = match &command.action {
            CommandAction::Resume { .. } => CommandOutcome::Applied,
            // It was sent before the end.
            CommandAction::Retry { .. } => CommandOutcome::Rejected(RunError::NotEnded(Status::Running).into()),
            _ => CommandOutcome::Rejected(RunError::Ended(status).into()),
        };
        CommandRecord { command, sent_at, outcome: Some(outcome), decided_at: Some(sent_at) }
    }

    /// Whether `command` is the same request, sent again.
    pub fn is_repeated_by(&self, command: &RunCommand) -> bool {
        self.command.action == command.action && self.command.sender == command.sender
    }
}

/// The commands that a driver has received and not decided yet.
#[derive(Default)]
pub(crate) struct ReceivedCommands {
    waiting: Vec<RunCommand>,
    /// A command may be delivered more than once: by a notification and by reading the inbox.
    known: HashSet<String>,
}

impl ReceivedCommands {
    /// Adds the commands that were not received before.
    pub(crate) fn receive(&mut self, commands: Vec<RunCommand>) {
        self.waiting.extend(commands.into_iter().filter(|command| self.known.insert(command.id.clone())));
    }

    /// Takes the commands that `is_wanted` selects, in the order in which they were received.
    pub(crate) fn take_matching(&mut self, is_wanted: impl Fn(&RunCommand) -> bool) -> Vec<RunCommand> {
        self.waiting.extract_if(.., |command| is_wanted(command)).collect()
    }
}
