//! Features that every route of the server shares: content encodings, the public address, and the beginning of event
//! streams.

mod support;

use std::io::Read as _;

use serde_json::json;
use support::Workspace;
use support::http::RunningServer;

/// The whole response as bytes, split into its head in lower case and its body.
fn send_raw(server: &RunningServer, path: &str, headers: &[&str]) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    server.send("GET", path, headers, "").read_to_end(&mut bytes).expect("readable");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let body = bytes.split_off(end + 4);
    (String::from_utf8(bytes).expect("text").to_lowercase(), body)
}

#[test]
fn the_description_is_sent_once() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let (head, _) = send_raw(&server, "/openapi.json", &[]);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").trim().to_owned();
    let (head, body) = send_raw(&server, "/openapi.json", &[&format!("If-None-Match: {tag}")]);
    assert!(head.contains(" 304 ") && body.is_empty(), "{head}");
    assert!(send_raw(&server, "/openapi.json", &["If-None-Match: \"other\""]).0.contains(" 200 "));
}

#[test]
fn large_responses_are_compressed_if_the_client_accepts_that() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let (head, plain) = send_raw(&server, "/openapi.json", &[]);
    assert!(!head.contains("content-encoding"), "{head}");
    let (head, packed) = send_raw(&server, "/openapi.json", &["Accept-Encoding: gzip"]);
    assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("gzip");
    assert!(unpacked == plain && packed.len() * 5 < plain.len());
    assert!(send_raw(&server, "/openapi.json", &["Accept-Encoding: br"]).0.contains("content-encoding: br"));
    // Events must arrive immediately, and small responses gain nothing.
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "x".repeat(5000)})).json();
    let events = format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"));
    for path in [events.as_str(), "/health", "/api/v1/nowhere"] {
        let (head, _) = send_raw(&server, path, &["Accept-Encoding: gzip, br"]);
        assert!(!head.contains("content-encoding"), "{path}: {head}");
    }
}

#[test]
fn bodies_are_plain_objects() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "hello"}).to_string();
    let send = |headers: &[&str], body: &str| {
        let all = [&["Content-Type: application/json"], headers].concat();
        let reply = server.send_and_read("POST", "/api/v1/runs?wait=60", &all, body);
        (reply.status, if reply.status < 400 { String::new() } else { reply.error_code() })
    };
    for encoding in ["gzip", "br", "deflate, gzip"] {
        assert_eq!(send(&[&format!("Content-Encoding: {encoding}")], &body), (415, "FL1505".to_owned()), "{encoding}");
    }
    assert_eq!(send(&["Content-Encoding: identity"], &body).0, 200);
    assert_eq!(send(&[], r#"["hello", "positional"]"#), (400, "FL1505".to_owned()), "fields have names");
}

#[test]
fn parameters_and_headers_that_mean_nothing_are_refused() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "hello"}).to_string();
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"})).json();
    let events = format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"));
    let json_type = "Content-Type: application/json";
    let seconds = "wait: must be a number of seconds of at least 0";
    let cases: &[(&str, &str, &[&str], u16, &str)] = &[
        ("POST", "/api/v1/runs?wait=-1", &[json_type], 400, seconds),
        ("POST", "/api/v1/runs?wait=NaN", &[json_type], 400, seconds),
        ("POST", "/api/v1/runs?wait=inf", &[json_type], 400, seconds),
        ("POST", "/api/v1/runs?wait=1.5", &[json_type], 200, ""),
        ("POST", "/api/v1/runs?wait=99999999999999999999", &[json_type], 200, ""),
        ("GET", "/api/v1/caller?user=ann", &[], 400, "unknown field `user`"),
        ("GET", "/api/v1/caller?", &[], 200, ""),
        ("GET", "/api/v1/models?a", &[], 400, "unknown field `a`"),
        ("GET", "/api/v1/hooks?limit=1", &[], 400, "unknown field `limit`"),
        ("GET", "/api/v1/schedules?users=ann", &[], 400, "unknown field `users`"),
        ("GET", "/api/v1/notifications?users=ann", &[], 200, ""),
        ("GET", "/api/workflows?users=ann", &[], 200, ""),
        ("GET", "/v1/models?api-version=1", &[], 200, ""),
        ("GET", &events, &["Last-Event-ID: 99999999999999999999"], 400, "Last-Event-ID"),
        ("GET", &events, &["Last-Event-ID: two"], 400, "Last-Event-ID"),
        ("GET", &events, &["Last-Event-ID:"], 200, "run_created"),
        ("GET", &events, &["Last-Event-ID: 18446744073709551615"], 200, "event: done"),
    ];
    for (method, path, headers, status, text) in cases {
        let sent = if *method == "POST" { body.as_str() } else { "" };
        let answer = server.send_and_read(method, path, headers, sent);
        assert!(answer.status == *status && answer.body.contains(text), "{method} {path} {headers:?}: {answer:?}");
    }
}

