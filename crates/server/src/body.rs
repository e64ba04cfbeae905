//! JSON request bodies, whose errors are problem documents.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use flowloom_core::code::Code;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;

use crate::blocking::parse_text;
use crate::body_budget::{BodySender, OpenBody};
use crate::caller::Caller;
use crate::invalid_input::deserialize_json;
use crate::problem::Problem;
use crate::state::Server;

/// Maximum size of a request body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 16 << 20;

/// Maximum number of values in a JSON body: objects, lists, texts, numbers. Each takes much more memory than its text.
const MAX_BODY_VALUES: usize = 500_000;

/// Approximate memory of a value without its text, in bytes.
const VALUE_BYTES: usize = 64;

/// How much of a refused body is read before the answer, in bytes.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// How long a refused body is read before the answer.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the next piece of a refused body is waited for.
const MAX_CHUNK_WAIT: Duration = Duration::from_secs(1);

/// A deserialised body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Server> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<JsonBody<T>, Problem> {
        let text = read_json_text(server, request).await?;
        Ok(JsonBody(parse_text(text, parse_json).await?.0))
    }
}

/// A deserialised body that must be an object, also if every value would do, with its text.
pub(crate) struct JsonObject<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Server> for JsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<JsonObject<T>, Problem> {
        let text = read_json_text(server, request).await?;
        let (value, text) = parse_text(text, parse_object).await?;
        Ok(JsonObject(value, text))
    }
}

/// Deserialises an object. Fails if the text is not a JSON object, or if its fields do not fit.
pub(crate) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    if text.trim_start().starts_with('[') {
        return Err(invalid_request("invalid request body: expected an object, not a list".to_owned()));
    }
    parse_json(text)
}

fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    deserialize_json(text).map_err(|error| invalid_request(format!("invalid request body: {error}")))
}

/// Whether an optional body is left out: it is empty, or `null`.
fn is_left_out(text: &str) -> bool {
    matches!(text.trim(), "" | "null")
}

/// A deserialised body that may be left out, with its text.
pub(crate) struct OptionalJsonObject<T>(pub(crate) T, pub(crate) String);

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Server> for OptionalJsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<OptionalJsonObject<T>, Problem> {
        let text = read_json_text(server, request).await?;
        if is_left_out(&text) {
            return Ok(OptionalJsonObject(T::default(), text));
        }
        let (value, text) = parse_text(text, parse_object).await?;
        Ok(OptionalJsonObject(value, text))
    }
}

/// A deserialised body that may be left out.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Server> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<OptionalJsonBody<T>, Problem> {
        let text = read_json_text(server, request).await?;
        if is_left_out(&text) {
            return Ok(OptionalJsonBody(T::default()));
        }
        Ok(OptionalJsonBody(parse_text(text, parse_json).await?.0))
    }
}

/// The text of a JSON body, which its handler parses with [`parse_text`].
pub(crate) struct JsonText(pub(crate) String);

impl FromRequest<Server> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<JsonText, Problem> {
        read_json_text(server, request).await.map(JsonText)
    }
}

