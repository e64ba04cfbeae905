//! A process: the engine with its connection, the runs that it drives, its recovery task and its command service. The
//! services take the same steps as those of the program (`crates/app/src/runs`), on virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::state::OpenStep;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, CommandOutcome, CommandRecord, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::publish::{Delivery, RunUpdate, Subscription};
use flowloom_runtime::{Engine, JournalError, Run, RunError, StartOptions};
use flowloom_store::{PostedCommand, QuestionExpiry};
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::connection::{Connection, ConnectionJournal};
use crate::database::LEASE_MS;
use crate::effects::make_effects;
use crate::world::{ProcessId, World};

/// Interval of looking for abandoned runs, in milliseconds.
const RECOVERY_INTERVAL_MS: u64 = 700;

/// Interval of polling for commands, in case a notification is lost, in milliseconds.
const COMMAND_POLL_MS: u64 = 1_000;

/// Interval of reading a decision again, in milliseconds.
const DECISION_POLL_MS: u64 = 400;

/// How long a caller waits for a decision, in milliseconds.
const DECISION_TIMEOUT_MS: u64 = 5_000;

/// A process.
pub(crate) struct Process {
    /// Its number.
    pub(crate) id: ProcessId,
    /// Its connection to the database.
    pub(crate) connection: Arc<Connection>,
    /// Its engine.
    pub(crate) engine: Engine,
    /// The world around it.
    pub(crate) world: Arc<World>,
    /// The runs that it drives, with those who wait until they are no longer driven.
    live: Mutex<BTreeMap<RunId, Vec<oneshot::Sender<()>>>>,
}

/// A command that was sent, and its outcome.
pub(crate) struct SentCommand {
    /// The command as it was stored.
    pub(crate) record: CommandRecord,
    /// The decision; `None` if the caller did not wait long enough.
    pub(crate) outcome: Option<CommandOutcome>,
}

impl Process {
    /// Starts a process.
    pub(crate) fn start(world: &Arc<World>, id: ProcessId) -> Arc<Process> {
        let connection = Connection::new(world, id);
        let journal = Arc::new(ConnectionJournal(connection.clone()));
        let engine = Engine::new(make_effects(world, id), journal);
        let process =
            Process { id, connection: connection.clone(), engine, world: world.clone(), live: Mutex::default() };
        let process = Arc::new(process);
        connection.renew_lease();
        process.spawn("writer", connection.apply_writes());
        process.spawn("lease", process.clone().renew_lease());
        process.spawn("recovery", process.clone().reclaim_runs());
        process.spawn("expire questions", process.clone().expire_questions());
        process.spawn("poll commands", process.clone().poll_commands());
        process
    }

    /// Starts a task that dies with the process.
    pub(crate) fn spawn(&self, label: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        self.world.tasks.spawn(Some(self.id), label, future);
    }

    async fn renew_lease(self: Arc<Process>) {
        loop {
            if !self.world.database.is_down() {
                self.connection.renew_lease();
            }
            self.world.clock.sleep_for(LEASE_MS / 3).await;
        }
    }

    async fn reclaim_runs(self: Arc<Process>) {
        loop {
            self.world.sleep_up_to(RECOVERY_INTERVAL_MS).await;
            self.world.clock.sleep_for(RECOVERY_INTERVAL_MS / 2).await;
            // A failure of the database is transient.
            let _ = self.connection.release_held_children().await;
            for run in self.connection.abandoned_runs().await.unwrap_or_default() {
                // A failure of the database is transient.
                let _ = self.resume_run(run).await;
            }
        }
    }

    async fn expire_questions(self: Arc<Process>) {
        loop {
            self.world.clock.sleep_for(RECOVERY_INTERVAL_MS).await;
            let now = self.world.clock.now_ms();
            for expiry in self.connection.expired_questions(now).await.unwrap_or_default() {
                // A failure of the database is transient.
                let _ = self.expire_question(expiry, now).await;
            }
        }
    }

    /// Asks a run to continue until its question is no longer open.
    async fn expire_question(&self, expiry: QuestionExpiry, now: u64) -> Result<(), JournalError> {
        let Some(state) = self.world.read_state(expiry.run) else { return Ok(()) };
        let is_meant =
            |open: OpenStep<'_>| open.question.and_then(|question| question.expires_at) == Some(expiry.expires_at);
        if state.status.is_final() || !state.open_steps().any(is_meant) {
            return self.connection.remove_expiry(expiry, state.status.is_final()).await;
        }
        if self.connection.has_pending_commands(expiry.run).await? {
            return Ok(());
        }
        let id = format!("question-expired-{}-{now}", expiry.expires_at);
        let command =
            RunCommand { id, sender: "the time limit".to_owned(), action: CommandAction::Resume { now_ms: Some(now) } };
        self.connection.post_command(expiry.run, command).await?;
        Ok(())
    }

    async fn poll_commands(self: Arc<Process>) {
        loop {
            self.world.clock.sleep_for(COMMAND_POLL_MS).await;
            self.connection.deliver_all_pending().await;
        }
    }

    /// Starts a run under an id, and drives it.
    pub(crate) fn start_run(self: &Arc<Process>, id: RunId) {
        let Some(planned) = self.world.planned_run(id) else { return };
        let options = StartOptions {
            limits: Limits::default(),
            id: Some(id),
            ..StartOptions::new(planned.plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, format!("user of {id}"))
        };
        match self.engine.start_run(options) {
            Ok(run) => self.drive_run(run),
            Err(error) => self.check_run_error(id, &error),
        }
    }

    /// Whether this process drives a run.
    pub(crate) fn is_driving(&self, run: RunId) -> bool {
        self.live.lock().contains_key(&run)
    }

