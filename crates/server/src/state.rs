//! What handlers share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::engines::App;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::Runs;
use flowloom_app::runs::supervisor::Live;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_store::RunRow;

use crate::rate::Rates;
use crate::revoked::Streams;
use crate::threads::Busy;

/// How long live runs may take to reach their next step when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Interval of polling a run that another worker drives.
const LOOK: Duration = Duration::from_millis(100);

/// State shared by all handlers.
pub(crate) struct Server {
    pub(crate) app: Arc<App>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) live: Arc<Live>,
    /// Starts runs.
    pub(crate) runs: Runs,
    /// Each follower of a run holds a clone; the reference count is their number.
    pub(crate) followers: Arc<()>,
    /// Threads with a turn in progress.
    pub(crate) busy: Busy,
    /// Whether requests without a key are accepted: no keys exist, and only this machine can connect.
    pub(crate) is_open: bool,
    pub(crate) rates: Rates,
    /// Open streams, by the key that opened them.
    pub(crate) streams: Streams,
    /// Origins of other sites whose pages may send requests.
    pub(crate) cors: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) openapi: serde_json::Value,
    /// Required scopes by path and method.
    pub(crate) scopes: HashMap<String, Vec<(Method, Scope)>>,
}

impl Server {
    /// A server without network access, for use inside this process.
    pub(crate) fn private(app: Arc<App>, folder: PathBuf, live: Arc<Live>) -> Server {
        let catalog = Arc::new(Catalog::new(folder, app.clone()));
        Server {
            runs: Runs::new(app.store.clone(), catalog.clone(), live.clone(), app.config.limits.clone()),
            catalog,
            live,
            followers: Arc::default(),
            busy: Busy::default(),
            is_open: true,
            rates: Rates::new(None),
            streams: Streams::default(),
            cors: Vec::new(),
            hosts: Vec::new(),
            openapi: serde_json::Value::Null,
            scopes: HashMap::new(),
            app,
        }
    }

    /// Whether `host` (with or without a port) is a name of this server.
    pub(crate) fn answers_to(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1") || self.hosts.contains(&name)
    }

    /// Whether a worker drives a run or will: a run with status `running` is reclaimed if its worker is dead.
    pub(crate) fn goes_on(&self, id: RunId) -> bool {
        matches!(self.app.store.run(id), Ok(Some(run)) if goes_on(&run))
    }

    /// Waits until no worker drives a run.
    pub(crate) async fn wait(&self, id: RunId) {
        self.live.wait(id).await;
        while self.goes_on(id) {
            tokio::time::sleep(LOOK).await;
            self.live.wait(id).await;
        }
    }
}

/// Whether a worker drives a run or will.
pub(crate) fn goes_on(run: &RunRow) -> bool {
    run.finished_at.is_none() && (run.is_driven || run.status == Status::Running.name())
}
