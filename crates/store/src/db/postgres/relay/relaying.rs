//! The thread of the relay. All its state is here: what this process announces and follows, and who else follows what.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::SubscribeHandle;
use flowloom_runtime::relay::RelayedText;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval, timeout};
use tokio_postgres::Notification;

use super::RelayRequest;
use super::message::{EndMessage, FOLLOW_CHANNEL, FollowKind, FollowMessage, TextMessage, new_text_channel};
use super::sending::{Notifier, send_text};
use crate::db::postgres::address::Database;
use crate::db::postgres::listener::ListenSession;

/// Interval at which a process repeats what it follows.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// A process that has not repeated what it follows for this time is gone.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(35);

/// Delay before a lost session is replaced.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Relays text until the requests end.
pub(super) fn relay_text(database: &Database, requests: UnboundedReceiver<RelayRequest>) {
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        runtime.block_on(Relay::new(requests).relay_with(database));
    }
}

struct Relay {
    requests: UnboundedReceiver<RelayRequest>,
    /// The channel on which this process receives text.
    channel: String,
    /// The runs that this process drives, each with the epoch of its lease.
    announced: HashMap<RunId, (u64, SubscribeHandle)>,
    /// Those in this process who follow a run.
    followed: HashMap<RunId, Vec<UnboundedSender<RelayedText>>>,
    /// The followers of a run, by their channels.
    followers: HashMap<RunId, BTreeMap<String, Follower>>,
    /// Those in this process who wait until a run is no longer driven.
    awaited: HashMap<RunId, Vec<oneshot::Sender<()>>>,
    /// The channels of the processes that wait for a run, with the times until which they are believed to.
    waiting: HashMap<RunId, BTreeMap<String, Instant>>,
}

/// A process that follows a run.
struct Follower {
    until: Instant,
    /// The task that sends the text to it, if this process drives the run.
    sending: Option<AbortHandle>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(sending) = &self.sending {
            sending.abort();
        }
    }
}

/// Why a session is over.
enum SessionEnd {
    Lost,
    /// The relay is not needed any more.
    Unused,
}

impl Relay {
    fn new(requests: UnboundedReceiver<RelayRequest>) -> Relay {
        let channel = new_text_channel();
        let (announced, followed, followers) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (awaited, waiting) = (HashMap::new(), HashMap::new());
        Relay { requests, channel, announced, followed, followers, awaited, waiting }
    }

    async fn relay_with(mut self, database: &Database) {
        loop {
            if let Ok(session) = ListenSession::open(database, &[FOLLOW_CHANNEL, &self.channel]).await
                && let Ok(notifier) = Notifier::new(session.client).await
                && let SessionEnd::Unused = self.relay_until_lost(&notifier, session.notifications).await
            {
                return;
            }
            let wait_for_end = async { while self.take_request().await.is_some() {} };
            if timeout(RECONNECT_DELAY, wait_for_end).await.is_ok() {
                return;
            }
        }
    }

    async fn relay_until_lost(
        &mut self,
        notifier: &Notifier,
        mut notifications: UnboundedReceiver<Notification>,
    ) -> SessionEnd {
        // Those who follow answer with what they follow.
        self.followers.clear();
        self.waiting.clear();
        notify_all_later(notifier, vec![FollowMessage::Ask]);
        let mut renewals = interval(RENEW_INTERVAL);
        loop {
            tokio::select! {
                request = self.take_request() => match request {
                    None => return SessionEnd::Unused,
                    Some(TakenRequest::Announced(run)) => self.send_to_followers(notifier, run),
                    Some(TakenRequest::Followed(run)) => self.announce_followed(notifier, FollowKind::Start, &[run]),
                    Some(TakenRequest::Withdrawn(run)) => self.notify_end(notifier, run),
                    Some(TakenRequest::Awaited(run)) => {
                        notify_all_later(notifier, FollowMessage::for_ends(&self.channel, &[run]));
                    }
                    Some(TakenRequest::Outdated) => {}
                },
                notification = notifications.recv() => match notification {
                    None => return SessionEnd::Lost,
                    Some(notification) => self.take_notification(notifier, &notification),
                },
                _ = renewals.tick() => {
                    self.forget_lost();
                    self.announce_all(notifier, FollowKind::Renew);
                }
            }
        }
    }

    /// Takes the next request; `None` after the last one.
    async fn take_request(&mut self) -> Option<TakenRequest> {
        Some(match self.requests.recv().await? {
            RelayRequest::Announce(lease, text) => {
                self.announced.insert(lease.run, (lease.epoch, text));
                TakenRequest::Announced(lease.run)
            }
            RelayRequest::Withdraw(lease) => {
                // The run may have been claimed again.
                match self.announced.get(&lease.run).is_some_and(|(epoch, _)| *epoch == lease.epoch) {
                    true => {
                        self.announced.remove(&lease.run);
                        TakenRequest::Withdrawn(lease.run)
                    }
                    false => TakenRequest::Outdated,
                }
            }
            RelayRequest::Follow(run, sender) => {
                self.followed.entry(run).or_default().push(sender);
                TakenRequest::Followed(run)
            }
            RelayRequest::Await(run, sender) => {
                let awaiting = self.awaited.entry(run).or_default();
                awaiting.retain(|sender| !sender.is_closed());
                awaiting.push(sender);
                TakenRequest::Awaited(run)
            }
        })
    }

