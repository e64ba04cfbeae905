//! Which runs this process may continue: those of its own project. A server also leaves runs alone that were started under
//! another configuration, even if a command reaches it; commands of the terminal continue them.

use flowloom_core::code::Code;
use flowloom_core::event::RunProject;
use flowloom_core::status::Status;
use flowloom_runtime::Run;
use flowloom_runtime::command::CommandAction;
use flowloom_runtime::journal::Journal as _;

use crate::config::list_differences;
use crate::engines::{App, LoadedRun};
use crate::error::AppError;

impl App {
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
        let pending = self.store.pending_commands(opened.id).await?;
        Ok(pending.iter().any(|command| command.action == (CommandAction::Cancel {})))
    }

    /// Fails with `RunOfOtherProject` if a run belongs to another project.
    pub(crate) fn check_project(&self, opened: &LoadedRun) -> Result<(), AppError> {
        let own = &self.config.project_name;
        match opened.project() {
            Some(RunProject { name, .. }) if !name.is_empty() && !own.is_empty() && name != own => {
                Err(AppError::RunOfOtherProject { run: opened.id, project: name.clone() })
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

    /// The parts of the configuration that differ from that of the start of a run.
    fn list_differences_of(&self, opened: &LoadedRun) -> Vec<String> {
        opened.project().map_or_else(Vec::new, |project| list_differences(&project.config, &self.config.fingerprint))
    }

    /// Why no server with this configuration continues a run by itself that somebody must continue; `None` if one does, or
    /// if the run waits for a person.
    pub async fn explain_standstill(&self, opened: &LoadedRun) -> Result<Option<String>, AppError> {
        let status = opened.state().status;
        let is_due = matches!(status, Status::Interrupted | Status::Queued);
        let has_commands = self.has_pending_commands(opened.id).await?;
        if !is_due && !has_commands {
            return Ok(None);
        }
        if let Err(error) = self.check_project(opened) {
            return Ok(Some(error.to_string()));
        }
        let (run, differences) = (opened.id, self.list_differences_of(opened));
        if !differences.is_empty() {
            let stored = if has_commands { "; what was sent to it is stored" } else { "" };
            return Ok(Some(format!(
                "{}: the configuration has changed since the run started ({}), so servers leave it alone{stored}; to \
                 continue it: flowloom resume {run}",
                Code::RunOfOtherConfig,
                differences.join(", "),
            )));
        }
        let is_on_restate = self.config.engine.restate.is_some() && status == Status::Queued;
        Ok(is_on_restate.then(|| {
            "no worker of Restate has begun the run: check that Restate runs (flowloom doctor), and that a worker with this \
             project and configuration is registered (flowloom worker)"
                .to_owned()
        }))
    }
}
