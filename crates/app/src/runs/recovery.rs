//! Reclaims abandoned runs, at the start and periodically: runs of an earlier server, of other servers that share the
//! database, and of commands.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use flowloom_core::state::OpenStep;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::metrics::{ProcessEvent, count_event};
use flowloom_store::{AbandonedRun, LeftRuns, QuestionExpiry};
use tokio_util::sync::CancellationToken;

use super::question_clock::{Moment, QuestionClock};
use super::service::RunService;
use super::waiting_runs::WaitingRuns;
use crate::error::AppError;

/// Number of abandoned runs that are read in one query.
const RECOVERY_BATCH_RUNS: u32 = 64;

/// Number of reclaimed runs that have made no progress yet. If one of them ends this process, only so many are affected.
const MAX_UNSETTLED_RUNS: usize = 16;

/// Time after which a reclaimed run that makes no progress no longer delays others.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Age of a process before it reclaims a run that may have ended earlier processes. If processes are killed faster than
/// that, they die for another reason.
const SUSPECT_DELAY: Duration = Duration::from_secs(2);

/// How long a process lives with such a run before it reclaims the next one, if the run makes no progress.
const SUSPECT_TRIAL: Duration = Duration::from_secs(5);

/// Number of failures of the database in a row after which they are reported.
const REPORTED_FAILURES: u32 = 10;

/// Pause before a run that could not be resumed is tried again. It doubles with every failure.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Longest such pause.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(300);

/// Number of runs of other configurations that a report names.
const MAX_NAMED_RUNS: u32 = 5;

/// Maximum number of questions whose time this process keeps after the clock was set back.
const MAX_HELD_QUESTIONS: u32 = 100_000;

/// How long a new run that was handed to another engine is left to it. Until that engine has a worker claim it, the run looks
/// like an abandoned one.
pub(super) const HANDOVER_TIME: Duration = Duration::from_secs(2);

/// Pause between two searches while more runs are to be reclaimed.
const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// The recovery task of a server.
pub struct RecoveryTask {
    runs: RunService,
    started: Instant,
    /// Runs that could not be resumed here.
    failed_runs: HashMap<RunId, FailedRun>,
    /// Number of searches that failed in a row.
    failed_searches: u32,
    /// Reclaimed runs without progress, with the times of their claims.
    unsettled: Vec<(RunId, Instant)>,
    /// Runs that were reclaimed within [`SETTLE_TIME`].
    recent_claims: HashMap<RunId, Instant>,
    question_clock: QuestionClock,
    /// The reclaimed run that may end this process, with the time of its claim.
    suspect: Option<(RunId, Instant)>,
    /// The runs that wait for another configuration, as reported, and the time of the last search.
    left_runs: LeftRuns,
    counted_at: Option<Instant>,
    /// The runs that no worker of another engine drives.
    waiting_runs: WaitingRuns,
}

/// A run that could not be resumed. The reason may pass: a secret is set, or another process lets go of the run.
struct FailedRun {
    /// When it is tried again.
    retry_at: Instant,
    /// The pause after another failure.
    next_pause: Duration,
}

impl RecoveryTask {
    /// A task that resumes the runs that it finds with `runs`.
    pub fn new(runs: RunService) -> RecoveryTask {
        RecoveryTask {
            runs,
            started: Instant::now(),
            failed_runs: HashMap::new(),
            failed_searches: 0,
            unsettled: Vec::new(),
            recent_claims: HashMap::new(),
            suspect: None,
            question_clock: QuestionClock::default(),
            left_runs: LeftRuns::default(),
            counted_at: None,
            waiting_runs: WaitingRuns::default(),
        }
    }

