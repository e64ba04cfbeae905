//! A Restate server with this process as its worker, in place of the engine of cases.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::{CaseEngine, block_on};
use flowloom_core::effect::ResponseFacts;
use flowloom_core::event::{AfterFailure, Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use flowloom_restate::{OpenedRun, RestateAdmin, RestateClient, RunLife, RunServices, WorkerHost, serve_worker};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState};
use flowloom_runtime::remote::{ClaimedSession, DriveRequest, DriveState, RunDriver};
use flowloom_runtime::{ENGINE_SEMANTICS, Engine, JournalError, RunError, RunOutcome};
use parking_lot::Mutex;
use test_restate::{RestateServer, free_addresses};
use tokio::net::{TcpListener, TcpSocket};

/// The events of the runs of a case, each without times and ids.
pub(crate) type CaseEvents = Vec<Vec<String>>;

/// The journal of a case, which notes what happens to its runs.
struct CaseJournal {
    inner: Arc<dyn Journal>,
    observed: Arc<ObservedRuns>,
    /// How far the epochs in memory are ahead: a run that Restate drives is created under epoch 0.
    ahead: u64,
}

/// The results of the engines for the runs of a case.
#[derive(Default)]
pub(crate) struct ObservedRuns {
    driven: Mutex<HashSet<RunId>>,
    epochs: Mutex<HashMap<RunId, u64>>,
    records: Mutex<BTreeMap<RunId, Vec<Arc<Record>>>>,
}

impl ObservedRuns {
    /// The events so far, which are forgotten.
    pub(crate) fn take_events(&self) -> CaseEvents {
        let all = std::mem::take(&mut *self.records.lock());
        // Restate may wake a run of an earlier case that waits for a person, which then continues to wait.
        let is_wake =
            |record: &Arc<Record>| matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. });
        let own = all.into_values().filter(|records| !records.iter().all(is_wake));
        own.map(|records| describe_events(&records)).collect()
    }
}

/// Whether two runs have the same events, if branches that ran at the same time may have ended in another order.
pub(crate) fn have_same_steps(one: &CaseEvents, other: &CaseEvents) -> bool {
    let by_step = |events: &CaseEvents| -> Vec<BTreeMap<String, Vec<String>>> {
        let group = |run: &Vec<String>| {
            let mut steps = BTreeMap::<String, Vec<String>>::new();
            for event in run {
                let (_, rest) = event.split_once(' ').expect("a number");
                let (path, rest) = rest.split_once(' ').expect("a path");
                steps.entry(path.to_owned()).or_default().push(rest.to_owned());
            }
            steps
        };
        events.iter().map(group).collect()
    };
    by_step(one) == by_step(other)
}

/// Events without what differs between two runs: times, and the run's id.
fn describe_events(records: &[Arc<Record>]) -> Vec<String> {
    let describe = |record: &Arc<Record>| {
        let data = match &record.event {
            Event::TimerSet { .. } | Event::StepFailed { then: AfterFailure::Retry(_), .. } => String::new(),
            event => without_times(event).data_json().expect("JSON").unwrap_or_default(),
        };
        format!("{} {} {} {} {data}", record.seq, record.path, record.attempt, record.event.name())
    };
    records.iter().map(|record| describe(record).replace(&record.run.to_string(), "RUN")).collect()
}

/// An event without the times that were measured during its effect.
fn without_times(event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::StepFinished { response, .. } = &mut event {
        let timeless = |facts: Box<ResponseFacts>| ResponseFacts { queued_ms: None, first_token_ms: None, ..*facts };
        *response = response.take().map(timeless).filter(|facts| *facts != ResponseFacts::default()).map(Box::new);
    }
    event
}

impl CaseJournal {
    fn note_claim(&self, inner: Lease) -> Lease {
        let lease = Lease { run: inner.run, epoch: inner.epoch - self.ahead };
        self.observed.epochs.lock().insert(lease.run, lease.epoch);
        self.observed.driven.lock().insert(lease.run);
        lease
    }
}

