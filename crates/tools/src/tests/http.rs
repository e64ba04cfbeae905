//! Sending and reading: redirects, headers, secrets, limits, encodings and failures.

use std::io::Write;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::HttpRequest;
use flowloom_core::error::{Retry, StepFailure};
use flowloom_runtime::causes::format_chain;
use flowloom_runtime::effects::HttpSender;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{TestServer, client_for, client_with, http_reply, rich_text, sender, test_context};
use crate::egress::EgressPolicy;
use crate::http::{HttpClient, HttpLimits, HttpResponse};

/// The value of the tests' secret.
const SECRET_VALUE: &str = "s3cret/+ \"value";

fn new_request(method: &str, url: &str, headers: &[(&str, &str)], body: Option<&str>) -> HttpRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), rich_text(value))).collect();
    let body = body.map(rich_text);
    HttpRequest { method: method.to_owned(), url: rich_text(url), headers, body, uses_tool_host: false }
}

async fn get_url(client: &HttpClient, url: &str) -> Result<HttpResponse, StepFailure> {
    Ok(client.exchange(&new_request("GET", url, &[], None), &sender()).await?)
}

#[tokio::test]
async fn a_request_arrives_as_written() {
    let server =
        TestServer::start_fixed(http_reply("201 Created", &[("X-Answer", "1"), ("x-answer", "2")], "{\"ok\":true}"))
            .await;
    let send = new_request(
        "POST",
        &server.url_of("/a?b=c"),
        &[("x-one", "1"), ("content-type", "application/json")],
        Some("{}"),
    );
    let got = client_for(&[&server]).send_request(&send, &test_context()).await.expect("a reply");
    assert_eq!((got.status, got.body.as_str()), (201, "{\"ok\":true}"));
    assert_eq!(got.headers.iter().filter(|(name, _)| name == "x-answer").count(), 2);
    let seen = &server.seen_requests()[0];
    assert_eq!((seen.line.as_str(), seen.body.as_str()), ("POST /a?b=c HTTP/1.1", "{}"));
    assert_eq!(seen.get_header("x-one"), Some("1"));
    assert_eq!(seen.get_header("user-agent"), Some(concat!("flowloom/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(seen.get_header("idempotency-key"), Some(test_context().idempotency_key().as_str()));
}

#[tokio::test]
async fn a_change_without_a_body_says_so() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    for (method, body, length) in [
        ("POST", None, Some("0")),
        ("PUT", None, Some("0")),
        ("GET", None, None),
        ("DELETE", None, None),
        ("POST", Some(""), Some("0")),
        ("PATCH", Some(""), Some("0")),
        ("PATCH", Some("x"), Some("1")),
    ] {
        let send = new_request(method, &server.url_of("/"), &[], body);
        client_for(&[&server]).send_request(&send, &test_context()).await.expect("a reply");
        let last = server.seen_requests().pop().expect("a request");
        assert_eq!(last.get_header("content-length"), length, "{method}");
    }
}

#[tokio::test]
async fn the_key_goes_with_changes_unless_the_author_gave_one() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let client = client_for(&[&server]);
    for (method, own, expected) in [
        ("GET", None, None),
        ("HEAD", None, None),
        ("OPTIONS", None, None),
        ("POST", None, Some("k")),
        ("PUT", None, Some("k")),
        ("PATCH", None, Some("k")),
        ("DELETE", None, Some("k")),
        ("POST", Some("mine"), Some("mine")),
    ] {
        let headers: Vec<_> = own.map(|own| ("idempotency-key", own)).into_iter().collect();
        client.exchange(&new_request(method, &server.url_of("/"), &headers, None), &sender()).await.expect("a reply");
        let last = server.seen_requests().pop().expect("a request");
        assert_eq!(last.get_header("idempotency-key"), expected, "{method}");
        assert!(last.line.starts_with(method), "{}", last.line);
    }
}

/// How a redirect changes a request, as `fetch` defines it.
#[tokio::test]
async fn redirects_change_methods_as_fetch_does() {
    let cases = [
        ("301 x", "POST", "GET", ""),
        ("302 x", "POST", "GET", ""),
        ("303 x", "POST", "GET", ""),
        ("307 x", "POST", "POST", "body"),
        ("308 x", "POST", "POST", "body"),
        ("301 x", "PUT", "PUT", "body"),
        ("303 x", "PUT", "GET", ""),
        ("303 x", "HEAD", "HEAD", ""),
        ("302 x", "GET", "GET", ""),
    ];
    for (status, before, after, body) in cases {
        let server = TestServer::start_with(move |seen| match seen.line.contains("/next") {
            true => http_reply("200 OK", &[], ""),
            false => http_reply(status, &[("location", "next#part")], ""),
        })
        .await;
        let sent = (before != "GET" && before != "HEAD").then_some("body");
        let send = new_request(before, &server.url_of("/first"), &[("authorization", "Bearer x")], sent);
        client_for(&[&server]).exchange(&send, &sender()).await.expect("a reply");
        let last = server.seen_requests().pop().expect("two requests");
        assert_eq!((last.line, last.body.as_str()), (format!("{after} /next HTTP/1.1"), body), "{status} {before}");
        let keeps_body = !body.is_empty();
        assert_eq!(last.headers.contains_key("idempotency-key"), keeps_body, "{status} {before}");
        assert_eq!(last.headers.get("authorization").map(String::as_str), Some("Bearer x"));
    }
}

/// N-05: private headers are not sent to another origin.
#[tokio::test]
async fn private_headers_stay_with_their_origin() {
    let other = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let target = other.url_of("/");
    let first = TestServer::start_with(move |_| http_reply("307 x", &[("location", &target)], "")).await;
    let headers = [
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("x-api-key", "literal"),
        ("x-auth-token", "literal"),
        ("x-custom", "${secret.KEY}"),
        ("x-plain", "stays"),
        ("accept", "text/plain"),
    ];
    let client = client_for(&[&first, &other]);
    client.exchange(&new_request("POST", &first.url_of("/"), &headers, Some("x")), &sender()).await.expect("a reply");
    let last = other.seen_requests().pop().expect("a request");
    for name in ["authorization", "cookie", "x-api-key", "x-auth-token", "x-custom"] {
        assert_eq!(last.get_header(name), None, "{name}");
        assert!(first.seen_requests()[0].headers.contains_key(name), "{name}");
    }
    assert_eq!((last.get_header("x-plain"), last.get_header("accept")), (Some("stays"), Some("text/plain")));
    assert_eq!(last.get_header("idempotency-key"), Some("k"));
    let error = client.exchange(&new_request("POST", &first.url_of("/"), &[], Some("${secret.KEY}")), &sender()).await;
    assert!(error.expect_err("a secret would leak").to_string().contains("secret"));
    assert_eq!(other.seen_requests().len(), 1);
}

/// A server may copy a secret of the URL into the target of its redirect, in whatever encoding.
#[tokio::test]
async fn a_redirect_takes_no_secret_to_another_origin() {
    let other = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let target = other.url_of("/taken?");
    let first = TestServer::start_with(move |seen| {
        let path = seen.line.split(' ').nth(1).expect("a path");
        let (_, query) = path.split_once('?').expect("a query");
        http_reply("302 x", &[("location", &format!("{target}{query}"))], "")
    })
    .await;
    let client = client_for(&[&first, &other]);
    let encoded = "czNjcmV0LysgInZhbHVl";
    for query in ["k=${secret.KEY}", &format!("k={encoded}")] {
        let headers = [("x-custom", "${secret.KEY}")];
        let send = new_request("GET", &first.url_of(&format!("/?{query}")), &headers, None);
        let error = client.exchange(&send, &sender()).await.expect_err("the secret would leak");
        assert!(error.to_string().contains("the secret of the request is not sent"), "{error}");
    }
    assert_eq!(other.seen_requests().len(), 0);
    let plain = new_request("GET", &first.url_of("/?k=1"), &[("x-custom", "${secret.KEY}")], None);
    client.exchange(&plain, &sender()).await.expect("a reply");
    assert_eq!(other.seen_requests().len(), 1);
}

#[tokio::test]
async fn secrets_are_written_as_their_place_needs() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let client = client_for(&[&server]);
    let url = server.url_of("/p/${secret.KEY}?k=${secret.KEY}");
    let cases = [
        ("application/json", "{\"k\":\"${secret.KEY}\"}", "{\"k\":\"s3cret/+ \\\"value\"}"),
        ("application/vnd.x+json; charset=utf-8", "\"${secret.KEY}\"", "\"s3cret/+ \\\"value\""),
        ("application/x-www-form-urlencoded", "k=${secret.KEY}", "k=s3cret%2F%2B+%22value"),
        ("text/plain", "k=${secret.KEY}", "k=s3cret/+ \"value"),
    ];
    for (kind, body, expected) in cases {
        let headers = [("content-type", kind), ("authorization", "Bearer ${secret.KEY}")];
        client.exchange(&new_request("POST", &url, &headers, Some(body)), &sender()).await.expect("a reply");
        let last = server.seen_requests().pop().expect("a request");
        assert_eq!(last.line, "POST /p/s3cret%2F%2B%20%22value?k=s3cret%2F%2B%20%22value HTTP/1.1");
        assert_eq!(last.body, expected, "{kind}");
        assert_eq!(last.get_header("authorization"), Some(format!("Bearer {SECRET_VALUE}").as_str()));
    }
}

