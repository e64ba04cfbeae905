//! Carries the text of answers between the processes that share a Postgres, with its notifications.
//!
//! A process that follows a run announces that to all (`message.rs`). The process that drives the run sends text only
//! then, and only to those that follow. Text is not stored, and costs nothing without followers. In the same way, a
//! process that waits for a run is notified when it is no longer driven.

mod message;
mod relaying;
mod sending;

use std::sync::OnceLock;

use flowloom_core::id::RunId;
use flowloom_runtime::SubscribeHandle;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Lease;
use flowloom_runtime::relay::{RelayedText, TextRelay};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::address::Database;

/// A request to the relay.
enum RelayRequest {
    Announce(Lease, SubscribeHandle),
    Withdraw(Lease),
    Follow(RunId, UnboundedSender<RelayedText>),
    Await(RunId, oneshot::Sender<()>),
}

/// The relay of this process. Its thread starts with the first request, and ends with the relay.
pub(crate) struct PostgresRelay {
    database: Database,
    requests: OnceLock<Option<UnboundedSender<RelayRequest>>>,
}

impl PostgresRelay {
    pub(crate) fn new(database: Database) -> PostgresRelay {
        PostgresRelay { database, requests: OnceLock::new() }
    }

    fn send_request(&self, request: RelayRequest) {
        if let Some(requests) = self.requests.get_or_init(|| self.start_thread()) {
            // The thread ends before the relay only if it panics; then the text is missing.
            let _ = requests.send(request);
        }
    }

    fn start_thread(&self) -> Option<UnboundedSender<RelayRequest>> {
        let (sender, requests) = unbounded_channel();
        let database = self.database.clone();
        let thread = std::thread::Builder::new().name("store-text".into());
        thread.spawn(move || relaying::relay_text(&database, requests)).ok().map(|_| sender)
    }
}

impl TextRelay for PostgresRelay {
    fn announce_run(&self, lease: Lease, text: SubscribeHandle) {
        self.send_request(RelayRequest::Announce(lease, text));
    }

    fn withdraw_run(&self, lease: Lease) {
        self.send_request(RelayRequest::Withdraw(lease));
    }

    fn follow_run(&self, run: RunId) -> UnboundedReceiver<RelayedText> {
        let (sender, receiver) = unbounded_channel();
        self.send_request(RelayRequest::Follow(run, sender));
        receiver
    }

    fn wait_for_withdrawal(&self, run: RunId) -> BoxFuture<'static, ()> {
        let (sender, receiver) = oneshot::channel();
        self.send_request(RelayRequest::Await(run, sender));
        Box::pin(async move {
            if receiver.await.is_err() {
                // The relay is gone.
                std::future::pending().await
            }
        })
    }
}
