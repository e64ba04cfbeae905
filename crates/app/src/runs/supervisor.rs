//! Supervises the runs that this process drives for those who call it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_runtime::publish::Subscription;
use flowloom_runtime::{Control, Listen, Outcome, Run};
use tokio::sync::watch;

use super::start::StartedRun;
use crate::telemetry::Telemetry;

/// Live runs by id.
pub struct Live {
    runs: Mutex<HashMap<RunId, Entry>>,
    max: usize,
    is_closed: AtomicBool,
    /// Where finished runs are traced.
    telemetry: Option<Telemetry>,
}

/// A live run.
#[derive(Clone)]
struct Entry {
    control: Control,
    listen: Listen,
    ending: Ending,
}

/// A run that a request started, or found already running.
pub struct Begun {
    /// The run.
    pub id: RunId,
    /// Resolves when the run is no longer driven; `None` if this process does not drive it.
    pub ending: Option<Ending>,
    /// All events from the start, if the request streams them.
    pub heard: Option<Subscription>,
}

/// The outcome of a run that is no longer driven.
pub struct Ended {
    /// The plan that it followed.
    pub plan: Arc<Plan>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Resolves when a run is no longer driven.
#[derive(Clone)]
pub struct Ending(watch::Receiver<Option<Arc<Ended>>>);

impl Ending {
    /// Waits for the outcome; `None` if the driving task was aborted.
    pub async fn wait(mut self) -> Option<Arc<Ended>> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl Live {
    /// A supervisor of at most `max` runs, whose ends are reported to `telemetry`.
    pub fn new(max: usize, telemetry: Option<Telemetry>) -> Arc<Live> {
        Arc::new(Live { runs: Mutex::default(), max, is_closed: AtomicBool::new(false), telemetry })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of live runs.
    pub fn count(&self) -> usize {
        self.runs().len()
    }

    /// Fails with `TooManyRuns` if the limit is reached or the server is stopping.
    pub fn admit(&self) -> Result<(), StepError> {
        if self.is_closed() {
            return Err(StepError::new(Code::TooManyRuns, "the server is stopping"));
        }
        match self.count() < self.max {
            true => Ok(()),
            false => Err(StepError::new(
                Code::TooManyRuns,
                format!("{} runs are running already, which is the limit", self.max),
            )),
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
    pub async fn begin(self: &Arc<Live>, started: StartedRun, is_heard: bool) -> Begun {
        let StartedRun { run, plan } = started;
        let (id, heard) = (run.id(), is_heard.then(|| run.subscribe()));
        Begun { id, heard, ending: Some(self.drive(run, plan).await) }
    }

    /// A run that was started before.
    pub fn again(&self, id: RunId) -> Begun {
        Begun { id, ending: self.ending(id), heard: None }
    }

    /// Drives a run of `plan`, on its own task once it first suspends.
    pub async fn drive(self: &Arc<Live>, run: Run, plan: Arc<Plan>) -> Ending {
        let id = run.id();
        let (over, ending) = watch::channel(None);
        let ending = Ending(ending);
        self.runs().insert(id, Entry { control: run.control(), listen: run.listen(), ending: ending.clone() });
        let live = self.clone();
        let mut driving = Box::pin(async move {
            let outcome = run.drive().await;
            // Removed before waiters are woken, so that they find it gone.
            live.runs().remove(&id);
            if let Some(telemetry) = &live.telemetry {
                telemetry.tell(&outcome.state);
            }
            // There may be no waiter.
            let _ = over.send(Some(Arc::new(Ended { plan, outcome })));
        });
        // Many runs never suspend: spawning a task would take longer than the run.
        if futures_util::poll!(&mut driving).is_pending() {
            tokio::spawn(driving);
        }
        ending
    }

    /// Resolves when a run that was just started is in the journal, or has failed to get there.
    pub async fn begun(&self, id: RunId) {
        if let Some(mut heard) = self.subscribe(id)
            && heard.after() == 0
        {
            heard.next().await;
        }
    }

    /// The completion of a live run; `None` if it is not live here.
    pub fn ending(&self, id: RunId) -> Option<Ending> {
        self.runs().get(&id).map(|entry| entry.ending.clone())
    }

    /// Subscribes to a live run from now on; `None` if it is not live here.
    pub fn subscribe(&self, id: RunId) -> Option<Subscription> {
        let listen = self.runs().get(&id).map(|entry| entry.listen.clone());
        listen?.subscribe()
    }

    /// The control of a live run; `None` if it is not live here.
    pub fn control(&self, id: RunId) -> Option<Control> {
        self.runs().get(&id).map(|entry| entry.control.clone())
    }

    /// Waits until a run is no longer driven.
    pub async fn wait(&self, id: RunId) {
        if let Some(ending) = self.ending(id) {
            ending.wait().await;
        }
    }

    /// The ids of the live runs.
    pub fn ids(&self) -> Vec<RunId> {
        self.runs().keys().copied().collect()
    }
}
