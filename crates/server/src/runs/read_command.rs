//! `GET /api/v1/runs/{id}/commands/{command}`: what became of a command.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;
use flowloom_runtime::command::{CommandOutcome, CommandRecord, RunCommand};
use flowloom_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::find_own_run;
use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, Problem};

/// A command to a run and its outcome.
#[derive(Serialize, ToSchema)]
pub(crate) struct CommandSchema {
    /// Its id: the `Idempotency-Key` of the request, or a generated one.
    id: String,
    /// `cancel`, `resume`, `retry`, `answer` or `resolve`.
    action: &'static str,
    /// Path of the step that it is about; absent if it is about the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The user who sent it.
    sender: String,
    /// Time at which it was sent, in milliseconds since the Unix epoch.
    sent_at: u64,
    /// The decision about it.
    outcome: OutcomeName,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CommandErrorSchema>,
    /// Time of the decision, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<u64>,
}

/// The decision about a command.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeName {
    /// It is stored; the worker of the run will decide about it.
    Pending,
    /// The run did what it asks.
    Applied,
    /// It had no effect.
    Rejected,
}

/// Why a command was rejected.
#[derive(Serialize, ToSchema)]
struct CommandErrorSchema {
    /// The error code, such as `FL1208`.
    code: String,
    /// The reason.
    message: String,
}

impl From<CommandRecord> for CommandSchema {
    fn from(record: CommandRecord) -> CommandSchema {
        let CommandRecord { command: RunCommand { id, sender, action }, sent_at, outcome, decided_at } = record;
        let (outcome, error) = match outcome {
            None => (OutcomeName::Pending, None),
            Some(CommandOutcome::Applied) => (OutcomeName::Applied, None),
            Some(CommandOutcome::Rejected(error)) => {
                let error = CommandErrorSchema { code: error.code.to_string(), message: error.message };
                (OutcomeName::Rejected, Some(error))
            }
        };
        let path = action.path().map(|path| path.as_str().to_owned());
        CommandSchema { id, action: action.name(), path, sender, sent_at, outcome, error, decided_at }
    }
}

/// Returns a command to a run and its outcome. A command about a step of a child run was sent to that run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/commands/{command}", tag = "runs", operation_id = "get_command",
    params(("id" = String, Path), ("command" = String, Path)), security(("key" = ["read"])),
    responses((status = 200, description = "The command", body = CommandSchema),
        (status = 404, description = "The run or the command does not exist, or belongs to another user")))]
pub(crate) async fn get_command(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(ids): PathParam<CommandIds>,
) -> ApiResult<Json<CommandSchema>> {
    caller.require_scope(Scope::Read)?;
    let run = find_own_run(&store, &caller, &ids.id).await?;
    let wanted = ids.command.clone();
    let found = run_blocking(move || store.find_command_within(run, &wanted)).await??;
    found.map(|(_, record)| Json(record.into())).ok_or_else(|| Problem::not_found("command", &ids.command))
}

/// The ids in the path of a command.
#[derive(Deserialize)]
pub(crate) struct CommandIds {
    id: String,
    command: String,
}
