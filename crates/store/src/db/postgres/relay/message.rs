//! The messages of the relay, as the payloads of notifications.

use std::sync::Arc;

use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_runtime::publish::Delta;
use flowloom_runtime::relay::RelayedText;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Every process listens to this channel.
pub(super) const FOLLOW_CHANNEL: &str = "flowloom_follow";

const TEXT_CHANNEL_PREFIX: &str = "flowloom_text_";

/// Postgres takes payloads of less than 8,000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;

/// Maximum number of ids of runs in one payload.
const MAX_RUNS: usize = 200;

/// A new name for the channel on which this process receives text.
pub(super) fn new_text_channel() -> String {
    format!("{TEXT_CHANNEL_PREFIX}{}", Uuid::new_v4().simple())
}

/// A message that followers of runs broadcast to all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FollowKind {
    /// Send the text so far, and what comes.
    Start,
    /// Still here.
    Renew,
}

/// A message to all.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FollowMessage {
    /// Asks which processes follow runs. From a process that has not received the earlier messages.
    Ask,
    /// The text of these runs is wanted on `channel`.
    Follow { kind: FollowKind, channel: String, runs: Vec<RunId> },
    /// An [`EndMessage`] is wanted on `channel` when one of these runs is no longer driven.
    Await { channel: String, runs: Vec<RunId> },
}

impl FollowMessage {
    /// The messages that name all these runs.
    pub(super) fn for_runs(kind: FollowKind, channel: &str, runs: &[RunId]) -> Vec<FollowMessage> {
        let message = |runs: &[RunId]| FollowMessage::Follow { kind, channel: channel.to_owned(), runs: runs.to_vec() };
        runs.chunks(MAX_RUNS).map(message).collect()
    }

    /// The messages that ask for the ends of all these runs.
    pub(super) fn for_ends(channel: &str, runs: &[RunId]) -> Vec<FollowMessage> {
        let message = |runs: &[RunId]| FollowMessage::Await { channel: channel.to_owned(), runs: runs.to_vec() };
        runs.chunks(MAX_RUNS).map(message).collect()
    }

    /// Reads a message; `None` if it is not understood, as one of another version may be.
    pub(super) fn parse(payload: &str) -> Option<FollowMessage> {
        let message = serde_json::from_str(payload).ok()?;
        match &message {
            FollowMessage::Follow { channel, .. } | FollowMessage::Await { channel, .. }
                if !channel.starts_with(TEXT_CHANNEL_PREFIX) =>
            {
                None
            }
            _ => Some(message),
        }
    }
}

/// The run is no longer driven by the process that sends this.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndMessage {
    pub(super) ended: RunId,
}

/// A piece of text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextMessage {
    pub(super) run: RunId,
    seq: u64,
    path: Path,
    attempt: u32,
    offset: u64,
    text: Arc<str>,
}

impl TextMessage {
    /// The messages that hold a piece, in order. None if the path of the step leaves no room for text.
    pub(super) fn for_text(run: RunId, piece: &RelayedText) -> Vec<TextMessage> {
        let RelayedText { seq, delta: Delta { path, attempt, offset, text } } = piece;
        let mut offset = *offset;
        let empty = TextMessage { run, seq: *seq, path: path.clone(), attempt: *attempt, offset, text: "".into() };
        let room = MAX_PAYLOAD_BYTES.saturating_sub(encoded_length(&empty));
        let mut messages = Vec::new();
        for text in split_text(text, room) {
            let path = path.clone();
            messages.push(TextMessage { run, seq: *seq, path, attempt: *attempt, offset, text: text.into() });
            offset += text.chars().count() as u64;
        }
        messages
    }

    pub(super) fn into_text(self) -> RelayedText {
        let TextMessage { run: _, seq, path, attempt, offset, text } = self;
        RelayedText { seq, delta: Delta { path, attempt, offset, text } }
    }
}

/// The length of a message, with room for a longer offset.
fn encoded_length(message: &TextMessage) -> usize {
    serde_json::to_string(message).map_or(usize::MAX, |json| json.len() + 20)
}

/// Splits a text into pieces that take at most `room` bytes in JSON.
fn split_text(text: &str, room: usize) -> Vec<&str> {
    let (mut pieces, mut start, mut used) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        let length = match character {
            '\0'..='\u{1f}' => 6,
            '"' | '\\' => 2,
            other => other.len_utf8(),
        };
        if length > room {
            return Vec::new();
        }
        if used + length > room {
            pieces.push(&text[start..at]);
            (start, used) = (at, 0);
        }
        used += length;
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> RelayedText {
        RelayedText { seq: 7, delta: Delta { path: Path::root(), attempt: 1, offset: 3, text: text.into() } }
    }

    #[test]
    fn a_long_text_is_split_into_payloads_that_postgres_takes() {
        let run = RunId::new(0, [1; 10]);
        for text in ["\u{1}\n\"\\ä→𝄞".repeat(3_000), "x".repeat(100_000), String::new()] {
            let messages = TextMessage::for_text(run, &piece(&text));
            let mut offset = 3;
            let mut joined = String::new();
            for message in messages {
                let payload = serde_json::to_string(&message).expect("it is JSON");
                assert!(payload.len() < 8_000, "{}", payload.len());
                let read: TextMessage = serde_json::from_str(&payload).expect("it is read");
                let RelayedText { delta, .. } = read.into_text();
                assert_eq!(delta.offset, offset);
                offset += delta.text.chars().count() as u64;
                joined += &delta.text;
            }
            assert_eq!(joined, text);
        }
    }

    #[test]
    fn a_message_names_a_channel_for_text() {
        let run = RunId::new(0, [1; 10]);
        let [message] = &FollowMessage::for_runs(FollowKind::Start, &new_text_channel(), &[run])[..] else {
            panic!("one message");
        };
        let payload = serde_json::to_string(message).expect("it is JSON");
        assert_eq!(FollowMessage::parse(&payload).as_ref(), Some(message));
        assert_eq!(FollowMessage::parse(&payload.replace("flowloom_text_", "other_")), None);
        assert_eq!(FollowMessage::parse("hello"), None);
    }
}
