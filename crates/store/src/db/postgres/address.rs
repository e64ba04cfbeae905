//! Address of a Postgres server, parsed from a URL. The password is never displayed.

use super::contact::DatabaseContact;
use super::limits::ANSWER_TIMEOUT;
use crate::error::StoreError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Timeout for data sent without acknowledgement.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// Address of a Postgres database.
#[derive(Clone)]
pub struct Database {
    pub(crate) config: Arc<Config>,
    pub(crate) contact: Arc<DatabaseContact>,
    /// Hosts and ports, for messages.
    pub(crate) server: Arc<str>,
    /// How long connecting and a read may take.
    pub(crate) answer_timeout: Duration,
}

impl Database {
    /// Parses a URL of the form `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`. Fails with `ConfigInvalid`.
    pub fn parse(url: &str) -> Result<Database, StoreError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::InvalidUrl);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (modes, options): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|option| !option.is_empty()).partition(|option| option.starts_with("sslmode="));
        let mut config: Config = format!("{base}?{}", options.join("&")).parse().map_err(|_| StoreError::InvalidUrl)?;
        let names: Vec<&str> = config.get_hosts().iter().filter_map(host_name).collect();
        if config.get_hosts().is_empty() || names.iter().any(|name| name.contains('@')) {
            return Err(StoreError::InvalidUrl);
        }
        let is_local = names.iter().all(|name| matches!(*name, "localhost" | "127.0.0.1" | "::1"));
        let mode = modes.last().map_or("prefer", |mode| &mode["sslmode=".len()..]);
        config.ssl_mode(ssl_mode(mode, is_local)?);
        // One host that cannot be reached leaves time for the others.
        let for_each = ANSWER_TIMEOUT / u32::try_from(config.get_hosts().len()).unwrap_or(1);
        config.application_name("flowloom").connect_timeout(for_each).tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
        config.keepalives_idle(UNACKNOWLEDGED_TIMEOUT);
        let server = format_hosts(&config).into();
        Ok(Database { config: Arc::new(config), contact: Arc::default(), server, answer_timeout: ANSWER_TIMEOUT })
    }

    /// Sets how long connecting and a read may take, and commits in proportion; for tests.
    pub fn with_answer_timeout(mut self, answer_timeout: Duration) -> Database {
        self.answer_timeout = answer_timeout;
        self
    }

    /// Waits for a connection. Fails with `Unanswered` if a server accepts it and does not answer.
    pub(super) async fn within_timeout<T>(
        &self,
        connecting: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.answer_timeout, connecting).await {
            Ok(connected) => connected.map_err(|source| self.to_connection_error(source)),
            Err(_) => Err(StoreError::Unanswered { server: self.server.clone(), is_commit: false }),
        }
    }

    /// An error of this server before there is a session.
    pub(crate) fn to_connection_error(&self, source: tokio_postgres::Error) -> StoreError {
        StoreError::Postgres { server: self.server.clone(), is_connecting: true, source }
    }

    /// The password of its URL, if it is a text.
    pub fn password(&self) -> Option<String> {
        self.config.get_password().and_then(|password| String::from_utf8(password.to_vec()).ok())
    }
}

fn host_name(host: &Host) -> Option<&str> {
    match host {
        Host::Tcp(name) => Some(name),
        Host::Unix(_) => None,
    }
}

/// Maps `sslmode` to a mode of the driver. Remote connections are encrypted with a verified certificate unless
/// `disable` is given.
fn ssl_mode(mode: &str, is_local: bool) -> Result<SslMode, StoreError> {
    match mode {
        "disable" => Ok(SslMode::Disable),
        "prefer" | "allow" if is_local => Ok(SslMode::Disable),
        "prefer" | "allow" | "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err(StoreError::InvalidSslMode),
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let name = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "postgres://{user}{}/{name}", self.server)
    }
}

fn format_hosts(config: &Config) -> String {
    let mut ports = config.get_ports().iter();
    let hosts: Vec<String> = config.get_hosts().iter().map(|host| format_host(host, ports.next().copied())).collect();
    hosts.join(",")
}

fn format_host(host: &Host, port: Option<u16>) -> String {
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    match host {
        Host::Tcp(name) => format!("{name}{port}"),
        Host::Unix(folder) => format!("{}{port}", folder.display()),
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::code::Code;

    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let database = Database::parse("postgres://ann:s3cret@db.example:5433/flows").expect("an address");
        assert_eq!(database.to_string(), "postgres://ann@db.example:5433/flows");
        assert_eq!(format!("{database:?}"), database.to_string());
        let socket = Database::parse("postgres://ann:s3cret@/flows?host=/run/pg").expect("an address");
        assert_eq!(socket.to_string(), "postgres://ann@/run/pg/flows");
        let odd = Database::parse("postgres://ann:s3/c?r=et@db/flows").expect("an address");
        assert_eq!(odd.to_string(), "postgres://ann@db:5432/flows");
        for wrong in ["postgres://ann:s3@cret@db/flows", "ann:s3cret@db"] {
            let error = Database::parse(wrong).expect_err("refused");
            assert!(error.code() == Code::ConfigInvalid && !error.to_string().contains("cret"), "{error}");
        }
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted() {
        let mode = |url: &str| Database::parse(url).map(|database| database.config.get_ssl_mode());
        assert_eq!(mode("postgres://a@localhost/d").ok(), Some(SslMode::Disable));
        assert_eq!(mode("postgres://a@/d?host=/run/pg").ok(), Some(SslMode::Disable));
        assert_eq!(mode("postgres://a@db.example/d").ok(), Some(SslMode::Require));
        assert_eq!(mode("postgres://a@db.example/d?sslmode=disable").ok(), Some(SslMode::Disable));
        assert_eq!(mode("postgres://a@localhost/d?sslmode=verify-full").ok(), Some(SslMode::Require));
        assert_eq!(
            mode("postgres://a@db.example/d?sslmode=maybe").map_err(|error| error.code()),
            Err(Code::ConfigInvalid)
        );
    }
}
