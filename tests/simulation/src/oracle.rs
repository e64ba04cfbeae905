//! The invariants when all runs have ended: the journals, the commands, the requests and the memory agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::bound::{FunctionReach, Latencies, ModelFigures, bound_plan};
use flowloom_core::code::Code;
use flowloom_core::event::{Event, Record, Resolution};
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::{EffectClass, Plan};
use flowloom_core::value::Value;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::command::{CommandAction, CommandOutcome, CommandRecord, RunCommand};

use crate::connection::MAX_REQUEST_WAIT_MS;
use crate::database::is_person;
use crate::observed::ClientCommand;
use crate::world::World;

type Records = [Arc<Record>];

impl World {
    /// Checks everything about the runs, which have ended.
    pub(crate) async fn check_runs(&self) {
        let mut expected_writes = 0;
        for run in self.database.run_ids() {
            let records = self.database.runs.read_records(run, 0).unwrap_or_default();
            let checked = check_sequence(&records)
                .and_then(|()| self.check_commands(run, &records))
                .and_then(|()| check_answers(&records))
                .and_then(|()| self.check_expired(run, &records))
                .and_then(|()| self.check_requests(run, &records))
                .and_then(|()| self.check_children(run, &records))
                .and_then(|()| self.check_memory(&records));
            match checked {
                Ok(writes) => expected_writes += writes,
                Err(violation) => self.report_violation(format!("run {run}: {violation}")),
            }
            self.check_replay(run, records).await;
        }
        if self.database.count_releases_with_commands() > 0 {
            self.report_violation("a lease was released although a command was pending".to_owned());
        }
        if let Some(child) = self.database.late_children().first() {
            self.report_violation(format!("a step has started the child run {child} after its run had ended"));
        }
        let writes = self.database.memory_write_count();
        if writes != expected_writes {
            self.report_violation(format!("{writes} memory writes happened, and {expected_writes} are recorded"));
        }
    }

    async fn check_replay(&self, run: RunId, records: Vec<Arc<Record>>) {
        let Some(planned) = self.planned_run(run) else { return };
        let Some(process) = self.living_processes().into_iter().next() else { return };
        let planned_plan = planned.plan.clone();
        match process.engine.replay_run(records.clone(), planned.plan.clone()).await {
            Ok(outcome) if outcome.records == records => {
                if let Err(violation) = check_worst_case(&planned_plan, &outcome) {
                    self.report_violation(format!("run {run}: {violation}"));
                }
            }
            Ok(_) => self.report_violation(format!("the replay of {run} has other records")),
            Err(error) => self.report_violation(format!("the replay of {run} differs: {error}")),
        }
    }

    /// Every command that was acknowledged has one outcome, and its event.
    fn check_commands(&self, run: RunId, records: &Records) -> Result<(), String> {
        if let Some(command) = self.database.runs.pending_commands(run).first() {
            return Err(format!("the command {} is pending after the end", command.id));
        }
        let mut applied = Vec::new();
        for ClientCommand { command, acknowledged_at, outcome } in self.observed.commands_to(run) {
            let stored = self.database.runs.find_command(run, &command.id).and_then(|record| record.outcome);
            match (stored, outcome) {
                (Some(stored), Some(seen)) if stored != seen => {
                    return Err(format!("the outcome of {} has changed: {seen:?}, then {stored:?}", command.id));
                }
                (None, None) if acknowledged_at.is_some() => {
                    return Err(format!("the command {} was acknowledged and has no outcome", command.id));
                }
                (Some(CommandOutcome::Applied), _) => applied.push(command),
                _ => {}
            }
        }
        check_causes(&applied, records)
    }

