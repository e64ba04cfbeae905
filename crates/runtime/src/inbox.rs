//! The inbox of a run in memory.

use std::task::{Context, Poll, Waker};

use flowloom_core::event::Event;
use flowloom_core::status::Status;

use crate::command::{CommandRecord, DecidedCommand, RunCommand};
use crate::error::JournalError;
use crate::journal::{Batch, LeaseState};

/// The commands of a run, with the same promises as an inbox in a database.
#[derive(Default)]
pub struct MemoryInbox {
    commands: Vec<CommandRecord>,
    /// Number of commands that were delivered to the driver.
    delivered: usize,
    /// The final status of the run.
    ended: Option<Status>,
    waker: Option<Waker>,
}

impl MemoryInbox {
    /// Stores a command, unless the run has ended. A command with a known id is the same command, sent again. Fails if
    /// the id belongs to another command of the run.
    pub fn post_command(&mut self, command: RunCommand, at: u64) -> Result<CommandRecord, JournalError> {
        if let Some(known) = self.find_command(&command.id) {
            return match known.is_repeated_by(&command) {
                true => Ok(known.clone()),
                false => Err(JournalError::CommandReused(command.id)),
            };
        }
        if let Some(status) = self.ended.filter(|_| !command.action.needs_ended_run()) {
            return Ok(CommandRecord::decide_late(command, at, status));
        }
        let record = CommandRecord::new_pending(command, at);
        self.commands.push(record.clone());
        self.waker.take().into_iter().for_each(Waker::wake);
        Ok(record)
    }

    /// A command by its id.
    pub fn find_command(&self, id: &str) -> Option<&CommandRecord> {
        self.commands.iter().find(|record| record.command.id == id)
    }

    /// The pending commands, in the order in which they were sent.
    pub fn pending_commands(&self) -> Vec<RunCommand> {
        self.commands.iter().filter(|record| record.outcome.is_none()).map(|record| record.command.clone()).collect()
    }

    /// Whether a command with this id is pending.
    pub fn is_pending(&self, id: &str) -> bool {
        self.find_command(id).is_some_and(|record| record.outcome.is_none())
    }

    /// Stores decisions about pending commands.
    pub fn store_decisions(&mut self, decided: &[DecidedCommand], at: u64) {
        for decided in decided {
            if let Some(record) = self.commands.iter_mut().find(|record| record.command.id == decided.id) {
                record.outcome.get_or_insert_with(|| decided.outcome.clone());
                record.decided_at.get_or_insert(at);
            }
        }
    }

    /// The commands that were not delivered yet.
    pub fn poll_commands(&mut self, context: &Context<'_>) -> Poll<Vec<RunCommand>> {
        let new: Vec<_> = self.commands.iter().skip(self.delivered).map(|record| record.command.clone()).collect();
        self.delivered = self.commands.len();
        if new.is_empty() {
            self.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(new)
    }

    /// Stores the decisions of a batch. The end of the run rejects the commands that are left.
    pub fn apply_batch(&mut self, batch: &Batch, at: u64) -> LeaseState {
        self.store_decisions(&batch.decided, at);
        let mut ends = None;
        for record in &batch.records {
            match &record.event {
                Event::RunFinished { status, .. } => {
                    self.ended = Some(*status);
                    ends = Some(*status);
                }
                Event::RunReopened { .. } => self.ended = None,
                _ => {}
            }
        }
        if let Some(status) = ends {
            for record in self.commands.iter_mut().filter(|record| record.outcome.is_none()) {
                let decided = CommandRecord::decide_late(record.command.clone(), at, status);
                *record = CommandRecord { sent_at: record.sent_at, ..decided };
            }
            return LeaseState::Released;
        }
        let is_pending = self.commands.iter().any(|record| record.outcome.is_none());
        if batch.releases_lease && !is_pending { LeaseState::Released } else { LeaseState::Held }
    }
}
