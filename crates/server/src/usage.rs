//! `GET /api/v1/usage`: what a user has used of each quota.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::config::Config;
use flowloom_app::keys::Scope;
use flowloom_app::quotas::{QuotaUsage, measure_user};
use flowloom_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocking::run_reading;
use crate::caller::Caller;
use crate::params::QueryParams;
use crate::problem::{ApiResult, ProblemDocument};
use crate::state::Server;

/// The route of usage.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    OpenApiRouter::new().routes(routes!(get_usage))
}

/// Selects the user.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// The user. A key that belongs to a user determines the user itself. If neither is given, `local`.
    #[serde(default)]
    user: Option<String>,
}

/// The use of a user.
#[derive(Serialize, ToSchema)]
pub struct UserUsage {
    user: String,
    quotas: Vec<QuotaItem>,
}

/// The usage of a quota.
#[derive(Serialize, ToSchema)]
pub(crate) struct QuotaItem {
    /// Name of the quota, as in the configuration.
    name: &'static str,
    /// Unit of the amounts.
    unit: &'static str,
    /// The amount used; null if it is not counted, because no daily quota is set or the user has no files of their own.
    used: Option<f64>,
    /// The maximum amount; null if there is no limit.
    limit: Option<f64>,
    /// When a daily count starts again, in milliseconds since the Unix epoch; null for other quotas.
    resets_at: Option<u64>,
}

impl UserUsage {
    /// The measured usage of a user.
    pub fn new(user: &str, measured: &[QuotaUsage]) -> UserUsage {
        let item = |row: &QuotaUsage| {
            let QuotaUsage { name, unit, used, limit, resets_at } = *row;
            QuotaItem { name, unit, used, limit, resets_at }
        };
        UserUsage { user: user.to_owned(), quotas: measured.iter().map(item).collect() }
    }
}

/// Returns a user's usage of the quotas, and the limits.
#[utoipa::path(get, path = "/api/v1/usage", tag = "usage", operation_id = "get_usage", params(UsageQuery), security(("key" = ["read"])),
    responses((status = 200, body = UserUsage), (status = 404, description = "The key belongs to another user", body = ProblemDocument)))]
pub(crate) async fn get_usage(
    State(store): State<Arc<Store>>,
    State(config): State<Arc<Config>>,
    caller: Caller,
    QueryParams(query): QueryParams<UsageQuery>,
) -> ApiResult<Json<UserUsage>> {
    caller.require_scope(Scope::Read)?;
    let user = caller.resolve_user(query.user)?;
    let measure = async move || Ok(Json(UserUsage::new(&user, &measure_user(&store, &config, &user).await?)));
    run_reading(measure).await
}
