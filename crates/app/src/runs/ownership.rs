//! Which runs this process may continue: those of its own project. A server also leaves runs alone that were started under
//! another configuration, even if a command reaches it; commands of the terminal continue them.

use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::event::RunProject;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::{ChildStep, RunState};
use flowloom_core::status::Status;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, CommandRecord};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::{Run, RunError};
use flowloom_store::RunRow;

use crate::config::list_differences;
use crate::error::AppError;
use crate::runs::quarantine::describe_quarantine;
use crate::runs::recovery::HANDOVER_TIME;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// How long a cancellation waits for a worker of Restate before this process applies it.
const WORKER_GRACE: Duration = Duration::from_secs(3);

impl StoredRuns {
    /// Resumes a run from the end of its journal. Fails with `RunOfOtherProject` if it belongs to another project.
    pub async fn resume_loaded(&self, opened: &LoadedRun) -> Result<Run, AppError> {
        self.check_project(opened)?;
        let mut engine = self.engine_for_run(opened)?;
        if self.is_cancelled_unstarted(opened).await? {
            engine = engine.without_driver();
        }
        Ok(engine.resume_run(opened.id, opened.plan.clone()).await?)
    }

    /// Whether a run is cancelled before anything drove it. With Restate, this process ends it: there may be no worker.
    async fn is_cancelled_unstarted(&self, opened: &LoadedRun) -> Result<bool, AppError> {
        if self.config.engine.restate.is_none() || opened.state().status != Status::Queued {
            return Ok(false);
        }
        self.is_cancelled(opened.id).await
    }

    /// Ends a run if `command` cancels it and Restate has no worker that does so in time. Returns `false` if a worker has, if
    /// one drives the run, or if only a worker with the configuration of the run knows whether what is in progress has
    /// happened. Fails if the store cannot be read or written.
    pub async fn end_without_worker(
        &self,
        run: RunId,
        command: &CommandRecord,
        max_wait: Duration,
    ) -> Result<bool, AppError> {
        if self.config.engine.restate.is_none() || command.command.action != (CommandAction::Cancel {}) {
            return Ok(false);
        }
        if self.store.wait_for_decision(run, command, max_wait.min(WORKER_GRACE)).await?.is_some() {
            return Ok(false);
        }
        let opened = self.open_run_by_id(run).await?;
        let recorded = RunState::up_to_illegal(opened.records.iter().map(|record| &**record)).0.status;
        let is_known_here = recorded != Status::Running || !self.list_differences_of(&opened).is_empty();
        if recorded.is_final() || !is_known_here || !self.is_cancelled(run).await? {
            return Ok(false);
        }
        let runs = self.clone();
        // A caller who leaves in between would leave a run that this process has claimed and does not drive.
        tokio::spawn(async move { runs.claim_and_end(&opened).await }).await?
    }