    /// A question does not expire if an answer was stored in time.
    fn check_expired(&self, run: RunId, records: &Records) -> Result<(), String> {
        // Otherwise the times cannot be compared.
        if self.settings.clock_changes > 0 {
            return Ok(());
        }
        let answers = self.observed.commands_to(run);
        for (path, asked_at, expires_at) in expired_questions(records) {
            let is_in_time = |answer: &&ClientCommand| {
                let stored = self.database.runs.find_command(run, &answer.command.id);
                let is_meant = matches!(&answer.command.action, CommandAction::Answer { path: of, .. } if of == path);
                // The end of the run has rejected an answer from before a retry.
                let is_of_this_life = |stored: &CommandRecord| {
                    let decided = stored.decided_at.unwrap_or(u64::MAX);
                    !records.iter().any(|record| is_reopened(record) && record.at >= decided)
                };
                is_meant
                    && stored.filter(is_of_this_life).is_some_and(|stored| {
                        asked_at < stored.sent_at && self.stored_by(answer, stored.sent_at) < expires_at
                    })
            };
            if let Some(answer) = answers.iter().find(is_in_time) {
                return Err(format!("the question {path} has expired, and {} was stored in time", answer.command.id));
            }
        }
        Ok(())
    }

    /// When a command was stored at the latest. A process that is paused may store it long after it was sent.
    fn stored_by(&self, command: &ClientCommand, sent_at: u64) -> u64 {
        match self.settings.pauses {
            0 => sent_at + MAX_REQUEST_WAIT_MS,
            _ => command.acknowledged_at.unwrap_or(u64::MAX),
        }
    }

    /// An effect that may happen at most once is sent once, and once more for each decision to send it again.
    fn check_requests(&self, run: RunId, records: &Records) -> Result<(), String> {
        for ((_, path, attempt), requests) in self.observed.requests().into_iter().filter(|((of, ..), _)| *of == run) {
            let is_resend = |record: &&Arc<Record>| {
                record.path == path
                    && record.attempt == attempt
                    && matches!(&record.event, Event::Resolved { how: Resolution::Resend, .. })
            };
            let allowed = 1 + records.iter().filter(is_resend).count() as u64;
            if requests.class == EffectClass::AtMostOnce && requests.count > allowed {
                return Err(format!("{path} attempt {attempt} was sent {} times, not {allowed}", requests.count));
            }
        }
        Ok(())
    }

    /// The memory is what the finished steps wrote. Returns the number of writes.
    fn check_memory(&self, records: &Records) -> Result<u64, String> {
        let Some(Event::RunCreated(created)) = records.first().map(|record| &record.event) else { return Ok(0) };
        let (mut expected, mut writes): (BTreeMap<String, Value>, u64) = (BTreeMap::new(), 0);
        for record in records {
            let Event::StepFinished { memory, reused: false, .. } = &record.event else { continue };
            for write in memory {
                writes += 1;
                match &write.value {
                    Some(value) => expected.insert(write.key.clone(), value.clone()),
                    None => expected.remove(&write.key),
                };
            }
        }
        let memory = self.database.read_memories(&created.user);
        let is_equal =
            memory.len() == expected.len() && memory.iter().all(|(key, value)| expected.get(&**key) == Some(value));
        if is_equal { Ok(writes) } else { Err(format!("the memory is {memory:?}, not {expected:?}")) }
    }
}

/// No run does more than the worst case of its plan.
fn check_worst_case(plan: &Plan, outcome: &RunOutcome) -> Result<(), String> {
    // A retry performs steps again, on top of the plan.
    if outcome.records.iter().any(|record| is_reopened(record)) {
        return Ok(());
    }
    let worst = bound_plan(plan, None, &Limits::default(), &NoFigures, Latencies::default()).bound;
    let count = |kind: &str| -> u64 {
        let steps = outcome.state.steps().iter().filter(|step| step.kind.as_deref() == Some(kind));
        steps.map(|step| u64::from(step.attempts)).sum()
    };
    let found = [
        ("model calls", worst.total_calls().calls, count("generate")),
        ("requests", worst.total_requests(), count("http")),
        ("functions", worst.total_functions(), count("call")),
        ("questions", worst.questions, count("ask")),
    ];
    match found.iter().find(|(_, bound, found)| !bound.allows(*found)) {
        Some((name, bound, found)) => Err(format!("{found} {name}, and the worst case is {bound:?}")),
        None => Ok(()),
    }
}

/// Simulated models have no figures.
struct NoFigures;

