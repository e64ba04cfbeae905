//! Supervises the runs that this process drives for those who call it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_runtime::publish::Subscription;
use flowloom_runtime::{Run, RunError, RunOutcome, SubscribeHandle};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::report::{StartedRunNames, report_followed, report_outcome};
use super::start::StartedRun;
use crate::error::AppError;
use crate::telemetry::TraceExporter;

/// The share of the places that is kept for users with few runs: one of eight.
const RESERVED_SHARE: usize = 8;

/// The number of places of `max` that are kept for users with fewer runs; at least one, unless there is only one.
fn count_kept_places(max: usize) -> usize {
    (max / RESERVED_SHARE).max(1).min(max - max.min(1))
}

/// The runs that this process drives, and what waits for them.
pub struct RunSupervisor {
    runs: Mutex<LiveRuns>,
    max: usize,
    is_closed: AtomicBool,
    /// Where finished runs are traced.
    telemetry: Option<TraceExporter>,
}

/// The live runs, and the places of those that are about to start.
#[derive(Default)]
struct LiveRuns {
    by_id: HashMap<RunId, SupervisedRun>,
    /// The number of live runs and reserved places of each user who has some.
    counts: HashMap<Arc<str>, usize>,
    /// The number of reserved places.
    reserved: usize,
}

impl LiveRuns {
    fn insert(&mut self, id: RunId, run: SupervisedRun) {
        let user = run.user.clone();
        if self.by_id.insert(id, run).is_none() {
            *self.counts.entry(user).or_default() += 1;
        }
    }

    fn remove(&mut self, id: RunId) {
        if let Some(run) = self.by_id.remove(&id) {
            self.uncount_user(&run.user);
        }
    }

    fn reserve_place(&mut self, user: &Arc<str>) {
        self.reserved += 1;
        *self.counts.entry(user.clone()).or_default() += 1;
    }

    fn free_place(&mut self, user: &str) {
        self.reserved -= 1;
        self.uncount_user(user);
    }

    fn uncount_user(&mut self, user: &str) {
        if let Some(count) = self.counts.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(user);
            }
        }
    }
}

/// A place for a run that a user is about to start. It becomes free when the run is counted instead, or when the place is
/// dropped.
pub struct StartPlace {
    live: Arc<RunSupervisor>,
    user: Arc<str>,
    is_free: AtomicBool,
}

impl StartPlace {
    /// Frees the place, if it is not free yet.
    pub(crate) fn release(&self) {
        self.release_in(&mut self.live.lock_runs());
    }

    fn release_in(&self, live: &mut LiveRuns) {
        if !self.is_free.swap(true, Ordering::Relaxed) {
            live.free_place(&self.user);
        }
    }
}

impl Drop for StartPlace {
    fn drop(&mut self) {
        self.release();
    }
}

/// A live run.
#[derive(Clone)]
struct SupervisedRun {
    user: Arc<str>,
    listen: SubscribeHandle,
    ending: RunCompletion,
    driven_since: Instant,
}

/// A run that a request started, or found already running.
pub struct ActiveRun {
    /// The run.
    pub id: RunId,
    /// Resolves when the run is no longer driven; `None` if this process does not drive it.
    pub completion: Option<RunCompletion>,
    /// All events from the start, if the request streams them.
    pub subscription: Option<Subscription>,
}

/// The outcome of a run that is no longer driven.
pub struct FinishedRun {
    /// The plan that it followed.
    pub plan: Arc<Plan>,
    /// Its outcome.
    pub outcome: RunOutcome,
}

/// Resolves when a run is no longer driven.
#[derive(Clone)]
pub struct RunCompletion(watch::Receiver<Option<Arc<FinishedRun>>>);

impl RunCompletion {
    /// Whether this process has given up the run before its creation was stored. A run that another process has created first
    /// is stored, and one whose first commit is in doubt may be.
    pub fn is_unstored(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|ended| {
            let outcome = &ended.outcome;
            let may_be_stored = |error: &RunError| error.is_ownership_lost() || error.is_in_doubt();
            outcome.records.is_empty() && !outcome.broken.as_ref().is_some_and(may_be_stored)
        })
    }

    /// Whether this process has given up the run, and its last commit is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        let ended = self.0.borrow();
        ended.as_ref().and_then(|ended| ended.outcome.broken.as_ref()).is_some_and(RunError::is_in_doubt)
    }

    /// Waits for the outcome; `None` if the driving task was aborted.
    pub async fn wait(mut self) -> Option<Arc<FinishedRun>> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// The entry of a run that is being driven. It is removed also if driving the run panics.
struct LiveEntry {
    live: Arc<RunSupervisor>,
    id: RunId,
}

impl Drop for LiveEntry {
    fn drop(&mut self) {
        self.live.lock_runs().remove(self.id);
    }
}

