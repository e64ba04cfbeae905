//! `GET /api/v1/runs/{id}/family`: the runs that were forked from the same first run.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::keys::Scope;
use flowloom_app::runs::family_tree::{FamilyMember, find_family_tree};
use flowloom_store::Store;
use serde::Serialize;
use utoipa::ToSchema;

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::params::PathParam;
use crate::problem::{ApiResult, ProblemDocument};
use crate::runs::answer::find_own_run;

/// The family of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = RunFamily)]
pub(crate) struct FamilyInfo {
    /// Each run comes after the one that it was forked from, and forks of one run come in their order in time; at most 200.
    members: Vec<MemberInfo>,
    /// Whether there are further runs.
    has_more: bool,
}

/// A run of a family.
#[derive(Serialize, ToSchema)]
#[schema(as = FamilyMember)]
pub(crate) struct MemberInfo {
    run_id: String,
    /// The run of the family that it was forked from; null for the first one.
    forked_from: Option<String>,
    /// The step from which it performed everything; null: the first step whose request differed.
    at: Option<String>,
    name: String,
    status: String,
    /// Milliseconds since the Unix epoch.
    created_at: u64,
    finished_at: Option<u64>,
}

/// Returns the runs that were forked from the same first run, directly or not: ancestors, siblings and descendants.
#[utoipa::path(get, path = "/api/v1/runs/{id}/family", tag = "runs", operation_id = "get_run_family", params(("id" = String, Path)),
    security(("key" = ["read"])), responses((status = 200, description = "The family", body = FamilyInfo), (status = 404, description = "The run does not exist, or belongs to another user", body = ProblemDocument)))]
pub(crate) async fn get_run_family(
    State(store): State<Arc<Store>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
) -> ApiResult<Json<FamilyInfo>> {
    caller.require_scope(Scope::Read)?;
    let run = find_own_run(&store, &caller, &id).await?;
    let family = run_blocking(move || find_family_tree(&store, run)).await??;
    let members = family.members.into_iter().map(describe_member).collect();
    Ok(Json(FamilyInfo { members, has_more: family.has_more }))
}

fn describe_member(member: FamilyMember) -> MemberInfo {
    MemberInfo {
        run_id: member.run_id.to_string(),
        forked_from: member.forked_from.map(|run| run.to_string()),
        at: member.at.map(|path| path.to_string()),
        name: member.name,
        status: member.status,
        created_at: member.created_at,
        finished_at: member.finished_at,
    }
}
