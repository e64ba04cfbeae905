//! The mailbox of each run that this process drives, and those who wait for a decision.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use flowloom_core::id::RunId;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Lease;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{CausedCommand, watcher};
use crate::db::DbSource;

/// Mailboxes of the runs that this process drives.
pub struct Mailboxes {
    /// Where commands of other processes are read; `None` if someone else delivers them.
    source: Option<DbSource>,
    state: Mutex<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    boxes: HashMap<RunId, Arc<Mailbox>>,
    /// Those who wait for a decision about a command of a run.
    waiting: HashMap<RunId, Vec<oneshot::Sender<()>>>,
    is_watching: bool,
}

/// The mailbox of one run. It has a lock of its own, because the driver of a run looks at it often.
struct Mailbox {
    /// The epoch of the lease under which this process drives the run.
    epoch: u64,
    content: Mutex<MailboxContent>,
}

#[derive(Default)]
struct MailboxContent {
    commands: Vec<RunCommand>,
    /// Ids of the commands that were delivered.
    delivered: HashSet<String>,
    waker: Option<Waker>,
}

impl Mailboxes {
    pub(crate) fn new(source: DbSource) -> Mailboxes {
        Mailboxes { source: Some(source), state: Mutex::default() }
    }

    /// Mailboxes that read no database: all commands are delivered with [`Mailboxes::deliver_command`].
    pub fn without_database() -> Arc<Mailboxes> {
        Arc::new(Mailboxes { source: None, state: Mutex::default() })
    }

    fn lock_state(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock()
    }

    /// Opens the mailbox of a run that this process drives under a lease, before it reads the pending commands.
    pub fn open_mailbox(self: &Arc<Mailboxes>, lease: Lease) {
        let mut state = self.lock_state();
        state.boxes.insert(lease.run, Arc::new(Mailbox { epoch: lease.epoch, content: Mutex::default() }));
        self.start_watching(&mut state);
    }

    fn start_watching(self: &Arc<Mailboxes>, state: &mut MailboxState) {
        if let Some(source) = self.source.as_ref().filter(|_| !state.is_watching) {
            state.is_watching = watcher::start_watcher(self, source.clone());
        }
    }

    /// Removes the mailbox of a run that this process no longer drives.
    pub fn close_mailbox(&self, run: RunId) {
        self.lock_state().boxes.remove(&run);
    }

    /// Completes with the next commands of a run, as long as its mailbox is open.
    pub fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        let mailbox = self.lock_state().boxes.get(&run).cloned();
        Box::pin(poll_fn(move |context| match &mailbox {
            Some(mailbox) => mailbox.poll_commands(context),
            None => Poll::Pending,
        }))
    }

    /// Delivers a pending command, if this process drives the run under the lease that the command was read under. After
    /// that, an earlier worker may have decided about it, and the claim of the run was followed by reading its inbox.
    pub fn deliver_command(&self, CausedCommand { run, epoch, command }: CausedCommand) {
        let mailbox = self.lock_state().boxes.get(&run).filter(|mailbox| mailbox.epoch == epoch).cloned();
        if let Some(mailbox) = mailbox {
            mailbox.deliver_command(command);
        }
    }

    /// Completes when a command of the run may have been decided.
    pub fn notify_decision(self: &Arc<Mailboxes>, run: RunId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock_state();
        let waiting = state.waiting.entry(run).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        self.start_watching(&mut state);
        receiver
    }

    /// Wakes those who wait for a decision about a command of the run.
    pub fn wake_waiting(&self, run: RunId) {
        let waiting = self.lock_state().waiting.remove(&run);
        for sender in waiting.into_iter().flatten() {
            // The receiver may have given up.
            let _ = sender.send(());
        }
    }

    /// Whether this process drives the run.
    pub fn has_mailbox(&self, run: RunId) -> bool {
        self.lock_state().boxes.contains_key(&run)
    }

    /// Whether this process drives any runs.
    pub(super) fn has_mailboxes(&self) -> bool {
        !self.lock_state().boxes.is_empty()
    }
}

impl Mailbox {
    fn lock_content(&self) -> MutexGuard<'_, MailboxContent> {
        self.content.lock()
    }

    fn poll_commands(&self, context: &Context<'_>) -> Poll<Vec<RunCommand>> {
        let mut content = self.lock_content();
        if content.commands.is_empty() {
            content.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut content.commands))
    }

    /// Delivers a command once.
    fn deliver_command(&self, command: RunCommand) {
        let waker = {
            let mut content = self.lock_content();
            if !content.delivered.insert(command.id.clone()) {
                return;
            }
            content.commands.push(command);
            content.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}
