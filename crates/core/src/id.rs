//! Identifiers.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's id, a UUIDv7: sorted by time of creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Builds an id from the time of creation (milliseconds since 1970) and 10 random bytes; both are inputs, since
    /// this crate has neither a clock nor randomness.
    pub fn new(at_ms: u64, random: [u8; 10]) -> RunId {
        RunId(uuid::Builder::from_unix_timestamp_millis(at_ms, &random).into_uuid())
    }

    /// The time that it was built with.
    pub fn at_ms(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }

    /// Reads the usual text form.
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
