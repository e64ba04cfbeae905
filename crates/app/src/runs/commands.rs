//! Commands to runs that were started: answers, decisions, cancellations; and resuming runs. A command is stored in the
//! inbox of its run first. Then this process makes sure that a worker drives the run, and waits for the decision.

use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::value::Value;
use flowloom_runtime::RunError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, CommandOutcome, CommandRecord, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, KeyedCommand, PostedCommand, StartKey, StoreError};

use super::service::{RunService, StartCall};
use super::supervisor::{ActiveRun, RunCompletion};
use crate::error::AppError;
use crate::runs::stored::LoadedRun;

/// How long a caller waits for the decision about its command. The command remains stored after that.
pub const DECISION_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds a command under the idempotency key of its sender, or under a new id.
pub fn new_command(key: Option<String>, sender: &str, action: CommandAction) -> RunCommand {
    let id = key.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    RunCommand { id, sender: sender.to_owned(), action }
}

/// A command that was sent.
pub struct SentCommand {
    /// The run that received it: the run it was sent to, or one of its child runs.
    pub receiver: RunId,
    /// Its id.
    pub command: String,
    /// Whether it was applied. Otherwise it is stored and will be applied.
    pub is_applied: bool,
}

/// The sender of commands.
struct Sender<'a> {
    by: &'a Actor,
    /// The call that sends a single command under an idempotency key.
    call: Option<KeyedCommand>,
}

/// A command in the inbox of the run that received it.
struct PostedTo {
    receiver: RunId,
    record: CommandRecord,
}

/// Commands that were stored.
struct StoredCommands {
    sent: Vec<PostedTo>,
    /// The last one that is not decided yet.
    pending: Option<PendingCommand>,
}

/// A command that a worker must decide about.
struct PendingCommand {
    receiver: LoadedRun,
    posted: PostedCommand,
}

/// Whether a command was applied. Fails with the reason if it was rejected.
fn is_applied(decision: Option<CommandOutcome>) -> Result<bool, AppError> {
    match decision {
        Some(CommandOutcome::Applied) => Ok(true),
        Some(CommandOutcome::Rejected(reason)) => Err(reason.into()),
        None => Ok(false),
    }
}

impl RunService {
    /// Sends a command to a run and waits for the decision, at most for `timeout`. Fails with the reason if the command is
    /// rejected, with `SecretDenied` if a caller with a key chooses an output that could carry a secret away, and with
    /// `AfterCommand` if something fails after the command was stored, or if it is not known whether it was.
    pub async fn send_command(
        &self,
        opened: LoadedRun,
        command: RunCommand,
        by: &Actor,
        timeout: Duration,
    ) -> Result<SentCommand, AppError> {
        let deadline = Instant::now() + timeout;
        let (sender, id) = (Sender { by, call: None }, command.id.clone());
        let stored = self.store_commands(&opened, vec![command], sender).await;
        let StoredCommands { mut sent, pending } = stored.map_err(|error| error.of_command(&id, false))?;
        let PostedTo { receiver, record } = sent.remove(0);
        let followed = async {
            self.drive_receiver(pending, deadline).await?;
            let decision = self.read_decision(receiver, &record, deadline).await?;
            let is_cancelled = matches!(decision, Some(CommandOutcome::Applied))
                && record.command.action == (CommandAction::Cancel {});
            if is_cancelled {
                self.stored.end_child_runs(receiver).await?;
            }
            Ok::<_, AppError>(decision)
        };
        let decision = followed.await.map_err(|error| error.of_command(&id, true))?;
        Ok(SentCommand { receiver, command: id, is_applied: is_applied(decision)? })
    }

    /// Cancels a run that its client has left.
    pub async fn cancel_abandoned(&self, run: RunId, sender: &str) {
        let command = new_command(None, sender, CommandAction::Cancel {});
        let by = Actor { user: Some(sender.to_owned()), ..Actor::server() };
        let cancelled =
            async { self.send_command(self.stored.open_run_by_id(run).await?, command, &by, DECISION_TIMEOUT).await };
        if let Err(error) = cancelled.await {
            tracing::warn!("cannot cancel the run {run}, whose client has left: {error}");
        }
    }

