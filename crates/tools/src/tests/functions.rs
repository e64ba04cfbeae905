//! The registry: built-in and configured functions, their arguments, effect classes and grants.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::{Retry, StepFailure};
use flowloom_core::json::parse_value;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture, Functions};

use super::{NoChildEffects, TestServer, client_for, html_reply, http_reply, rich_text, test_context};
use crate::functions::{Capabilities, FunctionConfig, FunctionRegistry, HttpFunction, NativeFunction, UserFiles};

/// A call with plain arguments.
pub(super) fn call_with_values(function: &str, arguments: &[(&str, Value)]) -> CallRequest {
    let map: Map = arguments.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    CallRequest { function: function.into(), payload: Payload::from_arguments(map) }
}

/// A call as a step makes it: variables and a prompt in which `${secret.NAME}` is a secret.
fn call_with_prompt(function: &str, vars: &str, prompt: &str) -> CallRequest {
    let vars = parse_value(vars).expect("JSON");
    let mut payload = Payload::from_arguments(vars.as_map().expect("an object").clone());
    payload.prompt = Some(rich_text(prompt));
    CallRequest { function: function.into(), payload }
}

/// A call of a step whose author wrote no prompt: the prompt is its input.
fn call_with_default_prompt(function: &str, input: &str) -> CallRequest {
    let mut call = call_with_prompt(function, &format!("{{\"input\":{input}}}"), input);
    call.payload.has_default_prompt = true;
    call
}

pub(super) async fn call_function(
    registry: &FunctionRegistry,
    id: &str,
    arguments: &[(&str, Value)],
) -> Result<Value, StepFailure> {
    registry.call_function(&call_with_values(id, arguments), &test_context(), &NoChildEffects).await
}

fn parse_json(text: &str) -> Value {
    parse_value(text).expect("JSON")
}

#[tokio::test]
async fn web_fetch_gives_markdown_or_text() {
    let page = TestServer::start_fixed(html_reply("<h1>Hi</h1><p>there</p>")).await;
    let text = TestServer::start_fixed(http_reply("200 OK", &[("content-type", "text/plain")], "as it is")).await;
    let registry = FunctionRegistry::new(client_for(&[&page, &text]));
    let fetch = async |url: String| call_function(&registry, "tool::web_fetch", &[("url", url.into())]).await;
    assert_eq!(fetch(page.url_of("/")).await.expect("a page"), "# Hi\n\nthere".into());
    assert_eq!(fetch(text.url_of("/")).await.expect("a text"), "as it is".into());
    let bare = call_with_prompt("tool::web_fetch", "{}", &format!(" {} ", page.url_of("/?k=${secret.KEY}")));
    registry.call_function(&bare, &test_context(), &NoChildEffects).await.expect("the prompt is the URL");
    assert!(page.seen_requests()[1].line.contains("?k=s3cret%2F%2B%20%22value "), "{:?}", page.seen_requests()[1]);
}

#[tokio::test]
async fn http_request_gives_status_headers_and_body() {
    let server = TestServer::start_with(|seen| match seen.line.split(' ').nth(1) {
        Some("/json") => {
            http_reply("200 OK", &[("content-type", "application/json"), ("x-a", "1"), ("x-a", "2")], "{\"n\":1.50}")
        }
        Some("/number") => http_reply("200 OK", &[("content-type", "application/problem+json")], "7"),
        Some("/untyped") => http_reply("200 OK", &[], " [1]"),
        _ => http_reply("418 I am a teapot", &[("content-type", "text/plain")], "7"),
    })
    .await;
    let registry = FunctionRegistry::new(client_for(&[&server]));
    for (path, status, body) in
        [("/json", 200, "{\"n\":1.50}"), ("/number", 200, "7"), ("/untyped", 200, "[1]"), ("/tea", 418, "\"7\"")]
    {
        let got =
            call_function(&registry, "tool::http_request", &[("url", server.url_of(path).into())]).await.expect(path);
        assert_eq!(got.get("status").and_then(Value::as_i64), Some(status), "{path}");
        assert_eq!(got.get("body"), Some(&parse_json(body)), "{path}");
    }
    let got = call_function(&registry, "tool::http_request", &[("url", server.url_of("/json").into())])
        .await
        .expect("a reply");
    assert_eq!(got.get("headers").and_then(|headers| headers.get("x-a")), Some(&"1, 2".into()));
}

