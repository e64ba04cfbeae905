//! The observations from outside: the requests that the effect server received, the commands that clients sent, and the
//! promises that were broken.

use std::collections::BTreeMap;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::command::{CommandOutcome, RunCommand};
use flowloom_runtime::effects::EffectContext;
use parking_lot::Mutex;

use crate::world::{ProcessId, World};

/// An attempt at an effect.
pub(crate) type AttemptKey = (RunId, Path, u32);

/// The observations of one schedule.
#[derive(Default)]
pub(crate) struct Observed {
    requests: Mutex<BTreeMap<AttemptKey, Requests>>,
    keys: Mutex<BTreeMap<String, AttemptKey>>,
    commands: Mutex<BTreeMap<(RunId, String), ClientCommand>>,
    violations: Mutex<Vec<String>>,
}

/// The requests of an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Requests {
    /// How often it was sent.
    pub(crate) count: u64,
    /// The effect class of the request.
    pub(crate) class: EffectClass,
}

/// A command that a client sent.
#[derive(Clone)]
pub(crate) struct ClientCommand {
    /// The command.
    pub(crate) command: RunCommand,
    /// When a process first confirmed that it is stored or decided, in milliseconds since the Unix epoch; `None` if none did.
    pub(crate) acknowledged_at: Option<u64>,
    /// The decision that a process reported.
    pub(crate) outcome: Option<CommandOutcome>,
}

impl Observed {
    /// Adds a broken promise.
    pub(crate) fn add_violation(&self, violation: String) {
        self.violations.lock().push(violation);
    }

    /// The broken promises.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// All requests by attempt.
    pub(crate) fn requests(&self) -> Vec<(AttemptKey, Requests)> {
        self.requests.lock().iter().map(|(key, requests)| (key.clone(), *requests)).collect()
    }

    /// Notes that a client is about to send a command.
    pub(crate) fn note_sent(&self, run: RunId, command: &RunCommand) {
        let sent = ClientCommand { command: command.clone(), acknowledged_at: None, outcome: None };
        self.commands.lock().entry((run, command.id.clone())).or_insert(sent);
    }

    /// Notes what a process confirmed, and when. Returns whether an earlier confirmation differs.
    pub(crate) fn note_confirmed(&self, run: RunId, id: &str, outcome: Option<&CommandOutcome>, at: u64) -> bool {
        let mut commands = self.commands.lock();
        let Some(sent) = commands.get_mut(&(run, id.to_owned())) else { return false };
        sent.acknowledged_at.get_or_insert(at);
        let Some(outcome) = outcome else { return false };
        let differs = sent.outcome.as_ref().is_some_and(|earlier| earlier != outcome);
        sent.outcome = Some(outcome.clone());
        differs
    }

    /// The commands to a run.
    pub(crate) fn commands_to(&self, run: RunId) -> Vec<ClientCommand> {
        let commands = self.commands.lock();
        commands.iter().filter(|((receiver, _), _)| *receiver == run).map(|(_, sent)| sent.clone()).collect()
    }
}

impl World {
    /// The effect server receives a request.
    pub(crate) fn receive_request(&self, process: ProcessId, context: &EffectContext, class: EffectClass) {
        let key: AttemptKey = (context.run, context.path.clone(), context.attempt);
        if self.is_traced {
            self.trace(format!("p{process} sends {} {} attempt {}", key.0, key.1, key.2));
        }
        let known = self.observed.keys.lock().entry(context.idempotency_key()).or_insert_with(|| key.clone()).clone();
        if known != key {
            self.report_violation(format!("{} attempt {} has the key of attempt {}", key.1, key.2, known.2));
        }
        self.check_journal_before(process, &key);
        let mut requests = self.observed.requests.lock();
        requests.entry(key).or_insert(Requests { count: 0, class }).count += 1;
    }

    /// Before an effect is sent, its start is stored. Only the worker with the lease sends, nothing that has an outcome, and
    /// nothing after a cancellation.
    fn check_journal_before(&self, process: ProcessId, (run, path, attempt): &AttemptKey) {
        let records = self.database.runs.read_records(*run, 0).unwrap_or_default();
        let is_of_attempt = |record: &Record| record.path == *path && record.attempt == *attempt;
        let has = |is: fn(&Event) -> bool| records.iter().any(|record| is_of_attempt(record) && is(&record.event));
        if !has(|event| matches!(event, Event::StepStarted { .. })) {
            self.report_violation(format!("{path} was sent before its start was stored"));
        }
        let lease = self.database.read_lease(*run);
        if lease.is_none_or(|row| row.worker != Some(process)) {
            self.report_violation(format!("p{process} sent {path} attempt {attempt} without the lease, {lease:?}"));
        }
        if has(|event| matches!(event, Event::StepFinished { .. } | Event::StepFailed { .. })) {
            self.report_violation(format!("{path} attempt {attempt} was sent after its outcome was stored"));
        }
        let last = records.iter().rev().find(|record| {
            matches!(
                record.event,
                Event::CancelRequested { .. } | Event::RunFinished { .. } | Event::RunReopened { .. }
            )
        });
        if last.is_some_and(|record| !matches!(record.event, Event::RunReopened { .. })) {
            self.report_violation(format!("{path} was sent after the run was cancelled or had ended"));
        }
    }
}
