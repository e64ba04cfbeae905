//! Child runs and the commands to them. A command to a run can be about a step of one of its child runs, which then
//! receives it. The step that started a child run drives it, so a child run continues when the outermost run around it is
//! driven.

use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::RunError;
use flowloom_runtime::command::RunCommand;

use super::commands::DECISION_TIMEOUT;
use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// Interval of looking whether a child run that another worker drives has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl StoredRuns {
    /// The run that receives a command to the run `opened`, and the command in its terms. Fails if a child run cannot
    /// be opened.
    pub async fn route_command(
        &self,
        opened: &LoadedRun,
        mut command: RunCommand,
    ) -> Result<(LoadedRun, RunCommand), AppError> {
        let mut receiver = opened.clone();
        loop {
            let Some((child, routed)) = command.route_to_child(&receiver.state()) else {
                return Ok((receiver, command));
            };
            receiver = self.open_run_by_id(child).await?;
            command = routed;
        }
    }

    /// The run to drive so that `opened` continues: the outermost unfinished run around it, or `opened` itself. Fails
    /// if the store cannot be read, or if that run is damaged.
    pub async fn open_driving_run(&self, opened: LoadedRun) -> Result<LoadedRun, AppError> {
        let id = self.store.find_driving_run(opened.id)?;
        if id == opened.id { Ok(opened) } else { self.open_run_by_id(id).await }
    }

    /// Waits until the child runs of a run that was cancelled have ended, and ends those that no worker drives. Gives up after
    /// [`DECISION_TIMEOUT`]; a server ends them later. Fails if the store cannot be read or written.
    pub async fn end_child_runs(&self, run: RunId) -> Result<(), AppError> {
        let ended = tokio::time::timeout(DECISION_TIMEOUT, self.end_all_within(run)).await;
        ended.unwrap_or(Ok(()))
    }

    async fn end_all_within(&self, run: RunId) -> Result<(), AppError> {
        loop {
            // The end of a run cancels its child runs, which are next.
            let orphans = self.store.list_orphaned_runs(run)?;
            if orphans.is_empty() {
                return Ok(());
            }
            for child in orphans {
                self.end_child_run(child).await?;
            }
        }
    }

    /// Drives a cancelled child run to its end, or waits until another worker has.
    async fn end_child_run(&self, run: RunId) -> Result<(), AppError> {
        loop {
            let opened = self.open_run_by_id(run).await?;
            if opened.state().status.is_final() {
                return Ok(());
            }
            match self.resume_loaded(&opened).await {
                Ok(run) => drop(run.drive_to_end().await),
                Err(error) if error.is_left_to_others() => tokio::time::sleep(POLL_INTERVAL).await,
                // It has ended since its journal was read.
                Err(AppError::Run(RunError::Ended(_))) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
