//! The stores agree: the same random operations have the same results, including error codes, on SQLite, on Postgres and
//! in memory (`durability = "memory"`).
//!
//! Runs in memory belong to one process, so they are compared with one worker. With two workers, which claim each
//! other's runs, die and return, SQLite and Postgres are compared. Runs in memory have no abandoned runs to list and are
//! not pruned. The journal of `flowloom_runtime::memory` is for tests of the interpreter and not compared: it does not
//! record who drives a run, so it cannot refuse a claim or a stale lease of the same epoch.

mod support;

use std::fmt::Debug;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, MemoryWrite, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use flowloom_runtime::journal::{Batch, Journal, Lease, LeaseState};
use flowloom_store::{Durability, PruneFilter, RunFilter, Store, StoreError};

use support::{TestDatabase, append_batch, created_event, finished_event, new_record, run_id};

/// Operations of one sequence.
const OPERATIONS: usize = 250;

/// Runs that the operations are about.
const RUNS: usize = 4;

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn run(&mut self) -> RunId {
        run_id(self.next(RUNS) as u8)
    }
}

/// The events that a worker appends to a run.
#[derive(Clone, Copy, Debug)]
enum Change {
    Start,
    Step,
    WriteMemory,
    ForgetMemory,
    Answer,
    Suspend(Status),
    Finish(Status),
    /// A record at a position that exists.
    Repeat,
}

/// One operation of a worker.
#[derive(Clone, Debug)]
enum Operation {
    Begin {
        run: RunId,
    },
    Claim {
        run: RunId,
    },
    Release {
        lease: Lease,
    },
    Append {
        lease: Lease,
        seq: u64,
        change: Change,
        decided: Vec<DecidedCommand>,
    },
    Post {
        command: RunCommand,
        run: RunId,
    },
    Find {
        run: RunId,
        id: String,
    },
    Pending {
        run: RunId,
    },
    Read {
        run: RunId,
        after: u64,
    },
    ReadMemory,
    WriteMemory {
        key: String,
        value: Option<i64>,
    },
    GetRun {
        run: RunId,
    },
    ListRuns {
        filter: RunFilter,
    },
    CountRuns {
        filter: RunFilter,
    },
    CountByStatus,
    OldestUnfinished,
    Abandoned,
    Prune {
        filter: PruneFilter,
    },
    /// The process ends, and another one takes its place.
    Restart,
}

/// One kind of store, with its workers.
struct Subject {
    name: &'static str,
    place: TestDatabase,
    durability: Durability,
    workers: Vec<Option<Arc<Store>>>,
}

impl Subject {
    fn new(name: &'static str, place: TestDatabase, durability: Durability, workers: usize) -> Subject {
        let mut subject = Subject { name, place, durability, workers: vec![None; workers] };
        (0..workers).for_each(|worker| subject.restart(worker));
        subject
    }

    fn restart(&mut self, worker: usize) {
        self.workers[worker] = None;
        let url = self.place.postgres.as_ref().map(|postgres| postgres.url.as_str());
        self.workers[worker] = Some(self.place.open_at(url, self.durability));
    }

    /// Performs an operation; its result in words.
    async fn perform(&mut self, worker: usize, operation: &Operation) -> String {
        if matches!(operation, Operation::Restart) {
            self.restart(worker);
            return String::new();
        }
        let store = self.workers[worker].clone().expect("a worker");
        match operation {
            Operation::Begin { run } => describe(begin_run(&store, *run).await),
            Operation::Claim { run } => describe(store.claim_run(*run).await),
            Operation::Release { lease } => {
                store.release_run(*lease);
                // A release is not awaited; a later write is stored after it.
                describe(store.check_writable().await)
            }
            Operation::Append { lease, seq, change, decided } => {
                let batch = Batch { decided: decided.clone(), ..batch_of(lease.run, *seq, *change) };
                describe(append_batch(&*store, *lease, batch).await)
            }
            Operation::Post { run, command } => describe(store.post_command(*run, command.clone(), 5).await),
            Operation::Find { run, id } => describe(store.find_command(*run, id)),
            Operation::Pending { run } => describe(store.pending_commands(*run).await),
            Operation::Read { run, after } => describe(store.read(*run, *after).await),
            Operation::ReadMemory => describe(store.read_memories("ann").await),
            Operation::WriteMemory { key, value } => {
                let write = MemoryWrite { key: key.clone(), value: value.map(Into::into) };
                describe(store.write_memory("ann".to_owned(), vec![write]).await)
            }
            Operation::GetRun { run } => describe(store.get_run(*run)),
            Operation::ListRuns { filter } => describe(store.list_runs_matching(filter)),
            Operation::CountRuns { filter } => describe(store.count_runs(filter)),
            Operation::CountByStatus => describe(store.count_by_status()),
            Operation::OldestUnfinished => describe(store.oldest_unfinished_at()),
            Operation::Abandoned => describe(store.abandoned_runs(9).map(|mut runs| {
                runs.sort_by_key(|run| run.id);
                runs
            })),
            Operation::Prune { filter } => describe(store.prune_runs(*filter).await),
            Operation::Restart => unreachable!("handled above"),
        }
    }
}

