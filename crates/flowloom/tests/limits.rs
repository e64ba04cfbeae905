//! Limits of the server: rate, sizes, time-outs, and permitted origins.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use support::Workspace;
use support::http::RunningServer;

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

fn start_with_settings(settings: &str) -> (Workspace, RunningServer) {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[server]\n{settings}\n"));
    let server = RunningServer::start(&place, &[]);
    (place, server)
}

/// Sends raw bytes and returns everything the server sends until it closes the connection.
fn send_raw(server: &RunningServer, bytes: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    stream.write_all(bytes.as_bytes()).expect("sent");
    let mut answer = String::new();
    // A reset connection counts as closed.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn who_sends_too_slowly_is_dropped() {
    let (_place, server) = start_with_settings("head_timeout_ms = 200\nbody_timeout_ms = 200");
    assert_eq!(send_raw(&server, "GET /health/live HTTP/1.1\r\nHost: localhost\r\n"), "");
    for path in ["/api/v1/runs", "/mcp"] {
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100";
        let answer = send_raw(&server, &format!("POST {path} {head}\r\n\r\n{{"));
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("FL1505"), "{answer}");
    }
    assert_eq!(server.get("/health/live").body, "ok");
}

#[test]
fn what_is_too_large_is_refused() {
    let (_place, server) = start_with_settings("");
    let head = format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(100_000));
    assert!(send_raw(&server, &head).starts_with("HTTP/1.1 431"));
    let start = "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let declared = send_raw(&server, &format!("{start}Content-Length: 16777217\r\nConnection: close\r\n\r\n"));
    assert!(declared.starts_with("HTTP/1.1 413") && declared.contains("FL1505"), "{declared}");
    // A client that sends everything before it reads gets the answer, too.
    let whole = " ".repeat(20 << 20);
    let sent =
        send_raw(&server, &format!("{start}Content-Length: {}\r\nConnection: close\r\n\r\n{whole}", whole.len()));
    assert!(sent.starts_with("HTTP/1.1 413"), "{sent}");
    // Chunked, without a declared length: the last chunk exceeds the limit.
    let piece = |size: usize| format!("{size:x}\r\n{}\r\n", " ".repeat(size));
    let pieces =
        send_raw(&server, &format!("{start}Transfer-Encoding: chunked\r\n\r\n{}{}", piece(16 << 20), piece(1)));
    assert!(pieces.starts_with("HTTP/1.1 413") && pieces.contains("FL1505"), "{pieces}");
}

#[test]
fn a_body_has_a_bounded_number_of_values() {
    let (_place, server) = start_with_settings("");
    let inputs = |count: usize| format!(r#"{{"workflow": "nobody", "inputs": [{}0]}}"#, r#"{"":0},"#.repeat(count));
    let routes = ["/api/v1/runs", "/api/workflows", "/api/workflows/run", "/api/agent-flows/nobody/run", "/mcp"];
    for path in routes {
        let refused = server.send_and_read("POST", path, &["Content-Type: application/json"], &inputs(300_000));
        assert_eq!(refused.status, 413, "{path}: {refused:?}");
    }
    let fitting = server.send_and_read("POST", "/api/v1/runs", &["Content-Type: application/json"], &inputs(200_000));
    assert_eq!(fitting.status, 404, "only the workflow is missing: {fitting:?}");
}

#[test]
fn who_opens_all_connections_keeps_nobody_out() {
    let (_place, server) = start_with_settings("connections = 3\nhead_timeout_ms = 600000");
    let mut open: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&server.address).expect("it listens")).collect();
    for stream in &mut open {
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("answered");
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    assert_eq!(server.get("/health/live").body, "ok");
    // The first has been idle for the longest time.
    let mut rest = Vec::new();
    let _ = open[0].read_to_end(&mut rest);
    open[2].write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut rest = String::new();
    open[2].read_to_string(&mut rest).expect("still open");
    assert!(rest.contains("HTTP/1.1 200"), "{rest}");
}

#[test]
fn each_caller_has_a_rate() {
    let (_place, server) = start_with_settings("rate_per_second = 2");
    let statuses: Vec<u16> = (0..20).map(|_| server.get("/api/v1/runs").status).collect();
    assert!(statuses[..4].iter().all(|status| *status == 200) && statuses.contains(&429), "{statuses:?}");
    while server.get("/api/v1/runs").status != 429 {}
    let refused = std::iter::repeat_with(|| server.get("/api/v1/runs")).find(|reply| reply.status == 429);
    let refused = refused.expect("one that is refused");
    assert_eq!(refused.error_code(), "FL1513");
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    // Health checks do not count.
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn pages_call_from_listed_origins_only() {
    let (_place, server) = start_with_settings("cors = [\"https://app.example\"]");
    let asks = |origin: &str| {
        let headers = [&format!("Origin: {origin}"), "Access-Control-Request-Method: POST"];
        server.send_and_read("OPTIONS", "/api/v1/runs", &headers, "")
    };
    let allowed = asks("https://app.example");
    assert_eq!(allowed.status, 204);
    for line in ["access-control-allow-origin: https://app.example", "access-control-allow-methods: ", "vary: origin"] {
        assert!(allowed.head.contains(line), "{allowed:?}");
    }
    assert!(!allowed.head.contains("credentials") && !allowed.head.contains('*'), "{allowed:?}");
    let read = server.send_and_read("GET", "/api/v1/runs", &["Origin: https://app.example"], "");
    assert_eq!(read.status, 200);
    assert!(read.head.contains("access-control-allow-origin: https://app.example"), "{read:?}");
    for other in ["https://app.example.evil.example", "http://app.example", "https://app.example:8443", "null"] {
        let refused = asks(other);
        assert_eq!((refused.status, refused.error_code()), (403, "FL1504".to_owned()), "{other}");
        assert!(!refused.head.contains("access-control-allow"), "{refused:?}");
    }
}

#[test]
fn what_cannot_be_read_is_a_problem() {
    let (_place, server) = start_with_settings("");
    for path in ["/api/v1/runs?limit=many", "/api/v1/runs?odd=1", "/api/v1/runs/%FF", "/api/v1/runs/x/events?from=-1"] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.error_code()), (400, "FL1505".to_owned()), "{path}");
    }
    let reply = server.post("/api/v1/runs?wait=soon", &json!({"workflow": "x"}));
    assert_eq!((reply.status, reply.error_code()), (400, "FL1505".to_owned()));
    let reply = server.send_and_read("DELETE", "/api/v1/runs", &[], "");
    assert_eq!((reply.status, reply.error_code()), (405, "FL1505".to_owned()));
    assert!(reply.head.contains("allow: "), "{reply:?}");
    for line in ["x-content-type-options: nosniff", "cache-control: no-store"] {
        assert!(reply.head.contains(line), "{reply:?}");
    }
}

#[test]
fn a_budget_only_narrows_the_configured_limits() {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[limits]\nsteps = 1\n"));
    let step = |name: &str| json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "x", "errorMode": "fail"});
    let steps = [step("a"), step("b")];
    place.write("two.json", &json!({"id": "two", "name": "two", "steps": steps}).to_string());
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "two", "inputs": "x", "budget": "steps=100"});
    let ended = server.post("/api/v1/runs?wait=60", &body).json();
    assert_eq!(ended["status"], "budget_exceeded", "{ended}");
    let fork = format!("/api/v1/runs/{}/fork?wait=60", ended["run_id"].as_str().expect("an id"));
    let forked = server.post(&fork, &json!({"budget": "steps=100", "at": "/a"})).json();
    assert_eq!(forked["status"], "budget_exceeded", "{forked}");
}