#[tokio::test]
async fn a_missing_secret_is_named() {
    let client = client_with(EgressPolicy::default(), HttpLimits::default());
    for send in [
        new_request("GET", "http://127.0.0.1:1/?k=${secret.NO_SUCH}", &[], None),
        new_request("GET", "http://127.0.0.1:1/", &[("x", "${secret.NO_SUCH}")], None),
        new_request("POST", "http://127.0.0.1:1/", &[], Some("${secret.NO_SUCH}")),
    ] {
        let error = client.exchange(&send, &sender()).await.expect_err("no such secret");
        assert_eq!(error.code(), Code::SecretUnknown);
        assert!(error.to_string().contains("FLOWLOOM_SECRET_NO_SUCH"), "{error}");
    }
}

/// No message and no recorded response contains a secret value, in any encoding.
#[tokio::test]
async fn secrets_never_come_back() {
    let echo = TestServer::start_with(|seen| {
        let auth = seen.get_header("authorization").unwrap_or_default();
        http_reply("200 OK", &[("x-echo", auth)], format!("{} {auth}", seen.line))
    })
    .await;
    let client = client_for(&[&echo]);
    let headers = [("authorization", "${secret.KEY}")];
    let got = client.exchange(&new_request("GET", &echo.url_of("/?k=${secret.KEY}"), &headers, None), &sender()).await;
    let text = format!("{:?}", got.expect("a reply"));
    assert!(!text.contains("s3cret") && text.contains("${secret.KEY}"), "{text}");
    let failing = [
        new_request("GET", "http://127.0.0.1:1/${secret.KEY}", &[], None),
        new_request("GET", "http://${secret.KEY}:1/", &[], None),
        new_request("GET", "${secret.KEY}", &[], None),
        new_request("GET", "http://127.0.0.1:1/", &[("authorization", "${secret.INJECT}")], None),
        new_request("GET", "http://127.0.0.1:99999/${secret.KEY}", &[], None),
    ];
    for send in failing {
        let error = client.exchange(&send, &sender()).await.expect_err("each fails");
        let message = format!("{} {}", format_chain(&error), StepFailure::from(error).message);
        assert!(!message.contains("s3cret") && !message.contains("x-evil"), "{message}");
    }
    let redirect =
        TestServer::start_fixed(http_reply("302 x", &[("location", "ftp://s3cret%2F%2B%20%22value/")], "")).await;
    let client = client_for(&[&redirect]);
    let error = client.exchange(&new_request("GET", &redirect.url_of("/?${secret.KEY}"), &[], None), &sender()).await;
    assert!(!error.expect_err("not http").to_string().contains("s3cret"));
}

