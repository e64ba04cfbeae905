//! The scheduler: starts the runs of schedules that are due.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_runtime::child_run::derive_run_id;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Corruption, RunRow, ScheduleKey, ScheduleRow, StoreError};
use tokio_util::sync::CancellationToken;

use crate::cron_times::CronTimes;
use crate::error::AppError;
use crate::runs::service::{RunService, StartCall, StartRunRequest};
use crate::runs::supervisor::{ActiveRun, StartPlace};
use crate::runs::trigger::TriggerKind;

/// Interval in milliseconds of polling for due schedules. Due times are whole seconds, and so are the times of the polls.
const POLL_INTERVAL_MS: u64 = 1_000;

/// How long due schedules are started before they are read again, so that no schedule waits for all those of another user.
const MAX_ROUND_TIME: Duration = Duration::from_millis(250);

/// Delay in milliseconds up to which a run counts as on time rather than missed.
const MAX_DELAY_MS: u64 = 60_000;

/// How long a schedule rests whose times cannot be computed, in milliseconds.
const UNUSABLE_PAUSE_MS: u64 = 3_600_000;

/// Time in milliseconds after which a run that another server claimed but did not start is started here.
const CLAIM_TIMEOUT_MS: u64 = 10_000;

/// Interval in milliseconds of looking for schedules whose time was set under a wrong clock.
const CORRECTION_INTERVAL_MS: u64 = 60_000;

/// How far the clocks of servers may differ, in milliseconds.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 60_000;

/// The scheduler: starts due schedules until the server stops.
pub async fn run_scheduler(runs: RunService, shutdown: CancellationToken) {
    let mut corrected_at = 0;
    loop {
        let now = SystemClock.now_ms();
        // Also when the clock was set back.
        if now.abs_diff(corrected_at) >= CORRECTION_INTERVAL_MS && correct_schedules(&runs, now).await.is_ok() {
            corrected_at = now;
        }
        // Failures of the database are transient and retried.
        match start_due_schedules(&runs).await {
            Ok(Round::Interrupted) if !shutdown.is_cancelled() => continue,
            Err(error) if !error.is_store_unavailable() => tracing::warn!("cannot read the schedules: {error}"),
            Ok(_) | Err(_) => {}
        }
        let until_next = Duration::from_millis(POLL_INTERVAL_MS - SystemClock.now_ms() % POLL_INTERVAL_MS);
        if shutdown.run_until_cancelled(tokio::time::sleep(until_next)).await.is_none() {
            return;
        }
    }
}