    /// Drives a cancelled run to its end. Returns `false` if another process drives it, or if it has ended.
    async fn claim_and_end(&self, opened: &LoadedRun) -> Result<bool, AppError> {
        self.check_project(opened)?;
        let engine = self.engine_for_run(opened)?.without_driver();
        match engine.resume_run(opened.id, opened.plan.clone()).await.map_err(AppError::from) {
            Ok(run) => {
                self.report_driven(&run.drive_to_end().await);
                Ok(true)
            }
            Err(AppError::Run(RunError::Ended(_))) => Ok(false),
            Err(error) if error.is_left_to_others() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the cancellation of a run is stored, and no worker has applied it yet.
    async fn is_cancelled(&self, run: RunId) -> Result<bool, AppError> {
        let pending = self.store.pending_commands(run).await?;
        Ok(pending.iter().any(|command| command.action == (CommandAction::Cancel {})))
    }

    /// Fails with `RunOfOtherProject` if a run belongs to another project.
    pub(crate) fn check_project(&self, opened: &LoadedRun) -> Result<(), AppError> {
        self.check_project_of(opened.id, opened.project())
    }

    fn check_project_of(&self, run: RunId, project: Option<&RunProject>) -> Result<(), AppError> {
        let own = &self.config.project_name;
        match project {
            Some(RunProject { name, .. }) if !name.is_empty() && !own.is_empty() && name != own => {
                Err(AppError::RunOfOtherProject { run, project: name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Fails with `RunOfOtherConfig` if a run was started under another configuration and this process drives it by itself
    /// (workers of Restate have the configuration of a run, which is part of the name of their services). A run that is
    /// cancelled, and has no other command, may end anywhere.
    pub(crate) async fn check_configuration(&self, opened: &LoadedRun) -> Result<(), AppError> {
        let differences = self.list_differences_of(opened);
        if differences.is_empty() || self.config.accepts_any_config || self.config.engine.restate.is_some() {
            return Ok(());
        }
        let pending = self.store.pending_commands(opened.id).await?;
        match pending.is_empty() || pending.iter().any(|command| command.action != (CommandAction::Cancel {})) {
            true => Err(AppError::RunOfOtherConfig { run: opened.id, differences }),
            false => Ok(()),
        }
    }

    /// Notes the decisions about steps of a run, and of its child runs, that wait for a process with its
    /// configuration. Fails if a child run cannot be opened.
    pub(crate) async fn note_decisions(&self, run: RunId, state: &mut RunState) -> Result<(), AppError> {
        let pending = self.store.pending_commands(run).await?;
        let mut decided: Vec<Path> = pending
            .iter()
            .filter(|command| command.action.decides_step())
            .filter_map(|command| command.action.path().cloned())
            .collect();
        let of_children: Vec<(Path, ChildStep<'_>)> =
            state.open_steps().filter_map(|step| Some((step.path, step.child?))).collect();
        for (path, ChildStep { run, path: inner }) in of_children {
            let child = Box::pin(self.open_run_by_id(run)).await?;
            decided.extend(child.state().is_decided(inner).then_some(path));
        }
        decided.into_iter().for_each(|path| state.note_decision(path));
        Ok(())
    }

    /// The parts of the configuration that differ from that of the start of a run.
    fn list_differences_of(&self, opened: &LoadedRun) -> Vec<String> {
        self.list_differences_from(opened.project())
    }

    /// The parts of the configuration that differ from that of a run. Old versions did not record it.
    fn list_differences_from(&self, project: Option<&RunProject>) -> Vec<String> {
        project.map_or_else(Vec::new, |project| list_differences(&project.config, &self.config.fingerprint))
    }

    /// Why no server with this configuration continues a run that must be continued; `None` if one does, or
    /// if the run waits for an answer or a decision. Fails if the store cannot be read.
    pub async fn explain_standstill(&self, opened: &LoadedRun) -> Result<Option<String>, AppError> {
        let state = opened.state();
        let status = state.status;
        if status == Status::Quarantined {
            return self.explain_quarantine(opened).await.map(Some);
        }
        let is_due = matches!(status, Status::Interrupted | Status::Queued);
        let has_commands = self.has_pending_commands(opened.id).await?;
        if !is_due && !has_commands {
            return Ok(None);
        }
        if let Some(reason) = self.explain_other_owner(opened.id, opened.project(), has_commands) {
            return Ok(Some(reason));
        }
        let parent = state.created.as_ref().and_then(|created| created.parent.as_ref());
        if let Some(reason) = self.explain_quarantined_parent(parent) {
            return Ok(Some(reason));
        }
        Ok(self.explain_missing_worker(&state))
    }

    /// Why a run that is due does not continue on Restate; `None` if it may have been handed over a moment ago.
    fn explain_missing_worker(&self, state: &RunState) -> Option<String> {
        let waited_ms = SystemClock.now_ms().saturating_sub(state.created_at);
        if self.config.engine.restate.is_none() || waited_ms < HANDOVER_TIME.as_millis() as u64 {
            return None;
        }
        let missing = match state.status {
            Status::Queued => "no worker of Restate has begun the run",
            Status::Interrupted => "no worker of Restate continues the run",
            _ => return None,
        };
        Some(format!(
            "{missing}: check that Restate runs (flowloom doctor), and that a worker with this project and configuration is \
             registered (flowloom worker)"
        ))
    }

    /// The same for a listed run, without the facts that only the engine of the run knows.
    pub fn explain_listed(&self, row: &RunRow) -> Option<String> {
        let has_status = |status: &Status| status.name() == row.current_status();
        if has_status(&Status::Quarantined) {
            return Some(describe_quarantine(row.id, ""));
        }
        let is_due = [Status::Interrupted, Status::Queued].iter().any(has_status);
        let other_owner = || self.explain_other_owner(row.id, row.project.as_ref(), row.is_left);
        is_due.then(|| other_owner().or_else(|| self.explain_quarantined_parent(row.parent.as_ref()))).flatten()
    }

    /// A warning for a person who continues a run here: its configuration was another one, and how it differs; `None` if it
    /// was the same.
    pub fn describe_changed_config(&self, opened: &LoadedRun) -> Option<String> {
        let differences = self.list_differences_from(opened.project());
        if differences.is_empty() {
            return None;
        }
        let all = differences.join(", ");
        Some(format!("the configuration has changed since the run started ({all}); it continues with the one here"))
    }

    /// Why servers of this project and configuration leave a run alone; `None` if they do not.
    fn explain_other_owner(&self, run: RunId, project: Option<&RunProject>, has_commands: bool) -> Option<String> {
        if let Err(error) = self.check_project_of(run, project) {
            return Some(error.to_string());
        }
        let differences = self.list_differences_from(project);
        if differences.is_empty() {
            return None;
        }
        let stored = if has_commands { "; the commands that were sent to it are stored" } else { "" };
        Some(format!(
            "{}: the configuration has changed since the run started ({}), so servers leave it alone{stored}; to continue \
             it: flowloom resume {run}",
            Code::RunOfOtherConfig,
            differences.join(", "),
        ))
    }
}