impl RunSupervisor {
    /// A supervisor of at most `max` runs, whose ends are reported to `telemetry`.
    pub fn new(max: usize, telemetry: Option<TraceExporter>) -> Arc<RunSupervisor> {
        Arc::new(RunSupervisor { runs: Mutex::default(), max, is_closed: AtomicBool::new(false), telemetry })
    }

    fn lock_runs(&self) -> MutexGuard<'_, LiveRuns> {
        self.runs.lock()
    }

    /// Whether the runs are exported as traces when they end.
    pub fn exports_traces(&self) -> bool {
        self.telemetry.is_some()
    }

    /// Waits until the runs that have ended are exported as traces, but not for long.
    pub async fn flush_traces(&self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.flush_traces().await;
        }
    }

    /// The number of live runs.
    pub fn count(&self) -> usize {
        self.lock_runs().by_id.len()
    }

    /// Fails with `TooManyRuns` if no run can be reclaimed: the limit is reached, but for the places that are kept for users
    /// with few runs, or the server is stopping.
    pub fn check_capacity(&self) -> Result<(), AppError> {
        self.check_places(&self.lock_runs(), self.max - count_kept_places(self.max))
    }

    /// Fails with `TooManyRuns` if `places` are taken or the server is stopping.
    fn check_places(&self, live: &LiveRuns, places: usize) -> Result<(), AppError> {
        if self.is_closed() {
            return Err(AppError::Stopping);
        }
        match live.by_id.len() + live.reserved < places {
            true => Ok(()),
            false => Err(AppError::TooManyRuns(self.max)),
        }
    }

    /// Reserves a place for a run of a user. Calls that start at the same time cannot exceed a limit together. Fails with
    /// `TooManyRuns` if the user may start no further run: the limit is reached, or only the places are left that are kept
    /// for users with fewer runs.
    pub fn reserve_place(self: &Arc<RunSupervisor>, user: &str) -> Result<StartPlace, AppError> {
        let mut live = self.lock_runs();
        self.check_places(&live, self.max)?;
        let (kept, own) = (count_kept_places(self.max), live.counts.get(user).copied().unwrap_or_default());
        if live.by_id.len() + live.reserved >= self.max - kept && own >= kept {
            return Err(AppError::TooManyRunsOfUser { own, reserved: kept, max: self.max });
        }
        let user = Arc::from(user);
        live.reserve_place(&user);
        Ok(StartPlace { live: self.clone(), user, is_free: AtomicBool::new(false) })
    }

    /// Whether no further runs are accepted because the program is stopping.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Stops accepting runs.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Drives a started run. If `needs_events` is set, also subscribes to it from its first event.
    pub async fn start_run(
        self: &Arc<RunSupervisor>,
        started: StartedRun,
        place: Option<&StartPlace>,
        needs_events: bool,
    ) -> ActiveRun {
        let StartedRun { run, plan } = started;
        let (id, subscription) = (run.id(), needs_events.then(|| run.subscribe()));
        ActiveRun { id, subscription, completion: Some(self.supervise_run(run, plan, place).await) }
    }

    /// A run that was started before.
    pub fn find_started(&self, id: RunId) -> ActiveRun {
        ActiveRun { id, completion: self.find_completion(id), subscription: None }
    }

    /// Drives a run of `plan`, on its own task once it first suspends.
    pub async fn drive_run(self: &Arc<RunSupervisor>, run: Run, plan: Arc<Plan>) -> RunCompletion {
        self.supervise_run(run, plan, None).await
    }

    async fn supervise_run(
        self: &Arc<RunSupervisor>,
        run: Run,
        plan: Arc<Plan>,
        place: Option<&StartPlace>,
    ) -> RunCompletion {
        let (id, user) = (run.id(), run.user().clone());
        let (over, ending) = watch::channel(None);
        let ending = RunCompletion(ending);
        let (listen, driven_since) = (run.subscribe_handle(), Instant::now());
        let supervised = SupervisedRun { user: user.clone(), listen, ending: ending.clone(), driven_since };
        {
            let mut live = self.lock_runs();
            if let Some(place) = place {
                place.release_in(&mut live);
            }
            live.insert(id, supervised);
        }
        let (live, entry) = (self.clone(), LiveEntry { live: self.clone(), id });
        let is_driven_here = run.is_local();
        let mut driving = Box::pin(async move {
            let outcome = run.drive_to_end().await;
            let started = StartedRunNames { plan: &plan, user: &user };
            match is_driven_here {
                true => report_outcome(&outcome, Some(started)),
                false => report_followed(&outcome, started),
            }
            // Removed before waiters are woken, so that they find it gone.
            drop(entry);
            if let Some(telemetry) = live.telemetry.as_ref().filter(|_| is_driven_here) {
                telemetry.export_run(&outcome.state);
            }
            // There may be no waiter.
            let _ = over.send(Some(Arc::new(FinishedRun { plan, outcome })));
        });
        // Many runs never suspend: spawning a task would take longer than the run.
        if futures_util::poll!(&mut driving).is_pending() {
            tokio::spawn(driving);
        }
        ending
    }

    /// Resolves when a run that was just started is in the journal, or has failed to get there.
    pub async fn wait_until_stored(&self, id: RunId) {
        if let Some(mut subscription) = self.subscribe(id)
            && subscription.after() == 0
        {
            subscription.next().await;
        }
    }

    /// How long a run has been driven; zero if it is not live here.
    pub fn driven_for(&self, id: RunId) -> Duration {
        self.lock_runs().by_id.get(&id).map_or(Duration::ZERO, |entry| entry.driven_since.elapsed())
    }

    /// The completion of a live run; `None` if it is not live here.
    pub fn find_completion(&self, id: RunId) -> Option<RunCompletion> {
        self.lock_runs().by_id.get(&id).map(|entry| entry.ending.clone())
    }

    /// Subscribes to a live run from now on; `None` if it is not live here.
    pub fn subscribe(&self, id: RunId) -> Option<Subscription> {
        let listen = self.lock_runs().by_id.get(&id).map(|entry| entry.listen.clone());
        listen?.subscribe()
    }

    /// Whether this process drives a run.
    pub fn is_live(&self, id: RunId) -> bool {
        self.lock_runs().by_id.contains_key(&id)
    }

    /// Waits until a run is no longer driven.
    pub async fn wait_for_run(&self, id: RunId) {
        if let Some(ending) = self.find_completion(id) {
            ending.wait().await;
        }
    }

    /// The ids of the live runs.
    pub fn run_ids(&self) -> Vec<RunId> {
        self.lock_runs().by_id.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_runs(supervisor: &RunSupervisor, user: &str, count: u8) {
        for number in 0..count {
            let (listen, ending) = (SubscribeHandle::default(), RunCompletion(watch::channel(None).1));
            let id = RunId::new(user.len() as u64, [number; 10]);
            supervisor
                .lock_runs()
                .insert(id, SupervisedRun { user: user.into(), listen, ending, driven_since: Instant::now() });
        }
    }

    #[test]
    fn a_user_with_many_runs_leaves_places_for_others() {
        let supervisor = RunSupervisor::new(16, None);
        add_runs(&supervisor, "greedy", 14);
        assert!(matches!(supervisor.reserve_place("greedy"), Err(AppError::TooManyRunsOfUser { own: 14, .. })));
        assert!(supervisor.reserve_place("ann").is_ok());
        add_runs(&supervisor, "ann", 2);
        assert!(matches!(supervisor.reserve_place("bob"), Err(AppError::TooManyRuns(16))));
        supervisor.run_ids().into_iter().for_each(|id| supervisor.lock_runs().remove(id));
        assert!(supervisor.reserve_place("greedy").is_ok() && supervisor.lock_runs().counts.is_empty());
    }

    #[test]
    fn the_last_of_few_places_is_for_a_user_without_runs() {
        assert_eq!([0, 1, 2, 7, 8, 64].map(count_kept_places), [0, 0, 1, 1, 1, 8]);
        let supervisor = RunSupervisor::new(2, None);
        add_runs(&supervisor, "ann", 1);
        assert!(matches!(supervisor.reserve_place("ann"), Err(AppError::TooManyRunsOfUser { own: 1, .. })));
        assert!(supervisor.reserve_place("bob").is_ok());
        assert!(RunSupervisor::new(1, None).reserve_place("ann").is_ok());
    }

    #[test]
    fn starts_at_the_same_time_leave_the_share_of_others() {
        let supervisor = RunSupervisor::new(16, None);
        let greedy: Vec<StartPlace> = (0..1000).filter_map(|_| supervisor.reserve_place("greedy").ok()).collect();
        let others: Vec<StartPlace> =
            ["ann", "bob", "cid"].into_iter().filter_map(|user| supervisor.reserve_place(user).ok()).collect();
        assert_eq!((greedy.len(), others.len()), (14, 2));
        // A place that its run has taken is not freed twice.
        greedy[0].release();
        drop(greedy);
        assert_eq!(supervisor.lock_runs().reserved, 2);
        drop(others);
        assert!(supervisor.lock_runs().counts.is_empty());
    }

    /// Users who each retry a refused start share the capacity that ending runs release, regardless of who asks first.
    #[test]
    fn a_place_that_becomes_free_goes_to_the_user_with_fewer_runs() {
        let supervisor = RunSupervisor::new(8, None);
        let mut greedy: Vec<StartPlace> = (0..7).filter_map(|_| supervisor.reserve_place("greedy").ok()).collect();
        let ann = supervisor.reserve_place("ann").ok();
        assert!(ann.is_some() && supervisor.reserve_place("bob").is_err());
        greedy.pop();
        let refused = supervisor.reserve_place("greedy").is_err();
        assert!(refused && supervisor.reserve_place("bob").is_ok());
    }
}
