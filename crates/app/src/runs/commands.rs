//! Commands to runs that were started: answers, decisions, cancellations; and resuming runs. A command is stored in the
//! inbox of its run first. Then this process makes sure that a worker drives the run, and waits for the decision.

use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::RunError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, CommandOutcome, RunCommand};
use flowloom_runtime::effects::Clock as _;

use super::service::RunService;
use super::supervisor::{ActiveRun, RunCompletion};
use crate::engines::LoadedRun;
use crate::error::AppError;

/// How long a caller waits for the decision about its command. The command remains stored after that.
pub const DECISION_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds a command under the idempotency key of its sender, or under a new id.
pub fn new_command(key: Option<String>, sender: &str, action: CommandAction) -> RunCommand {
    let id = key.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    RunCommand { id, sender: sender.to_owned(), action }
}

/// Commands that a run has received.
pub struct SentCommands {
    /// The run.
    pub active: ActiveRun,
    /// Whether every command was applied. Otherwise those without a decision are stored and will be applied.
    pub is_applied: bool,
}

impl RunService {
    /// Sends a command to a run and waits for the decision. Fails with the reason if the command is rejected.
    pub async fn send_command(&self, opened: LoadedRun, command: RunCommand) -> Result<SentCommands, AppError> {
        self.send_commands(opened, vec![command]).await
    }

    /// Sends commands to a run and waits for the decisions. Fails with the reason if one of them is rejected. Without
    /// commands the run is resumed.
    pub async fn send_commands(&self, opened: LoadedRun, commands: Vec<RunCommand>) -> Result<SentCommands, AppError> {
        if commands.is_empty() {
            return Ok(SentCommands { active: self.continue_run(opened).await?, is_applied: true });
        }
        let run = opened.id;
        let (mut records, mut has_worker) = (Vec::with_capacity(commands.len()), false);
        for command in commands {
            let posted = self.app.store.post_command(run, command, SystemClock.now_ms()).await?;
            records.push(posted.record);
            has_worker = posted.has_worker;
        }
        if records.iter().any(|record| record.outcome.is_none()) {
            self.ensure_driven(opened, has_worker).await?;
        }
        let mut is_applied = true;
        for record in records {
            match self.app.store.wait_for_decision(run, &record, DECISION_TIMEOUT).await? {
                Some(CommandOutcome::Applied) => {}
                Some(CommandOutcome::Rejected(reason)) => return Err(reason.into()),
                None => is_applied = false,
            }
        }
        Ok(SentCommands { active: self.live.find_started(run), is_applied })
    }

    /// Makes sure that a worker drives a run with pending commands. `has_worker` states whether one had the lease when
    /// the last command was stored; a living one cannot release the run before it has decided about the command.
    async fn ensure_driven(&self, opened: LoadedRun, has_worker: bool) -> Result<(), AppError> {
        if !has_worker {
            // It may just have been suspended by this process, which is about to notice.
            self.live.wait_for_run(opened.id).await;
        }
        // If another worker drives it, that one reads the inbox.
        self.continue_run(opened).await.map(drop)
    }

    /// Drives a run from the end of its journal, unless a worker drives it already.
    pub async fn continue_run(&self, opened: LoadedRun) -> Result<ActiveRun, AppError> {
        let id = opened.id;
        match self.drive_run(opened).await {
            // Another worker drives it.
            Err(error) if error.is_run_owned() => Ok(ActiveRun { id, completion: None, subscription: None }),
            ending => Ok(ActiveRun { id, completion: ending?, subscription: None }),
        }
    }

    /// Reads a run and drives it. Fails with `RunOwned` if another worker drives it.
    pub async fn resume_run(&self, id: RunId) -> Result<(), AppError> {
        self.drive_run(self.app.open_run_by_id(id).await?).await.map(|_| ())
    }

    async fn drive_run(&self, opened: LoadedRun) -> Result<Option<RunCompletion>, AppError> {
        let ending = self.live.find_completion(opened.id);
        if ending.is_some() || opened.state().status.is_final() {
            return Ok(ending);
        }
        let plan = opened.plan.clone();
        let engine = self.app.engine_for_run(&opened)?;
        match engine.resume_run(opened.id, plan.clone()).await {
            // The run has ended since its journal was read.
            Err(RunError::Ended(_)) => Ok(None),
            run => Ok(Some(self.live.drive_run(run?, plan).await)),
        }
    }
}
