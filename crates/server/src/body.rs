//! JSON request bodies, whose errors are problem documents.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use flowloom_core::code::Code;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::state::Server;

/// Maximum size of a request body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 16 << 20;

/// A deserialised body and its text.
pub(crate) struct JsonBody<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned> FromRequest<Server> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<JsonBody<T>, Problem> {
        let text = read_text(server, request).await?;
        let value =
            serde_json::from_str(&text).map_err(|error| invalid_request(format!("invalid request body: {error}")))?;
        Ok(JsonBody(value, text))
    }
}

/// A deserialised body that must be an object. Without this check, a list of the values of its fields would do.
pub(crate) struct JsonObject<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned> FromRequest<Server> for JsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<JsonObject<T>, Problem> {
        let text = read_text(server, request).await?;
        if text.trim_start().starts_with('[') {
            return Err(invalid_request("invalid request body: expected an object, not a list".to_owned()));
        }
        let value =
            serde_json::from_str(&text).map_err(|error| invalid_request(format!("invalid request body: {error}")))?;
        Ok(JsonObject(value, text))
    }
}

/// A deserialised body that may be left out.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Server> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<OptionalJsonBody<T>, Problem> {
        let text = read_text(server, request).await?;
        if text.trim().is_empty() {
            return Ok(OptionalJsonBody(T::default()));
        }
        let value =
            serde_json::from_str(&text).map_err(|error| invalid_request(format!("invalid request body: {error}")))?;
        Ok(OptionalJsonBody(value))
    }
}

/// Reads the text of a body, within the size limit and the time-out.
pub(crate) async fn read_text(server: &Server, request: Request) -> Result<String, Problem> {
    let timeout = server.app.config.server.body_timeout();
    let read = tokio::time::timeout(timeout, axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES)).await;
    let read = read.map_err(|_| {
        let message = format!("the body was not received within {} ms", timeout.as_millis());
        invalid_request(message).with_status(StatusCode::REQUEST_TIMEOUT)
    })?;
    let bytes = read.map_err(|error| {
        let message = format!("the body cannot be read, or exceeds {MAX_BODY_BYTES} bytes: {error}");
        invalid_request(message).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    String::from_utf8(bytes.into()).map_err(|_| invalid_request("the body is not UTF-8".to_owned()))
}

fn invalid_request(message: String) -> Problem {
    Problem::new(Code::RequestInvalid, message)
}
