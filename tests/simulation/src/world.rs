//! Everything that a schedule shares: the clock, the choices, the database, the processes, and the observations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::sim::SimClock;
use parking_lot::Mutex;

use crate::choices::Choices;
use crate::database::Database;
use crate::executor::TaskQueue;
use crate::faults::Faults;
use crate::observed::Observed;
use crate::process::Process;
use crate::schedule::Settings;

/// A process. One that is restarted has another number.
pub(crate) type ProcessId = u32;

/// The time at which every schedule starts, in milliseconds since the Unix epoch.
pub(crate) const START_MS: u64 = 1_000_000;

/// Lines of a trace that are retained.
const MAX_TRACE_LINES: usize = 200_000;

/// The state that the processes of a schedule share.
pub(crate) struct World {
    /// The settings of the schedule.
    pub(crate) settings: Settings,
    /// Virtual time.
    pub(crate) clock: SimClock,
    /// The random choices.
    pub(crate) choices: Choices,
    /// The tasks.
    pub(crate) tasks: TaskQueue,
    /// The database that all processes share.
    pub(crate) database: Database,
    /// The faults of the schedule.
    pub(crate) faults: Faults,
    /// Requests, commands and violations.
    pub(crate) observed: Observed,
    /// Whether a trace is recorded.
    pub(crate) is_traced: bool,
    /// Clients that still send commands.
    pub(crate) clients_left: Mutex<BTreeSet<u64>>,
    runs: Mutex<BTreeMap<RunId, Arc<PlannedRun>>>,
    processes: Mutex<Vec<Option<Arc<Process>>>>,
    trace: Mutex<Vec<String>>,
    is_done: AtomicBool,
}

/// A run of the schedule.
pub(crate) struct PlannedRun {
    /// Its plan.
    pub(crate) plan: Arc<Plan>,
    /// Paths of its questions.
    pub(crate) questions: Vec<Path>,
    /// The child runs that its steps start.
    pub(crate) children: Vec<Arc<PlannedRun>>,
}

impl World {
    /// The world of a schedule.
    pub(crate) fn new(settings: Settings, seed: u64, is_traced: bool) -> Arc<World> {
        Arc::new(World {
            clock: SimClock::new(START_MS),
            choices: Choices::from_seed(seed),
            tasks: TaskQueue::default(),
            database: Database::default(),
            faults: Faults::new(&settings),
            observed: Observed::default(),
            is_traced,
            clients_left: Mutex::default(),
            runs: Mutex::default(),
            processes: Mutex::new((0..settings.processes).map(|_| None).collect()),
            trace: Mutex::default(),
            is_done: AtomicBool::new(false),
            settings,
        })
    }

    /// Whether the schedule is over: completed, or a promise is broken.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Ends the schedule.
    pub(crate) fn finish(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }

    /// Reports a broken promise, which ends the schedule.
    pub(crate) fn report_violation(&self, violation: String) {
        if self.is_traced {
            self.trace(format!("VIOLATION {violation}"));
        }
        self.observed.add_violation(violation);
        self.finish();
    }

    /// Adds a line to the trace.
    pub(crate) fn trace(&self, line: String) {
        let at = self.clock.elapsed_ms() - START_MS;
        let mut trace = self.trace.lock();
        if trace.len() >= MAX_TRACE_LINES {
            trace.drain(..MAX_TRACE_LINES / 2);
        }
        trace.push(format!("{at:>6} ms  {line}"));
    }

    /// The trace so far.
    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.trace.lock())
    }

    /// Waits for a random time of at most `max_ms` milliseconds.
    pub(crate) async fn sleep_up_to(&self, max_ms: u64) {
        let duration_ms = self.choices.below(max_ms + 1);
        if duration_ms > 0 {
            self.clock.sleep_for(duration_ms).await;
        }
    }

    /// Adds a run and its plan, before the run is started.
    pub(crate) fn plan_run(&self, run: RunId, planned: Arc<PlannedRun>) {
        self.runs.lock().insert(run, planned);
    }

    /// The plan of a run.
    pub(crate) fn planned_run(&self, run: RunId) -> Option<Arc<PlannedRun>> {
        self.runs.lock().get(&run).cloned()
    }

    /// Starts a process in the slot `slot`.
    pub(crate) fn start_process(self: &Arc<World>, slot: usize) {
        let process = Process::start(self, self.faults.next_process(slot));
        self.processes.lock()[slot] = Some(process);
    }

    /// Forgets the process in a slot, which has died.
    pub(crate) fn remove_process(&self, slot: usize) -> Option<Arc<Process>> {
        self.processes.lock()[slot].take()
    }

    /// The living processes.
    pub(crate) fn living_processes(&self) -> Vec<Arc<Process>> {
        self.processes.lock().iter().flatten().cloned().collect()
    }

    /// The living process with a number.
    pub(crate) fn find_process(&self, id: ProcessId) -> Option<Arc<Process>> {
        self.processes.lock().iter().flatten().find(|process| process.id == id).cloned()
    }

    /// The process in a slot, if it lives.
    pub(crate) fn process_in(&self, slot: usize) -> Option<Arc<Process>> {
        self.processes.lock()[slot].clone()
    }

    /// Releases what refers to the world, so that it is freed.
    pub(crate) fn close(&self) {
        let processes = std::mem::take(&mut *self.processes.lock());
        drop(processes);
        self.tasks.clear();
    }
}
