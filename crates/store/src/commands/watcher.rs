//! The thread that learns of commands of other processes. Some databases notify it; then it polls as well, more rarely, in
//! case a notification is lost with its session.

use std::sync::{Arc, Weak};
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::outage_log::OutageLog;

use super::{CausedCommand, Mailboxes};
use crate::db::news::{NewsListener, RunNews};
use crate::db::{DbConnection, DbSource, params};
use crate::error::StoreError;

/// Pause before a lost database is connected again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Starts the thread; false if that fails. It ends with the mailboxes.
pub(super) fn start_watcher(mailboxes: &Arc<Mailboxes>, source: DbSource) -> bool {
    let watched = Arc::downgrade(mailboxes);
    let watch = move || watch_commands(&watched, &source);
    std::thread::Builder::new().name("store-commands".into()).spawn(watch).is_ok()
}

fn watch_commands(mailboxes: &Weak<Mailboxes>, source: &DbSource) {
    let outages = OutageLog::new("the inbox of commands of other processes");
    let mut connected = None;
    while let Some(mailboxes) = mailboxes.upgrade() {
        let polled = poll_commands(connected.take(), source, &mailboxes);
        drop(mailboxes);
        match polled {
            Ok(mut watcher) => {
                outages.note_success();
                if !watcher.is_lost() {
                    watcher.wait();
                    connected = Some(watcher);
                    continue;
                }
            }
            Err(error) => drop(outages.note_failure(error.code(), &error)),
        }
        std::thread::sleep(RECONNECT_DELAY);
    }
}

/// Delivers the pending commands, after connecting if necessary.
fn poll_commands(
    connected: Option<CommandWatcher>,
    source: &DbSource,
    mailboxes: &Mailboxes,
) -> Result<CommandWatcher, StoreError> {
    let mut watcher = connected.map_or_else(|| CommandWatcher::connect(source), Ok)?;
    watcher.poll(mailboxes)?;
    Ok(watcher)
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
            Some(news) => deliver_each(news, |news| {
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
        deliver_each(own, |run| self.deliver_to(mailboxes, run))
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

/// Delivers to all. Fails with the first error, after the others have been tried: a run with a damaged row does not keep
/// commands from other runs.
fn deliver_each<T>(
    all: impl IntoIterator<Item = T>,
    deliver: impl Fn(T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    all.into_iter().map(deliver).fold(Ok(()), Result::and)
}
