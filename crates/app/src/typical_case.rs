//! The usage of the past runs of a workflow, with their child runs. The worst case before a run is in `estimate`.

use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::{RunState, StepState};
use flowloom_core::status::Status;
use flowloom_runtime::RunError;
use flowloom_runtime::journal::Journal as _;
use flowloom_store::RunFilter;
use flowloom_tools::find_request_method;
use serde::Serialize;

use crate::config::Config;
use crate::error::AppError;
use crate::runs::stored::StoredRuns;

/// Number of runs that the typical case is taken from.
const TYPICAL_RUNS: u32 = 20;

/// No further run is read after this time: the records of some workflows are long.
const MAX_READING_TIME: Duration = Duration::from_secs(2);

/// The use of the newest runs of a workflow, with their child runs: the median of each figure.
#[derive(Debug, Serialize)]
pub struct TypicalCase {
    /// Number of runs.
    pub runs: usize,
    /// Model calls.
    pub model_calls: u64,
    /// HTTP requests and pages, of steps, blocks and functions.
    pub requests: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar; `None` if a price was unknown.
    pub micro_usd: Option<u64>,
    /// Time from start to end, in milliseconds.
    pub duration_ms: u64,
}

/// The use of one run with its child runs.
struct RunUse {
    model_calls: u64,
    requests: u64,
    state: RunState,
}

/// The typical case of a workflow, from its newest runs that succeeded; `None` if there are none. `user` restricts it to the
/// runs of that user. Fails if the store cannot be read, or if one of these runs is damaged.
pub async fn find_typical_case(
    runs: &StoredRuns,
    plan: &Plan,
    user: Option<&str>,
) -> Result<Option<TypicalCase>, AppError> {
    let filter = RunFilter {
        user: user.map(str::to_owned),
        // Another file may have the same name.
        workflow: plan.id.clone(),
        name: plan.id.is_none().then(|| plan.name.clone()),
        format: Some(plan.format.name().to_owned()),
        status: Some(Status::Succeeded.name().to_owned()),
        limit: TYPICAL_RUNS,
        ..RunFilter::default()
    };
    let began = Instant::now();
    let mut uses = Vec::new();
    for row in runs.store.list_runs_matching(&filter)? {
        // What a fork reused was not used.
        if row.forked_from.is_none() && began.elapsed() < MAX_READING_TIME {
            uses.push(measure_run(runs, row.id).await?);
        }
    }
    if uses.is_empty() {
        return Ok(None);
    }
    let median = |read: &dyn Fn(&RunUse) -> u64| {
        let mut values: Vec<u64> = uses.iter().map(read).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let has_prices = uses.iter().all(|run| run.state.usage.micro_usd.is_some());
    let duration = |state: &RunState| state.finished_at.map_or(0, |at| at.saturating_sub(state.created_at));
    Ok(Some(TypicalCase {
        runs: uses.len(),
        model_calls: median(&|run| run.model_calls),
        requests: median(&|run| run.requests),
        input_tokens: median(&|run| run.state.usage.input_tokens),
        output_tokens: median(&|run| run.state.usage.output_tokens),
        micro_usd: has_prices.then(|| median(&|run| run.state.usage.micro_usd.unwrap_or_default())),
        duration_ms: median(&|run| duration(&run.state)),
    }))
}

/// Its tokens contain those of its child runs; its steps do not.
async fn measure_run(runs: &StoredRuns, run: RunId) -> Result<RunUse, AppError> {
    let state = read_state(runs, run).await?;
    let (mut model_calls, mut requests) = (count_model_calls(&state), count_requests(&runs.config, &state));
    for child in runs.store.list_runs_within(run)? {
        let state = read_state(runs, child).await?;
        model_calls += count_model_calls(&state);
        requests += count_requests(&runs.config, &state);
    }
    Ok(RunUse { model_calls, requests, state })
}

async fn read_state(runs: &StoredRuns, run: RunId) -> Result<RunState, AppError> {
    let records = runs.store.read(run, 0).await?;
    Ok(RunState::from_records(records.iter().map(|record| &**record)).map_err(RunError::from)?)
}

fn count_model_calls(state: &RunState) -> u64 {
    count_attempts(state, |step| step.kind.as_deref() == Some("generate"))
}

/// Requests as the worst case counts them: also those of functions that send one.
fn count_requests(config: &Config, state: &RunState) -> u64 {
    let sends_request = |function: &str| match config.functions.get(function) {
        Some(settings) => settings.url.is_some(),
        None => find_request_method(function).is_some(),
    };
    count_attempts(state, |step| match step.kind.as_deref() {
        Some("http" | "scrape") => true,
        Some("call") => step.target.as_deref().is_some_and(sends_request),
        _ => false,
    })
}

fn count_attempts(state: &RunState, is_counted: impl Fn(&StepState) -> bool) -> u64 {
    state.steps().iter().filter(|step| is_counted(step)).map(|step| u64::from(step.attempts)).sum()
}
