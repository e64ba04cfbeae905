//! Errors of the server: RFC 9457 problem documents with an error code.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flowloom_app::blocks::BlockError;
use flowloom_app::definitions::error::DefinitionError;
use flowloom_app::error::AppError;
use flowloom_app::keys::UnknownScope;
use flowloom_app::runs::client_calls::NotAnAnswer;
use flowloom_app::runs::open_steps::NoOpenStep;
use flowloom_app::schedule_error::ScheduleError;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_runtime::causes::log_causes;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{JournalError, RunError};
use flowloom_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

/// An error of a request.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    status: StatusCode,
    detail: String,
    errors: Vec<serde_json::Value>,
    /// When the request may succeed, in milliseconds since the Unix epoch.
    retry_at: Option<u64>,
    /// The run that the request has started. A repetition would start another one.
    run: Option<RunId>,
    /// The path of the command that the request has sent. A repetition would send another one.
    command: Option<String>,
}

/// The problem document as it is sent.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// URL of the error code's page on this server.
    #[serde(rename = "type")]
    kind: String,
    /// Title of the error code.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The error code, for example `FL1031`.
    code: String,
    /// Description of this occurrence.
    detail: String,
    /// All diagnostics of a rejected definition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<crate::openapi_types::DiagnosticSchema>)]
    errors: Vec<serde_json::Value>,
    /// Id of the run that the request has started nevertheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Problem {
        // Every status of the table is valid.
        let status = StatusCode::from_u16(code.category().http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem { code, status, detail: detail.into(), errors: Vec::new(), retry_at: None, run: None, command: None }
    }

    /// Replaces the status, for codes with several.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Problem {
        self.status = status;
        self
    }

    /// Adds the diagnostics of a definition.
    pub(crate) fn with_errors(mut self, errors: Vec<serde_json::Value>) -> Problem {
        self.errors = errors;
        self
    }

    /// The problem of a request after it has started a run: it names the run, and does not ask to be repeated.
    pub(crate) fn of_started_run(mut self, run: RunId) -> Problem {
        if self.run.replace(run).is_none() {
            self.detail.push_str(&format!("; the run {run} was started: read it instead of starting another one"));
            self.retry_at = None;
        }
        self
    }

    /// Adds the path of the command that the request has sent, which answers it instead of a repetition.
    pub(crate) fn of_sent_command(mut self, path: String) -> Problem {
        self.command = Some(path);
        self
    }

    /// Whether the request has started a run.
    pub(crate) fn has_started_run(&self) -> bool {
        self.run.is_some()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Whether the request names something that does not exist, or is malformed.
    pub(crate) fn is_wrong_request(&self) -> bool {
        matches!(self.code, Code::NotThere | Code::RequestInvalid)
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn errors(&self) -> &[serde_json::Value] {
        &self.errors
    }

    /// The problem document. `prefix` comes before the paths of this server.
    pub(crate) fn to_document(&self, prefix: &str) -> ProblemDocument {
        let Problem { code, status, detail, errors, run, .. } = self.clone();
        ProblemDocument {
            kind: format!("{prefix}/errors/{code}"),
            // The code is also that of a step of a run.
            title: match code {
                Code::StepRefused if !errors.is_empty() => "the definition has errors",
                code => code.title(),
            },
            status: status.as_u16(),
            code: code.to_string(),
            detail,
            errors,
            run_id: run.map(|run| run.to_string()),
        }
    }

    /// The error for objects that do not exist or belong to another user.
    pub(crate) fn not_found(what: &str, name: &str) -> Problem {
        Problem::new(Code::NotThere, format!("there is no {what} {name}"))
    }
}

impl From<AppError> for Problem {
    /// The causes go to the log.
    fn from(error: AppError) -> Problem {
        log_causes(error.code(), &error);
        let problem = Problem::new(error.code(), error.to_string()).with_errors(error.problems());
        Problem { retry_at: error.retry_at(), ..problem }
    }
}

/// The errors that handlers meet, each through [`AppError`].
macro_rules! problem_from {
    ($($error:ty),*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Problem {
                AppError::from(error).into()
            }
        })*
    };
}

problem_from!(
    BlockError,
    DefinitionError,
    JournalError,
    NoOpenStep,
    NotAnAnswer,
    RunError,
    ScheduleError,
    StepFailure,
    StoreError,
    UnknownScope
);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem { status, retry_at, run, .. } = self;
        let location = run.map(|run| format!("/api/v1/runs/{run}")).or_else(|| self.command.clone());
        let mut response = (status, Json(self.to_document(""))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let seconds = retry_at.map(|at| at.saturating_sub(SystemClock.now_ms()).div_ceil(1000).max(1));
        if let Some(location) = location {
            if let Ok(location) = HeaderValue::from_str(&location) {
                headers.insert(header::LOCATION, location);
            }
        } else if let Some(seconds) = seconds.or_else(|| retry_after(status)) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // Routes with another error form read it from here.
        response.extensions_mut().insert(self);
        response
    }
}

/// After how many seconds a request may succeed, if a later one can.
fn retry_after(status: StatusCode) -> Option<u64> {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(1),
        StatusCode::SERVICE_UNAVAILABLE => Some(5),
        _ => None,
    }
}