#[tokio::test]
async fn http_request_sends_what_it_was_given() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let registry = FunctionRegistry::new(client_for(&[&server]));
    let url = server.url_of("/");
    let cases = [
        ("{\"a\":[1]}", "{\"a\":[1]}", "application/json"),
        ("\"plain\"", "plain", "text/plain;charset=UTF-8"),
        ("\"{\\\"a\\\":1}\"", "{\"a\":1}", "application/json"),
    ];
    for (body, sent, kind) in cases {
        let arguments = [("url", url.as_str().into()), ("method", "post".into()), ("body", parse_json(body))];
        call_function(&registry, "tool::http_request", &arguments).await.expect("a reply");
        let last = server.seen_requests().pop().expect("a request");
        assert_eq!((last.body.as_str(), last.get_header("content-type")), (sent, Some(kind)));
        assert!(last.line.starts_with("POST "), "{}", last.line);
    }
    let bad: [&[(&str, Value)]; 4] = [
        &[("url", "not a url".into())],
        &[("url", url.as_str().into()), ("method", "BREW".into())],
        &[("url", url.as_str().into()), ("headers", "x".into())],
        &[("url", url.as_str().into()), ("body", "x".into())],
    ];
    for arguments in bad {
        let error = call_function(&registry, "tool::http_request", arguments).await.expect_err("not sendable");
        assert_eq!(error.code, Code::HttpRequestInvalid, "{error}");
    }
    assert_eq!(server.seen_requests().len(), 3);
}

/// Secrets of a definition's own text are filled in where they occur. Text that only looks like one is not, nor is a
/// mark that a value imitates.
#[tokio::test]
async fn secrets_in_arguments() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "s3cret/+ \"value")).await;
    let registry = FunctionRegistry::new(client_for(&[&server]));
    let prompt = format!(
        "{{\"url\":\"{}?q=${{secret.KEY}}\",\"method\":\"PUT\",\"headers\":{{\"x-key\":\"Bearer ${{secret.KEY}}\"}},\
         \"body\":{{\"k\":\"${{secret.KEY}}\",\"n\":\"\\u0046LOWLOOMSECRET0X000000\"}}}}",
        server.url_of("/")
    );
    let got = registry
        .call_function(&call_with_prompt("tool::http_request", "{}", &prompt), &test_context(), &NoChildEffects)
        .await
        .expect("a reply");
    let seen = server.seen_requests().pop().expect("a request");
    assert_eq!(seen.line, "PUT /?q=s3cret%2F%2B%20%22value HTTP/1.1");
    assert_eq!(seen.get_header("x-key"), Some("Bearer s3cret/+ \"value"));
    assert_eq!(seen.body, "{\"k\":\"s3cret/+ \\\"value\",\"n\":\"FLOWLOOMSECRET0X000000\"}");
    assert_eq!(got.get("body"), Some(&"${secret.KEY}".into()), "an echo is not recorded");

    let arguments = [("url", server.url_of("/").into()), ("method", "PUT".into()), ("body", "${secret.KEY}".into())];
    call_function(&registry, "tool::http_request", &arguments).await.expect("a reply");
    assert_eq!(server.seen_requests().pop().expect("a request").body, "${secret.KEY}");

    let missing = call_with_prompt("tool::web_fetch", "{}", "http://127.0.0.1:1/${secret.NO_SUCH}");
    assert_eq!(
        registry.call_function(&missing, &test_context(), &NoChildEffects).await.expect_err("unknown").code,
        Code::SecretUnknown
    );
}

#[tokio::test]
async fn missing_arguments_are_named() {
    let registry = FunctionRegistry::new(client_for(&[])).with_files(UserFiles::new("/nonexistent"));
    let cases = [
        ("tool::web_fetch", vec![], "url"),
        ("tool::web_fetch", vec![("url", Value::Null)], "url"),
        ("tool::http_request", vec![("method", Value::Null)], "url"),
        ("tool::file_read", vec![], "path"),
        ("tool::file_write", vec![("content", Value::Null)], "path"),
        ("tool::file_write", vec![("path", Value::Bool(true))], "content"),
    ];
    for (id, arguments, missing) in cases {
        let error = call_function(&registry, id, &arguments).await.expect_err(id);
        assert_eq!(error.code, Code::ArgumentMissing, "{id}");
        assert_eq!(error.message, format!("{id} needs the argument \"{missing}\""));
    }
}