impl Journal for CaseJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        Ok(self.note_claim(self.inner.begin_run(run)?))
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(async move { Ok(self.note_claim(self.inner.claim_run(run).await?)) })
    }

    fn release_run(&self, lease: Lease) {
        self.observed.driven.lock().remove(&lease.run);
    }

    fn abandon_run(&self, lease: Lease) {
        self.release_run(lease);
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        let records = batch.records.clone();
        let inner = Lease { run: lease.run, epoch: lease.epoch + self.ahead };
        let appended = poll_at_once(self.inner.append_batch(inner, batch).wait());
        if let Ok(state) = &appended {
            self.observed.records.lock().entry(lease.run).or_default().extend(records);
            if *state == LeaseState::Released {
                self.observed.driven.lock().remove(&lease.run);
            }
        }
        // Like a database, so that parallel steps start together.
        AppendResult::Later(Box::pin(async { appended }))
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.inner.read(run, after)
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        self.inner.read_memories(namespace)
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        self.inner.read_memory(namespace, key)
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.inner.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.inner.next_commands(run)
    }
}

/// The result of a future of the memory journal, which never waits.
fn poll_at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("the journal in memory waits"),
    }
}

/// Has this process drive the runs, and observes them.
pub(crate) struct BuiltIn(pub(crate) Arc<ObservedRuns>);

impl CaseEngine for BuiltIn {
    fn connect(&self, engine: Engine, _plan: &Arc<Plan>) -> Engine {
        let inner = engine.journal().clone();
        engine.with_journal(Arc::new(CaseJournal { inner, observed: self.0.clone(), ahead: 0 }))
    }

    fn is_here(&self) -> bool {
        true
    }
}

/// Has a Restate server drive the runs, with this process as its workers.
pub(crate) struct OnRestate {
    runs: Arc<CaseRuns>,
    pub(crate) observed: Arc<ObservedRuns>,
    workers: Vec<Arc<CaseWorker>>,
}

/// Listens on an address that others share.
fn listen_shared(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseport(true).expect("a shared port");
    socket.bind(address).expect("a port");
    socket.listen(64).expect("it listens")
}

impl OnRestate {
    /// Registers this process as a worker of a server.
    pub(crate) fn register(server: &RestateServer) -> OnRestate {
        OnRestate::register_workers(server, 1)
    }

    /// Registers this process as several workers of a server, which share an address.
    pub(crate) fn register_workers(server: &RestateServer, count: usize) -> OnRestate {
        let client = RestateClient::new(&server.ingress());
        let observed = Arc::new(ObservedRuns::default());
        let (by_id, texts) = (Mutex::default(), Mutex::default());
        let runs = Arc::new(CaseRuns { client, by_id, texts, observed: observed.clone() });
        let [address] = free_addresses();
        let start_worker = |_| {
            let worker = Arc::new(CaseWorker { runs: runs.clone(), opened: AtomicUsize::new(0) });
            let (listener, host) = (listen_shared(address), worker.clone());
            tokio::spawn(async move {
                serve_worker(listener, host, &case_services(), std::future::pending(), Duration::ZERO).await
            });
            worker
        };
        let workers = block_on(async {
            let workers = (0..count).map(start_worker).collect();
            RestateAdmin::new(&server.admin())
                .register_address(&format!("http://{address}"))
                .await
                .expect("registered");
            workers
        });
        OnRestate { runs, observed, workers }
    }

    /// Claims a run that waits, and does something to it before it is released.
    pub(crate) fn claim_elsewhere(&self, run: RunId, then: impl FnOnce()) {
        let (engine, _) = self.runs.find(run);
        let claimed = loop {
            // Its session may not have released it.
            match poll_at_once(engine.journal().claim_run(run)) {
                Err(JournalError::RunOwned(_)) => std::thread::yield_now(),
                claimed => break claimed.expect("it waits"),
            }
        };
        then();
        engine.journal().release_run(claimed);
    }

    /// Number of sessions that each worker has begun.
    pub(crate) fn count_by_worker(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| worker.opened.load(Ordering::Relaxed)).collect()
    }

    /// Number of sessions that a run has had.
    pub(crate) fn count_sessions(&self, run: RunId) -> u64 {
        self.observed.epochs.lock().get(&run).copied().unwrap_or_default()
    }

    /// Number of large texts that were stored, and of those that are left.
    pub(crate) fn count_texts(&self) -> (usize, usize) {
        let texts = self.runs.texts.lock();
        (texts.len(), texts.values().flatten().count())
    }
}

