//! Which runs this process may continue: those of its own project. A server also leaves abandoned runs alone that were
//! started under another configuration.

use flowloom_core::event::RunProject;
use flowloom_core::status::Status;
use flowloom_runtime::Run;

use crate::config::list_differences;
use crate::engines::{App, LoadedRun};
use crate::error::AppError;

impl App {
    /// Resumes a run from the end of its journal. Fails with `RunOfOtherProject` if it belongs to another project.
    pub async fn resume_loaded(&self, opened: &LoadedRun) -> Result<Run, AppError> {
        self.check_project(opened)?;
        let engine = self.engine_for_run(opened)?;
        Ok(engine.resume_run(opened.id, opened.plan.clone()).await?)
    }

    /// What runs of this process record about its configuration.
    pub(crate) fn run_project(&self) -> RunProject {
        RunProject { name: self.config.project_name.clone(), config: self.config.fingerprint.clone() }
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

    /// Why no server with this configuration continues an interrupted run by itself; `None` if one does.
    pub fn explain_interruption(&self, opened: &LoadedRun) -> Option<String> {
        if opened.state().status != Status::Interrupted {
            return None;
        }
        if let Err(error) = self.check_project(opened) {
            return Some(error.to_string());
        }
        let differences = list_differences(&opened.project()?.config, &self.config.fingerprint);
        (!differences.is_empty()).then(|| {
            format!(
                "the configuration has changed since the run started ({}), so servers leave it alone; to continue it: \
                 flowloom resume {}",
                differences.join(", "),
                opened.id
            )
        })
    }
}