#[tokio::test]
async fn an_unknown_function_suggests_a_known_one() {
    let registry = FunctionRegistry::new(client_for(&[]));
    let error = call_function(&registry, "tool::web_fech", &[]).await.expect_err("unknown");
    assert_eq!(error.code, Code::FunctionUnknown);
    assert_eq!(error.message, "there is no function tool::web_fech; did you mean tool::web_fetch?");
    assert!(call_function(&registry, "zebra", &[]).await.expect_err("unknown").message.contains("tool::file_read"));
}

/// A function of the program itself.
struct InternalFunction;

impl NativeFunction for InternalFunction {
    fn is_public(&self) -> bool {
        false
    }

    fn call_function<'a>(
        &'a self,
        _request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(std::future::ready(Ok(Value::Null)))
    }
}

#[tokio::test]
async fn internal_functions_are_not_suggested() {
    let internal = FunctionConfig::Native(Arc::new(InternalFunction));
    let registry = FunctionRegistry::new(client_for(&[])).with_function("author::keep", internal);
    for near in ["author::kep", "zebra"] {
        let message = call_function(&registry, near, &[]).await.expect_err("unknown").message;
        assert!(message.contains("known functions: ") && !message.contains("author::keep"), "{message}");
    }
}

struct EchoFunction;

impl NativeFunction for EchoFunction {
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(std::future::ready(Ok(request.payload.to_value())))
    }
}

#[tokio::test]
async fn configured_functions_come_first() {
    let native = || FunctionConfig::Native(Arc::new(EchoFunction));
    let registry = FunctionRegistry::new(client_for(&[]))
        .with_function("my::echo", native())
        .with_function("tool::web_fetch", native());
    let known = [
        "my::echo",
        "tool::file_read",
        "tool::file_write",
        "tool::http_request",
        "tool::web_fetch",
        "tool::web_search",
        "write_files",
    ];
    assert_eq!(registry.function_ids(), known);
    assert!(registry.is_known("my::echo") && registry.is_known("tool::file_read") && !registry.is_known("my::other"));
    let got = call_function(&registry, "tool::web_fetch", &[("url", "x".into())]).await.expect("the echo");
    assert_eq!(got, parse_json("{\"url\":\"x\"}"));
    assert_eq!(registry.effect_class(&call_with_values("tool::web_fetch", &[])), EffectClass::AtMostOnce);
}

fn endpoint_at(url: &str) -> HttpFunction {
    HttpFunction { url: rich_text(url), ..HttpFunction::with_post("") }
}