#[test]
fn the_first_event_of_a_stream_has_the_reconnect_delay() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"})).json();
    let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"));
    let lines: Vec<String> = server.stream(&path, &[]).collect();
    let first: Vec<&String> = lines.iter().take_while(|line| !line.is_empty()).collect();
    assert!(first.iter().any(|line| line.starts_with("retry: ")), "{lines:?}");
    assert!(first.iter().any(|line| line.starts_with("data: ")), "an event without data confuses clients: {lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("retry: ")).count(), 1, "{lines:?}");
}

#[test]
fn behind_a_proxy_the_addresses_have_its_prefix() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &["--public-url", "https://flows.example/apps/flows/"]);
    let body = json!({"workflow": "hello"}).to_string();
    assert!(server.read_log().contains("http://127.0.0.1:"), "the address that it listens on: {}", server.read_log());
    let headers = ["Content-Type: application/json", "Host: flows.example", "Origin: https://flows.example"];
    let run = server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, &body);
    assert_eq!(run.status, 200, "the host and the origin of the public address are the server's own: {run:?}");
    assert!(run.head.contains("location: /apps/flows/api/v1/runs/"), "{run:?}");
    // The same name without encryption, or at another port, is another site. Some proxies leave out the port.
    for (host, origin, status) in [
        ("flows.example", "http://flows.example", 403),
        ("flows.example", "https://flows.example:8443", 403),
        ("FLOWS.example", "https://flows.example", 200),
        (server.address.as_str(), "http://flows.example", 403),
    ] {
        let headers = [headers[0], &format!("Host: {host}"), &format!("Origin: {origin}")];
        let answer = server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, &body);
        assert_eq!(answer.status, status, "{host} from {origin}: {answer:?}");
    }
    let own = [headers[0], &format!("Origin: http://{}", server.address)];
    assert_eq!(server.send_and_read("POST", "/api/v1/runs?wait=60", &own, &body).status, 200);
    let greeting = server.read_log();
    assert!(greeting.contains("'https://flows.example/apps/flows/api/v1/runs?wait=60'"), "{greeting}");
    assert_eq!(server.get("/api/v1/nowhere").json()["type"], "/apps/flows/errors/FL1507");
    assert_eq!(server.get("/openapi.json").json()["servers"], json!([{"url": "https://flows.example/apps/flows"}]));
    let page = server.get("/docs").body;
    let links: Vec<&str> =
        page.split(['"', '\'']).filter(|part| part.contains("docs.") || part.contains("openapi")).collect();
    assert!(!links.is_empty() && links.iter().all(|link| !link.starts_with('/')), "{links:?}");
    let plain = Workspace::with_hello("[server]\npublic_url = \"flows.example\"\n");
    let refused = plain.run(&["serve", ".", "--bind", "127.0.0.1:0"]);
    assert!(support::stderr_text(&refused).contains("FL1401"), "{}", support::stderr_text(&refused));
}

#[test]
fn pages_of_listed_origins_may_use_the_sdks_of_openai() {
    let place = Workspace::with_hello("[server]\ncors = [\"https://app.example\"]\n");
    let server = RunningServer::start(&place, &[]);
    let asked = "authorization, content-type, x-stainless-lang, x-stainless-retry-count, x-flowloom-thread, if-match";
    let headers = [
        "Origin: https://app.example",
        "Access-Control-Request-Method: POST",
        &format!("Access-Control-Request-Headers: {asked}"),
    ];
    let preflight = server.send_and_read("OPTIONS", "/v1/chat/completions", &headers, "");
    let allowed = preflight.head.lines().find(|line| line.starts_with("access-control-allow-headers:"));
    let allowed = allowed.unwrap_or_else(|| panic!("{preflight:?}"));
    assert!(asked.split(", ").all(|name| allowed.contains(name)), "{allowed}");
    let read = server.send_and_read("GET", "/v1/models", &["Origin: https://app.example"], "");
    assert!(read.head.contains("x-flowloom-run-id") && read.head.contains("etag"), "{read:?}");
}
