//! The header `Idempotency-Key`: calls with the same key are one call.

mod support;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use support::Workspace;
use support::http::RunningServer;
use support::openai::{
    CHAT_PATH, JSON_CONTENT_TYPE, chat_request, check_error, step_json, steps_json, write_weather_graph,
};

#[test]
fn different_keys_are_different_calls_whatever_their_bytes() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let call = |key: &[u8]| {
        let body = chat_request("hello", "hi").to_string();
        let head = format!(
            "POST {CHAT_PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nIdempotency-Key: ",
            body.len()
        );
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        stream.write_all(&[head.as_bytes(), key, b"\r\n\r\n", body.as_bytes()].concat()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let id = answer.split_once("x-flowloom-run-id: ").and_then(|(_, rest)| rest.lines().next().map(str::to_owned));
        id.unwrap_or(answer)
    };
    let runs: Vec<_> = [&b"k"[..], b"\xc3\xa9", b"\xe9", b"\xff\xfe"].map(call).into();
    assert_eq!(runs, [&b"k"[..], b"\xc3\xa9", b"\xe9", b"\xff\xfe"].map(call), "the same key is the same call");
    assert_eq!(runs.iter().collect::<HashSet<_>>().len(), 4, "{runs:?}");
    assert!(call(b"").starts_with("HTTP/1.1 400"), "an empty key is none");
}

#[test]
fn a_repeated_stream_continues_after_the_last_event() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "hello"}).to_string();
    let numbers = |headers: &[&str]| -> Vec<u64> {
        let all = [&[JSON_CONTENT_TYPE, "Accept: text/event-stream"], headers].concat();
        let answer = server.send_and_read("POST", "/api/v1/runs", &all, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    };
    let key = "Idempotency-Key: k";
    let first = numbers(&[key]);
    assert!(first.len() > 2 && first[0] == 1, "{first:?}");
    assert_eq!(numbers(&[key, "Last-Event-ID: 2"]), first[2..]);
    assert_eq!(numbers(&[key]), first);
    let other = numbers(&["Last-Event-ID: 2"]);
    assert_eq!(other[0], 1, "without a key it is a new run, of which the client has no event");
}

#[test]
fn calls_with_one_key_that_come_together_are_one_run() {
    let place = Workspace::new("");
    write_weather_graph(&place);
    place.write("hello.json", &steps_json("hello", json!([step_json("s", "{{input}}")])));
    let config = "default_model = \"scripted:echo\"\n";
    place.write("flowloom.toml", config);
    let server = RunningServer::start(&place, &[]);
    for round in 0..20 {
        let (key, thread) = (format!("Idempotency-Key: k{round}"), format!("/api/v1/threads/talk/t{round}"));
        for (path, body) in [
            ("/api/v1/runs?wait=10", json!({"workflow": "hello", "inputs": "x"})),
            (thread.as_str(), json!({"message": "thanks"})),
        ] {
            let key = if path == thread { format!("{key}-turn") } else { key.clone() };
            let send = || server.send_and_read("POST", path, &[JSON_CONTENT_TYPE, &key], &body.to_string());
            let answers: Vec<_> = std::thread::scope(|scope| {
                let calls: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
                calls.into_iter().map(|call| call.join().expect("an answer")).collect()
            });
            let runs: HashSet<_> = answers.iter().map(|answer| answer.json()["run_id"].to_string()).collect();
            assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 202)) && runs.len() == 1, "{answers:?}");
        }
    }
}

#[test]
fn the_same_key_is_the_same_answer() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let call = |path: &str, text: &str| {
        let body =
            if path == CHAT_PATH { chat_request("hello", text) } else { json!({"model": "hello", "input": text}) };
        server.send_and_read("POST", path, &[JSON_CONTENT_TYPE, "Idempotency-Key: k1"], &body.to_string())
    };
    let first = call(CHAT_PATH, "hi").json();
    assert_eq!(call(CHAT_PATH, "hi").json(), first);
    check_error(&call(CHAT_PATH, "ho"), 409, "invalid_request_error");
    check_error(&call("/v1/responses", "hi"), 409, "invalid_request_error");
}

/// The server dies just before or after it stores an answer. The repeated call answers the question once, and no later one.
#[test]
fn an_answer_repeated_after_a_crash_counts_once() {
    for failpoint in ["command_store_before", "command_store_after"] {
        let place = Workspace::new("default_model = \"scripted:echo\"\n");
        let ask = |name: &str| {
            json!({"name": name, "functionId": "human::ask", "mode": "sequential", "errorMode": "fail",
                "promptTemplate": "{{input}}?", "outputVar": name})
        };
        let last = step_json("both", "first={{first}} second={{second}}");
        place.write("ask.json", &steps_json("ask", json!([ask("first"), ask("second"), last])));
        let send = |server: &RunningServer, text: &str, key: &str| {
            let mut body = chat_request("ask", text);
            body["metadata"] = json!({"thread": "t"});
            let key = format!("Idempotency-Key: {key}");
            server.send("POST", CHAT_PATH, &[JSON_CONTENT_TYPE, &key], &body.to_string())
        };
        let read = |mut reply: TcpStream| {
            let mut answer = String::new();
            reply.read_to_string(&mut answer).expect("an answer");
            answer
        };
        let mut server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_FAILPOINT", failpoint)]);
        assert!(read(send(&server, "hi", "k0")).contains("waits for your next message"));
        let _reply = send(&server, "one", "k1");
        server.child.wait().expect("it ended");

        let server = RunningServer::start(&place, &[]);
        for _ in 0..2 {
            let answer = read(send(&server, "one", "k1"));
            assert!(answer.contains("waits for your next message"), "{failpoint}: {answer}");
        }
        let answer = read(send(&server, "two", "k2"));
        assert!(answer.contains("first=one second=two"), "{failpoint}: {answer}");
    }
}