/// The services of the runs of cases.
fn case_services() -> RunServices {
    RunServices::new(ENGINE_SEMANTICS, "cases", "", "")
}

/// The runs of all cases, with what drives them.
struct CaseRuns {
    client: RestateClient,
    by_id: Mutex<HashMap<RunId, (Engine, Arc<Plan>)>>,
    /// Large texts by their hashes; `None` if they were deleted.
    texts: Mutex<HashMap<Hash, Option<String>>>,
    observed: Arc<ObservedRuns>,
}

impl CaseEngine for OnRestate {
    fn connect(&self, engine: Engine, plan: &Arc<Plan>) -> Engine {
        let inner = engine.journal().clone();
        let engine = engine.with_journal(Arc::new(CaseJournal { inner, observed: self.observed.clone(), ahead: 1 }));
        let driver = CaseDriver { engine: engine.clone(), plan: plan.clone(), runs: self.runs.clone() };
        engine.with_driver(Arc::new(driver))
    }

    fn is_here(&self) -> bool {
        false
    }
}

struct CaseDriver {
    engine: Engine,
    plan: Arc<Plan>,
    runs: Arc<CaseRuns>,
}

impl RunDriver for CaseDriver {
    fn wake_run(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), JournalError>> {
        let run = request.run;
        Box::pin(async move {
            self.runs.by_id.lock().insert(run, (self.engine.clone(), self.plan.clone()));
            self.runs.wake(run).await;
            Ok(())
        })
    }

    fn next_news(&self, _run: RunId) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        let has_commands = !poll_at_once(self.engine.journal().pending_commands(run))?.is_empty();
        Ok(DriveState::new(self.runs.observed.driven.lock().contains(&run), has_commands))
    }
}

impl CaseRuns {
    async fn wake(&self, run: RunId) {
        let (services, life) = (case_services(), RunLife { run, reopened_at: None, lost_count: 0 });
        self.client.start_workflow(&services, life).await.expect("it is started");
        let epoch = self.observed.epochs.lock().get(&run).copied();
        if let Some(epoch) = epoch {
            self.client.wake_workflow(&services, life, epoch).await.expect("it is woken");
        }
    }

    fn find(&self, run: RunId) -> (Engine, Arc<Plan>) {
        self.by_id.lock().get(&run).cloned().expect("a run of a case")
    }
}

/// A worker of the runs of cases.
struct CaseWorker {
    runs: Arc<CaseRuns>,
    /// Number of sessions that it has begun.
    opened: AtomicUsize,
}

impl WorkerHost for CaseWorker {
    fn journal(&self, run: RunId) -> Arc<dyn Journal> {
        self.runs.find(run).0.journal().clone()
    }

    fn open_run(&self, run: RunId, _records: Vec<Arc<Record>>) -> BoxFuture<'_, Result<OpenedRun, RunError>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (engine, plan) = self.runs.find(run);
        Box::pin(async { Ok(OpenedRun { engine, plan }) })
    }

    fn claim_run(&self, run: RunId, _given_up: Option<u64>) -> BoxFuture<'_, Result<ClaimedSession, JournalError>> {
        let journal = self.journal(run);
        Box::pin(async move {
            let lease = journal.claim_run(run).await?;
            Ok(ClaimedSession { lease, is_hopeless: false, has_commands: true })
        })
    }

    fn wake_run(&self, run: RunId) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.runs.wake(run).await;
            Ok(())
        })
    }

    fn quarantine_run(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        panic!("the run {} cannot be driven", lease.run);
    }

    fn store_text(&self, hash: Hash, text: String) -> BoxFuture<'_, Result<(), JournalError>> {
        self.runs.texts.lock().insert(hash, Some(text));
        Box::pin(async { Ok(()) })
    }

    fn read_text(&self, hash: Hash) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        let text = self.runs.texts.lock().get(&hash).cloned().flatten();
        Box::pin(async { Ok(text) })
    }

    fn delete_text(&self, hash: Hash) -> BoxFuture<'_, Result<(), JournalError>> {
        self.runs.texts.lock().insert(hash, None);
        Box::pin(async { Ok(()) })
    }

    fn report_outcome(&self, _outcome: &RunOutcome) {}
}