/// Reads a body that is JSON, and has no more values than a body may have. Fails if it has more, and like
/// [`read_text`].
pub(crate) async fn read_json_text(server: &Server, request: Request) -> Result<String, Problem> {
    let counted = find_counted(&request);
    let text = decode_body(read_counted_bytes(server, request, counted.as_ref()).await?)?;
    let (count, text) = parse_text(text, |text| Ok(count_values(text))).await?;
    if count > MAX_BODY_VALUES {
        let message = format!("the body has more than {MAX_BODY_VALUES} values; divide it among several requests");
        return Err(invalid_request(message).with_status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    if let Some(CountedBody { body, sender }) = counted {
        body.add_bytes(&sender, count * VALUE_BYTES)?;
    }
    Ok(text)
}

/// The number of values in a JSON text, or a little more: each begins the text, or follows a bracket or a comma.
fn count_values(text: &str) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'[' | b'{' | b',' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Reads the text of a body. Fails like [`read_body`], and if it is not UTF-8.
pub(crate) async fn read_text(server: &Server, request: Request) -> Result<String, Problem> {
    decode_body(read_body(server, request).await?)
}

/// Reads the bytes of a body, within the size limit and the time-out. Fails if it exceeds one of them.
pub(crate) async fn read_body(server: &Server, request: Request) -> Result<Vec<u8>, Problem> {
    let counted = find_counted(&request);
    read_counted_bytes(server, request, counted.as_ref()).await
}

fn decode_body(bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|_| invalid_request("the body is not UTF-8".to_owned()))
}

async fn read_counted_bytes(
    server: &Server,
    request: Request,
    counted: Option<&CountedBody>,
) -> Result<Vec<u8>, Problem> {
    let timeout = server.host.app.config.server.body_timeout();
    let read = tokio::time::timeout(timeout, read_bytes(request.into_body().into_data_stream(), counted)).await;
    read.map_err(|_| {
        let message = format!("the body was not received within {} ms", timeout.as_millis());
        invalid_request(message).with_status(StatusCode::REQUEST_TIMEOUT)
    })?
}

/// The body of a request, and the sender for whom its bytes count.
struct CountedBody {
    body: OpenBody,
    sender: BodySender,
}

fn find_counted(request: &Request) -> Option<CountedBody> {
    let body = request.extensions().get::<OpenBody>()?.clone();
    Some(CountedBody { body, sender: name_sender(request) })
}

/// The sender who is charged for a body: a proven sender, the user of the key, the key, or else the address.
fn name_sender(request: &Request) -> BodySender {
    if let Some(proven) = request.extensions().get::<BodySender>() {
        return proven.clone();
    }
    let caller = request.extensions().get::<Caller>();
    if let Some(user) = caller.and_then(|caller| caller.user.as_ref()) {
        return BodySender::of_user(user);
    }
    let key = || caller.and_then(|caller| Some(format!("key {}", caller.key.as_ref()?.id())));
    let address = || Some(request.extensions().get::<ConnectInfo<SocketAddr>>()?.0.ip().to_string());
    let name = key().or_else(address).unwrap_or_default().into();
    // A server without keys knows all of its callers.
    if caller.is_some() { BodySender::Keyed(name) } else { BodySender::Unkeyed(name) }
}

/// Reads the bytes of a body, and counts them for the caller if they are counted.
async fn read_bytes(mut chunks: BodyDataStream, counted: Option<&CountedBody>) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| invalid_request(format!("the body cannot be read: {error}")))?;
        if let Some(CountedBody { body, sender }) = counted
            && let Err(problem) = body.add_bytes(sender, chunk.len())
        {
            discard_chunks(chunks).await;
            return Err(problem);
        }
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_BODY_BYTES {
            discard_chunks(chunks).await;
            return Err(body_too_large());
        }
    }
    Ok(bytes)
}

/// The problem of a body above the size limit.
pub(crate) fn body_too_large() -> Problem {
    invalid_request(format!("the body exceeds {MAX_BODY_BYTES} bytes")).with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

/// Reads the body of a request that is refused. A client that still sends when the connection is closed would see an error
/// of the connection instead of the answer. A client that asks first whether it may send (`Expect: 100-continue`) sends
/// nothing.
pub(crate) async fn discard_body(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) {
        discard_chunks(body.into_data_stream()).await;
    }
}

async fn discard_chunks(mut chunks: BodyDataStream) {
    let read = async {
        let mut left = MAX_DISCARDED_BYTES;
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(MAX_CHUNK_WAIT, chunks.next()).await {
            let Some(rest) = left.checked_sub(chunk.len()) else { break };
            left = rest;
        }
    };
    // A slow client gets the answer early.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read).await;
}

fn invalid_request(message: String) -> Problem {
    Problem::new(Code::RequestInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        assert_eq!(count_values("7"), 1);
        assert_eq!(count_values(r#"{"a": [1, 2], "b": "x, [y], {\"z\"}"}"#), 5);
        assert_eq!(count_values(&format!("[{}0]", r#"{"":0},"#.repeat(100))), 202);
    }
}
