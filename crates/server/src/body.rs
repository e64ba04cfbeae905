//! JSON bodies, whose errors are problems like all others.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use flowloom_core::code::Code;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::state::Server;

/// Bytes of a body at most.
pub(crate) const BODY: usize = 16 << 20;

/// A body, and its text.
pub(crate) struct Body<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned> FromRequest<Server> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Body<T>, Problem> {
        let text = text(server, request).await?;
        let value = serde_json::from_str(&text)
            .map_err(|error| invalid(format!("the body is not what this route takes: {error}")))?;
        Ok(Body(value, text))
    }
}

/// The text of a body.
pub(crate) async fn text(server: &Server, request: Request) -> Result<String, Problem> {
    let patience = server.app.config.server.body_timeout();
    let read = tokio::time::timeout(patience, axum::body::to_bytes(request.into_body(), BODY)).await;
    let read = read.map_err(|_| {
        let message = format!("the body took longer than {} ms", patience.as_millis());
        invalid(message).with_status(StatusCode::REQUEST_TIMEOUT)
    })?;
    let bytes = read.map_err(|error| {
        let message = format!("the body cannot be read, or has more than {BODY} bytes: {error}");
        invalid(message).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    String::from_utf8(bytes.into()).map_err(|_| invalid("the body is not UTF-8".to_owned()))
}

fn invalid(message: String) -> Problem {
    Problem::new(Code::RequestInvalid, message)
}