impl ModelFigures for NoFigures {
    fn resolve(&self, named: Option<&str>) -> String {
        named.unwrap_or("default").to_owned()
    }

    fn window_tokens(&self, _model: &str) -> u64 {
        0
    }

    fn answer_tokens(&self, _model: &str) -> u64 {
        0
    }

    fn find_reach(&self, _function: &str) -> FunctionReach {
        FunctionReach::Nothing
    }
}

fn check_sequence(records: &Records) -> Result<(), String> {
    match records.iter().zip(1..).find(|(record, expected)| record.seq != *expected) {
        Some((record, expected)) => Err(format!("event {} has the number {}", expected, record.seq)),
        None => Ok(()),
    }
}

fn is_reopened(record: &Record) -> bool {
    matches!(record.event, Event::RunReopened { .. })
}

/// A question has at most one answer.
fn check_answers(records: &Records) -> Result<(), String> {
    let mut answers: BTreeMap<(&Path, u32), u32> = BTreeMap::new();
    for record in records.iter().filter(|record| matches!(record.event, Event::Answered { .. })) {
        let count = answers.entry((&record.path, record.attempt)).or_default();
        *count += 1;
        if *count > 1 {
            return Err(format!("the question {} has {count} answers", record.path));
        }
    }
    Ok(())
}

/// The questions that have expired: their steps, the times of the questions, and when they expired.
fn expired_questions(records: &Records) -> impl Iterator<Item = (&Path, u64, u64)> {
    let has_expired = |record: &&Arc<Record>| matches!(&record.event, Event::StepFailed { error, .. } if error.code == Code::StepTimeout);
    records.iter().filter(has_expired).filter_map(|expired| {
        let mut same = records.iter().filter(|record| record.path == expired.path && record.attempt == expired.attempt);
        same.find_map(|record| match &record.event {
            Event::Asked(question) => Some((&record.path, record.at, question.expires_at?)),
            _ => None,
        })
    })
}

/// Each applied command has its event, and each event its command.
fn check_causes(applied: &[RunCommand], records: &Records) -> Result<(), String> {
    let count_events = |is: &dyn Fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    let count_commands = |is: fn(&CommandAction) -> bool| applied.iter().filter(|command| is(&command.action)).count();
    for command in applied {
        let has_event = records.iter().any(|record| match (&command.action, &record.event) {
            (CommandAction::Answer { path, value }, Event::Answered { value: recorded, by }) => {
                record.path == *path && value == recorded && *by == command.sender
            }
            (CommandAction::Resolve { path, how }, Event::Resolved { how: recorded, by }) => {
                record.path == *path && how == recorded && *by == command.sender
            }
            (CommandAction::Cancel {}, Event::CancelRequested { by }) => *by == command.sender,
            (CommandAction::Retry { .. }, Event::RunReopened { by, .. }) => *by == command.sender,
            (CommandAction::Resume { .. }, _) => true,
            _ => false,
        });
        if !has_event {
            return Err(format!("the command {} was applied and has no event", command.id));
        }
    }
    let pairs = [
        (
            "answers",
            count_events(&|record| matches!(record.event, Event::Answered { .. })),
            count_commands(|action| matches!(action, CommandAction::Answer { .. })),
        ),
        (
            "decisions",
            count_events(&|record| matches!(record.event, Event::Resolved { .. })),
            count_commands(|action| matches!(action, CommandAction::Resolve { .. })),
        ),
        (
            "cancellations",
            count_events(&|record| matches!(&record.event, Event::CancelRequested { by } if is_person(by))),
            count_commands(|action| matches!(action, CommandAction::Cancel {})),
        ),
        (
            "retries",
            count_events(&|record| matches!(&record.event, Event::RunReopened { by, .. } if is_person(by))),
            count_commands(|action| matches!(action, CommandAction::Retry { .. })),
        ),
    ];
    match pairs.into_iter().find(|(_, events, commands)| events != commands) {
        Some((what, events, commands)) => Err(format!("{events} {what} are recorded, and {commands} were applied")),
        None => Ok(()),
    }
}
