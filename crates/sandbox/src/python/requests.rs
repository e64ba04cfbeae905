//! Requests of a block to its run, and their answers.

use flowloom_core::code::Code;
use flowloom_core::effect::{HttpRequest, normalize_url};
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use flowloom_runtime::effects::SandboxHost;

use super::wire::BlockRequest;

/// Headers that only the connection itself may set.
const CONNECTION_HEADERS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];
const HTTP_METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Performs a request in the run and returns the answer under its number, as a frame.
pub(super) async fn perform_request(host: &dyn SandboxHost, id: i64, question: BlockRequest) -> Vec<u8> {
    let reply = match question {
        BlockRequest::Http { method, url, headers, body } => match check_request(method, &url, headers, body) {
            Ok(request) => host.send_http(request).await.map(|reply| ("http", reply.to_value())),
            Err(error) => Err(error),
        },
        BlockRequest::Generate(messages) => {
            let generated = host.generate_reply(messages).await;
            generated.map(|generated| ("llm", generated.text.unwrap_or_default().into()))
        }
    };
    let id = ("id", Value::from(id));
    let answer = match reply {
        Ok((kind, value)) => Value::map([id, (kind, value)]),
        Err(error) => {
            let kind = match error.code {
                Code::StepTimeout => "timeout",
                Code::HttpRequestInvalid => "invalid",
                Code::EgressDenied => "denied",
                _ => "failed",
            };
            Value::map([id, ("error", error.message.into()), ("kind", kind.into())])
        }
    };
    flowloom_core::json::write_json(&answer).into_bytes()
}

fn check_request(
    method: String,
    url: &str,
    headers: Vec<(String, String)>,
    body: Option<String>,
) -> Result<HttpRequest, StepError> {
    let invalid = |message: String| StepError::new(Code::HttpRequestInvalid, message);
    if !HTTP_METHODS.contains(&method.as_str()) {
        return Err(invalid(format!("{method:?} is not an HTTP method; use one of {}", HTTP_METHODS.join(", "))));
    }
    let url = normalize_url(url)?;
    let mut sent: Vec<(String, flowloom_core::rich::Rich)> = Vec::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(invalid(format!("{name:?} is not a header name")));
        }
        if CONNECTION_HEADERS.contains(&name.as_str()) {
            return Err(invalid(format!("the header {name} is set by the connection itself; omit it")));
        }
        if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return Err(invalid(format!("the value of header {name} contains a line break or NUL")));
        }
        sent.retain(|(other, _)| *other != name);
        sent.push((name, value.as_str().into()));
    }
    Ok(HttpRequest { method, url: url.as_str().into(), headers: sent, body: body.map(|body| body.as_str().into()) })
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
            check_request(method.into(), url, vec![(name.into(), value.into())], None).unwrap_err().code
        };
        for (method, url, name, value) in [
            ("BREW", "http://a.test", "a", "b"),
            ("GET", "nowhere", "a", "b"),
            ("GET", "http://u:p@a.test", "a", "b"),
            ("GET", "http://a.test", "a b", "b"),
            ("GET", "http://a.test", "host", "b"),
            ("GET", "http://a.test", "a", "b\r\nc: d"),
        ] {
            assert_eq!(refused(method, url, name, value), Code::HttpRequestInvalid, "{method} {url} {name}");
        }
    }
}
