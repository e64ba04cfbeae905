//! Commands that race: two that ask for the same, or one that cancels the run, sent to two servers at the same time.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};

use crate::board::ServerPlace;
use crate::http::{ConnectionLost, Request};
use crate::random::Random;
use crate::run_client::RunClient;

/// One of how many commands has a rival that asks for the same.
const RIVAL_INTERVAL: usize = 4;

/// The response to a command.
type CommandResponse = Result<(u16, Value), ConnectionLost>;

/// Two commands of which at most one can be applied.
pub(crate) struct Rivals {
    /// The run that they were sent to.
    pub(crate) run: String,
    pub(crate) keys: [String; 2],
}

/// The cancellation of a run by its client.
pub(crate) struct PlannedCancel {
    /// It is sent after so many events of the run, or with the next command.
    after_events: usize,
    /// Whether it was sent, so that the run may be cancelled.
    pub(crate) is_sent: bool,
    /// When a server reported that it was applied.
    pub(crate) confirmed_at: Option<Instant>,
    /// Whether a server has decided about it.
    is_decided: bool,
}

impl PlannedCancel {
    pub(crate) fn after_events(after_events: usize) -> PlannedCancel {
        PlannedCancel { after_events, is_sent: false, confirmed_at: None, is_decided: false }
    }
}

/// A command to a run.
pub(crate) struct ClientCommand<'a> {
    pub(crate) run: &'a str,
    /// The last part of its address.
    pub(crate) name: &'a str,
    pub(crate) key: &'a str,
    pub(crate) body: Value,
}

impl ClientCommand<'_> {
    fn send(&self, address: SocketAddr, key: &str) -> CommandResponse {
        let target = format!("/api/v1/runs/{}/{}", self.run, self.name);
        Request::post(&target, Some(key), Some(&self.body)).send_json(address)
    }
}

impl RunClient<'_> {
    /// Whether the client has sent a cancellation, which other commands may find applied.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.is_sent)
    }

    /// Sends a command; sometimes together with a rival, or with the cancellation of the run. Returns the response to the one
    /// that won.
    pub(crate) fn send_command(&mut self, place: ServerPlace, command: &ClientCommand<'_>) -> CommandResponse {
        if self.is_cancel_due(usize::MAX) {
            let cancel = self.cancel_command();
            let (first, second) = self.send_both(place, |address| command.send(address, command.key), &cancel);
            self.note_cancel(second);
            return first;
        }
        // A later crash can make an effect uncertain again, so another decision about it can be applied, too.
        let can_have_rival = command.name != "resolve";
        // Always the same for one command.
        if !can_have_rival || Random::for_part(1, command.key).below(RIVAL_INTERVAL) > 0 {
            return command.send(place.address, command.key);
        }
        let rival = format!("{}-rival", command.key);
        let (first, second) = self.send_both(
            place,
            |address| command.send(address, command.key),
            |address| command.send(address, &rival),
        );
        let keys = [command.key.to_owned(), rival];
        if !self.rivals.iter().any(|known| known.keys == keys) {
            self.rivals.push(Rivals { run: command.run.to_owned(), keys });
        }
        let is_applied = |response: &CommandResponse| response.as_ref().is_ok_and(|(status, _)| *status == 200);
        if is_applied(&first) && is_applied(&second) {
            self.problems.push(format!("two servers applied the command {} and its rival", command.key));
        }
        // The one that was refused may have lost to the other one, whose response was lost.
        let is_refused = |response: &CommandResponse| response.as_ref().is_ok_and(|(status, _)| *status == 409);
        if is_applied(&second) || (is_refused(&first) && !is_refused(&second)) { second } else { first }
    }

    /// Sends the cancellation if it is due after so many events.
    pub(crate) fn cancel_if_due(&mut self, place: ServerPlace) {
        if self.is_cancel_due(self.seen.len()) {
            let response = self.cancel_command()(self.board.find_other(place));
            self.note_cancel(response);
        }
    }

    fn is_cancel_due(&self, event_count: usize) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| !cancel.is_decided && event_count >= cancel.after_events)
    }

    fn cancel_command(&self) -> impl Fn(SocketAddr) -> CommandResponse + Sync + use<> {
        let (run, key) = (self.run.clone().unwrap_or_default(), format!("{}-cancel", self.tag));
        move |address| ClientCommand { run: &run, name: "cancel", key: &key, body: json!({}) }.send(address, &key)
    }

    /// Sends one command to the server at `place` and the other one to another server, at the same time.
    fn send_both(
        &self,
        place: ServerPlace,
        first: impl Fn(SocketAddr) -> CommandResponse,
        second: impl Fn(SocketAddr) -> CommandResponse + Sync,
    ) -> (CommandResponse, CommandResponse) {
        let other = self.board.find_other(place);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| second(other));
            (first(place.address), sending.join().unwrap_or(Err(ConnectionLost)))
        })
    }

    fn note_cancel(&mut self, response: CommandResponse) {
        let Some(cancel) = &mut self.cancel else { return };
        cancel.is_sent = true;
        match response {
            Ok((200, _)) => {
                cancel.confirmed_at.get_or_insert_with(Instant::now);
                cancel.is_decided = true;
            }
            // The run had ended.
            Ok((409, _)) => cancel.is_decided = true,
            Ok((202 | 429 | 500..=599, _)) | Err(ConnectionLost) => {}
            Ok((status, state)) => {
                cancel.is_decided = true;
                self.problems.push(format!("the cancellation was refused: {status} {state}"));
            }
        }
    }
}