    /// Reclaims runs periodically until the server stops.
    pub async fn run_periodically(mut self, shutdown: CancellationToken) {
        let interval = self.runs.stored.config.recovery_interval;
        loop {
            let pause =
                if self.unsettled.is_empty() && self.suspect.is_none() { interval } else { interval.min(SHORT_PAUSE) };
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            let reclaimed = self.reclaim_runs().await;
            let was_read = !matches!(&reclaimed, Err(error) if error.is_store_unavailable());
            self.runs.stored.store.watch_for_outage(was_read).await;
            match reclaimed {
                Ok(()) => {
                    if std::mem::take(&mut self.failed_searches) >= REPORTED_FAILURES {
                        tracing::info!("abandoned runs are reclaimed again");
                    }
                    self.report_left_runs().await;
                }
                Err(error) => self.count_failed_search(&error),
            }
        }
    }

    /// Counts a failed search. Failures of the database are mostly transient and retried, so only those that last are
    /// reported.
    fn count_failed_search(&mut self, error: &AppError) {
        self.failed_searches += 1;
        if !error.is_store_unavailable() || self.failed_searches == REPORTED_FAILURES {
            tracing::warn!(code = %error.code(), "cannot reclaim runs: {error}");
        }
    }

    /// Reports the runs that wait for a server with another configuration, when they have changed.
    async fn report_left_runs(&mut self) {
        if self.counted_at.is_some_and(|at| at.elapsed() < self.runs.stored.config.recovery_interval) {
            return;
        }
        self.counted_at = Some(Instant::now());
        let store = self.runs.stored.store.clone();
        let found = tokio::task::spawn_blocking(move || store.find_left_runs(MAX_NAMED_RUNS)).await;
        let Ok(Ok(left)) = found else { return };
        if left == self.left_runs {
            return;
        }
        match left.count {
            0 => tracing::info!("no run waits for another configuration any more"),
            count => tracing::warn!(count, "{}", describe_left_runs(&left)),
        }
        self.left_runs = left;
    }

    /// Reclaims runs that no worker drives, as far as there is capacity: a few at a time, and those that may end this
    /// process one at a time. Fails if the store cannot be read or written.
    pub async fn reclaim_runs(&mut self) -> Result<(), AppError> {
        self.forget_settled().await?;
        // Runs are reclaimed also if it is not known which questions have expired.
        let expired = self.expire_questions().await;
        self.reclaim_abandoned().await?;
        expired
    }

    async fn reclaim_abandoned(&mut self) -> Result<(), AppError> {
        let store = self.runs.stored.store.clone();
        let limit = self.search_limit();
        let orphans = tokio::task::spawn_blocking(move || store.abandoned_runs(limit)).await??;
        if self.runs.stored.config.engine.restate.is_some() {
            self.waiting_runs.note_runs(orphans.iter().map(|orphan| orphan.id), Instant::now());
        }
        for orphan in orphans {
            if self.is_postponed(orphan.id) || self.is_being_handed_over(&orphan) {
                continue;
            }
            if orphan.is_only_held() {
                self.runs.stored.store.release_held_run(orphan.id).await?;
                continue;
            }
            if self.runs.live.check_capacity().is_err() {
                return Ok(());
            }
            // A session of another engine decides about the runs of that engine.
            if orphan.is_hopeless() && self.runs.stored.config.engine.restate.is_none() {
                self.quarantine_run(orphan).await?;
            } else if self.recent_claims.contains_key(&orphan.id) && !orphan.has_commands {
                // The run stopped right after it was reclaimed. The reason may persist, so it is tried again later.
                self.schedule_retry(orphan.id);
            } else if self.may_reclaim(&orphan) {
                self.reclaim_run(orphan).await?;
            }
        }
        Ok(())
    }

    /// Asks the runs with questions that have expired to continue.
    async fn expire_questions(&mut self) -> Result<(), AppError> {
        let moment = Moment { now_ms: SystemClock.now_ms(), at: Instant::now() };
        if self.question_clock.observe_moment(moment) {
            let store = self.runs.stored.store.clone();
            let list = move || store.list_waiting_questions(MAX_HELD_QUESTIONS);
            self.question_clock.hold_questions(&tokio::task::spawn_blocking(list).await??, moment);
        }
        let (store, limit) = (self.runs.stored.store.clone(), self.search_limit());
        let list = move || store.list_expired_questions(moment.now_ms, limit);
        let mut expired: BTreeSet<QuestionExpiry> = tokio::task::spawn_blocking(list).await??.into_iter().collect();
        expired.extend(self.question_clock.list_due(moment.at));
        for expiry in expired {
            if !self.is_postponed(expiry.run) {
                let continued = self.expire_question(expiry, moment.now_ms).await;
                self.report_failure(expiry.run, continued)?;
            }
        }
        Ok(())
    }