/// An error with a code.
trait HasCode {
    fn code_of(&self) -> Code;
}

impl HasCode for StoreError {
    fn code_of(&self) -> Code {
        self.code()
    }
}

impl HasCode for JournalError {
    fn code_of(&self) -> Code {
        self.code()
    }
}

fn describe<T: Debug, E: HasCode>(result: Result<T, E>) -> String {
    format!("{:?}", result.map_err(|error| error.code_of()))
}

async fn begin_run(store: &Store, run: RunId) -> Result<LeaseState, JournalError> {
    let lease = store.begin_run(run)?;
    let created = created_event(store);
    append_batch(store, lease, Batch::with_records(vec![new_record(run, 1, created)])).await
}

fn batch_of(run: RunId, seq: u64, change: Change) -> Batch {
    let write = |value: Option<i64>| {
        let memory = vec![MemoryWrite { key: "step".to_owned(), value: value.map(Into::into) }];
        Event::StepFinished { output: None, usage: None, memory, reused: false, response: None }
    };
    let event = match change {
        Change::Start => Event::RunStarted { epoch: seq },
        Change::Step => finished_event(format!("{seq} {}", "x".repeat(seq as usize * 700)).into()),
        Change::WriteMemory => write(Some(seq as i64)),
        Change::ForgetMemory => write(None),
        Change::Answer => Event::Answered { value: "yes".into(), by: "bob".into() },
        Change::Suspend(status) => Event::RunSuspended { status },
        Change::Finish(status) => {
            let thread = Some(MemoryWrite { key: "desk".into(), value: Some("hello".into()) });
            Event::RunFinished { status, error: None, failed: None, thread }
        }
        Change::Repeat => Event::StepUncertain,
    };
    let records: Vec<Arc<Record>> = vec![new_record(run, seq, event)];
    Batch { releases_lease: matches!(change, Change::Suspend(_)), ..Batch::with_records(records) }
}

/// The generator's model of the runs, so that it makes only operations that a correct worker can make.
struct Model {
    numbers: Numbers,
    /// Every lease ever issued, with its worker and whether it is held.
    leases: Vec<(usize, Lease, bool)>,
    created: Vec<RunId>,
    events: [u64; RUNS],
    has_ended: [bool; RUNS],
}

impl Model {
    fn new(seed: u64) -> Model {
        Model {
            numbers: Numbers(seed),
            leases: Vec::new(),
            created: Vec::new(),
            events: [0; RUNS],
            has_ended: [false; RUNS],
        }
    }

    fn next_operation(&mut self, worker: usize) -> Option<Operation> {
        let run = self.numbers.run();
        match self.numbers.next(18) {
            0 | 1 => (!self.created.contains(&run)).then_some(Operation::Begin { run }),
            2 => Some(Operation::Claim { run }),
            3 => {
                let held =
                    self.leases.iter().find(|(user, lease, is_held)| *is_held && (*user, lease.run) == (worker, run));
                held.map(|(_, lease, _)| Operation::Release { lease: *lease })
            }
            4..=7 => self.next_append(worker),
            8 | 9 => Some(Operation::Post { run, command: self.next_command() }),
            10 => Some(Operation::Find { run, id: self.numbers.next(6).to_string() }),
            11 => Some(Operation::Pending { run }),
            12 => Some(Operation::Read { run, after: self.numbers.next(5) as u64 }),
            13 => Some(self.next_memory()),
            14 => Some(Operation::GetRun { run }),
            15 => Some(self.next_list()),
            16 => Some(self.next_maintenance()),
            _ => None,
        }
    }