    /// Sends answers of `sender` to questions of a run, and resumes the run. Fails with the reason if one of them is
    /// rejected.
    pub async fn send_answers(
        &self,
        opened: LoadedRun,
        answers: Vec<(Path, Value)>,
        sender: &str,
    ) -> Result<ActiveRun, AppError> {
        if answers.is_empty() {
            return self.continue_run(opened).await;
        }
        let answer = |(path, value)| new_command(None, sender, CommandAction::Answer { path, value });
        let commands = answers.into_iter().map(answer).collect();
        self.send_from_conversation(&opened, commands, sender, None).await
    }

    /// Sends the answer of a call to a question of a run, and resumes the run. If the call has an idempotency key, which is
    /// reserved for the run `reserved`, its repetitions send the same answer. Fails with the reason if it is rejected.
    pub async fn send_answer_once(
        &self,
        opened: LoadedRun,
        answer: CommandAction,
        call: &StartCall,
        reserved: Option<RunId>,
    ) -> Result<ActiveRun, AppError> {
        let user = &call.user;
        let Some((key, reserved)) = call.idempotency_key.as_ref().zip(reserved) else {
            return self.send_from_conversation(&opened, vec![new_command(None, user, answer)], user, None).await;
        };
        let start = StartKey { user, key };
        let command = new_command(Some(KeyedCommand::command_id(user, key)), user, answer);
        let keyed = KeyedCommand { user: user.clone(), key: key.clone(), reserved, run: opened.id };
        match self.send_from_conversation(&opened, vec![command], user, Some(keyed)).await {
            Err(AppError::Store(StoreError::KeyBound)) => {
                let bound = self.stored.store.find_bound_run(start)?;
                self.find_call_result(start, bound.ok_or(StoreError::KeyBound)?)
            }
            sent => sent,
        }
    }

    async fn send_from_conversation(
        &self,
        opened: &LoadedRun,
        commands: Vec<RunCommand>,
        sender: &str,
        call: Option<KeyedCommand>,
    ) -> Result<ActiveRun, AppError> {
        let deadline = Instant::now() + DECISION_TIMEOUT;
        let by = Actor::of_conversation(sender);
        for posted in self.post_commands(opened, commands, Sender { by: &by, call }, deadline).await? {
            self.wait_for_decision(posted.receiver, &posted.record, deadline).await?;
        }
        Ok(self.live.find_started(opened.id))
    }

    /// Stores commands, and makes sure that a worker decides about them.
    async fn post_commands(
        &self,
        opened: &LoadedRun,
        commands: Vec<RunCommand>,
        sender: Sender<'_>,
        deadline: Instant,
    ) -> Result<Vec<PostedTo>, AppError> {
        let StoredCommands { sent, pending } = self.store_commands(opened, commands, sender).await?;
        self.drive_receiver(pending, deadline).await?;
        Ok(sent)
    }

    /// Stores commands.
    async fn store_commands(
        &self,
        opened: &LoadedRun,
        commands: Vec<RunCommand>,
        sender: Sender<'_>,
    ) -> Result<StoredCommands, AppError> {
        let Sender { by, call } = sender;
        let mut sent = Vec::with_capacity(commands.len());
        let mut pending = None;
        for command in commands {
            let (receiver, command) = self.stored.route_command(opened, command).await?;
            if by.has_key() {
                self.stored.engines.check_chosen_output(receiver.id, &command.action)?;
            }
            let (store, now) = (&self.stored.store, SystemClock.now_ms());
            let posted = match &call {
                Some(call) => store.post_keyed_command(receiver.id, command, now, by, call.clone()).await?,
                None => store.post_command_by(receiver.id, command, now, by).await?,
            };
            sent.push(PostedTo { receiver: receiver.id, record: posted.record.clone() });
            if posted.record.outcome.is_none() {
                pending = Some(PendingCommand { receiver, posted });
            }
        }
        Ok(StoredCommands { sent, pending })
    }

    /// Makes sure that a worker decides about pending commands. All their receivers are driven by the same run.
    async fn drive_receiver(&self, pending: Option<PendingCommand>, deadline: Instant) -> Result<(), AppError> {
        match pending {
            Some(PendingCommand { receiver, posted }) => self.ensure_driven(receiver, &posted, deadline).await,
            None => Ok(()),
        }
    }

