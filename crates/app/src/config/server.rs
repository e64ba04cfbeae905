//! `[server]` of the configuration: rate limits, time-outs and connections.

use std::time::Duration;

use serde::Deserialize;

/// Default rate limit, in requests per second and caller, if the server is reachable from other machines.
const DEFAULT_RATE_PER_SECOND: f64 = 100.0;

/// Log format of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStyle {
    /// Text lines; requests are not logged
    #[default]
    Text,
    /// One JSON object per line; requests are logged, too
    Json,
}

/// The table `[server]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Requests per second and caller; 0 means unlimited. Default: unlimited on loopback, else 100.
    rate_per_second: Option<f64>,
    /// Origins whose pages may send requests, exactly as browsers send them: `https://app.example`.
    pub cors: Vec<String>,
    /// The address under which clients reach the server through a proxy: `https://example.com/flows`.
    pub public_url: Option<String>,
    /// Log format.
    pub log: LogStyle,
    /// Maximum number of concurrent connections.
    pub connections: usize,
    head_timeout_ms: u64,
    body_timeout_ms: u64,
    send_timeout_ms: u64,
    drain_ms: u64,
    unready_ms: u64,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            rate_per_second: None,
            cors: Vec::new(),
            public_url: None,
            log: LogStyle::Text,
            connections: 4096,
            head_timeout_ms: 10_000,
            body_timeout_ms: 60_000,
            send_timeout_ms: 30_000,
            drain_ms: 10_000,
            unready_ms: 0,
        }
    }
}

impl ServerSettings {
    /// The rate limit in requests per second and caller; `None` means unlimited.
    pub fn rate_limit(&self, is_local: bool) -> Option<f64> {
        let defaults = if is_local { None } else { Some(DEFAULT_RATE_PER_SECOND) };
        self.rate_per_second.or(defaults).filter(|rate| *rate > 0.0)
    }

    /// Time-out of receiving a request head, also on an idle connection.
    pub fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    /// Time-out of receiving a request body.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// How long the live runs of a server or a worker may take to end after a stop signal.
    pub fn drain_time(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// Minimum time that a stopping server still answers while it is not ready, so that load balancers notice it.
    pub fn unready_time(&self) -> Duration {
        Duration::from_millis(self.unready_ms)
    }

    /// Time-out of sending while the client accepts no data.
    pub fn send_timeout(&self) -> Duration {
        Duration::from_millis(self.send_timeout_ms)
    }
}
