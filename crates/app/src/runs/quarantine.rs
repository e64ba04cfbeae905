//! Why no server continues a quarantined run, or the child runs of one.

use flowloom_core::event::ParentStep;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_runtime::child_run::find_child_run_id;
use flowloom_store::{MAX_WORKER_DEATHS, RunRow};

use crate::error::AppError;
use crate::runs::stored::{LoadedRun, StoredRuns};

/// Number of steps that an explanation names.
const MAX_NAMED_STEPS: usize = 5;

/// A message about a quarantined run and the command that continues it. `within` names the steps.
pub(super) fn describe_quarantine(run: RunId, within: &str) -> String {
    format!(
        "{MAX_WORKER_DEATHS} workers in a row died{within}, so servers leave the run alone; fix the cause, then continue it: \
         flowloom resume {run}, or end it: flowloom cancel {run}"
    )
}

impl StoredRuns {
    /// Why servers leave a quarantined run alone, and in which steps its workers died.
    pub(super) async fn explain_quarantine(&self, opened: &LoadedRun) -> Result<String, AppError> {
        let steps = self.list_suspected_steps(opened).await?;
        let named: Vec<&str> = steps.iter().take(MAX_NAMED_STEPS).map(Path::as_str).collect();
        let within = match steps.len() {
            0 => String::new(),
            1 => format!(" in the step {}", named.join("")),
            count if count > named.len() => format!(" in one of {count} steps: {}, …", named.join(", ")),
            _ => format!(" in one of the steps {}", named.join(", ")),
        };
        Ok(describe_quarantine(opened.id, &within))
    }

    /// The steps that were in progress when the last worker died: those of child runs instead of the steps that wait for them.
    async fn list_suspected_steps(&self, opened: &LoadedRun) -> Result<Vec<Path>, AppError> {
        let state = opened.state();
        let mut found = Vec::new();
        for step in state.steps().iter().filter(|step| step.phase == Phase::Running) {
            let child = find_child_run_id(opened.id, &step.path, step.attempts);
            let inner = match self.store.get_run(child)? {
                Some(_) => Box::pin(self.list_suspected_steps(&self.open_run_by_id(child).await?)).await?,
                None => Vec::new(),
            };
            match inner.is_empty() {
                true => found.push(step.path.clone()),
                false => found.extend(inner.iter().map(|path| step.path.child_run_path(step.attempts, path))),
            }
        }
        Ok(found)
    }

    /// Why servers leave an unfinished child run alone: the run that continues it is quarantined.
    pub(super) fn explain_quarantined_parent(&self, parent: Option<&ParentStep>) -> Option<String> {
        let outermost = self.find_outermost(parent?)?;
        let is_quarantined = outermost.status == Status::Quarantined.name();
        is_quarantined.then(|| {
            let run = outermost.id;
            format!("the run {run} continues it, and is quarantined: flowloom show {run} says why")
        })
    }

    /// The run above a step that no step of another run has started.
    fn find_outermost(&self, parent: &ParentStep) -> Option<RunRow> {
        let mut row = self.store.get_run(parent.run).ok()??;
        while let Some(above) = row.parent.as_ref() {
            row = self.store.get_run(above.run).ok()??;
        }
        Some(row)
    }
}
