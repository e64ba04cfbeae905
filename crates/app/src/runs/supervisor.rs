//! Supervises the runs that this process drives for those who call it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_runtime::publish::Subscription;
use flowloom_runtime::{Run, RunOutcome, SubscribeHandle};
use tokio::sync::watch;

use super::start::StartedRun;
use crate::error::AppError;
use crate::telemetry::TraceExporter;

/// The share of the places that is kept for users with few runs: one of eight.
const RESERVED_SHARE: usize = 8;

/// The runs that this process drives, and what waits for them.
pub struct RunSupervisor {
    runs: Mutex<LiveRuns>,
    max: usize,
    is_closed: AtomicBool,
    /// Where finished runs are traced.
    telemetry: Option<TraceExporter>,
}

/// The live runs.
#[derive(Default)]
struct LiveRuns {
    by_id: HashMap<RunId, SupervisedRun>,
    /// The number of live runs of each user who has some.
    counts: HashMap<Arc<str>, usize>,
}

impl LiveRuns {
    fn insert(&mut self, id: RunId, run: SupervisedRun) {
        let user = run.user.clone();
        if self.by_id.insert(id, run).is_none() {
            *self.counts.entry(user).or_default() += 1;
        }
    }

    fn remove(&mut self, id: RunId) {
        let Some(run) = self.by_id.remove(&id) else { return };
        if let Some(count) = self.counts.get_mut(&run.user) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&run.user);
            }
        }
    }
}

/// A live run.
#[derive(Clone)]
struct SupervisedRun {
    user: Arc<str>,
    listen: SubscribeHandle,
    ending: RunCompletion,
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
    /// Waits for the outcome; `None` if the driving task was aborted.
    pub async fn wait(mut self) -> Option<Arc<FinishedRun>> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl RunSupervisor {
    /// A supervisor of at most `max` runs, whose ends are reported to `telemetry`.
    pub fn new(max: usize, telemetry: Option<TraceExporter>) -> Arc<RunSupervisor> {
        Arc::new(RunSupervisor { runs: Mutex::default(), max, is_closed: AtomicBool::new(false), telemetry })
    }

    fn lock_runs(&self) -> MutexGuard<'_, LiveRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the runs are exported as traces when they end.
    pub fn exports_traces(&self) -> bool {
        self.telemetry.is_some()
    }

    /// The number of live runs.
    pub fn count(&self) -> usize {
        self.lock_runs().by_id.len()
    }

    /// Fails with `TooManyRuns` if the limit is reached or the server is stopping.
    pub fn check_capacity(&self) -> Result<(), AppError> {
        if self.is_closed() {
            return Err(AppError::Stopping);
        }
        match self.count() < self.max {
            true => Ok(()),
            false => Err(AppError::TooManyRuns(self.max)),
        }
    }

    /// Fails with `TooManyRuns` if a user may start no further run: the limit is reached, or only the places are left that
    /// are kept for users with fewer runs.
    pub fn check_start(&self, user: &str) -> Result<(), AppError> {
        self.check_capacity()?;
        let live = self.lock_runs();
        let (reserved, own) = (self.max / RESERVED_SHARE, live.counts.get(user).copied().unwrap_or_default());
        match live.by_id.len() < self.max - reserved || own < reserved {
            true => Ok(()),
            false => Err(AppError::TooManyRunsOfUser { own, reserved, max: self.max }),
        }
    }

    /// Whether no further runs are accepted because the program is stopping.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Stops accepting runs.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Drives a run that was started, and hears it from its first event on if the call wants that.
    pub async fn start_run(self: &Arc<RunSupervisor>, started: StartedRun, needs_events: bool) -> ActiveRun {
        let StartedRun { run, plan } = started;
        let (id, subscription) = (run.id(), needs_events.then(|| run.subscribe()));
        ActiveRun { id, subscription, completion: Some(self.drive_run(run, plan).await) }
    }

    /// A run that was started before.
    pub fn find_started(&self, id: RunId) -> ActiveRun {
        ActiveRun { id, completion: self.find_completion(id), subscription: None }
    }

    /// Drives a run of `plan`, on its own task once it first suspends.
    pub async fn drive_run(self: &Arc<RunSupervisor>, run: Run, plan: Arc<Plan>) -> RunCompletion {
        let id = run.id();
        let (over, ending) = watch::channel(None);
        let ending = RunCompletion(ending);
        let supervised =
            SupervisedRun { user: run.user().clone(), listen: run.subscribe_handle(), ending: ending.clone() };
        self.lock_runs().insert(id, supervised);
        let live = self.clone();
        let mut driving = Box::pin(async move {
            let outcome = run.drive_to_end().await;
            // Removed before waiters are woken, so that they find it gone.
            live.lock_runs().remove(id);
            if let Some(telemetry) = &live.telemetry {
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
            supervisor.lock_runs().insert(id, SupervisedRun { user: user.into(), listen, ending });
        }
    }

    #[test]
    fn a_user_with_many_runs_leaves_places_for_others() {
        let supervisor = RunSupervisor::new(16, None);
        add_runs(&supervisor, "greedy", 14);
        assert!(matches!(supervisor.check_start("greedy"), Err(AppError::TooManyRunsOfUser { own: 14, .. })));
        assert!(supervisor.check_start("ann").is_ok());
        add_runs(&supervisor, "ann", 2);
        assert!(matches!(supervisor.check_start("bob"), Err(AppError::TooManyRuns(16))));
        supervisor.run_ids().into_iter().for_each(|id| supervisor.lock_runs().remove(id));
        assert!(supervisor.check_start("greedy").is_ok() && supervisor.lock_runs().counts.is_empty());
    }

    #[test]
    fn few_places_are_for_whoever_comes_first() {
        let supervisor = RunSupervisor::new(2, None);
        add_runs(&supervisor, "ann", 1);
        assert!(supervisor.check_start("ann").is_ok());
    }
}