    /// Asks a run to continue until its question is no longer open. The worker that continues it may have a clock that is
    /// behind.
    async fn expire_question(&mut self, expiry: QuestionExpiry, now: u64) -> Result<(), AppError> {
        let stored = self.runs.stored.clone();
        let opened = match stored.open_run_by_id(expiry.run).await {
            Ok(opened) => Some(opened),
            // It was deleted in between.
            Err(error) if error.is_run_missing() => None,
            Err(error) => return Err(error),
        };
        let is_meant =
            |open: OpenStep<'_>| open.question.and_then(|question| question.expires_at) == Some(expiry.expires_at);
        let state = opened.map(|opened| opened.state());
        let has_ended = state.as_ref().is_some_and(|state| state.status.is_final());
        if has_ended || state.is_none_or(|state| !state.open_steps().any(is_meant)) {
            match has_ended {
                true => stored.store.suspend_expiry(expiry).await?,
                false => stored.store.forget_expiry(expiry).await?,
            }
            self.question_clock.forget_question(expiry);
            return Ok(());
        }
        // Because of its command, the run is reclaimed as others are, and later if it cannot continue now.
        if !stored.has_pending_commands(expiry.run).await? {
            stored.store.post_command(expiry.run, resume_command(expiry, now), now).await?;
        }
        // Runs in memory are not found by the search.
        if stored.store.is_in_memory() { self.runs.resume_run(expiry.run).await } else { Ok(()) }
    }

    /// Number of runs to search for, besides those that could not be resumed.
    fn search_limit(&self) -> u32 {
        RECOVERY_BATCH_RUNS + u32::try_from(self.failed_runs.len()).unwrap_or(u32::MAX - RECOVERY_BATCH_RUNS)
    }

    /// Whether a run could not be resumed, and is to be tried again later.
    fn is_postponed(&self, run: RunId) -> bool {
        self.failed_runs.get(&run).is_some_and(|failed| Instant::now() < failed.retry_at)
    }

    /// Whether another engine drives the runs, and has probably been asked to drive this one. A run of a server whose clock is
    /// ahead is not waited for.
    fn is_being_handed_over(&self, orphan: &AbandonedRun) -> bool {
        let age = SystemClock.now_ms().checked_sub(orphan.id.at_ms()).map(Duration::from_millis);
        self.runs.stored.config.engine.restate.is_some()
            && !orphan.has_commands
            && orphan.deaths == 0
            && age.is_some_and(|age| age < HANDOVER_TIME)
    }

    /// Forgets the reclaimed runs that have made progress since, or had time enough.
    async fn forget_settled(&mut self) -> Result<(), AppError> {
        let store = &self.runs.stored.store;
        let mut unsettled = Vec::new();
        for (run, claimed) in std::mem::take(&mut self.unsettled) {
            if claimed.elapsed() < SETTLE_TIME && !store.has_settled(run)? {
                unsettled.push((run, claimed));
            }
        }
        self.unsettled = unsettled;
        self.recent_claims.retain(|_, claimed| claimed.elapsed() < SETTLE_TIME);
        if let Some((run, claimed)) = self.suspect {
            let is_over = claimed.elapsed() >= SUSPECT_TRIAL;
            if is_over {
                store.clear_suspicion(run).await?;
            }
            if is_over || store.has_settled(run)? {
                self.suspect = None;
            }
        }
        Ok(())
    }

    fn may_reclaim(&self, orphan: &AbandonedRun) -> bool {
        match orphan.is_suspect() && !orphan.has_commands {
            true => self.suspect.is_none() && self.unsettled.is_empty() && self.started.elapsed() >= SUSPECT_DELAY,
            false => self.unsettled.len() < MAX_UNSETTLED_RUNS,
        }
    }

