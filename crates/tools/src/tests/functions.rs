//! The registry: built-in and configured functions, their arguments, effect classes and grants.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::{Retry, StepError};
use flowloom_core::json::parse_value;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{Context, Functions, Reply, Substeps};

use super::{NoSubsteps, Server, client, context, html, reply, rich};
use crate::functions::{Capabilities, FunctionConfig, HttpFunction, NativeFunction, Registry};

/// A call with plain arguments.
fn with_values(function: &str, arguments: &[(&str, Value)]) -> CallRequest {
    let map: Map = arguments.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    CallRequest { function: function.into(), payload: Payload::of(map) }
}

/// A call as a step makes it: variables and a prompt in which `${secret.NAME}` is a secret.
fn with_prompt(function: &str, vars: &str, prompt: &str) -> CallRequest {
    let vars = parse_value(vars).expect("JSON");
    let mut payload = Payload::of(vars.as_map().expect("an object").clone());
    payload.prompt = Some(rich(prompt));
    CallRequest { function: function.into(), payload }
}

pub(super) async fn call(registry: &Registry, id: &str, arguments: &[(&str, Value)]) -> Result<Value, StepError> {
    registry.call(&with_values(id, arguments), &context(), &NoSubsteps).await
}

fn json(text: &str) -> Value {
    parse_value(text).expect("JSON")
}

#[tokio::test]
async fn web_fetch_gives_markdown_or_text() {
    let page = Server::fixed(html("<h1>Hi</h1><p>there</p>")).await;
    let text = Server::fixed(reply("200 OK", &[("content-type", "text/plain")], "as it is")).await;
    let registry = Registry::new(client(&[&page, &text]));
    let fetch = async |url: String| call(&registry, "tool::web_fetch", &[("url", url.into())]).await;
    assert_eq!(fetch(page.url("/")).await.expect("a page"), "# Hi\n\nthere".into());
    assert_eq!(fetch(text.url("/")).await.expect("a text"), "as it is".into());
    let bare = with_prompt("tool::web_fetch", "{}", &format!(" {} ", page.url("/?k=${secret.KEY}")));
    registry.call(&bare, &context(), &NoSubsteps).await.expect("the prompt is the URL");
    assert!(page.seen()[1].line.contains("?k=s3cret%2F%2B%20%22value "), "{:?}", page.seen()[1]);
}

#[tokio::test]
async fn http_request_gives_status_headers_and_body() {
    let server = Server::start(|seen| match seen.line.split(' ').nth(1) {
        Some("/json") => {
            reply("200 OK", &[("content-type", "application/json"), ("x-a", "1"), ("x-a", "2")], "{\"n\":1.50}")
        }
        Some("/number") => reply("200 OK", &[("content-type", "application/problem+json")], "7"),
        Some("/untyped") => reply("200 OK", &[], " [1]"),
        _ => reply("418 I am a teapot", &[("content-type", "text/plain")], "7"),
    })
    .await;
    let registry = Registry::new(client(&[&server]));
    for (path, status, body) in
        [("/json", 200, "{\"n\":1.50}"), ("/number", 200, "7"), ("/untyped", 200, "[1]"), ("/tea", 418, "\"7\"")]
    {
        let got = call(&registry, "tool::http_request", &[("url", server.url(path).into())]).await.expect(path);
        assert_eq!(got.get("status").and_then(Value::as_i64), Some(status), "{path}");
        assert_eq!(got.get("body"), Some(&json(body)), "{path}");
    }
    let got = call(&registry, "tool::http_request", &[("url", server.url("/json").into())]).await.expect("a reply");
    assert_eq!(got.get("headers").and_then(|headers| headers.get("x-a")), Some(&"1, 2".into()));
}