    /// Drives a run on a task of its own.
    pub(crate) fn drive_run(self: &Arc<Process>, run: Run) {
        let id = run.id();
        self.live.lock().insert(id, Vec::new());
        self.spawn("subscriber", self.clone().follow_run(id, run.subscribe()));
        let process = self.clone();
        self.spawn("run", async move {
            let outcome = run.drive_to_end().await;
            let waiting = process.live.lock().remove(&id);
            for waiting in waiting.into_iter().flatten() {
                let _ = waiting.send(());
            }
            if let Some(error) = outcome.broken {
                process.check_run_error(id, &error);
            }
        });
    }

    /// Only a lost lease and an outage may keep a process from driving a run.
    pub(crate) fn check_run_error(&self, run: RunId, error: &RunError) {
        let is_expected = matches!(
            error,
            RunError::Journal(JournalError::OwnershipLost | JournalError::RunOwned(_) | JournalError::Unavailable(_))
                | RunError::Ended(_)
        );
        if self.world.is_traced {
            self.world.trace(format!("p{} does not drive {run}: {error}", self.id));
        }
        if !is_expected {
            self.world.report_violation(format!("a run cannot be driven: {error}"));
        }
    }

    /// A subscriber sees only stored events, in order and without gaps.
    pub(crate) async fn follow_run(self: Arc<Process>, run: RunId, mut subscription: Subscription) {
        let mut last = subscription.after();
        while let Some(delivery) = subscription.next().await {
            let Delivery::Update(RunUpdate::Event(seen)) = delivery else { continue };
            let stored = self.world.database.runs.read_records(run, seen.seq - 1).unwrap_or_default();
            if stored.first().is_none_or(|stored| **stored != *seen) {
                self.world.report_violation(format!("a subscriber saw event {} before it was stored", seen.seq));
            }
            if seen.seq != last + 1 {
                self.world.report_violation(format!("a subscriber saw event {} after event {last}", seen.seq));
            }
            last = seen.seq;
        }
    }

    /// Drives a run from the end of its journal, unless a worker drives it.
    pub(crate) async fn resume_run(self: &Arc<Process>, run: RunId) -> Result<(), RunError> {
        if self.is_driving(run) {
            return Ok(());
        }
        let Some(planned) = self.world.planned_run(run) else { return Ok(()) };
        match self.engine.resume_run(run, planned.plan.clone()).await {
            Ok(resumed) => self.drive_run(resumed),
            Err(error) => {
                self.check_run_error(run, &error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until this process does not drive a run.
    async fn wait_for_run(&self, run: RunId) {
        let ended = {
            let mut live = self.live.lock();
            let Some(waiting) = live.get_mut(&run) else { return };
            let (sender, receiver) = oneshot::channel();
            waiting.push(sender);
            receiver
        };
        let _ = ended.await;
    }

    /// Sends a command: stores it, makes sure that a worker decides about it, and waits for the decision. `acknowledge` is
    /// called when the command is stored.
    pub(crate) async fn send_command(
        self: Arc<Process>,
        run: RunId,
        command: RunCommand,
        acknowledge: impl FnOnce(&CommandRecord),
    ) -> Result<SentCommand, RunError> {
        let posted = self.connection.post_command(run, command).await?;
        acknowledge(&posted.record);
        if posted.record.outcome.is_none() {
            self.ensure_driven(run, &posted).await?;
        }
        let outcome = self.wait_for_decision(run, &posted.record).await?;
        if outcome == Some(CommandOutcome::Applied) && posted.record.command.action == (CommandAction::Cancel {}) {
            self.end_child_runs(run).await?;
        }
        Ok(SentCommand { record: posted.record, outcome })
    }

    async fn ensure_driven(self: &Arc<Process>, run: RunId, posted: &PostedCommand) -> Result<(), RunError> {
        let driving = self.connection.find_driving_run(run).await?;
        if !posted.has_worker {
            let driven = std::pin::pin!(self.wait_for_run(driving));
            let decided = std::pin::pin!(self.wait_for_decision(run, &posted.record));
            match select(driven, decided).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
        match self.resume_run(driving).await {
            Err(RunError::Ended(_) | RunError::Journal(JournalError::RunOwned(_))) => Ok(()),
            resumed => resumed,
        }
    }

    /// Waits until the child runs of a run that was cancelled have ended, and ends those that no worker drives.
    async fn end_child_runs(self: &Arc<Process>, run: RunId) -> Result<(), JournalError> {
        let give_up_at = self.world.clock.elapsed_ms() + DECISION_TIMEOUT_MS;
        while self.world.clock.elapsed_ms() < give_up_at {
            let orphans = self.connection.list_orphaned_runs(run).await?;
            if orphans.is_empty() {
                return Ok(());
            }
            for child in orphans {
                // Another worker may drive it.
                let _ = self.resume_run(child).await;
            }
            self.world.clock.sleep_for(DECISION_POLL_MS).await;
        }
        Ok(())
    }

    async fn wait_for_decision(
        &self,
        run: RunId,
        posted: &CommandRecord,
    ) -> Result<Option<CommandOutcome>, JournalError> {
        if let Some(outcome) = &posted.outcome {
            return Ok(Some(outcome.clone()));
        }
        let give_up_at = self.world.clock.elapsed_ms() + DECISION_TIMEOUT_MS;
        while self.world.clock.elapsed_ms() < give_up_at {
            let notified = self.connection.mailboxes.notify_decision(run);
            if let Some(CommandRecord { outcome: Some(outcome), .. }) =
                self.connection.find_command(run, &posted.command.id).await?
            {
                return Ok(Some(outcome));
            }
            select(notified, self.world.clock.sleep_for(DECISION_POLL_MS)).await;
        }
        Ok(None)
    }
}
