//! Receives notifications: those of commands, of the decisions about them and of the ends of runs, and those that carry text.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, Notification};

use super::address::Database;
use super::tls::TlsConnection;
use crate::db::news::{NewsListener, RunNews};
use crate::error::StoreError;

/// Channel of the notifications of commands; each carries the id of a run.
const COMMAND_CHANNEL: &str = "flowloom_commands";

/// Channel of the notifications of runs that have ended or wait; each carries the id of a run.
const END_CHANNEL: &str = "flowloom_ends";

/// Interval at which the database is polled, in case a notification is lost with its session.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Notifies every process of a command to a run, or of a decision, when the transaction commits.
pub(crate) const NOTIFY_SQL: &str = "select pg_notify('flowloom_commands', $1)::text";

/// Notifies every process, when the transaction commits, that a run has ended or waits.
pub(crate) const ANNOUNCE_SQL: &str = "select pg_notify('flowloom_ends', $1)::text";

/// The news in a notification.
fn parse_news(notification: &Notification) -> Option<RunNews> {
    let run = RunId::parse(notification.payload())?;
    Some(if notification.channel() == END_CHANNEL { RunNews::End(run) } else { RunNews::Command(run) })
}

/// A session that listens. It ends with its client.
pub(crate) struct ListenSession {
    pub(crate) client: Client,
    /// Closes when the session is lost.
    pub(crate) notifications: UnboundedReceiver<Notification>,
}

impl ListenSession {
    /// Opens a session on the current runtime that listens to `channels`, which are names without quotes.
    pub(crate) async fn open(database: &Database, channels: &[&str]) -> Result<ListenSession, StoreError> {
        let connecting = database.config.connect(TlsConnection::new());
        let (client, mut connection) = database.within_timeout(connecting).await?;
        let (sender, notifications) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = sender.send(notification);
                }
            }
        });
        for channel in channels {
            database.within_timeout(client.batch_execute(&format!("listen {channel}"))).await?;
        }
        Ok(ListenSession { client, notifications })
    }
}

/// A session that listens to commands and ends only.
pub(crate) struct CommandListener {
    runtime: Runtime,
    session: ListenSession,
}

impl CommandListener {
    pub(crate) fn connect(database: &Database) -> Result<CommandListener, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| StoreError::Thread { purpose: "listens to the database", source })?;
        let session = runtime.block_on(ListenSession::open(database, &[COMMAND_CHANNEL, END_CHANNEL]))?;
        Ok(CommandListener { runtime, session })
    }
}

impl NewsListener for CommandListener {
    /// `None` if no notification came, or if the session was lost.
    fn wait_for_news(&mut self) -> Option<Vec<RunNews>> {
        let notifications = &mut self.session.notifications;
        let end = Instant::now() + POLL_INTERVAL;
        self.runtime.block_on(async {
            let mut received = Vec::new();
            match tokio::time::timeout(POLL_INTERVAL, notifications.recv_many(&mut received, usize::MAX)).await {
                Ok(count) if count > 0 => Some(received.iter().filter_map(parse_news).collect()),
                Ok(_) => {
                    // The session was lost. Without this pause a lost server would be polled without pause.
                    tokio::time::sleep_until(end.into()).await;
                    None
                }
                Err(_) => None,
            }
        })
    }

    fn is_lost(&self) -> bool {
        self.session.notifications.is_closed()
    }
}
