//! Sends a command to a run, as every command of the terminal does.

use std::sync::Arc;

use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::commands::DECISION_TIMEOUT;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_core::code::Code;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandOutcome, CommandRecord, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{Run, RunError, RunOutcome};

use flowloom_store::Actor;

use crate::failure::CommandError;
use crate::hint;

/// The exit code of a command whose request to a run is stored, and was not applied in time.
const STORED_EXIT: u8 = 7;

/// Where a command has got to.
pub(super) enum Delivery {
    /// This process drove the run, which applied it.
    Driven(Box<DrivenRun>),
    /// Another worker applied it.
    Applied,
    /// It is stored, and another worker will decide about it.
    Stored,
}

/// The run that this process drove: the one that received the command, or the outermost run around it.
pub(super) struct DrivenRun {
    pub(super) plan: Arc<Plan>,
    pub(super) outcome: RunOutcome,
}

/// Sends a command to a run, and drives the run with `drive` unless another worker does. Fails with the reason if the
/// command is rejected.
pub(super) async fn send_command(
    app: &App,
    opened: &LoadedRun,
    command: RunCommand,
    drive: impl AsyncFnOnce(Run, &LoadedRun) -> Result<RunOutcome, CommandError>,
) -> Result<Delivery, CommandError> {
    let (receiver, command) = app.runs.route_command(opened, command).await?;
    let id = receiver.id;
    let posted = app.store.post_command_by(id, command, SystemClock.now_ms(), &Actor::command_line()).await?.record;
    let driving = app.runs.open_driving_run(receiver).await?;
    let mut driven = None;
    match app.runs.resume_loaded(&driving).await {
        Ok(run) if app.config.engine.restate.is_some() => {
            // Another engine drives the run when one of its workers takes it, which may never happen.
            let outcome = tokio::select! {
                outcome = drive(run, &driving) => outcome?,
                delivery = await_worker(app, id, &posted) => return delivery,
            };
            if outcome.broken.is_some() && app.runs.end_without_worker(id, &posted, DECISION_TIMEOUT).await? {
                return Ok(Delivery::Applied);
            }
            driven = Some(DrivenRun { outcome, plan: driving.plan });
        }
        Ok(run) => driven = Some(DrivenRun { outcome: drive(run, &driving).await?, plan: driving.plan }),
        // Another worker drives the run or has ended it.
        Err(AppError::Run(RunError::Ended(_))) => {}
        Err(error @ AppError::RunOfOtherProject { .. }) => eprintln!("note: {error}; the command waits for its server"),
        Err(error) if error.is_left_to_others() => {}
        Err(error) => return Err(error.into()),
    }
    match (app.store.wait_for_decision(id, &posted, DECISION_TIMEOUT).await?, driven) {
        (Some(CommandOutcome::Rejected(reason)), _) => Err(reason.into()),
        (_, Some(driven)) => Ok(Delivery::Driven(Box::new(driven))),
        (Some(CommandOutcome::Applied), None) => Ok(Delivery::Applied),
        (None, None) => Ok(Delivery::Stored),
    }
}

/// Resolves if no worker applies a command within the time that a sender waits, or if it is rejected; otherwise never. Fails
/// with the reason if it is rejected.
async fn await_worker(app: &App, receiver: RunId, posted: &CommandRecord) -> Result<Delivery, CommandError> {
    if app.runs.end_without_worker(receiver, posted, DECISION_TIMEOUT).await? {
        return Ok(Delivery::Applied);
    }
    match app.store.wait_for_decision(receiver, posted, DECISION_TIMEOUT).await {
        Ok(None) => Ok(Delivery::Stored),
        Ok(Some(CommandOutcome::Rejected(reason))) => Err(reason.into()),
        // The run is followed on, also during an outage.
        Ok(Some(CommandOutcome::Applied)) | Err(_) => std::future::pending().await,
    }
}

/// The end of a command whose request to a run is stored, and was not applied in time.
pub(super) fn describe_stored(run: RunId) -> CommandError {
    let show = hint::command_line(&format!("show {run}"));
    let message = format!(
        "the command to the run {run} is stored, but no worker has applied it within {} s; it will be applied as soon as a \
         worker takes the run; {show} shows its state and, if it is known, why no worker takes it",
        DECISION_TIMEOUT.as_secs()
    );
    CommandError { exit: STORED_EXIT, ..CommandError::new(Code::RunOwned, message) }
}
