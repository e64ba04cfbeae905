//! Errors in OpenAI's form: `{error: {message, type, param, code}}`.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;

/// An error response in OpenAI's form.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiError)]
pub(crate) struct OpenAiError {
    error: OpenAiErrorDetail,
}

/// The error.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiReason)]
pub(crate) struct OpenAiErrorDetail {
    pub(crate) message: String,
    /// `invalid_request_error`, `authentication_error`, `permission_error`, `not_found_error`, `rate_limit_error` or
    /// `api_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<String>,
    /// The error code, for example `FL1031`.
    pub(crate) code: String,
}

impl From<&Problem> for OpenAiError {
    fn from(problem: &Problem) -> OpenAiError {
        OpenAiError { error: problem.into() }
    }
}

impl From<&Problem> for OpenAiErrorDetail {
    fn from(problem: &Problem) -> OpenAiErrorDetail {
        let kind = match problem.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        OpenAiErrorDetail { message: problem.detail().to_owned(), kind, param: None, code: problem.code().to_string() }
    }
}

/// Converts a problem document into OpenAI's form, for every error below these routes.
pub(crate) fn convert_problem(answer: &mut Response) {
    let Some(problem) = answer.extensions_mut().remove::<Problem>() else { return };
    let text = serde_json::to_string(&OpenAiError::from(&problem)).unwrap_or_default();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, text.len().into());
    *answer.body_mut() = Body::from(text);
}