    fn next_append(&mut self, worker: usize) -> Option<Operation> {
        let own: Vec<Lease> =
            self.leases.iter().filter(|(user, ..)| *user == worker).map(|(_, lease, _)| *lease).collect();
        let lease = *own.get(self.numbers.next(own.len().max(1)))?;
        let n = index_of(lease.run);
        if self.has_ended[n] {
            // No worker appends to a run that has ended.
            return None;
        }
        let change = match self.numbers.next(12) {
            0 | 1 => Change::Start,
            2 | 3 => Change::Step,
            4 => Change::WriteMemory,
            5 => Change::ForgetMemory,
            6 | 7 => Change::Answer,
            8 => Change::Suspend(Status::Waiting),
            9 => Change::Suspend(Status::Uncertain),
            10 => Change::Finish([Status::Succeeded, Status::Failed, Status::Cancelled][self.numbers.next(3)]),
            _ => Change::Repeat,
        };
        let seq = if matches!(change, Change::Repeat) { self.events[n] } else { self.events[n] + 1 };
        let decided = (0..self.numbers.next(3)).map(|_| self.next_decision()).collect();
        Some(Operation::Append { lease, seq, change, decided })
    }

    fn next_decision(&mut self) -> DecidedCommand {
        let outcome = match self.numbers.next(2) {
            0 => CommandOutcome::Applied,
            _ => CommandOutcome::Rejected(StepFailure::new(Code::NothingToDo, "late")),
        };
        DecidedCommand { id: self.numbers.next(6).to_string(), outcome }
    }

    fn next_command(&mut self) -> RunCommand {
        let value = ["yes", "no"][self.numbers.next(8) / 7];
        let action = CommandAction::Answer { path: Path::parse("/a").expect("a path"), value: value.into() };
        RunCommand { id: self.numbers.next(6).to_string(), sender: "bob".to_owned(), action }
    }

    fn next_memory(&mut self) -> Operation {
        match self.numbers.next(3) {
            0 => Operation::ReadMemory,
            n => {
                let value = (n == 1).then_some(self.numbers.next(9) as i64);
                Operation::WriteMemory { key: ["a", "é", "Z"][self.numbers.next(3)].to_owned(), value }
            }
        }
    }

    fn next_list(&mut self) -> Operation {
        let filter = RunFilter {
            user: Some(["ann", "bob"][self.numbers.next(9) / 8].to_owned()),
            status: (self.numbers.next(3) == 0).then(|| "running".to_owned()),
            workflow: (self.numbers.next(3) == 0).then(|| "test".to_owned()),
            before: (self.numbers.next(3) == 0).then(|| self.numbers.run()),
            limit: self.numbers.next(4) as u32 + 1,
            offset: self.numbers.next(2) as u32,
            ..RunFilter::default()
        };
        match self.numbers.next(2) {
            0 => Operation::ListRuns { filter },
            _ => Operation::CountRuns { filter },
        }
    }

    fn next_maintenance(&mut self) -> Operation {
        match self.numbers.next(4) {
            0 => Operation::CountByStatus,
            1 => Operation::OldestUnfinished,
            2 => Operation::Abandoned,
            _ => Operation::Restart,
        }
    }

