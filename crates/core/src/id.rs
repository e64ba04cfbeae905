//! Identifiers.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of a run: a UUIDv7, which sorts by time of creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Builds an id from the time of creation (milliseconds since the Unix epoch) and 10 random bytes. Both are inputs,
    /// because this crate has neither a clock nor a source of randomness.
    pub fn new(at_ms: u64, random: [u8; 10]) -> RunId {
        RunId(uuid::Builder::from_unix_timestamp_millis(at_ms, &random).into_uuid())
    }

    /// The time of creation, in milliseconds since the Unix epoch.
    pub fn at_ms(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }

    /// Parses the hyphenated text form; `None` if `text` is not a UUID.
    pub fn parse(text: &str) -> Option<RunId> {
        Uuid::parse_str(text).ok().map(RunId)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