#[tokio::test]
async fn http_request_sends_what_it_was_given() {
    let server = Server::fixed(reply("200 OK", &[], "")).await;
    let registry = Registry::new(client(&[&server]));
    let url = server.url("/");
    let cases = [
        ("{\"a\":[1]}", "{\"a\":[1]}", "application/json"),
        ("\"plain\"", "plain", "text/plain;charset=UTF-8"),
        ("\"{\\\"a\\\":1}\"", "{\"a\":1}", "application/json"),
    ];
    for (body, sent, kind) in cases {
        let arguments = [("url", url.as_str().into()), ("method", "post".into()), ("body", json(body))];
        call(&registry, "tool::http_request", &arguments).await.expect("a reply");
        let last = server.seen().pop().expect("a request");
        assert_eq!((last.body.as_str(), last.header("content-type")), (sent, Some(kind)));
        assert!(last.line.starts_with("POST "), "{}", last.line);
    }
    let bad: [&[(&str, Value)]; 4] = [
        &[("url", "not a url".into())],
        &[("url", url.as_str().into()), ("method", "BREW".into())],
        &[("url", url.as_str().into()), ("headers", "x".into())],
        &[("url", url.as_str().into()), ("body", "x".into())],
    ];
    for arguments in bad {
        let error = call(&registry, "tool::http_request", arguments).await.expect_err("not sendable");
        assert_eq!(error.code, Code::HttpRequestInvalid, "{error}");
    }
    assert_eq!(server.seen().len(), 3);
}

/// Secrets of a definition's own text are filled in where they occur. Text that only looks like one is not, nor is a
/// mark that a value imitates.
#[tokio::test]
async fn secrets_in_arguments() {
    let server = Server::fixed(reply("200 OK", &[], "s3cret/+ \"value")).await;
    let registry = Registry::new(client(&[&server]));
    let prompt = format!(
        "{{\"url\":\"{}?q=${{secret.KEY}}\",\"method\":\"PUT\",\"headers\":{{\"x-key\":\"Bearer ${{secret.KEY}}\"}},\
         \"body\":{{\"k\":\"${{secret.KEY}}\",\"n\":\"\\u0046LOWLOOMSECRET0X000000\"}}}}",
        server.url("/")
    );
    let got = registry
        .call(&with_prompt("tool::http_request", "{}", &prompt), &context(), &NoSubsteps)
        .await
        .expect("a reply");
    let seen = server.seen().pop().expect("a request");
    assert_eq!(seen.line, "PUT /?q=s3cret%2F%2B%20%22value HTTP/1.1");
    assert_eq!(seen.header("x-key"), Some("Bearer s3cret/+ \"value"));
    assert_eq!(seen.body, "{\"k\":\"s3cret/+ \\\"value\",\"n\":\"FLOWLOOMSECRET0X000000\"}");
    assert_eq!(got.get("body"), Some(&"${secret.KEY}".into()), "an echo is not recorded");

    let arguments = [("url", server.url("/").into()), ("method", "PUT".into()), ("body", "${secret.KEY}".into())];
    call(&registry, "tool::http_request", &arguments).await.expect("a reply");
    assert_eq!(server.seen().pop().expect("a request").body, "${secret.KEY}");

    let missing = with_prompt("tool::web_fetch", "{}", "http://127.0.0.1:1/${secret.NO_SUCH}");
    assert_eq!(registry.call(&missing, &context(), &NoSubsteps).await.expect_err("unknown").code, Code::SecretUnknown);
}

#[tokio::test]
async fn missing_arguments_are_named() {
    let registry = Registry::new(client(&[])).with_files("/nonexistent");
    let cases = [
        ("tool::web_fetch", vec![], "url"),
        ("tool::web_fetch", vec![("url", Value::Null)], "url"),
        ("tool::http_request", vec![("method", Value::Null)], "url"),
        ("tool::file_read", vec![], "path"),
        ("tool::file_write", vec![("content", Value::Null)], "path"),
        ("tool::file_write", vec![("path", Value::Bool(true))], "content"),
    ];
    for (id, arguments, missing) in cases {
        let error = call(&registry, id, &arguments).await.expect_err(id);
        assert_eq!(error.code, Code::ArgumentMissing, "{id}");
        assert_eq!(error.message, format!("{id} needs the argument \"{missing}\""));
    }
}

