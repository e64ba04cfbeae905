//! Requests to a remote Flowloom server, with the API key from the environment.

use std::time::Duration;

use flowloom_core::code::Code;
use reqwest::{Client, Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::CommandError;

/// Environment variable that holds the API key.
const KEY_VARIABLE: &str = "FLOWLOOM_KEY";

/// Time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls `path` of the server at `base` and parses the response. Errors of the server are reported with its code and
/// message.
pub(super) async fn call_server<T: DeserializeOwned>(
    base: &str,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: &impl Serialize,
) -> Result<T, CommandError> {
    let wrong = |error: String| CommandError::usage(format!("{base:?} is not the URL of a Flowloom server: {error}"));
    let mut url = Url::parse(base).map_err(|error| wrong(error.to_string()))?;
    // The server may be below a path of a host that others answer at, too.
    url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
    url.set_query(None);
    url.query_pairs_mut().extend_pairs(query);
    let client = Client::builder().timeout(REQUEST_TIMEOUT).build().map_err(|error| wrong(error.to_string()))?;
    let body = serde_json::to_vec(body).map_err(|error| CommandError::usage(error.to_string()))?;
    let mut request = client.request(method, url).header("content-type", "application/json").body(body);
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        request = request.bearer_auth(key);
    }
    let failed = |error: reqwest::Error| {
        let cause = std::iter::successors(std::error::Error::source(&error), |cause| cause.source()).last();
        let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
        CommandError { exit: 1, ..CommandError::new(Code::HttpFailed, format!("{base} did not respond: {cause}")) }
    };
    let answer = request.send().await.map_err(failed)?;
    let (status, text) = (answer.status(), answer.bytes().await.map_err(failed)?);
    if !status.is_success() {
        return Err(parse_problem(base, status.as_u16(), &text));
    }
    serde_json::from_slice(&text).map_err(|_| wrong(format!("the response (status {status}) is not one of Flowloom")))
}

/// Converts a problem document into an error.
fn parse_problem(base: &str, status: u16, text: &[u8]) -> CommandError {
    let problem: Value = serde_json::from_slice(text).unwrap_or_default();
    let code = problem["code"].as_str().and_then(Code::parse).unwrap_or(Code::HttpFailed);
    let errors = problem["errors"].as_array().into_iter().flatten().filter_map(|error| error["message"].as_str());
    let messages: Vec<&str> = problem["detail"].as_str().into_iter().chain(errors).collect();
    let message = match messages.as_slice() {
        [] => format!("{base} returned status {status}"),
        messages => messages.join("; "),
    };
    CommandError::new(code, message)
}
