//! The thread that learns of commands of other processes. Some databases notify it; then it polls as well, more rarely, in
//! case a notification is lost with its session.

use std::sync::{Arc, Weak};
use std::time::Duration;

use flowloom_core::id::RunId;

use super::{CausedCommand, Mailboxes};
use crate::db::news::{NewsListener, RunNews};
use crate::db::{DbConnection, DbSource, params};
use crate::error::StoreError;

/// Pause before a lost database is connected again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Starts the thread. It ends with the mailboxes.
pub(super) fn start_watcher(mailboxes: &Arc<Mailboxes>, source: DbSource) -> bool {
    let watched = Arc::downgrade(mailboxes);
    let watch = move || watch_commands(&watched, &source);
    std::thread::Builder::new().name("store-commands".into()).spawn(watch).is_ok()
}

fn watch_commands(mailboxes: &Weak<Mailboxes>, source: &DbSource) {
    let mut watcher = None;
    while let Some(mailboxes) = mailboxes.upgrade() {
        if watcher.is_none() {
            watcher = CommandWatcher::connect(source).ok();
        }
        let polled = watcher.as_mut().is_some_and(|watcher| watcher.poll(&mailboxes).is_ok());
        drop(mailboxes);
        match &mut watcher {
            Some(watcher) if polled && !watcher.is_lost() => watcher.wait(),
            _ => {
                watcher = None;
                std::thread::sleep(RECONNECT_DELAY);
            }
        }
    }
}

/// The connections of the thread.
struct CommandWatcher {
    connection: DbConnection,
    listener: Box<dyn NewsListener>,
    /// The notifications; `None`: any run may have news.
    notified: Option<Vec<RunNews>>,
}

impl CommandWatcher {
    fn connect(source: &DbSource) -> Result<CommandWatcher, StoreError> {
        let listener = source.listen_to_news()?;
        Ok(CommandWatcher { connection: source.connect()?, listener, notified: None })
    }

    /// Whether notifications no longer arrive.
    fn is_lost(&self) -> bool {
        self.listener.is_lost()
    }

    /// Waits for a notification, or until it is time to poll.
    fn wait(&mut self) {
        self.notified = self.listener.wait_for_news();
    }

    fn poll(&mut self, mailboxes: &Mailboxes) -> Result<(), StoreError> {
        match self.notified.take() {
            None if mailboxes.has_mailboxes() => self.deliver_all(mailboxes),
            None => Ok(()),
            Some(news) => news.into_iter().try_for_each(|news| {
                let (RunNews::Command(run) | RunNews::End(run)) = news;
                mailboxes.wake_waiting(run);
                match news {
                    RunNews::Command(run) if mailboxes.has_mailbox(run) => self.deliver_to(mailboxes, run),
                    _ => Ok(()),
                }
            }),
        }
    }

    fn deliver_all(&self, mailboxes: &Mailboxes) -> Result<(), StoreError> {
        let sql = "select distinct run from command where outcome is null";
        let runs = self.connection.query_rows(sql, params![], |row| Ok(RunId::parse(&row.get::<String>(0)?)))?;
        let own = runs.into_iter().flatten().filter(|run| mailboxes.has_mailbox(*run));
        own.into_iter().try_for_each(|run| self.deliver_to(mailboxes, run))
    }

    fn deliver_to(&self, mailboxes: &Mailboxes, run: RunId) -> Result<(), StoreError> {
        // Read first: a command that is still pending after it was pending under this epoch, too.
        let sql = "select epoch from run where id = $1";
        let epoch = self.connection.query_first(sql, params![&run.to_string()], |row| row.get_count(0))?;
        let Some(epoch) = epoch else { return Ok(()) };
        for command in super::read_pending_commands(&self.connection, run)? {
            mailboxes.deliver_command(CausedCommand { run, epoch, command });
        }
        Ok(())
    }
}
