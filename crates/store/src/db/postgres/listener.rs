//! Receives the notifications that a worker gets of commands and of the decisions about them.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use flowloom_core::id::RunId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client};

use super::address::Database;
use super::tls::TlsConnection;
use crate::error::StoreError;

/// Channel of the notifications; each carries the id of a run.
const CHANNEL: &str = "flowloom_commands";

/// Notifies every process of a command to a run, or of a decision, when the transaction commits.
pub(crate) const NOTIFY_SQL: &str = "select pg_notify('flowloom_commands', $1)::text";

/// A session that only listens.
pub(crate) struct CommandListener {
    runtime: Runtime,
    notifications: UnboundedReceiver<RunId>,
    /// The session ends with its client.
    _client: Client,
}

impl CommandListener {
    pub(crate) fn connect(database: &Database) -> Result<CommandListener, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| StoreError::Thread { purpose: "listens to the database", source })?;
        let (client, mut connection) = runtime.block_on(database.config.connect(TlsConnection::new()))?;
        let (sender, notifications) = unbounded_channel();
        runtime.spawn(async move {
            // The channel closes when the session is lost.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message
                    && let Some(run) = RunId::parse(notification.payload())
                {
                    let _ = sender.send(run);
                }
            }
        });
        runtime.block_on(client.batch_execute(&format!("listen {CHANNEL}")))?;
        Ok(CommandListener { runtime, notifications, _client: client })
    }

    /// Waits for notifications, at most for `timeout`. `None`: every run may have news, because none came or because the
    /// session was lost.
    pub(crate) fn wait_for_notifications(&mut self, timeout: Duration) -> Option<Vec<RunId>> {
        let notifications = &mut self.notifications;
        let end = Instant::now() + timeout;
        self.runtime.block_on(async {
            let mut runs = Vec::new();
            let received = tokio::time::timeout(timeout, notifications.recv_many(&mut runs, usize::MAX)).await;
            match received {
                Ok(count) if count > 0 => Some(runs),
                Ok(_) => {
                    // The session was lost. Without this pause a lost server would be polled without pause.
                    tokio::time::sleep_until(end.into()).await;
                    None
                }
                Err(_) => None,
            }
        })
    }

    /// Whether the session was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.notifications.is_closed()
    }
}
