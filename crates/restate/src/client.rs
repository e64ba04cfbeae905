//! Asks a Restate server to start and wake runs.

use std::time::Duration;

use flowloom_core::id::RunId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::names::RunServices;
use crate::service::StartRequest;

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
    #[error(
        "Restate at {url} has no worker for this version, database, project and configuration; start one with flowloom worker under \
             the configuration of the run"
    )]
    NoWorker {
        /// The address.
        url: String,
    },
    /// It cannot reach the workers at an address.
    #[error(
        "Restate at {url} cannot reach this worker at {worker}: {message}; check that address, and what is between them"
    )]
    WorkerUnreachable {
        /// The address of the server.
        url: String,
        /// The address of the workers.
        worker: String,
        /// The error message of the server.
        message: String,
    },
    /// It answered with an error.
    #[error("Restate at {url} answered {status}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The status.
        status: u16,
        /// The error message of the server.
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
    /// Number of workflows of this life that have ended before the run did.
    pub lost_count: u32,
}

/// The outcome of a request to start a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// It is started.
    Started,
    /// It was started before.
    Known,
}

impl RunLife {
    /// The key of its workflow.
    fn to_key(self) -> String {
        let mut key = self.run.to_string();
        if let Some(epoch) = self.reopened_at {
            key.push_str(&format!(".{epoch}"));
        }
        if self.lost_count > 0 {
            key.push_str(&format!("~{}", self.lost_count));
        }
        key
    }
}

impl RestateClient {
    /// A client of the server whose ingress has this address.
    pub fn new(ingress: &str) -> RestateClient {
        RestateClient { http: build_http(), ingress: ingress.trim_end_matches('/').to_owned() }
    }

    /// Fails if the server does not answer, or reports that it is not healthy.
    pub async fn check_health(&self) -> Result<(), RestateError> {
        let url = format!("{}/restate/health", self.ingress);
        let (status, message) = send_json(&self.http, Method::GET, &url, &Value::Null).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(RestateError::Refused { url, status: status.as_u16(), message }),
        }
    }

    /// Starts the workflow of a run, unless it was started. Fails if the server is not reachable, or refuses.
    pub async fn start_workflow(&self, services: &RunServices, life: RunLife) -> Result<StartOutcome, RestateError> {
        let text = self.call_workflow(services, life, "run", &json!(StartRequest { run: life.run })).await?;
        let is_known = text.is_none_or(|text| text.contains(KNOWN_STATUS));
        Ok(if is_known { StartOutcome::Known } else { StartOutcome::Started })
    }

    /// Whether a workflow that was started has ended, in whatever way. Fails if the server is not reachable, or
    /// refuses.
    pub async fn has_workflow_ended(&self, services: &RunServices, life: RunLife) -> Result<bool, RestateError> {
        let url = format!("{}/restate/workflow/{}/{}/output", self.ingress, services.workflow_name(), life.to_key());
        let (status, message) = send_json(&self.http, Method::GET, &url, &Value::Null).await?;
        match status.as_u16() {
            // One that was killed has ended as well.
            200 | 409 => Ok(true),
            NOT_READY_STATUS | 404 => Ok(false),
            status => Err(RestateError::Refused { url, status, message }),
        }
    }

    /// Wakes the workflow of a run that waits since the session with this epoch. Fails if the server is not reachable,
    /// or refuses.
    pub async fn wake_workflow(&self, services: &RunServices, life: RunLife, epoch: u64) -> Result<(), RestateError> {
        self.call_workflow(services, life, "wake", &json!(epoch)).await.map(drop)
    }

    /// Calls a handler of a workflow without waiting for it. `None`: another call has started the workflow.
    async fn call_workflow(
        &self,
        services: &RunServices,
        life: RunLife,
        handler: &str,
        body: &Value,
    ) -> Result<Option<String>, RestateError> {
        let url = format!("{}/{}/{}/{handler}/send", self.ingress, services.workflow_name(), life.to_key());
        let (status, message) = send_json(&self.http, Method::POST, &url, body).await?;
        match status {
            status if status.is_success() => Ok(Some(message)),
            StatusCode::CONFLICT => Ok(None),
            StatusCode::NOT_FOUND => Err(RestateError::NoWorker { url: self.ingress.clone() }),
            status => Err(RestateError::Refused { url, status: status.as_u16(), message }),
        }
    }
}

/// The status of the answer to a start if the workflow was started before.
const KNOWN_STATUS: &str = "\"PreviouslyAccepted\"";

/// The HTTP status of the output of a workflow that has not ended.
const NOT_READY_STATUS: u16 = 470;

pub(crate) fn build_http() -> reqwest::Client {
    // Without TLS settings of its own, a client can always be built.
    reqwest::Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().build().unwrap_or_default()
}

/// Sends a request; without a body if that is null. Fails if there is no answer.
pub(crate) async fn send_json(
    http: &reqwest::Client,
    method: Method,
    url: &str,
    body: &Value,
) -> Result<(StatusCode, String), RestateError> {
    let unreachable = |error: reqwest::Error| RestateError::Unreachable {
        url: url.to_owned(),
        cause: error.without_url().to_string(),
    };
    let mut request = http.request(method, url);
    if !body.is_null() {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    Ok((status, response.text().await.map_err(unreachable)?))
}
