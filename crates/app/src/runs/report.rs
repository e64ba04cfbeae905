//! Reports what an operator should know of runs that this process no longer drives, in the log and in the metrics: no inputs,
//! outputs or messages of their steps.

use flowloom_core::category::Category;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_runtime::metrics::{ProcessEvent, count_ended_run, count_event};
use flowloom_runtime::{RunError, RunOutcome};

use super::stored::StoredRuns;

/// The names of a run in the log.
struct RunNames<'a> {
    run: RunId,
    workflow: &'a str,
    user: &'a str,
}

impl StoredRuns {
    /// Reports and exports a run that this process has driven for another engine.
    pub(crate) fn report_driven(&self, outcome: &RunOutcome) {
        if let Some(telemetry) = self.engines.trace_exporter() {
            telemetry.export_run(&outcome.state);
        }
        // The run around a child run reports it.
        if outcome.state.created.as_ref().is_none_or(|created| created.parent.is_none()) {
            report_outcome(outcome, None);
        }
    }
}

/// A run whose creation may not be stored.
pub(super) struct StartedRunNames<'a> {
    /// The plan that it follows.
    pub(super) plan: &'a Plan,
    /// The user who owns it.
    pub(super) user: &'a str,
}

/// Reports the outcome of a run that this process has driven. `started` names it if its creation may not be stored.
pub(super) fn report_outcome(outcome: &RunOutcome, started: Option<StartedRunNames<'_>>) {
    let names = name_run(outcome, started);
    match &outcome.broken {
        // The outage is reported once, and not for each run that waits for it.
        Some(error) if error.is_driver_unreachable() => {
            let RunNames { run, workflow, user } = names;
            tracing::debug!(%run, workflow, user, code = %error.code(), "left a run, which continues later: {error}");
        }
        Some(error) if outcome.records.is_empty() => report_missing_start(&names, error),
        Some(error) => report_broken(&names, error),
        None => report_status(&names, outcome),
    }
}

/// Reports the outcome of a run that another engine has driven, and this process has followed. Its worker reports how it has
/// ended.
pub(super) fn report_followed(outcome: &RunOutcome, started: StartedRunNames<'_>) {
    if outcome.broken.is_some() {
        report_outcome(outcome, Some(started));
    }
}

fn name_run<'a>(outcome: &'a RunOutcome, started: Option<StartedRunNames<'a>>) -> RunNames<'a> {
    let run = outcome.id;
    match (&outcome.state.created, started) {
        (Some(created), _) => {
            RunNames { run, workflow: created.workflow.as_deref().unwrap_or(&created.name), user: &created.user }
        }
        (None, Some(StartedRunNames { plan, user })) => {
            RunNames { run, workflow: plan.id.as_deref().unwrap_or(&plan.name), user }
        }
        (None, None) => RunNames { run, workflow: "", user: "" },
    }
}

/// Reports a run whose creation this process could not store.
fn report_missing_start(names: &RunNames<'_>, error: &RunError) {
    let RunNames { run, workflow, user } = *names;
    let code = error.code();
    match error {
        error if error.is_ownership_lost() => {
            tracing::debug!(%run, workflow, user, %code, "another process started the run first");
        }
        error if error.is_in_doubt() => {
            tracing::warn!(%run, workflow, user, %code, "it is not known whether the start of a run is stored: {error}");
        }
        error if error.is_outage() => {
            tracing::warn!(%run, workflow, user, %code, "refused the start of a run, which is not stored: {error}");
        }
        // The caller has the answer, such as that the conversation has a turn in progress.
        error if matches!(code.category(), Category::Conflict | Category::TooMany) => {
            tracing::debug!(%run, workflow, user, %code, "refused the start of a run: {error}");
        }
        error => tracing::error!(%run, workflow, user, %code, "a run cannot be started: {error}"),
    }
}

/// Reports a stored run that this process cannot drive further.
fn report_broken(names: &RunNames<'_>, error: &RunError) {
    let RunNames { run, workflow, user } = *names;
    let code = error.code();
    match error {
        error if error.is_ownership_lost() => {
            count_event(ProcessEvent::LeaseLost);
            tracing::warn!(%run, workflow, user, %code, "lost the lease of a run, which another process drives");
        }
        error if error.is_outage() => {
            tracing::warn!(%run, workflow, user, %code, "left a run, which continues later: {error}");
        }
        error => tracing::error!(%run, workflow, user, %code, "a run cannot be driven further: {error}"),
    }
}

/// Reports a run that has ended, or that waits for a person.
fn report_status(names: &RunNames<'_>, outcome: &RunOutcome) {
    let RunNames { run, workflow, user } = *names;
    let state = &outcome.state;
    let status = state.status.name();
    let code = state.error.as_ref().map(|error| tracing::field::display(error.code));
    if state.status.is_final() {
        count_ended_run(status, workflow);
    }
    match state.status {
        Status::Uncertain => {
            tracing::warn!(%run, workflow, user, "a run is uncertain and waits for a decision: flowloom resolve {run}");
        }
        Status::Quarantined => tracing::warn!(%run, workflow, user, "a run is quarantined"),
        Status::Interrupted => tracing::warn!(%run, workflow, user, "a run is interrupted"),
        Status::Waiting => {
            for step in state.open_steps().filter(|step| step.question.is_some()) {
                tracing::info!(%run, workflow, user, path = %step.path, "a run waits for a person");
            }
        }
        Status::Succeeded => tracing::debug!(%run, workflow, user, status, "a run has succeeded"),
        Status::Failed => tracing::warn!(%run, workflow, user, status, code, "a run has failed"),
        Status::TimedOut | Status::BudgetExceeded => {
            tracing::warn!(%run, workflow, user, status, code, "a run has ended without success");
        }
        _ => tracing::info!(%run, workflow, user, status, code, "a run has ended without success"),
    }
}