    fn take_notification(&mut self, notifier: &Notifier, notification: &Notification) {
        if notification.channel() == self.channel {
            if let Ok(message) = serde_json::from_str(notification.payload()) {
                self.deliver_text(message);
            } else if let Ok(EndMessage { ended }) = serde_json::from_str(notification.payload()) {
                self.deliver_end(ended);
            }
            return;
        }
        match FollowMessage::parse(notification.payload()) {
            None => {}
            Some(FollowMessage::Ask) => self.announce_all(notifier, FollowKind::Start),
            Some(FollowMessage::Follow { kind, channel, runs }) => {
                for run in runs {
                    self.note_follower(notifier, run, &channel, kind);
                }
            }
            Some(FollowMessage::Await { channel, runs }) => {
                let until = Instant::now() + FOLLOW_TIMEOUT;
                for run in runs {
                    self.waiting.entry(run).or_default().insert(channel.clone(), until);
                }
            }
        }
    }

    fn deliver_end(&mut self, run: RunId) {
        for sender in self.awaited.remove(&run).into_iter().flatten() {
            // The receiver may have given up.
            let _ = sender.send(());
        }
    }

    /// Notifies those who wait for a run that this process no longer drives it.
    fn notify_end(&mut self, notifier: &Notifier, run: RunId) {
        let Some(waiting) = self.waiting.remove(&run) else { return };
        let messages = waiting.into_keys().map(|channel| (channel, EndMessage { ended: run }));
        notify_later(notifier, messages.collect());
    }

    fn deliver_text(&mut self, message: TextMessage) {
        let run = message.run;
        let Some(senders) = self.followed.get_mut(&run) else { return };
        let text = message.into_text();
        senders.retain(|sender| sender.send(text.clone()).is_ok());
        if senders.is_empty() {
            self.followed.remove(&run);
        }
    }

    fn note_follower(&mut self, notifier: &Notifier, run: RunId, channel: &str, kind: FollowKind) {
        let until = Instant::now() + FOLLOW_TIMEOUT;
        let known = self.followers.entry(run).or_default();
        match known.get_mut(channel) {
            Some(follower) if kind == FollowKind::Renew => follower.until = until,
            _ => {
                let sending = self.announced.get(&run).map(|(_, text)| start_sending(notifier, run, channel, text));
                known.insert(channel.to_owned(), Follower { until, sending });
            }
        }
    }

    /// Sends the text of a run that is announced now to those who follow it.
    fn send_to_followers(&mut self, notifier: &Notifier, run: RunId) {
        let (Some(followers), Some((_, text))) = (self.followers.get_mut(&run), self.announced.get(&run)) else {
            return;
        };
        for (channel, follower) in followers {
            let before = follower.sending.replace(start_sending(notifier, run, channel, text));
            if let Some(before) = before {
                before.abort();
            }
        }
    }

    /// Forgets the processes that follow nothing any more, and the runs that are no longer followed here.
    fn forget_lost(&mut self) {
        let now = Instant::now();
        self.followers.retain(|_, followers| {
            followers.retain(|_, follower| follower.until > now);
            !followers.is_empty()
        });
        self.followed.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        self.awaited.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        self.waiting.retain(|_, channels| {
            channels.retain(|_, until| *until > now);
            !channels.is_empty()
        });
    }

    fn announce_all(&self, notifier: &Notifier, kind: FollowKind) {
        let runs: Vec<RunId> = self.followed.keys().copied().collect();
        self.announce_followed(notifier, kind, &runs);
        let awaited: Vec<RunId> = self.awaited.keys().copied().collect();
        notify_all_later(notifier, FollowMessage::for_ends(&self.channel, &awaited));
    }

    fn announce_followed(&self, notifier: &Notifier, kind: FollowKind, runs: &[RunId]) {
        notify_all_later(notifier, FollowMessage::for_runs(kind, &self.channel, runs));
    }
}

/// The change made by a request.
enum TakenRequest {
    Announced(RunId),
    Withdrawn(RunId),
    Followed(RunId),
    Awaited(RunId),
    /// Nothing: it was about an earlier lease.
    Outdated,
}

fn start_sending(notifier: &Notifier, run: RunId, channel: &str, text: &SubscribeHandle) -> AbortHandle {
    let (notifier, channel, text) = (notifier.clone(), channel.to_owned(), text.clone());
    tokio::spawn(async move {
        // A session that was lost ends the sending.
        drop(send_text(notifier, run, channel, text).await);
    })
    .abort_handle()
}

/// Sends messages to all without waiting. They are repeated anyway.
fn notify_all_later(notifier: &Notifier, messages: Vec<FollowMessage>) {
    notify_later(notifier, messages.into_iter().map(|message| (FOLLOW_CHANNEL.to_owned(), message)).collect());
}

/// Sends messages, each to a channel, without waiting.
fn notify_later<M: Serialize + Send + Sync + 'static>(notifier: &Notifier, messages: Vec<(String, M)>) {
    if messages.is_empty() {
        return;
    }
    let notifier = notifier.clone();
    tokio::spawn(async move {
        for (channel, message) in messages {
            if notifier.notify(&channel, &message).await.is_err() {
                return;
            }
        }
    });
}