#[tokio::test]
async fn an_unknown_function_suggests_a_known_one() {
    let registry = Registry::new(client(&[]));
    let error = call(&registry, "tool::web_fech", &[]).await.expect_err("unknown");
    assert_eq!(error.code, Code::FunctionUnknown);
    assert_eq!(error.message, "there is no function tool::web_fech; did you mean tool::web_fetch?");
    assert!(call(&registry, "zebra", &[]).await.expect_err("unknown").message.contains("tool::file_read"));
}

struct Echo;

impl NativeFunction for Echo {
    fn call<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(std::future::ready(Ok(request.payload.to_value())))
    }
}

#[tokio::test]
async fn configured_functions_come_first() {
    let native = || FunctionConfig::Native(Arc::new(Echo));
    let registry =
        Registry::new(client(&[])).with_function("my::echo", native()).with_function("tool::web_fetch", native());
    let known = [
        "my::echo",
        "tool::file_read",
        "tool::file_write",
        "tool::http_request",
        "tool::web_fetch",
        "tool::web_search",
    ];
    assert_eq!(registry.names(), known);
    assert!(registry.knows("my::echo") && registry.knows("tool::file_read") && !registry.knows("my::other"));
    let got = call(&registry, "tool::web_fetch", &[("url", "x".into())]).await.expect("the echo");
    assert_eq!(got, json("{\"url\":\"x\"}"));
    assert_eq!(registry.class(&with_values("tool::web_fetch", &[])), EffectClass::AtMostOnce);
}

fn endpoint(url: &str) -> HttpFunction {
    HttpFunction { url: rich(url), ..HttpFunction::post("") }
}