/// H-01, H-02: refused before anything is sent.
#[tokio::test]
async fn what_cannot_be_sent_is_refused() {
    let server = TestServer::start_fixed(http_reply("200 OK", &[], "")).await;
    let client = client_for(&[&server]);
    let long = "x".repeat(1 << 20);
    let rows = [
        ("x-a", "a\r\nX: y"),
        ("x-a", "a\0"),
        ("x-a", "a\r\n folded"),
        ("x-a", "${secret.INJECT}"),
        ("x a", "v"),
        ("x:", "v"),
        ("", "v"),
        ("Host", "evil"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "close"),
        ("proxy-authorization", "x"),
        ("sec-fetch-site", "x"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-long", &long),
    ];
    for row in rows {
        let error =
            client.exchange(&new_request("GET", &server.url_of("/"), &[row], None), &sender()).await.expect_err(row.0);
        assert_eq!(error.code(), Code::HttpRequestInvalid, "{}", row.0);
    }
    let names: Vec<String> = (0..300).map(|i| format!("x-{i}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert!(client.exchange(&new_request("GET", &server.url_of("/"), &many, None), &sender()).await.is_err());
    for method in ["TRACE", "CONNECT", "get", "", "GET\r\n", "GET /x"] {
        let error =
            client.exchange(&new_request(method, &server.url_of("/"), &[], None), &sender()).await.expect_err(method);
        assert_eq!(error.code(), Code::HttpRequestInvalid, "{method:?}");
    }
    assert!(server.seen_requests().is_empty());
}

fn compress_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn small_limits() -> HttpLimits {
    HttpLimits { reply_bytes: 4 << 20, ..HttpLimits::default() }
}

/// N-10: decompression bombs and endless responses.
#[tokio::test]
async fn replies_are_capped() {
    let zipped = [("content-encoding", "gzip")];
    let pseudo: Vec<u8> = (0u32..700_000).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut twice = http_reply("200 OK", &[("content-encoding", "gzip, gzip")], compress_gzip(&compress_gzip(b"x")));
    twice.truncate(10_000);
    let many: Vec<(String, &str)> = (0..300).map(|i| (format!("x-{i}"), "v")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let wide = "v".repeat(70_000);
    let huge = "v".repeat(1 << 20);
    let cases = [
        ("plain over the cap", http_reply("200 OK", &[], vec![b'x'; (4 << 20) + 1]), Code::ReplyTooLarge),
        ("bomb", http_reply("200 OK", &zipped, compress_gzip(&vec![0; 4 << 20])), Code::ReplyTooLarge),
        ("bomb over the cap", http_reply("200 OK", &zipped, compress_gzip(&vec![0; 16 << 20])), Code::ReplyTooLarge),
        ("nested", twice, Code::HttpFailed),
        ("brotli", http_reply("200 OK", &[("content-encoding", "br")], "x"), Code::HttpFailed),
        ("a lie", http_reply("200 OK", &zipped, "not gzip at all"), Code::HttpFailed),
        ("many headers", http_reply("200 OK", &many, ""), Code::ReplyTooLarge),
        ("wide headers", http_reply("200 OK", &[("x-wide", &wide)], ""), Code::ReplyTooLarge),
        ("huge header", http_reply("200 OK", &[("x-huge", &huge)], ""), Code::ReplyTooLarge),
    ];
    for (name, answer, code) in cases {
        let server = TestServer::start_fixed(answer).await;
        let client = client_with(EgressPolicy::with_allow_list([server.host_port()]).expect("a place"), small_limits());
        let error = get_url(&client, &server.url_of("/")).await.expect_err(name);
        assert_eq!(error.code, code, "{name}: {error}");
    }
    let fine = TestServer::start_fixed(http_reply("200 OK", &zipped, compress_gzip(&pseudo))).await;
    let client = client_with(EgressPolicy::with_allow_list([fine.host_port()]).expect("a place"), small_limits());
    assert!(get_url(&client, &fine.url_of("/")).await.is_ok());
}

#[tokio::test]
async fn compressed_and_chunked_replies_are_read() {
    let zipped =
        TestServer::start_fixed(http_reply("200 OK", &[("content-encoding", "gzip")], compress_gzip(b"hello"))).await;
    assert_eq!(get_url(&client_for(&[&zipped]), &zipped.url_of("/")).await.expect("a reply").text, "hello");
    assert_eq!(zipped.seen_requests()[0].get_header("accept-encoding"), Some("gzip"));
    let empty = TestServer::start_fixed(http_reply("200 OK", &[("content-encoding", "gzip")], "")).await;
    assert_eq!(get_url(&client_for(&[&empty]), &empty.url_of("/")).await.expect("a reply").text, "");
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = TestServer::start_fixed(format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await;
    assert_eq!(get_url(&client_for(&[&chunked]), &chunked.url_of("/")).await.expect("a reply").text, "abcde");
    let broken = TestServer::start_fixed(format!("{head}3\r\nabc\r\n2\r\nd")).await;
    let error = get_url(&client_for(&[&broken]), &broken.url_of("/")).await.expect_err("cut off");
    assert_eq!((error.code, error.retry), (Code::HttpFailed, Retry::Maybe));
    assert!(error.message.contains("was cut off"), "{error}");
}

#[tokio::test]
async fn bodies_become_text_by_their_encoding() {
    let cases: [(&str, &[u8], &str); 10] = [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ("text/plain; charset=\"windows-1251\"", b"\xcf\xf0", "Пр"),
        ("text/plain; charset=shift_jis", b"\x93\xfa", "日"),
        ("text/plain", "é".as_bytes(), "é"),
        ("text/plain", b"\xe9!", "\u{fffd}!"),
        ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ("text/html", b"<meta charset='latin1'>caf\xe9", "<meta charset='latin1'>café"),
        ("text/html", b"<meta charset=utf-16>caf\xc3\xa9", "<meta charset=utf-16>café"),
        (
            "text/html",
            b"<META http-equiv=Content-Type content=\"text/html; charset=latin1\">\xe9",
            "<META http-equiv=Content-Type content=\"text/html; charset=latin1\">é",
        ),
    ];
    for (kind, bytes, expected) in cases {
        let server = TestServer::start_fixed(http_reply("200 OK", &[("content-type", kind)], bytes)).await;
        assert_eq!(get_url(&client_for(&[&server]), &server.url_of("/")).await.expect(kind).text, expected, "{kind}");
    }
}

#[tokio::test]
async fn failures_are_described_and_may_pass() {
    let closed = TestServer::start_fixed("").await;
    let error = get_url(&client_for(&[&closed]), &closed.url_of("/")).await.expect_err("no reply");
    assert_eq!((error.code, error.retry), (Code::HttpFailed, Retry::Maybe), "{error}");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let place = format!("127.0.0.1:{port}");
    let client = client_with(EgressPolicy::with_allow_list([&place]).expect("a place"), HttpLimits::default());
    let error = get_url(&client, &format!("http://{place}/secret-path")).await.expect_err("nobody listens");
    assert_eq!(error, StepFailure::new_retryable(Code::HttpFailed, format!("connection refused by {place}")));
}

/// R-24, N-10: a server that accepts and then stays silent, before or within its body.
#[tokio::test]
async fn silence_ends_a_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let place = listener.local_addr().expect("an address").to_string();
    let policy = EgressPolicy::with_allow_list([&place]).expect("a place");
    let limits = HttpLimits { total: Duration::from_millis(50), ..HttpLimits::default() };
    let error = get_url(&client_with(policy.clone(), limits), &format!("http://{place}/")).await.expect_err("silent");
    assert_eq!(error.message, format!("no complete response from http://{place} within 50 ms"));

    let serve = async {
        let mut kept = Vec::new();
        // The connection of the first half may still be queued.
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab").await;
            kept.push(stream);
        }
    };
    let limits = HttpLimits { idle: Duration::from_millis(50), ..HttpLimits::default() };
    let client = client_with(policy, limits);
    let url = format!("http://{place}/");
    let error = tokio::select! {
        _ = serve => unreachable!("the server goes on"),
        result = get_url(&client, &url) => result.expect_err("silent"),
    };
    assert!(error.message.ends_with("sent nothing for 50 ms"), "{error}");
    assert_eq!(error.retry, Retry::Maybe);
}

#[tokio::test]
async fn error_statuses_are_replies() {
    for status in [304, 400, 404, 500, 503] {
        let server = TestServer::start_fixed(http_reply(&format!("{status} x"), &[], "")).await;
        assert_eq!(get_url(&client_for(&[&server]), &server.url_of("/")).await.expect("a reply").status, status);
    }
}
