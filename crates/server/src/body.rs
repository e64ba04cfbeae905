//! JSON request bodies, whose errors are problem documents.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use flowloom_core::code::Code;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::state::Server;

/// Maximum size of a request body, in bytes.
pub(crate) const BODY: usize = 16 << 20;

/// A deserialised body and its text.
pub(crate) struct Body<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned> FromRequest<Server> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Body<T>, Problem> {
        let text = text(server, request).await?;
        let value = serde_json::from_str(&text).map_err(|error| invalid(format!("invalid request body: {error}")))?;
        Ok(Body(value, text))
    }
}

/// Reads the text of a body, within the size limit and the time-out.
pub(crate) async fn text(server: &Server, request: Request) -> Result<String, Problem> {
    let patience = server.app.config.server.body_timeout();
    let read = tokio::time::timeout(patience, axum::body::to_bytes(request.into_body(), BODY)).await;
    let read = read.map_err(|_| {
        let message = format!("the body was not received within {} ms", patience.as_millis());
        invalid(message).with_status(StatusCode::REQUEST_TIMEOUT)
    })?;
    let bytes = read.map_err(|error| {
        let message = format!("the body cannot be read, or exceeds {BODY} bytes: {error}");
        invalid(message).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    String::from_utf8(bytes.into()).map_err(|_| invalid("the body is not UTF-8".to_owned()))
}

fn invalid(message: String) -> Problem {
    Problem::new(Code::RequestInvalid, message)
}