#[tokio::test]
async fn an_endpoint_gets_the_payload_and_gives_the_result() {
    let server = Server::fixed(reply("200 OK", &[("content-type", "application/json")], "{\"sum\":3}")).await;
    let text = Server::fixed(reply("200 OK", &[], "done")).await;
    let empty = Server::fixed(reply("204 No Content", &[], "")).await;
    let mut with_header = endpoint(&server.url("/f"));
    with_header.headers.push(("authorization".to_owned(), rich("Bearer ${secret.KEY}")));
    let registry = Registry::new(client(&[&server, &text, &empty]))
        .with_function("my::sum", FunctionConfig::Http(with_header))
        .with_function("my::text", FunctionConfig::Http(endpoint(&text.url("/"))))
        .with_function("my::empty", FunctionConfig::Http(endpoint(&empty.url("/"))));
    let request = with_prompt("my::sum", "{\"a\":1,\"b\":\"x\"}", "add with ${secret.KEY}");
    assert_eq!(registry.call(&request, &context(), &NoSubsteps).await.expect("a result"), json("{\"sum\":3}"));
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /f HTTP/1.1");
    assert_eq!(seen.body, "{\"a\":1,\"b\":\"x\",\"prompt\":\"add with s3cret/+ \\\"value\"}");
    assert_eq!(seen.header("authorization"), Some("Bearer s3cret/+ \"value"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("idempotency-key"), Some(context().key().as_str()));
    assert_eq!(call(&registry, "my::text", &[]).await.expect("text"), "done".into());
    assert_eq!(call(&registry, "my::empty", &[]).await.expect("nothing"), Value::Null);
}

#[tokio::test]
async fn an_endpoint_that_fails() {
    let cases = [
        ("400 x", "1", Retry::Never),
        ("500 x", "", Retry::Maybe),
        ("429 x", "2", Retry::After(2000)),
        ("503 x", "1000000000", Retry::After(3_600_000)),
        ("503 x", "-1", Retry::Maybe),
    ];
    for (status, wait, retry) in cases {
        let server = Server::fixed(reply(status, &[("retry-after", wait)], "the reason")).await;
        let registry =
            Registry::new(client(&[&server])).with_function("my::f", FunctionConfig::Http(endpoint(&server.url("/"))));
        let error = call(&registry, "my::f", &[]).await.expect_err(status);
        assert_eq!((error.code, error.retry), (Code::FunctionFailed, retry));
        assert_eq!(error.message, format!("the function my::f answered with status {}: the reason", &status[..3]));
    }
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let place = silent.local_addr().expect("an address").to_string();
    let policy = crate::EgressPolicy::allowing([&place]).expect("a place");
    let mut function = endpoint(&format!("http://{place}/"));
    function.timeout_ms = Some(30);
    let registry = Registry::new(super::client_of(policy, crate::HttpLimits::default()))
        .with_function("my::slow", FunctionConfig::Http(function));
    let error = call(&registry, "my::slow", &[]).await.expect_err("silent");
    assert_eq!(error.message, "the function my::slow did not answer within 30 ms");
}

#[test]
fn classes() {
    use EffectClass::{AtLeastOnce, AtMostOnce};
    let declared = HttpFunction { effect: Some(AtLeastOnce), ..endpoint("http://127.0.0.1:1/") };
    let registry = Registry::new(client(&[]))
        .with_function("my::declared", FunctionConfig::Http(declared))
        .with_function("my::undeclared", FunctionConfig::Http(endpoint("http://127.0.0.1:1/")));
    let cases = [
        (with_values("tool::web_fetch", &[]), AtLeastOnce),
        (with_values("tool::file_read", &[]), AtLeastOnce),
        (with_values("tool::file_write", &[]), AtMostOnce),
        (with_values("tool::http_request", &[]), AtLeastOnce),
        (with_values("tool::http_request", &[("method", "get".into())]), AtLeastOnce),
        (with_values("tool::http_request", &[("method", "HEAD".into())]), AtLeastOnce),
        (with_values("tool::http_request", &[("method", "POST".into())]), AtMostOnce),
        (with_values("tool::http_request", &[("method", "DELETE".into())]), AtMostOnce),
        (with_values("tool::http_request", &[("method", "odd".into())]), AtMostOnce),
        (with_prompt("tool::http_request", "{\"method\":\"POST\"}", "http://x/"), AtLeastOnce),
        (with_prompt("tool::http_request", "{\"input\":{\"method\":\"POST\"}}", "x"), AtMostOnce),
        (with_prompt("tool::http_request", "{}", "{\"method\":\"PUT\"}"), AtMostOnce),
        (with_values("my::declared", &[]), AtLeastOnce),
        (with_values("my::undeclared", &[]), AtMostOnce),
        (with_values("my::unknown", &[]), AtMostOnce),
    ];
    for (request, class) in cases {
        assert_eq!(registry.class(&request), class, "{request:?}");
    }
}

#[test]
fn grants_are_prefixes() {
    let grants = [
        ("all", vec!["*"]),
        ("tools", vec!["tool::"]),
        ("one", vec!["agent::chat", "tool::web_fetch"]),
        ("none", vec![]),
        ("slip", vec![""]),
    ];
    let grants: BTreeMap<String, Vec<String>> =
        grants.map(|(agent, list)| (agent.to_owned(), list.into_iter().map(str::to_owned).collect())).into();
    let registry = Registry::new(client(&[])).with_capabilities(Capabilities::new(grants));
    let cases = [
        ("all", "tool::file_write", true),
        ("all", "anything", true),
        ("tools", "tool::file_write", true),
        ("tools", "toolbox::x", false),
        ("tools", "agent::chat", false),
        ("one", "tool::web_fetch", true),
        ("one", "tool::web_fetch_all", true),
        ("one", "tool::file_read", false),
        ("none", "tool::web_fetch", false),
        ("slip", "tool::web_fetch", false),
        ("stranger", "tool::web_fetch", false),
    ];
    for (agent, function, allowed) in cases {
        match registry.permit(agent, function) {
            Ok(()) => assert!(allowed, "{agent} {function}"),
            Err(error) => {
                assert!(!allowed, "{agent} {function}");
                assert_eq!(error, StepError::new(Code::CapabilityDenied, format!("Agent {agent} denied: {function}")));
            }
        }
    }
}