    async fn reclaim_run(&mut self, orphan: AbandonedRun) -> Result<(), AppError> {
        let id = orphan.id;
        let resumed = self.runs.resume_run(id).await;
        if resumed.is_ok() {
            // Another engine is asked again and again until it drives the run.
            if self.runs.stored.config.engine.restate.is_none() {
                self.recent_claims.insert(id, Instant::now());
                count_event(ProcessEvent::RunReclaimed);
                tracing::info!(run = %id, deaths = orphan.deaths, "reclaimed a run");
            }
            self.unsettled.push((id, Instant::now()));
            self.suspect = self.suspect.or(orphan.is_suspect().then(|| (id, Instant::now())));
        }
        self.report_failure(id, resumed)
    }

    async fn quarantine_run(&mut self, orphan: AbandonedRun) -> Result<(), AppError> {
        let (id, deaths) = (orphan.id, orphan.deaths);
        let done = self.runs.stored.store.quarantine_run(id, SystemClock.now_ms()).await.map_err(AppError::from);
        if matches!(done, Ok(true)) {
            tracing::warn!(
                run = %id,
                "{deaths} processes in a row ended while they drove the run {id}, which is quarantined; to try again: flowloom resume {id}"
            );
        }
        self.report_failure(id, done.map(drop))
    }

    /// Reports a run that cannot be reclaimed here, once, and schedules the next attempt. Fails if the database is the reason.
    fn report_failure(&mut self, id: RunId, done: Result<(), AppError>) -> Result<(), AppError> {
        match done {
            Ok(()) => {
                self.failed_runs.remove(&id);
                Ok(())
            }
            // Another server reclaimed it first.
            Err(error) if error.is_run_owned() => Ok(()),
            Err(error) if error.is_store_unavailable() => Err(error),
            Err(error) => {
                if !self.failed_runs.contains_key(&id) {
                    tracing::warn!(run = %id, code = %error.code(), "cannot resume the run {id}, which is tried again later: {error}");
                }
                self.schedule_retry(id);
                Ok(())
            }
        }
    }

    fn schedule_retry(&mut self, id: RunId) {
        let now = Instant::now();
        let failed = self.failed_runs.entry(id).or_insert(FailedRun { retry_at: now, next_pause: FIRST_RETRY_PAUSE });
        failed.retry_at = now + failed.next_pause;
        failed.next_pause = MAX_RETRY_PAUSE.min(failed.next_pause * 2);
    }
}

/// The command that continues a run whose question has expired.
fn resume_command(expiry: QuestionExpiry, now: u64) -> RunCommand {
    RunCommand {
        id: format!("question-expired-{}-{now}", expiry.expires_at),
        sender: "the time limit of a question".to_owned(),
        action: CommandAction::Resume { now_ms: Some(now.max(expiry.expires_at)) },
    }
}

/// Reports which runs wait for another configuration.
fn describe_left_runs(left: &LeftRuns) -> String {
    let (runs, object) = match left.count {
        1 => ("1 run was".to_owned(), "it"),
        count => (format!("{count} runs were"), "them"),
    };
    let named: Vec<String> = left.oldest.iter().map(ToString::to_string).collect();
    let more = if left.count > named.len() as u64 { ", …" } else { "" };
    format!(
        "{runs} started under another configuration, and this server leaves {object} alone: {}{more}; flowloom show RUN says what \
         differs, and flowloom resume RUN continues one",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_runs_of_other_configurations_names_some() {
        let runs: Vec<RunId> = (1..=5).map(|number| RunId::new(number, [0; 10])).collect();
        let one = describe_left_runs(&LeftRuns { count: 1, oldest: runs[..1].to_vec() });
        assert!(one.starts_with("1 run was started") && one.contains(&format!("alone: {};", runs[0])), "{one}");
        let many = describe_left_runs(&LeftRuns { count: 7, oldest: runs.clone() });
        assert!(many.starts_with("7 runs were started") && many.contains(&format!("{}, …;", runs[4])), "{many}");
    }
}
