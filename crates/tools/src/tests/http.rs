//! Sending and reading: redirects, headers, secrets, limits, encodings and failures.

use std::io::Write;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::HttpRequest;
use flowloom_core::error::{Retry, StepError};
use flowloom_runtime::effects::Http;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Server, client, client_of, context, reply, rich};
use crate::egress::EgressPolicy;
use crate::http::{HttpClient, HttpLimits, Received};

/// The value of the tests' secret.
const VALUE: &str = "s3cret/+ \"value";

fn request(method: &str, url: &str, headers: &[(&str, &str)], body: Option<&str>) -> HttpRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), rich(value))).collect();
    HttpRequest { method: method.to_owned(), url: rich(url), headers, body: body.map(rich) }
}

async fn get(client: &HttpClient, url: &str) -> Result<Received, StepError> {
    client.exchange(&request("GET", url, &[], None), "k").await
}

#[tokio::test]
async fn a_request_arrives_as_written() {
    let server = Server::fixed(reply("201 Created", &[("X-Answer", "1"), ("x-answer", "2")], "{\"ok\":true}")).await;
    let send =
        request("POST", &server.url("/a?b=c"), &[("x-one", "1"), ("content-type", "application/json")], Some("{}"));
    let got = client(&[&server]).send(&send, &context()).await.expect("a reply");
    assert_eq!((got.status, got.body.as_str()), (201, "{\"ok\":true}"));
    assert_eq!(got.headers.iter().filter(|(name, _)| name == "x-answer").count(), 2);
    let seen = &server.seen()[0];
    assert_eq!((seen.line.as_str(), seen.body.as_str()), ("POST /a?b=c HTTP/1.1", "{}"));
    assert_eq!(seen.header("x-one"), Some("1"));
    assert_eq!(seen.header("user-agent"), Some(concat!("flowloom/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(seen.header("idempotency-key"), Some(context().key().as_str()));
}

#[tokio::test]
async fn the_key_goes_with_changes_unless_the_author_gave_one() {
    let server = Server::fixed(reply("200 OK", &[], "")).await;
    let client = client(&[&server]);
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
        client.exchange(&request(method, &server.url("/"), &headers, None), "k").await.expect("a reply");
        let last = server.seen().pop().expect("a request");
        assert_eq!(last.header("idempotency-key"), expected, "{method}");
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
        let server = Server::start(move |seen| match seen.line.contains("/next") {
            true => reply("200 OK", &[], ""),
            false => reply(status, &[("location", "next#part")], ""),
        })
        .await;
        let sent = (before != "GET" && before != "HEAD").then_some("body");
        let send = request(before, &server.url("/first"), &[("authorization", "Bearer x")], sent);
        client(&[&server]).exchange(&send, "k").await.expect("a reply");
        let last = server.seen().pop().expect("two requests");
        assert_eq!((last.line, last.body.as_str()), (format!("{after} /next HTTP/1.1"), body), "{status} {before}");
        let keeps_body = !body.is_empty();
        assert_eq!(last.headers.contains_key("idempotency-key"), keeps_body, "{status} {before}");
        assert_eq!(last.headers.get("authorization").map(String::as_str), Some("Bearer x"));
    }
}

/// N-05: private headers are not sent to another origin.
#[tokio::test]
async fn private_headers_stay_with_their_origin() {
    let other = Server::fixed(reply("200 OK", &[], "")).await;
    let target = other.url("/");
    let first = Server::start(move |_| reply("307 x", &[("location", &target)], "")).await;
    let headers = [
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("x-api-key", "literal"),
        ("x-auth-token", "literal"),
        ("x-custom", "${secret.KEY}"),
        ("x-plain", "stays"),
        ("accept", "text/plain"),
    ];
    let client = client(&[&first, &other]);
    client.exchange(&request("POST", &first.url("/"), &headers, Some("x")), "k").await.expect("a reply");
    let last = other.seen().pop().expect("a request");
    for name in ["authorization", "cookie", "x-api-key", "x-auth-token", "x-custom"] {
        assert_eq!(last.header(name), None, "{name}");
        assert!(first.seen()[0].headers.contains_key(name), "{name}");
    }
    assert_eq!((last.header("x-plain"), last.header("accept")), (Some("stays"), Some("text/plain")));
    assert_eq!(last.header("idempotency-key"), Some("k"));
    let error = client.exchange(&request("POST", &first.url("/"), &[], Some("${secret.KEY}")), "k").await;
    assert!(error.expect_err("a secret would leak").message.contains("secret"));
    assert_eq!(other.seen().len(), 1);
}

#[tokio::test]
async fn secrets_are_written_as_their_place_needs() {
    let server = Server::fixed(reply("200 OK", &[], "")).await;
    let client = client(&[&server]);
    let url = server.url("/p/${secret.KEY}?k=${secret.KEY}");
    let cases = [
        ("application/json", "{\"k\":\"${secret.KEY}\"}", "{\"k\":\"s3cret/+ \\\"value\"}"),
        ("application/vnd.x+json; charset=utf-8", "\"${secret.KEY}\"", "\"s3cret/+ \\\"value\""),
        ("application/x-www-form-urlencoded", "k=${secret.KEY}", "k=s3cret%2F%2B+%22value"),
        ("text/plain", "k=${secret.KEY}", "k=s3cret/+ \"value"),
    ];
    for (kind, body, expected) in cases {
        let headers = [("content-type", kind), ("authorization", "Bearer ${secret.KEY}")];
        client.exchange(&request("POST", &url, &headers, Some(body)), "k").await.expect("a reply");
        let last = server.seen().pop().expect("a request");
        assert_eq!(last.line, "POST /p/s3cret%2F%2B%20%22value?k=s3cret%2F%2B%20%22value HTTP/1.1");
        assert_eq!(last.body, expected, "{kind}");
        assert_eq!(last.header("authorization"), Some(format!("Bearer {VALUE}").as_str()));
    }
}

#[tokio::test]
async fn a_missing_secret_is_named() {
    let client = client_of(EgressPolicy::default(), HttpLimits::default());
    for send in [
        request("GET", "http://127.0.0.1:1/?k=${secret.NO_SUCH}", &[], None),
        request("GET", "http://127.0.0.1:1/", &[("x", "${secret.NO_SUCH}")], None),
        request("POST", "http://127.0.0.1:1/", &[], Some("${secret.NO_SUCH}")),
    ] {
        let error = client.exchange(&send, "k").await.expect_err("no such secret");
        assert_eq!(error.code, Code::SecretUnknown);
        assert!(error.message.contains("FLOWLOOM_SECRET_NO_SUCH"), "{error}");
    }
}

/// No message and no recorded response contains a secret value, in any encoding.
#[tokio::test]
async fn secrets_never_come_back() {
    let echo = Server::start(|seen| {
        let auth = seen.header("authorization").unwrap_or_default();
        reply("200 OK", &[("x-echo", auth)], format!("{} {auth}", seen.line))
    })
    .await;
    let client = client(&[&echo]);
    let headers = [("authorization", "${secret.KEY}")];
    let got = client.exchange(&request("GET", &echo.url("/?k=${secret.KEY}"), &headers, None), "k").await;
    let told = format!("{:?}", got.expect("a reply"));
    assert!(!told.contains("s3cret") && told.contains("${secret.KEY}"), "{told}");
    let failing = [
        request("GET", "http://127.0.0.1:1/${secret.KEY}", &[], None),
        request("GET", "http://${secret.KEY}:1/", &[], None),
        request("GET", "${secret.KEY}", &[], None),
        request("GET", "http://127.0.0.1:1/", &[("authorization", "${secret.INJECT}")], None),
        request("GET", "http://127.0.0.1:99999/${secret.KEY}", &[], None),
    ];
    for send in failing {
        let error = client.exchange(&send, "k").await.expect_err("each fails");
        assert!(!error.message.contains("s3cret") && !error.message.contains("x-evil"), "{error}");
    }
    let redirect = Server::fixed(reply("302 x", &[("location", "ftp://s3cret%2F%2B%20%22value/")], "")).await;
    let client = super::client(&[&redirect]);
    let error = client.exchange(&request("GET", &redirect.url("/?${secret.KEY}"), &[], None), "k").await;
    assert!(!error.expect_err("not http").message.contains("s3cret"));
}

/// H-01, H-02: refused before anything is sent.
#[tokio::test]
async fn what_cannot_be_sent_is_refused() {
    let server = Server::fixed(reply("200 OK", &[], "")).await;
    let client = client(&[&server]);
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
        let error = client.exchange(&request("GET", &server.url("/"), &[row], None), "k").await.expect_err(row.0);
        assert_eq!(error.code, Code::HttpRequestInvalid, "{}", row.0);
    }
    let names: Vec<String> = (0..300).map(|i| format!("x-{i}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert!(client.exchange(&request("GET", &server.url("/"), &many, None), "k").await.is_err());
    for method in ["TRACE", "CONNECT", "get", "", "GET\r\n", "GET /x"] {
        let error = client.exchange(&request(method, &server.url("/"), &[], None), "k").await.expect_err(method);
        assert_eq!(error.code, Code::HttpRequestInvalid, "{method:?}");
    }
    assert!(server.seen().is_empty());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn small() -> HttpLimits {
    HttpLimits { reply_bytes: 4 << 20, ..HttpLimits::default() }
}

/// N-10: decompression bombs and endless responses.
#[tokio::test]
async fn replies_are_capped() {
    let zipped = [("content-encoding", "gzip")];
    let pseudo: Vec<u8> = (0u32..700_000).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut twice = reply("200 OK", &[("content-encoding", "gzip, gzip")], gzip(&gzip(b"x")));
    twice.truncate(10_000);
    let many: Vec<(String, &str)> = (0..300).map(|i| (format!("x-{i}"), "v")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let wide = "v".repeat(70_000);
    let huge = "v".repeat(1 << 20);
    let cases = [
        ("plain over the cap", reply("200 OK", &[], vec![b'x'; (4 << 20) + 1]), Code::ReplyTooLarge),
        ("bomb", reply("200 OK", &zipped, gzip(&vec![0; 4 << 20])), Code::ReplyTooLarge),
        ("bomb over the cap", reply("200 OK", &zipped, gzip(&vec![0; 16 << 20])), Code::ReplyTooLarge),
        ("nested", twice, Code::HttpFailed),
        ("brotli", reply("200 OK", &[("content-encoding", "br")], "x"), Code::HttpFailed),
        ("a lie", reply("200 OK", &zipped, "not gzip at all"), Code::HttpFailed),
        ("many headers", reply("200 OK", &many, ""), Code::ReplyTooLarge),
        ("wide headers", reply("200 OK", &[("x-wide", &wide)], ""), Code::ReplyTooLarge),
        ("huge header", reply("200 OK", &[("x-huge", &huge)], ""), Code::ReplyTooLarge),
    ];
    for (name, answer, code) in cases {
        let server = Server::fixed(answer).await;
        let client = client_of(EgressPolicy::allowing([server.place()]).expect("a place"), small());
        let error = get(&client, &server.url("/")).await.expect_err(name);
        assert_eq!(error.code, code, "{name}: {error}");
    }
    let fine = Server::fixed(reply("200 OK", &zipped, gzip(&pseudo))).await;
    let client = client_of(EgressPolicy::allowing([fine.place()]).expect("a place"), small());
    assert!(get(&client, &fine.url("/")).await.is_ok());
}

#[tokio::test]
async fn compressed_and_chunked_replies_are_read() {
    let zipped = Server::fixed(reply("200 OK", &[("content-encoding", "gzip")], gzip(b"hello"))).await;
    assert_eq!(get(&client(&[&zipped]), &zipped.url("/")).await.expect("a reply").text, "hello");
    assert_eq!(zipped.seen()[0].header("accept-encoding"), Some("gzip"));
    let empty = Server::fixed(reply("200 OK", &[("content-encoding", "gzip")], "")).await;
    assert_eq!(get(&client(&[&empty]), &empty.url("/")).await.expect("a reply").text, "");
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = Server::fixed(format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await;
    assert_eq!(get(&client(&[&chunked]), &chunked.url("/")).await.expect("a reply").text, "abcde");
    let broken = Server::fixed(format!("{head}3\r\nabc\r\n2\r\nd")).await;
    let error = get(&client(&[&broken]), &broken.url("/")).await.expect_err("cut off");
    assert_eq!((error.code, error.retry), (Code::HttpFailed, Retry::Maybe));
    assert!(error.message.contains("was cut off"), "{error}");
}

#[tokio::test]
async fn bodies_become_text_by_their_encoding() {
    let cases: [(&str, &[u8], &str); 9] = [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ("text/plain; charset=\"windows-1251\"", b"\xcf\xf0", "Пр"),
        ("text/plain; charset=shift_jis", b"\x93\xfa", "日"),
        ("text/plain", "é".as_bytes(), "é"),
        ("text/plain", b"\xe9!", "\u{fffd}!"),
        ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ("text/html", b"<meta charset='latin1'>caf\xe9", "<meta charset='latin1'>café"),
        (
            "text/html",
            b"<META http-equiv=Content-Type content=\"text/html; charset=latin1\">\xe9",
            "<META http-equiv=Content-Type content=\"text/html; charset=latin1\">é",
        ),
    ];
    for (kind, bytes, expected) in cases {
        let server = Server::fixed(reply("200 OK", &[("content-type", kind)], bytes)).await;
        assert_eq!(get(&client(&[&server]), &server.url("/")).await.expect(kind).text, expected, "{kind}");
    }
}

#[tokio::test]
async fn failures_are_said_in_words_and_may_pass() {
    let closed = Server::fixed("").await;
    let error = get(&client(&[&closed]), &closed.url("/")).await.expect_err("no reply");
    assert_eq!((error.code, error.retry), (Code::HttpFailed, Retry::Maybe), "{error}");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let place = format!("127.0.0.1:{port}");
    let client = client_of(EgressPolicy::allowing([&place]).expect("a place"), HttpLimits::default());
    let error = get(&client, &format!("http://{place}/secret-path")).await.expect_err("nobody listens");
    assert_eq!(error, StepError::passing(Code::HttpFailed, format!("connection refused by {place}")));
}

/// R-24, N-10: a server that accepts and then stays silent, before or within its body.
#[tokio::test]
async fn silence_ends_a_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let place = listener.local_addr().expect("an address").to_string();
    let policy = EgressPolicy::allowing([&place]).expect("a place");
    let limits = HttpLimits { total: Duration::from_millis(50), ..HttpLimits::default() };
    let error = get(&client_of(policy.clone(), limits), &format!("http://{place}/")).await.expect_err("silent");
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
    let client = client_of(policy, limits);
    let url = format!("http://{place}/");
    let error = tokio::select! {
        _ = serve => unreachable!("the server goes on"),
        result = get(&client, &url) => result.expect_err("silent"),
    };
    assert!(error.message.ends_with("sent nothing for 50 ms"), "{error}");
    assert_eq!(error.retry, Retry::Maybe);
}

#[tokio::test]
async fn error_statuses_are_replies() {
    for status in [304, 400, 404, 500, 503] {
        let server = Server::fixed(reply(&format!("{status} x"), &[], "")).await;
        assert_eq!(get(&client(&[&server]), &server.url("/")).await.expect("a reply").status, status);
    }
}
