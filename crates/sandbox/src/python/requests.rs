//! Requests of a block to its run, and their answers.

use flowloom_core::code::Code;
use flowloom_core::effect::{HttpRequest, normalize_url};
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use flowloom_runtime::effects::SandboxHost;

use super::wire::BlockRequest;

/// Headers that only the connection itself may set.
const CONNECTION_HEADERS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];
const HTTP_METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Why a request of a block is not sent.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("{method:?} is not an HTTP method; use one of {}", HTTP_METHODS.join(", "))]
    UnknownMethod { method: String },
    #[error(transparent)]
    InvalidUrl(#[from] StepFailure),
    #[error("{name:?} is not a header name")]
    InvalidHeaderName { name: String },
    #[error("the header {name} is set by the connection itself; omit it")]
    ConnectionHeader { name: String },
    #[error("the value of header {name} contains a line break or NUL")]
    InvalidHeaderValue { name: String },
}

/// Performs a request in the run and returns the answer under its number, as a frame.
pub(super) async fn perform_request(host: &dyn SandboxHost, id: i64, question: BlockRequest) -> Vec<u8> {
    let reply = match question {
        BlockRequest::Http { method, url, headers, body } => match check_request(method, &url, headers, body) {
            Ok(request) => host.send_http(request).await.map(|reply| ("http", reply.to_value())),
            Err(error) => return write_failure(id, "invalid", error.to_string()),
        },
        BlockRequest::Generate(messages) => {
            let generated = host.generate_reply(messages).await;
            generated.map(|generated| ("llm", generated.text.unwrap_or_default().into()))
        }
    };
    match reply {
        Ok((kind, value)) => write_answer(Value::map([("id", id.into()), (kind, value)])),
        Err(error) => write_failure(id, failure_kind(error.code), error.message),
    }
}

/// The kind of a failure of the run, from which the block's libraries select an exception.
fn failure_kind(code: Code) -> &'static str {
    match code {
        Code::StepTimeout => "timeout",
        Code::HttpRequestInvalid => "invalid",
        Code::EgressDenied => "denied",
        _ => "failed",
    }
}

fn write_failure(id: i64, kind: &'static str, message: String) -> Vec<u8> {
    write_answer(Value::map([("id", id.into()), ("error", message.into()), ("kind", kind.into())]))
}

fn write_answer(answer: Value) -> Vec<u8> {
    flowloom_core::json::write_json(&answer).into_bytes()
}

fn check_request(
    method: String,
    url: &str,
    headers: Vec<(String, String)>,
    body: Option<String>,
) -> Result<HttpRequest, RequestError> {
    if !HTTP_METHODS.contains(&method.as_str()) {
        return Err(RequestError::UnknownMethod { method });
    }
    let url = normalize_url(url)?;
    let mut sent: Vec<(String, flowloom_core::rich::Rich)> = Vec::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(RequestError::InvalidHeaderName { name });
        }
        if CONNECTION_HEADERS.contains(&name.as_str()) {
            return Err(RequestError::ConnectionHeader { name });
        }
        if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return Err(RequestError::InvalidHeaderValue { name });
        }
        sent.retain(|(other, _)| *other != name);
        sent.push((name, value.as_str().into()));
    }
    let body = body.map(|body| body.as_str().into());
    Ok(HttpRequest { method, url: url.as_str().into(), headers: sent, body, uses_tool_host: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked_before_they_are_asked() {
        let good =
            check_request("POST".into(), "http://A.test/x y#z", vec![("X-A".into(), "1".into())], Some("b".into()));
        let good = good.unwrap();
        assert_eq!(good.url.to_redacted_text(), "http://a.test/x%20y");
        assert_eq!(good.headers[0].0, "x-a");
        let refused = |method: &str, url: &str, name: &str, value: &str| {
            check_request(method.into(), url, vec![(name.into(), value.into())], None).unwrap_err()
        };
        assert!(matches!(refused("BREW", "http://a.test", "a", "b"), RequestError::UnknownMethod { .. }));
        assert!(matches!(refused("GET", "nowhere", "a", "b"), RequestError::InvalidUrl(_)));
        assert!(matches!(refused("GET", "http://u:p@a.test", "a", "b"), RequestError::InvalidUrl(_)));
        assert!(matches!(refused("GET", "http://a.test", "a b", "b"), RequestError::InvalidHeaderName { .. }));
        assert!(matches!(refused("GET", "http://a.test", "host", "b"), RequestError::ConnectionHeader { .. }));
        let error = refused("GET", "http://a.test", "a", "b\r\nc: d");
        assert!(matches!(error, RequestError::InvalidHeaderValue { .. }));
    }
}
