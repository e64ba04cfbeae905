//! The runs that this server drives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_runtime::publish::Subscription;
use flowloom_runtime::{Control, Listen, Outcome, Run};
use tokio::sync::watch;

use super::problem::Problem;
use crate::telemetry::Telemetry;
use flowloom_core::code::Code;

/// The runs under way, by id.
pub(crate) struct Live {
    runs: Mutex<HashMap<RunId, Entry>>,
    max: usize,
    is_closed: AtomicBool,
    /// Where ended runs are told.
    telemetry: Option<Telemetry>,
}

/// A run under way.
#[derive(Clone)]
struct Entry {
    control: Control,
    listen: Listen,
    ending: Ending,
}

/// A run that a call has started, or found going on.
pub(crate) struct Begun {
    pub(crate) id: RunId,
    /// Tells when it is no longer driven, if it is driven here.
    pub(crate) ending: Option<Ending>,
    /// All that happens, if the call wants to hear it.
    pub(crate) heard: Option<Subscription>,
}

/// Where a run stood when it was no longer driven.
pub(crate) struct Ended {
    pub(crate) plan: Arc<Plan>,
    pub(crate) outcome: Outcome,
}

/// Tells when a run is no longer driven.
#[derive(Clone)]
pub(crate) struct Ending(watch::Receiver<Option<Arc<Ended>>>);

impl Ending {
    /// Where the run stands then; `None` if the task that drove it is gone without a word.
    pub(crate) async fn wait(mut self) -> Option<Arc<Ended>> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl Live {
    pub(crate) fn new(max: usize, telemetry: Option<Telemetry>) -> Arc<Live> {
        Arc::new(Live { runs: Mutex::default(), max, is_closed: AtomicBool::new(false), telemetry })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.runs().len()
    }

    /// Refuses a further run when there are as many as there may be.
    pub(crate) fn admit(&self) -> Result<(), Problem> {
        if self.is_closed() {
            return Err(Problem::new(Code::TooManyRuns, "the server is about to stop"));
        }
        match self.count() < self.max {
            true => Ok(()),
            false => Err(Problem::new(Code::TooManyRuns, format!("{} runs are under way", self.max))),
        }
    }

    /// Whether no further runs are taken, because the program is about to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes no further runs.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Drives a run of `plan`, and hears it from its first event on if the call wants that.
    pub(crate) async fn begin(self: &Arc<Live>, run: Run, plan: Arc<Plan>, is_heard: bool) -> Begun {
        let (id, heard) = (run.id(), is_heard.then(|| run.subscribe()));
        Begun { id, heard, ending: Some(self.drive(run, plan).await) }
    }

    /// A run that was begun before.
    pub(crate) fn again(&self, id: RunId) -> Begun {
        Begun { id, ending: self.ending(id), heard: None }
    }

    /// Drives a run of `plan`, on a task of its own from where it waits for something.
    pub(crate) async fn drive(self: &Arc<Live>, run: Run, plan: Arc<Plan>) -> Ending {
        let id = run.id();
        let (over, ending) = watch::channel(None);
        let ending = Ending(ending);
        self.runs().insert(id, Entry { control: run.control(), listen: run.listen(), ending: ending.clone() });
        let live = self.clone();
        let mut driving = Box::pin(async move {
            let outcome = run.drive().await;
            // Before those who wait are woken, so that they find it gone.
            live.runs().remove(&id);
            if let Some(telemetry) = &live.telemetry {
                telemetry.tell(&outcome.state);
            }
            // Nobody may wait for it.
            let _ = over.send(Some(Arc::new(Ended { plan, outcome })));
        });
        // Many runs wait for nothing: to hand such a one to another task would take longer than the run.
        if futures_util::poll!(&mut driving).is_pending() {
            tokio::spawn(driving);
        }
        ending
    }

    /// Ready when a run that was started just now is in the journal, or has failed to get there.
    pub(crate) async fn begun(&self, id: RunId) {
        if let Some(mut heard) = self.subscribe(id)
            && heard.after() == 0
        {
            heard.next().await;
        }
    }

    /// Tells when a run ends, if it is under way.
    pub(crate) fn ending(&self, id: RunId) -> Option<Ending> {
        self.runs().get(&id).map(|entry| entry.ending.clone())
    }

    /// Hears a run from now on, if it is under way.
    pub(crate) fn subscribe(&self, id: RunId) -> Option<Subscription> {
        let listen = self.runs().get(&id).map(|entry| entry.listen.clone());
        listen?.subscribe()
    }

    /// The control of a run, if it is under way.
    pub(crate) fn control(&self, id: RunId) -> Option<Control> {
        self.runs().get(&id).map(|entry| entry.control.clone())
    }

    /// Waits until a run is no longer driven.
    pub(crate) async fn wait(&self, id: RunId) {
        if let Some(ending) = self.ending(id) {
            ending.wait().await;
        }
    }

    /// The ids of all of them.
    pub(crate) fn ids(&self) -> Vec<RunId> {
        self.runs().keys().copied().collect()
    }
}
