//! `GET /api/v1/statistics`: runs over time; `GET /api/v1/statistics/models`: their tokens and cost.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::keys::Scope;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{RunFilter, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::caller::Caller;
use crate::params::QueryParams;
use crate::problem::ApiResult;
use crate::runs::choice::RunChoice;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// Number of intervals that the period is divided into.
const INTERVALS_PER_PERIOD: u64 = 24;
/// Longest period, in days.
const MAX_DAYS: u32 = 90;

/// The period of statistics.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatisticsQuery {
    /// Number of days until now (1 to 90; default 1).
    #[serde(default)]
    #[param(minimum = 1, maximum = 90)]
    days: Option<u32>,
    /// Only runs with this status.
    #[serde(default)]
    status: Option<String>,
    /// Only runs of the workflow with this id, or in the file with this name.
    #[serde(default)]
    workflow: Option<String>,
    /// Only runs that were started through this interface, or by this schedule or webhook, as in a list of runs.
    #[serde(default)]
    trigger: Option<String>,
}

impl StatisticsQuery {
    /// The runs of the caller that are counted, and the length of an interval in milliseconds.
    async fn find_runs(self, caller: &Caller, catalog: Arc<Catalog>) -> ApiResult<(RunFilter, u64)> {
        let (since, interval_ms) = self.find_interval()?;
        let choice = RunChoice { status: self.status, workflow: self.workflow, trigger: self.trigger };
        let filter = choice.build_filter(caller, catalog).await?;
        Ok((RunFilter { since: Some(since), ..filter }, interval_ms))
    }

    /// The start of the period, and the length of an interval, in milliseconds.
    fn find_interval(&self) -> ApiResult<(u64, u64)> {
        let days = crate::params::check_count("days", self.days, 1, MAX_DAYS)?;
        let length_ms = u64::from(days) * DAY_MS;
        let interval_ms = length_ms / INTERVALS_PER_PERIOD;
        // Whole intervals, so that a bar does not change while time passes.
        let since = (SystemClock.now_ms().saturating_sub(length_ms) / interval_ms + 1) * interval_ms;
        Ok((since, interval_ms))
    }
}

/// Runs of a period.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunStatisticsSchema {
    /// Start of the period, in milliseconds since the Unix epoch.
    since: u64,
    /// Length of an interval, in milliseconds.
    interval_ms: u64,
    /// Runs by interval and status; intervals without runs are left out.
    counts: Vec<RunCountSchema>,
    /// Durations of the ended runs by the interval in which they were created; intervals without one are left out.
    durations: Vec<DurationsSchema>,
    /// Ended runs by workflow, the most frequent first, at most 50.
    workflows: Vec<WorkflowStatisticsSchema>,
}

/// Runs of one status that were created in one interval.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunCountSchema {
    /// Start of the interval, in milliseconds since the Unix epoch.
    at: u64,
    status: String,
    count: u64,
}

/// The durations of the ended runs that were created in one interval.
#[derive(Serialize, ToSchema)]
pub(crate) struct DurationsSchema {
    /// Start of the interval, in milliseconds since the Unix epoch.
    at: u64,
    /// Half of the runs took at most this.
    median_ms: u64,
    /// Of 20 runs, 19 took at most this.
    p95_ms: u64,
}

/// The ended runs of a workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowStatisticsSchema {
    /// Id of the workflow, or the name of a definition without one.
    workflow: String,
    count: u64,
    /// Runs that ended neither successfully nor by a cancellation.
    failures: u64,
    /// Runs that were cancelled.
    cancelled: u64,
    /// Half of the runs took at most this.
    median_ms: u64,
    /// Of 20 runs, 19 took at most this.
    p95_ms: u64,
}

/// Returns the numbers and durations of the caller's runs over a period.
#[utoipa::path(get, path = "/api/v1/statistics", tag = "runs", operation_id = "get_run_statistics", params(StatisticsQuery),
    security(("key" = ["read"])), responses((status = 200, description = "The statistics", body = RunStatisticsSchema)))]
pub(crate) async fn get_run_statistics(
    State(store): State<Arc<Store>>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(period): QueryParams<StatisticsQuery>,
) -> ApiResult<Json<RunStatisticsSchema>> {
    caller.require_scope(Scope::Read)?;
    let (filter, interval_ms) = period.find_runs(&caller, catalog).await?;
    let since = filter.since.unwrap_or_default();
    let read = move || store.summarize_runs(&filter, interval_ms);
    let statistics = crate::blocking::run_blocking(read).await??;
    let counts = statistics.counts.into_iter().map(|one| RunCountSchema {
        at: one.interval * interval_ms,
        status: one.status,
        count: one.count,
    });
    let durations = statistics.durations.into_iter().map(|one| DurationsSchema {
        at: one.interval * interval_ms,
        median_ms: one.median_ms,
        p95_ms: one.p95_ms,
    });
    let workflows = statistics.workflows.into_iter().map(|one| WorkflowStatisticsSchema {
        workflow: one.workflow,
        count: one.count,
        failures: one.failures,
        cancelled: one.cancelled,
        median_ms: one.median_ms,
        p95_ms: one.p95_ms,
    });
    Ok(Json(RunStatisticsSchema {
        since,
        interval_ms,
        counts: counts.collect(),
        durations: durations.collect(),
        workflows: workflows.collect(),
    }))
}

/// Model calls of a period.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelStatisticsSchema {
    /// Start of the period, in milliseconds since the Unix epoch.
    since: u64,
    /// Length of an interval, in milliseconds.
    interval_ms: u64,
    /// Calls by interval, workflow and model, those with the most tokens first, at most 5,000.
    items: Vec<ModelUsageSchema>,
}

/// Answered model calls of the runs of one workflow that were created in one interval. Calls that a fork reuses are not
/// counted.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelUsageSchema {
    /// Start of the interval, in milliseconds since the Unix epoch.
    at: u64,
    /// Id of the workflow, or the name of a definition without one.
    workflow: String,
    /// `provider:model`.
    model: String,
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Cost of the calls with a known price, in millionths of a US dollar.
    micro_usd: u64,
    /// Number of calls with an unknown price.
    unpriced_calls: u64,
}

/// Returns the tokens and the cost of the model calls of the caller's runs over a period.
#[utoipa::path(get, path = "/api/v1/statistics/models", tag = "runs", operation_id = "get_model_statistics", params(StatisticsQuery),
    security(("key" = ["read"])), responses((status = 200, description = "The statistics", body = ModelStatisticsSchema)))]
pub(crate) async fn get_model_statistics(
    State(store): State<Arc<Store>>,
    State(catalog): State<Arc<Catalog>>,
    caller: Caller,
    QueryParams(period): QueryParams<StatisticsQuery>,
) -> ApiResult<Json<ModelStatisticsSchema>> {
    caller.require_scope(Scope::Read)?;
    let (filter, interval_ms) = period.find_runs(&caller, catalog).await?;
    let since = filter.since.unwrap_or_default();
    let read = move || store.summarize_model_usage(&filter, interval_ms);
    let items = crate::blocking::run_blocking(read).await??.into_iter().map(|one| ModelUsageSchema {
        at: one.interval * interval_ms,
        workflow: one.workflow,
        model: one.model,
        calls: one.calls,
        input_tokens: one.input_tokens,
        output_tokens: one.output_tokens,
        micro_usd: one.micro_usd,
        unpriced_calls: one.unpriced_calls,
    });
    Ok(Json(ModelStatisticsSchema { since, interval_ms, items: items.collect() }))
}
