//! A run that halts before each of its effects, for a debugger.
//!
//! An effect is performed only after its start is stored, so it is enough to halt the journal: an append that holds the start of
//! a step completes when the debugger lets it.

use std::collections::HashSet;
use std::path::Path as FilePath;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::error::JournalError;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseTerm};
use flowloom_runtime::{Engine, RunOutcome};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::fork::{ForkChanges, prepare_fork};
use super::start::StartRun;
use crate::config::Config;
use crate::definitions::source::Loader;
use crate::engines::App;
use crate::error::AppError;
use crate::runs::stored::StoredRuns;
use crate::tools::agents::attach_workflows;
use crate::wiring::build_mcp_servers;

/// The user whose run it is.
const USER: &str = "local";

/// A step whose effect waits.
pub struct HaltedStep {
    /// Its path.
    pub path: Path,
    /// Lets the effect happen.
    release: oneshot::Sender<()>,
}

impl HaltedStep {
    /// Lets the effect happen.
    pub fn release(self) {
        // The run may have ended meanwhile, for example by its time limit.
        let _ = self.release.send(());
    }
}

/// An event of a halting run.
pub enum HaltingEvent {
    /// A step waits.
    Halted(HaltedStep),
    /// The run has ended, or waits for a person.
    Over(Status),
}

/// A run that halts before each of its effects.
pub struct HaltingRun {
    /// Its id.
    pub id: RunId,
    halted: mpsc::UnboundedReceiver<HaltedStep>,
    driven: JoinHandle<RunOutcome>,
    /// Keeps what the run uses.
    _runs: StoredRuns,
}

impl HaltingRun {
    /// Starts a run of the definition at `file` with `inputs`. Fails if the definition has errors, or if the inputs do not fit.
    pub async fn start(config: Config, file: &FilePath, inputs: Value) -> Result<HaltingRun, AppError> {
        let servers = build_mcp_servers(&config)?;
        let source = Loader::new(&config).compile_to_run(file, &servers).await?;
        let app = App::open_with(config, servers)?;
        let source = attach_workflows(&app.catalog_parts(), file, false, source, USER).await?;
        let Some(plan) = source.compiled.plan.clone() else {
            let problem = source.compiled.diagnostics.iter().find(|problem| problem.is_error());
            let (code, message) = problem.map_or((Code::UnknownFormat, "this is not a definition"), |problem| {
                (problem.code, problem.message.as_str())
            });
            return Err(StepFailure::new(code, message).into());
        };
        let bundle = app.engines.build_bundle(source.name(), source.files(), plan.format);
        let limits = app.config.limits.narrow_to(&plan.limits);
        let mut workflow =
            app.engines.prepare_definition(Arc::new(plan), &bundle.with_tools(source.available_tools()))?;
        let (sender, halted) = mpsc::unbounded_channel();
        workflow.engine = halt_engine(workflow.engine, sender);
        let run = StartRun::new(&workflow, inputs, USER, limits).start(&app.store)?.run;
        Ok(HaltingRun { id: run.id(), halted, driven: run.spawn(), _runs: app.runs })
    }

    /// Starts a fork of a run that performs everything from the step `at` on, where the variables `set` have new
    /// values. Fails if the run does not exist or has no such step, if a value does not fit, or if the fork cannot be
    /// started.
    pub async fn fork(config: Config, run: &str, at: &Path, set: Vec<(String, Value)>) -> Result<HaltingRun, AppError> {
        let runs = App::open(config)?.runs;
        let from = runs.open_run(run).await?;
        let changes = ForkChanges { at: Some(at.as_str().to_owned()), set, ..ForkChanges::default() };
        let (sender, halted) = mpsc::unbounded_channel();
        let prepared = prepare_fork(&runs, from, changes)?.map_engine(|engine| halt_engine(engine, sender));
        let run = prepared.start(&runs, |start| start).await?.run;
        Ok(HaltingRun { id: run.id(), halted, driven: run.spawn(), _runs: runs })
    }

    /// Waits for the next step, or for the end. May be dropped at any time.
    pub async fn next_event(&mut self) -> HaltingEvent {
        tokio::select! {
            biased;
            Some(step) = self.halted.recv() => HaltingEvent::Halted(step),
            outcome = &mut self.driven => HaltingEvent::Over(outcome.map_or(Status::Interrupted, |outcome| outcome.state.status)),
        }
    }
}

impl Drop for HaltingRun {
    fn drop(&mut self) {
        self.driven.abort();
    }
}

fn halt_engine(engine: Engine, sender: mpsc::UnboundedSender<HaltedStep>) -> Engine {
    let inner = engine.journal().clone();
    engine.with_journal(Arc::new(HaltingJournal { inner, sender }))
}

/// A journal that halts starting steps.
struct HaltingJournal {
    inner: Arc<dyn Journal>,
    sender: mpsc::UnboundedSender<HaltedStep>,
}

impl Journal for HaltingJournal {
    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        // A fork stores the start of what it reuses together with its end.
        let is_end =
            |record: &&Arc<Record>| matches!(record.event, Event::StepFinished { .. } | Event::StepFailed { .. });
        let ended: HashSet<&Path> = batch.records.iter().filter(is_end).map(|record| &record.path).collect();
        let is_start = |record: &&Arc<Record>| {
            matches!(record.event, Event::StepStarted { .. }) && record.attempt <= 1 && !ended.contains(&record.path)
        };
        let paths: Vec<Path> = batch.records.iter().filter(is_start).map(|record| record.path.clone()).collect();
        let stored = self.inner.append_batch(lease, batch);
        if paths.is_empty() {
            return stored;
        }
        let sender = self.sender.clone();
        AppendResult::Later(Box::pin(async move {
            let state = stored.wait().await?;
            for path in paths {
                let (release, released) = oneshot::channel();
                if sender.send(HaltedStep { path, release }).is_ok() {
                    // A debugger that is gone halts nothing.
                    let _ = released.await;
                }
            }
            Ok(state)
        }))
    }

    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.inner.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.inner.claim_run(run)
    }

    fn claim_child_run(&self, run: RunId, parent: ParentStep) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.inner.claim_child_run(run, parent)
    }

    fn release_run(&self, lease: Lease) {
        self.inner.release_run(lease);
    }

    fn abandon_run(&self, lease: Lease) {
        self.inner.abandon_run(lease);
    }

    fn lease_term(&self) -> LeaseTerm {
        self.inner.lease_term()
    }

    fn confirm_lease(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.confirm_lease(lease)
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
