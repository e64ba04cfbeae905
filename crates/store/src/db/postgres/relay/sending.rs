//! Sends the text of one run to one process that follows it.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::SubscribeHandle;
use flowloom_runtime::publish::{Delivery, Delta, RunUpdate, Subscription};
use flowloom_runtime::relay::RelayedText;
use serde::Serialize;
use tokio_postgres::{Client, Error, Statement};

use super::message::TextMessage;

/// Text that arrives within this time is sent together.
const BATCH_TIME: Duration = Duration::from_millis(20);

/// Sends notifications.
#[derive(Clone)]
pub(super) struct Notifier {
    client: Arc<Client>,
    statement: Statement,
}

impl Notifier {
    pub(super) async fn new(client: Client) -> Result<Notifier, Error> {
        let statement = client.prepare("select pg_notify($1, $2)").await?;
        Ok(Notifier { client: Arc::new(client), statement })
    }

    pub(super) async fn notify(&self, channel: &str, message: &impl Serialize) -> Result<(), Error> {
        let Ok(payload) = serde_json::to_string(message) else { return Ok(()) };
        self.client.execute(&self.statement, &[&channel, &payload]).await.map(drop)
    }
}

/// Sends the text of `run` to `channel` until the run is no longer driven here. Fails if the session was lost.
pub(super) async fn send_text(
    notifier: Notifier,
    run: RunId,
    channel: String,
    text: SubscribeHandle,
) -> Result<(), Error> {
    // A subscription that was too slow is replaced: the text so far fills the gap.
    while let Some(mut subscription) = text.subscribe() {
        let mut batch = TextBatch { seq: subscription.after(), pieces: Vec::new() };
        let mut is_open = true;
        while is_open {
            is_open = batch.collect(&mut subscription).await;
            for piece in batch.pieces.drain(..) {
                for message in TextMessage::for_text(run, &piece.into_text()) {
                    notifier.notify(&channel, &message).await?;
                }
            }
            tokio::time::sleep(BATCH_TIME).await;
        }
    }
    Ok(())
}

/// Text that is sent together.
struct TextBatch {
    /// Sequence number of the last event.
    seq: u64,
    pieces: Vec<Piece>,
}

/// The deltas of an attempt that follow each other.
struct Piece {
    seq: u64,
    first: Delta,
    text: String,
    characters: u64,
}

impl Piece {
    fn into_text(self) -> RelayedText {
        RelayedText { seq: self.seq, delta: Delta { text: self.text.into(), ..self.first } }
    }
}

impl TextBatch {
    /// Waits for an update, and takes all that are there. Returns whether more can follow: the subscription has not ended, and
    /// has missed nothing.
    async fn collect(&mut self, subscription: &mut Subscription) -> bool {
        let mut next = subscription.next().await;
        loop {
            match next {
                Some(Delivery::Update(RunUpdate::Event(record))) => self.seq = record.seq,
                Some(Delivery::Update(RunUpdate::Delta(delta))) => self.add_delta(delta),
                Some(Delivery::Missed(_)) | None => return false,
            }
            next = match tokio::time::timeout(Duration::ZERO, subscription.next()).await {
                Ok(next) => next,
                Err(_) => return true,
            };
        }
    }

    /// Adds a delta, to the piece before if it continues that.
    fn add_delta(&mut self, delta: Delta) {
        let characters = delta.text.chars().count() as u64;
        match self.pieces.last_mut() {
            Some(Piece { first, text, characters: known, .. })
                if (&first.path, first.attempt, first.offset + *known)
                    == (&delta.path, delta.attempt, delta.offset) =>
            {
                text.push_str(&delta.text);
                *known += characters;
            }
            _ => self.pieces.push(Piece { seq: self.seq, text: delta.text.to_string(), first: delta, characters }),
        }
    }
}