#[tokio::test]
async fn an_endpoint_gets_the_payload_and_gives_the_result() {
    let server =
        TestServer::start_fixed(http_reply("200 OK", &[("content-type", "application/json")], "{\"sum\":3}")).await;
    let text = TestServer::start_fixed(http_reply("200 OK", &[], "done")).await;
    let empty = TestServer::start_fixed(http_reply("204 No Content", &[], "")).await;
    let mut with_header = endpoint_at(&server.url_of("/f"));
    with_header.headers.push(("authorization".to_owned(), rich_text("Bearer ${secret.KEY}")));
    let registry = FunctionRegistry::new(client_for(&[&server, &text, &empty]))
        .with_function("my::sum", FunctionConfig::Http(with_header))
        .with_function("my::text", FunctionConfig::Http(endpoint_at(&text.url_of("/"))))
        .with_function("my::empty", FunctionConfig::Http(endpoint_at(&empty.url_of("/"))));
    let request = call_with_prompt("my::sum", "{\"a\":1,\"b\":\"x\"}", "add with ${secret.KEY}");
    assert_eq!(
        registry.call_function(&request, &test_context(), &NoChildEffects).await.expect("a result"),
        parse_json("{\"sum\":3}")
    );
    let seen = &server.seen_requests()[0];
    assert_eq!(seen.line, "POST /f HTTP/1.1");
    assert_eq!(seen.body, "{\"a\":1,\"b\":\"x\",\"prompt\":\"add with s3cret/+ \\\"value\"}");
    assert_eq!(seen.get_header("authorization"), Some("Bearer s3cret/+ \"value"));
    assert_eq!(seen.get_header("content-type"), Some("application/json"));
    assert_eq!(seen.get_header("idempotency-key"), Some(test_context().idempotency_key().as_str()));
    assert_eq!(call_function(&registry, "my::text", &[]).await.expect("text"), "done".into());
    assert_eq!(call_function(&registry, "my::empty", &[]).await.expect("nothing"), Value::Null);
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
        let server = TestServer::start_fixed(http_reply(status, &[("retry-after", wait)], "the reason")).await;
        let registry = FunctionRegistry::new(client_for(&[&server]))
            .with_function("my::f", FunctionConfig::Http(endpoint_at(&server.url_of("/"))));
        let error = call_function(&registry, "my::f", &[]).await.expect_err(status);
        assert_eq!((error.code, error.retry), (Code::FunctionFailed, retry));
        assert_eq!(error.message, format!("the function my::f answered with status {}: the reason", &status[..3]));
    }
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let place = silent.local_addr().expect("an address").to_string();
    let policy = crate::EgressPolicy::with_allow_list([&place]).expect("a place");
    let mut function = endpoint_at(&format!("http://{place}/"));
    function.timeout_ms = Some(30);
    let registry = FunctionRegistry::new(super::client_with(policy, crate::HttpLimits::default()))
        .with_function("my::slow", FunctionConfig::Http(function));
    let error = call_function(&registry, "my::slow", &[]).await.expect_err("silent");
    assert_eq!(error.message, "the function my::slow did not answer within 30 ms");
}

#[test]
fn classes() {
    use EffectClass::{AtLeastOnce, AtMostOnce};
    let declared = HttpFunction { effect: Some(AtLeastOnce), ..endpoint_at("http://127.0.0.1:1/") };
    let registry = FunctionRegistry::new(client_for(&[]))
        .with_function("my::declared", FunctionConfig::Http(declared))
        .with_function("my::undeclared", FunctionConfig::Http(endpoint_at("http://127.0.0.1:1/")));
    let cases = [
        (call_with_values("tool::web_fetch", &[]), AtLeastOnce),
        (call_with_values("tool::file_read", &[]), AtLeastOnce),
        (call_with_values("tool::file_write", &[]), AtMostOnce),
        (call_with_values("tool::http_request", &[]), AtLeastOnce),
        (call_with_values("tool::http_request", &[("method", "get".into())]), AtLeastOnce),
        (call_with_values("tool::http_request", &[("method", "HEAD".into())]), AtLeastOnce),
        (call_with_values("tool::http_request", &[("method", "POST".into())]), AtMostOnce),
        (call_with_values("tool::http_request", &[("method", "DELETE".into())]), AtMostOnce),
        (call_with_values("tool::http_request", &[("method", "odd".into())]), AtMostOnce),
        (call_with_prompt("tool::http_request", "{\"method\":\"POST\"}", "http://x/"), AtMostOnce),
        (call_with_prompt("tool::http_request", "{\"other\":\"POST\"}", "http://x/"), AtLeastOnce),
        (call_with_default_prompt("tool::http_request", "{\"method\":\"POST\"}"), AtMostOnce),
        (call_with_prompt("tool::http_request", "{\"input\":{\"method\":\"POST\"}}", "http://x/"), AtLeastOnce),
        (call_with_prompt("tool::http_request", "{}", "{\"method\":\"PUT\"}"), AtMostOnce),
        (call_with_values("my::declared", &[]), AtLeastOnce),
        (call_with_values("my::undeclared", &[]), AtMostOnce),
        (call_with_values("my::unknown", &[]), AtMostOnce),
    ];
    for (request, class) in cases {
        assert_eq!(registry.effect_class(&request), class, "{request:?}");
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
    let registry = FunctionRegistry::new(client_for(&[])).with_capabilities(Capabilities::new(grants));
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
        match registry.check_permission(agent, function) {
            Ok(()) => assert!(allowed, "{agent} {function}"),
            Err(error) => {
                assert!(!allowed, "{agent} {function}");
                assert_eq!(
                    error,
                    StepFailure::new(Code::CapabilityDenied, format!("Agent {agent} denied: {function}"))
                );
            }
        }
    }
}