/// Corrects due times that only a clock that was ahead can have set. Without that, a schedule would wait for as long as the
/// clock was ahead.
async fn correct_schedules(runs: &RunService, now: u64) -> Result<(), AppError> {
    let store = runs.stored.store.clone();
    let Ok(all) = tokio::task::spawn_blocking(move || store.list_schedules(None)).await else { return Ok(()) };
    for row in all? {
        let Ok(times) = CronTimes::parse(&row.cron, &row.timezone) else { continue };
        if is_too_late(&times, row.next_at, now) {
            match runs.stored.store.claim_schedule(&row, times.next_after(now)?, None).await {
                Ok(()) => tracing::warn!("corrected the schedule {}, which was set by a clock that was ahead", row.id),
                // Another server was quicker.
                Err(StoreError::ScheduleClaimed) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether a due time is later than any server would set it now.
fn is_too_late(times: &CronTimes, next_at: u64, now: u64) -> bool {
    times.next_after(now + MAX_CLOCK_DIFFERENCE_MS).is_ok_and(|latest| next_at > latest)
}

/// How a round over the due schedules ended.
enum Round {
    /// Each of them had its turn.
    Complete,
    /// Its time was over.
    Interrupted,
}

/// Starts due schedules, whose users take turns, for at most [`MAX_ROUND_TIME`].
async fn start_due_schedules(runs: &RunService) -> Result<Round, AppError> {
    let started = tokio::time::Instant::now();
    let (now, store) = (SystemClock.now_ms(), runs.stored.store.clone());
    let Ok(due) = tokio::task::spawn_blocking(move || store.list_due_schedules(now)).await else {
        return Ok(Round::Complete);
    };
    let mut users_without_place = HashSet::new();
    for key in due? {
        if users_without_place.contains(&key.user) {
            continue;
        }
        if started.elapsed() >= MAX_ROUND_TIME {
            return Ok(Round::Interrupted);
        }
        let Ok(place) = runs.live.reserve_place(&key.user) else {
            // The schedule stays due.
            users_without_place.insert(key.user);
            continue;
        };
        match start_due(runs, &key, place).await {
            Ok(()) | Err(AppError::Store(StoreError::ScheduleClaimed)) => {}
            Err(error) if error.is_store_unavailable() => return Err(error),
            Err(error) => tracing::warn!("cannot start the schedule {}: {error}", key.id),
        }
    }
    Ok(Round::Complete)
}

/// Starts a schedule, if it is still due.
async fn start_due(runs: &RunService, key: &ScheduleKey, place: StartPlace) -> Result<(), AppError> {
    let (store, wanted) = (runs.stored.store.clone(), key.clone());
    let found = tokio::task::spawn_blocking(move || store.find_schedule(&wanted.user, &wanted.id)).await??;
    let now = SystemClock.now_ms();
    match found {
        Some(row) if row.is_pending => start_claimed(runs, &row, place, now).await,
        Some(row) if row.next_at <= now => claim_and_start(runs, row, place, now).await,
        Some(_) | None => Ok(()),
    }
}

/// Claims the run of a due schedule and starts it. A schedule without a next time is looked at again later.
async fn claim_and_start(runs: &RunService, mut row: ScheduleRow, place: StartPlace, now: u64) -> Result<(), AppError> {
    let parsed = CronTimes::parse(&row.cron, &row.timezone);
    let (times, next_at) = match parsed.and_then(|times| times.next_after(now).map(|next_at| (times, next_at))) {
        Ok(computed) => computed,
        Err(error) => {
            let later = now + UNUSABLE_PAUSE_MS;
            return Ok(runs.stored.store.skip_due_time(&row, later, error.to_string()).await?);
        }
    };
    // Of several missed times, the last one counts.
    let at = times.last_before(now).map_or(row.next_at, |last| last.max(row.next_at));
    let is_missed = now.saturating_sub(at) > MAX_DELAY_MS;
    row.skipped += times.count_between(row.next_at, at);
    if is_missed && !row.catches_up {
        row.skipped += 1;
        return Ok(runs.stored.store.claim_schedule(&row, next_at, None).await?);
    }
    if !row.allows_overlap
        && let Some(last) = read_last_run(runs, &row).await?.filter(|run| run.finished_at.is_none())
    {
        let reason = format!("the run {} of the schedule has not ended", last.id);
        row.skipped += 1;
        return Ok(runs.stored.store.skip_due_time(&row, next_at, reason).await?);
    }
    // The run id is derived from the schedule and the time, so that every server would start the same run.
    let run = derive_run_id(&format!("{}\n{}\n{at}", runs.stored.store.owner_of(&row.user), row.id), at);
    runs.stored.store.claim_schedule(&row, next_at, Some((run, at))).await?;
    row.last_run = Some(run.to_string());
    start_run(runs, &row, place, run).await
}

/// The last run of a schedule; `None` if it is not stored.
async fn read_last_run(runs: &RunService, row: &ScheduleRow) -> Result<Option<RunRow>, AppError> {
    let Some(last) = row.last_run.as_deref().and_then(RunId::parse) else { return Ok(None) };
    let store = runs.stored.store.clone();
    Ok(tokio::task::spawn_blocking(move || store.get_run(last)).await??)
}

/// Starts a run that was claimed by a server that ended before starting it.
async fn start_claimed(runs: &RunService, row: &ScheduleRow, place: StartPlace, now: u64) -> Result<(), AppError> {
    let is_started = read_last_run(runs, row).await?.is_some();
    let Some(run) = row.last_run.as_deref().and_then(RunId::parse).filter(|_| !is_started) else {
        return Ok(runs.stored.store.settle_claim(row, None).await?);
    };
    if runs.live.is_live(run) || now.abs_diff(row.last_at.unwrap_or(0)) < CLAIM_TIMEOUT_MS {
        return Ok(());
    }
    start_run(runs, row, place, run).await
}

async fn start_run(runs: &RunService, row: &ScheduleRow, place: StartPlace, run: RunId) -> Result<(), AppError> {
    let call = StartCall {
        place: Some(Arc::new(place)),
        ..StartCall::for_user(&row.user, TriggerKind::Schedule.to_trigger_of(&row.id))
    };
    let started = async {
        let inputs = parse_value(&row.inputs).map_err(|error| {
            let message = format!("the inputs of the schedule {} are not JSON: {}", row.id, error.message);
            StoreError::Corrupt(Corruption::Column(message))
        })?;
        let definition = runs.find_definition(&row.user, &row.workflow).await?;
        runs.start_run(&call, &definition, StartRunRequest { id: Some(run), ..StartRunRequest::with_inputs(inputs) })
            .await
    };
    match started.await {
        Ok(active) => {
            // The next due time may come before the start is stored, so the scheduler does not wait for it.
            let (runs, row) = (runs.clone(), row.clone());
            tokio::spawn(async move { settle_started(&runs, &row, active).await });
            Ok(())
        }
        Err(error) => {
            tracing::warn!("the schedule {} cannot start {}: {error}", row.id, row.workflow);
            Ok(runs.stored.store.settle_claim(row, Some(error.to_string())).await?)
        }
    }
}

/// Settles the claim of a run once its start is stored. If that fails, a later poll settles the claim.
async fn settle_started(runs: &RunService, row: &ScheduleRow, active: ActiveRun) {
    if runs.wait_until_stored(active.id, active.completion).await.is_ok()
        && let Err(error) = runs.stored.store.settle_claim(row, None).await
    {
        tracing::warn!("cannot settle the claim of the schedule {}: {error}", row.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_ahead_makes_a_schedule_late() {
        let times = CronTimes::parse("*/5 * * * *", "UTC").expect("valid");
        let (now, day) = (1_795_000_000_000, 86_400_000);
        let regular = times.next_after(now).expect("a time");
        let of_other = times.next_after(now + MAX_CLOCK_DIFFERENCE_MS).expect("a time");
        assert!(!is_too_late(&times, regular, now) && !is_too_late(&times, of_other, now));
        assert!(is_too_late(&times, times.next_after(now + day).expect("a time"), now));
    }
}