    /// Whether a command was applied. Fails with the reason if it was rejected.
    async fn wait_for_decision(
        &self,
        receiver: RunId,
        record: &CommandRecord,
        deadline: Instant,
    ) -> Result<bool, AppError> {
        is_applied(self.read_decision(receiver, record, deadline).await?)
    }

    /// Waits for the decision about a command; `None` if there is none in time.
    async fn read_decision(
        &self,
        receiver: RunId,
        record: &CommandRecord,
        deadline: Instant,
    ) -> Result<Option<CommandOutcome>, AppError> {
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(self.stored.store.wait_for_decision(receiver, record, left).await?)
    }

    /// Makes sure that a worker decides about a pending command. If Restate has none, this process applies a cancellation.
    async fn ensure_driven(
        &self,
        opened: LoadedRun,
        posted: &PostedCommand,
        deadline: Instant,
    ) -> Result<(), AppError> {
        let (receiver, left) = (opened.id, deadline.saturating_duration_since(Instant::now()));
        let driven = self.ensure_worker(opened, posted, deadline);
        let ended = self.stored.end_without_worker(receiver, &posted.record, left);
        let (driven, ended) = tokio::join!(driven, ended);
        if ended? { Ok(()) } else { driven }
    }

    /// Makes sure that a worker drives a run with a pending command. A living worker that had the lease when the command was
    /// stored cannot release the run before it has decided about the command.
    async fn ensure_worker(
        &self,
        opened: LoadedRun,
        posted: &PostedCommand,
        deadline: Instant,
    ) -> Result<(), AppError> {
        let receiver = opened.id;
        let driving = self.stored.open_driving_run(opened).await?;
        if !posted.has_worker {
            // It may just have been suspended by this process, which is about to notice; or another command has continued it,
            // and the command is decided.
            tokio::select! {
                () = self.live.wait_for_run(driving.id) => {}
                decided = self.wait_for_decision(receiver, &posted.record, deadline) => drop(decided),
            }
        }
        // If another worker drives it, that one reads the inbox.
        match self.continue_run(driving).await {
            Err(error) if error.is_left_to_others() => Ok(()),
            continued => continued.map(drop),
        }
    }

    /// Drives a run from the end of its journal, unless a worker drives it already. Fails if the run around it cannot
    /// be opened, or if the store cannot be written.
    pub async fn continue_run(&self, opened: LoadedRun) -> Result<ActiveRun, AppError> {
        let id = opened.id;
        match self.drive_run(opened).await {
            // Another worker drives it.
            Err(error) if error.is_run_owned() => Ok(ActiveRun { id, completion: None, subscription: None }),
            ending => Ok(ActiveRun { id, completion: ending?, subscription: None }),
        }
    }

    /// Reads a run and drives it. Fails with `RunOwned` if another worker drives it.
    pub async fn resume_run(&self, id: RunId) -> Result<(), AppError> {
        self.drive_run(self.stored.open_run_by_id(id).await?).await.map(|_| ())
    }

    /// Drives a run, or the run around it that drives it; `None` if the run itself is not driven by this process.
    async fn drive_run(&self, opened: LoadedRun) -> Result<Option<RunCompletion>, AppError> {
        let id = opened.id;
        let opened = self.stored.open_driving_run(opened).await?;
        let completion = self.drive_outermost_run(opened).await?;
        Ok(completion.filter(|_| self.live.find_completion(id).is_some()))
    }

    async fn drive_outermost_run(&self, opened: LoadedRun) -> Result<Option<RunCompletion>, AppError> {
        let ending = self.live.find_completion(opened.id);
        let is_over = opened.state().status.is_final();
        if ending.is_some() || (is_over && !self.stored.has_pending_commands(opened.id).await?) {
            return Ok(ending);
        }
        let runs = self.clone();
        // A caller who leaves in between would leave a run that this process has claimed and does not drive.
        tokio::spawn(async move { runs.claim_and_drive(&opened).await }).await?
    }

    async fn claim_and_drive(&self, opened: &LoadedRun) -> Result<Option<RunCompletion>, AppError> {
        if self.live.is_closed() {
            return Err(AppError::Stopping);
        }
        self.stored.check_configuration(opened).await?;
        match self.stored.resume_loaded(opened).await {
            // The run has ended since its journal was read.
            Err(AppError::Run(RunError::Ended(_))) => Ok(None),
            run => Ok(Some(self.live.drive_run(run?, opened.plan.clone()).await)),
        }
    }
}
