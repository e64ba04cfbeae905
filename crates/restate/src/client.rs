//! Asks a Restate server to start and wake runs, and registers workers.

use std::time::Duration;

use flowloom_core::id::RunId;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::service::{StartRequest, WORKFLOW_SERVICE};

/// How long the server may take to accept a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the server did not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum RestateError {
    /// It cannot be reached.
    #[error("cannot reach Restate at {url}: {cause}; start it, or correct the address")]
    Unreachable {
        /// The address.
        url: String,
        /// The cause.
        cause: String,
    },
    /// It does not know the workflow of runs.
    #[error("Restate at {url} has no worker for this version; start one with flowloom worker")]
    NoWorker {
        /// The address.
        url: String,
    },
    /// It answered with an error.
    #[error("Restate at {url} answered {status}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
}

/// A Restate server.
#[derive(Clone, Debug)]
pub struct RestateClient {
    http: reqwest::Client,
    ingress: String,
}

/// The part of a run's life that one workflow drives: from its start, or from the time it was reopened, to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLife {
    /// The run.
    pub run: RunId,
    /// The epoch of the run's lease when it was reopened; `None` for its first life.
    pub reopened_at: Option<u64>,
}

impl RunLife {
    /// The key of its workflow.
    fn to_key(self) -> String {
        match self.reopened_at {
            Some(epoch) => format!("{}.{epoch}", self.run),
            None => self.run.to_string(),
        }
    }
}

impl RestateClient {
    /// A client of the server whose ingress has this address.
    pub fn new(ingress: &str) -> RestateClient {
        // Without TLS settings of its own, a client can always be built.
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().build().unwrap_or_default();
        RestateClient { http, ingress: ingress.trim_end_matches('/').to_owned() }
    }

    /// The address of the ingress.
    pub fn ingress(&self) -> &str {
        &self.ingress
    }

    /// Starts the workflow of a run, unless it was started.
    pub async fn start_workflow(&self, life: RunLife) -> Result<(), RestateError> {
        let url = format!("{}/{}/{}/run/send", self.ingress, WORKFLOW_SERVICE, life.to_key());
        self.post_json(&url, &json!(StartRequest { run: life.run })).await.map(drop)
    }

    /// Wakes the workflow of a run that waits since the session with this epoch.
    pub async fn wake_workflow(&self, life: RunLife, epoch: u64) -> Result<(), RestateError> {
        let url = format!("{}/{}/{}/wake/send", self.ingress, WORKFLOW_SERVICE, life.to_key());
        self.post_json(&url, &json!(epoch)).await.map(drop)
    }

    /// Registers the services of a worker with the admin API at `admin`.
    pub async fn register_worker(&self, admin: &str, worker: &str) -> Result<(), RestateError> {
        let url = format!("{}/deployments", admin.trim_end_matches('/'));
        self.post_json(&url, &json!({"uri": worker, "force": true})).await.map(drop)
    }

    async fn post_json(&self, url: &str, body: &Value) -> Result<String, RestateError> {
        let unreachable = |error: reqwest::Error| RestateError::Unreachable {
            url: url.to_owned(),
            cause: error.without_url().to_string(),
        };
        let request = self.http.post(url).header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let message = response.text().await.map_err(unreachable)?;
        // Another request has started the workflow.
        if status.is_success() || status == StatusCode::CONFLICT {
            return Ok(message);
        }
        if status == StatusCode::NOT_FOUND && url.starts_with(&self.ingress) {
            return Err(RestateError::NoWorker { url: self.ingress.clone() });
        }
        Err(RestateError::Refused { url: url.to_owned(), status: status.as_u16(), message })
    }
}
