//! What `[server]` of the configuration says: how much callers may take, and how long.

use std::time::Duration;

use serde::Deserialize;

/// Calls a second that one caller may make when the server can be reached from other machines.
const USUAL_RATE: f64 = 100.0;

/// How a server tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStyle {
    /// Lines for people; calls are not told.
    #[default]
    Text,
    /// One JSON object for each line; calls are told, too.
    Json,
}

/// The table `[server]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Calls a second of one caller; none or 0 is no bound.
    rate_per_second: Option<f64>,
    /// Origins whose pages may call, exactly as browsers name them: `https://app.example`.
    pub cors: Vec<String>,
    /// How the server tells of itself.
    pub log: LogStyle,
    /// Connections at the same time, at most.
    pub connections: usize,
    head_timeout_ms: u64,
    body_timeout_ms: u64,
    send_timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rate_per_second: None,
            cors: Vec::new(),
            log: LogStyle::Text,
            connections: 4096,
            head_timeout_ms: 10_000,
            body_timeout_ms: 60_000,
            send_timeout_ms: 30_000,
        }
    }
}

impl Settings {
    /// Calls a second of one caller, if they are bounded: unless it is said, they are where others can call.
    pub fn rate(&self, is_local: bool) -> Option<f64> {
        let usual = if is_local { None } else { Some(USUAL_RATE) };
        self.rate_per_second.or(usual).filter(|rate| *rate > 0.0)
    }

    /// How long a client may take to send the head of a request, and to begin with the next one.
    pub fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    /// How long a client may take to send a body.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// How long a client may take nothing of what is sent to it.
    pub fn send_timeout(&self) -> Duration {
        Duration::from_millis(self.send_timeout_ms)
    }
}