    /// Notes the result of an operation, which is the same on every store.
    fn note(&mut self, worker: usize, operation: &Operation, result: &str) {
        let is_done = result.starts_with("Ok");
        match operation {
            Operation::Begin { run } if is_done => {
                self.created.push(*run);
                self.events[index_of(*run)] = 1;
                self.leases.push((worker, Lease { run: *run, epoch: 1 }, true));
            }
            Operation::Claim { run } if is_done => {
                let epochs =
                    self.leases.iter().filter(|(_, lease, _)| lease.run == *run).map(|(_, lease, _)| lease.epoch);
                let lease = Lease { run: *run, epoch: epochs.max().unwrap_or_default() + 1 };
                assert!(result.contains(&format!("epoch: {}", lease.epoch)), "{result}");
                self.leases.push((worker, lease, true));
            }
            Operation::Release { lease } => self.end_lease(*lease),
            Operation::Append { lease, change, .. } if is_done => {
                self.events[index_of(lease.run)] += 1;
                self.has_ended[index_of(lease.run)] |= matches!(change, Change::Finish(_));
                if result.contains("Released") {
                    self.end_lease(*lease);
                }
            }
            Operation::Restart => {
                self.leases.iter_mut().filter(|(user, ..)| *user == worker).for_each(|it| it.2 = false)
            }
            _ => {}
        }
    }

    fn end_lease(&mut self, ended: Lease) {
        self.leases.iter_mut().filter(|(_, lease, _)| *lease == ended).for_each(|it| it.2 = false);
    }
}

fn index_of(run: RunId) -> usize {
    (0..RUNS).find(|n| run_id(*n as u8) == run).expect("one of the runs")
}

/// Whether runs in memory know the operation.
fn is_for_memory(operation: &Operation) -> bool {
    // They end with the process, and no other worker can take them over.
    !matches!(operation, Operation::Abandoned | Operation::Restart | Operation::Prune { .. })
}

async fn compare(subjects: &mut [Subject], seed: u64) {
    let workers = subjects[0].workers.len();
    let has_memory = subjects.iter().any(|subject| subject.durability == Durability::Memory);
    let mut model = Model::new(seed);
    let mut past = Vec::new();
    for _ in 0..OPERATIONS {
        let worker = model.numbers.next(workers);
        let Some(operation) = model.next_operation(worker).filter(|it| !has_memory || is_for_memory(it)) else {
            continue;
        };
        past.push(format!("{worker} {operation:?}"));
        compare_results(subjects, &mut model, worker, &operation, &past).await;
    }
    if !has_memory {
        for status in [Status::Succeeded, Status::Failed, Status::Cancelled] {
            let operation = Operation::Prune { filter: PruneFilter { status, before: 1005 } };
            compare_results(subjects, &mut model, 0, &operation, &past).await;
        }
    }
    for n in 0..RUNS {
        let run = run_id(n as u8);
        for operation in [Operation::Read { run, after: 0 }, Operation::GetRun { run }, Operation::Pending { run }] {
            compare_results(subjects, &mut model, 0, &operation, &past).await;
        }
    }
}

async fn compare_results(
    subjects: &mut [Subject],
    model: &mut Model,
    worker: usize,
    operation: &Operation,
    past: &[String],
) {
    let mut results = Vec::new();
    for subject in &mut *subjects {
        results.push((subject.name, subject.perform(worker, operation).await));
    }
    let is_same = results.windows(2).all(|pair| pair[0].1 == pair[1].1);
    assert!(is_same, "{operation:?}\n{results:#?}\nafter\n{}", past.join("\n"));
    model.note(worker, operation, &results[0].1);
}

fn seeds() -> u64 {
    std::env::var("FLOWLOOM_DIFFERENTIAL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_finds_the_same_in_memory_and_in_databases() {
    for seed in 0..seeds() {
        let mut subjects = vec![
            Subject::new("memory", TestDatabase::on_sqlite(), Durability::Memory, 1),
            Subject::new("SQLite", TestDatabase::on_sqlite(), Durability::Normal, 1),
        ];
        subjects
            .extend(TestDatabase::on_postgres().map(|place| Subject::new("Postgres", place, Durability::Normal, 1)));
        compare(&mut subjects, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_find_the_same_in_both_databases() {
    for seed in 0..seeds() {
        let Some(postgres) = TestDatabase::on_postgres() else { return };
        let mut subjects = [
            Subject::new("SQLite", TestDatabase::on_sqlite(), Durability::Normal, 2),
            Subject::new("Postgres", postgres, Durability::Normal, 2),
        ];
        compare(&mut subjects, seed).await;
    }
}
