//! MCP calls at protocol level: authorisation, sessions and runs per user, and runs whose callers disconnect.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, two_calls_flow};

const JSON_CONTENT_TYPE: &str = "Content-Type: application/json";
const ACCEPT_BOTH: &str = "Accept: application/json, text/event-stream";

/// The `_meta` of every request in the stateless protocol.
fn request_meta(more: Value) -> Value {
    let mut meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    meta.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    meta
}

fn elicitation_capability() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}})
}

fn build_request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Sends a request of the stateless protocol with additional headers.
fn send_request(server: &RunningServer, headers: &[&str], method: &str, mut params: Value) -> HttpAnswer {
    if params.get("_meta").is_none() {
        params["_meta"] = request_meta(json!({}));
    }
    let (called, name) =
        (format!("Mcp-Method: {method}"), format!("Mcp-Name: {}", params["name"].as_str().unwrap_or("")));
    let mut all = vec![JSON_CONTENT_TYPE, ACCEPT_BOTH, "MCP-Protocol-Version: 2026-07-28", &called];
    if params.get("name").is_some() {
        all.push(&name);
    }
    all.extend(headers);
    server.send_and_read("POST", "/mcp", &all, &build_request(method, params).to_string())
}

/// The result of a tool call.
fn call_tool(server: &RunningServer, headers: &[&str], params: Value) -> Value {
    send_request(server, headers, "tools/call", params).json()
}

/// Opens a session. Returns the header that names it.
fn open_session(server: &RunningServer, headers: &[&str]) -> String {
    let hands =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let headers = [&[JSON_CONTENT_TYPE, ACCEPT_BOTH], headers].concat();
    let started = server.send_and_read("POST", "/mcp", &headers, &build_request("initialize", hands).to_string());
    let session = started.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    format!("Mcp-Session-Id: {}", session.unwrap_or_else(|| panic!("{started:?}")))
}

fn create_key(place: &Workspace, arguments: &[&str]) -> String {
    let made = place.run(&[&["keys", "create", "--name", "k"], arguments].concat());
    format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
}

/// A workspace whose flow `two_calls` sends two requests to a server that does not answer them.
fn create_slow_workspace() -> (TestServer, Workspace) {
    let slow = TestServer::start();
    let place = Workspace::with_hello(&slow.egress_config());
    place.write("flow.json", &two_calls_flow(&slow, "GET", "/slow"));
    (slow, place)
}

/// Waits until the newest run ends, and checks that it was cancelled.
fn assert_run_is_cancelled(server: &RunningServer) {
    let runs = server.get("/api/v1/runs").json();
    let run = runs["items"][0]["run_id"].as_str().unwrap_or_else(|| panic!("{runs}"));
    let last =
        server.stream(&format!("/api/v1/runs/{run}/events"), &[]).filter(|line| line.starts_with("data:")).last();
    assert!(last.as_deref().is_some_and(|last| last.contains("\"status\":\"cancelled\"")), "{last:?}");
}

fn create_asking_workspace() -> Workspace {
    let place = Workspace::with_hello("");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place
}

/// A graph with one agent.
fn talking_graph() -> Value {
    let workflow = json!({"id": "talk", "name": "talk", "description": "d", "isConversational": true, "entrypointNodeId": "a",
        "nodes": [{"id": "a", "nodeName": "a", "nodeType": "AGENT", "agentId": "a"}],
        "edges": [{"sourceNodeId": "a", "targetNodeId": null, "conditionType": "ALWAYS"}]});
    json!({"workflow": workflow, "agents": [{"id": "a", "tools": []}]})
}

#[test]
fn listing_needs_read_and_calling_needs_run() {
    let place = Workspace::with_hello("");
    let (read, run) = (create_key(&place, &["--scopes", "read"]), create_key(&place, &["--scopes", "run"]));
    let server = RunningServer::start(&place, &[]);
    let hello = json!({"name": "hello", "arguments": {"input": "hi"}});
    assert_eq!(send_request(&server, &[&read], "tools/list", json!({})).json()["result"]["tools"][0]["name"], "hello");
    assert_eq!(
        call_tool(&server, &[&run], hello.clone())["result"]["structuredContent"],
        json!({"result": "LLM(Say hi)"})
    );
    for refused in [
        send_request(&server, &[&run], "tools/list", json!({})),
        send_request(&server, &[&read], "tools/call", hello.clone()),
    ] {
        assert_eq!(refused.json()["error"]["data"]["code"], "FL1503", "{refused:?}");
    }
    assert_eq!(send_request(&server, &[], "tools/call", hello.clone()).status, 401);
    assert_eq!(send_request(&server, &["Authorization: Bearer fl_none"], "tools/call", hello).status, 401);
}

#[test]
fn pages_of_other_sites_reach_nothing() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    for header in ["Host: evil.example", "Origin: https://evil.example"] {
        assert_eq!(send_request(&server, &[header], "tools/list", json!({})).status, 403, "{header}");
    }
}

#[test]
fn a_version_that_nobody_supports_is_refused_with_those_that_are_supported() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let body = build_request("tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2199-01-01"}}));
    let headers = [JSON_CONTENT_TYPE, ACCEPT_BOTH, "MCP-Protocol-Version: 2199-01-01", "Mcp-Method: tools/list"];
    let refused = server.send_and_read("POST", "/mcp", &headers, &body.to_string());
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32022)), "{refused:?}");
    assert!(
        refused.json()["error"]["data"]["supported"].as_array().is_some_and(|all| all.contains(&json!("2026-07-28")))
    );
    // The header contradicts the body.
    let headers = [JSON_CONTENT_TYPE, ACCEPT_BOTH, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call"];
    let body = build_request("tools/list", json!({"_meta": request_meta(json!({}))}));
    assert_eq!(server.send_and_read("POST", "/mcp", &headers, &body.to_string()).status, 400);
}

#[test]
fn what_is_not_the_protocol_is_refused_with_a_problem_document() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let list = build_request("tools/list", json!({})).to_string();
    let without_session = server.send_and_read("POST", "/mcp", &[JSON_CONTENT_TYPE, ACCEPT_BOTH], &list);
    let without_accept = server.get("/mcp");
    let unknown = ["Mcp-Session-Id: none", JSON_CONTENT_TYPE, ACCEPT_BOTH];
    let unknown_session = server.send_and_read("POST", "/mcp", &unknown, &list);
    for refused in [without_session, without_accept, unknown_session] {
        let document = refused.json();
        assert!(refused.status >= 400 && document["status"] == refused.status, "{refused:?}");
        assert!(document["code"].is_string() && document["detail"].is_string(), "{refused:?}");
    }
}

#[test]
fn the_same_idempotency_key_starts_one_run() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let hello = |input: &str| json!({"name": "hello", "arguments": {"input": input}});
    let run = |answer: Value| answer["result"]["_meta"]["flowloom/run"].clone();
    let header = ["Idempotency-Key: one"];
    let first = run(call_tool(&server, &header, hello("hi")));
    assert!(first.is_string());
    assert_eq!(run(call_tool(&server, &header, hello("hi"))), first);
    let other = call_tool(&server, &header, hello("you"));
    assert_eq!(other["result"]["structuredContent"]["error"]["code"], "FL1506", "{other}");
}

#[test]
fn a_repeated_call_without_a_thread_is_the_same_turn() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("talk.json", &talking_graph().to_string());
    let server = RunningServer::start(&place, &[]);
    let params = json!({"name": "talk", "arguments": {"message": "hi"}});
    let meta = || call_tool(&server, &["Idempotency-Key: one"], params.clone())["result"]["_meta"].clone();
    let first = meta();
    assert!(first["flowloom/run"].is_string(), "{first}");
    assert_eq!(meta(), first);
    let thread = first["flowloom/thread"].as_str().expect("a thread");
    let kept = server.get(&format!("/api/v1/threads/talk/{thread}")).json();
    assert_eq!(kept["messages"].as_array().map(Vec::len), Some(2), "{kept}");
}

#[test]
fn bodies_that_are_no_messages_have_the_errors_of_json_rpc() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    for (body, id, code) in [
        ("{", json!(null), -32700),
        ("[]", json!(null), -32600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, json!(1), -32600),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "tools/list"}"#, json!(null), -32600),
        (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}"#, json!(null), -32600),
    ] {
        let answer = server.send_and_read("POST", "/mcp", &[JSON_CONTENT_TYPE, ACCEPT_BOTH], body);
        let error = answer.json();
        assert_eq!(
            (answer.status, error.get("id"), &error["error"]["code"]),
            (400, Some(&id), &json!(code)),
            "{answer:?}"
        );
    }
}

#[test]
fn what_was_answered_before_the_user_declined_counts() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let ask = |name: &str| json!({"name": name, "functionId": "human::ask", "promptTemplate": format!("{name}?"), "mode": "fanout", "errorMode": "fail"});
    place.write(
        "ask.json",
        &json!({"id": "ask", "name": "ask", "description": "d", "steps": [ask("one"), ask("two")]}).to_string(),
    );
    let mut command = place.build_command(&["mcp", "."]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut send = |message: Value| writeln!(input, "{message}").expect("written");
    let mut receive = || serde_json::from_str::<Value>(&lines.next().expect("a line")).expect("JSON");
    let hands = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
    send(build_request("initialize", hands));
    receive();
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    send(build_request("tools/call", json!({"name": "ask", "arguments": {"input": "x"}})));
    let mut answer_next = |result: Value| {
        let asked = receive();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    };
    answer_next(json!({"action": "accept", "content": {"answer": "tea"}}));
    answer_next(json!({"action": "decline"}));
    let result = receive()["result"].clone();
    assert_eq!(result["structuredContent"]["status"], "waiting", "{result}");
    let run = result["_meta"]["flowloom/run"].as_str().expect("a run").to_owned();
    drop(input);
    child.wait().expect("it ends");
    let shown: Value = serde_json::from_slice(&place.run(&["show", &run, "--json"]).stdout).expect("JSON");
    assert_eq!(shown["result"]["results"][0]["output"], "tea", "{shown}");
}

#[test]
fn a_run_waits_for_an_answer_and_takes_it_from_its_own_tool_and_user_only() {
    let place = create_asking_workspace();
    let (ann, bob) = (create_key(&place, &["--user", "ann"]), create_key(&place, &["--user", "bob"]));
    let server = RunningServer::start(&place, &[]);
    let asked =
        json!({"name": "ask-a-person", "arguments": {"input": "x"}, "_meta": request_meta(elicitation_capability())});
    let waits = call_tool(&server, &[&ann], asked.clone())["result"].clone();
    assert_eq!(waits["resultType"], "input_required", "{waits}");
    let question = &waits["inputRequests"]["/subject"]["params"];
    assert_eq!(question["message"], "What shall the poem be about?");
    let again = |name: &str, action: &str| {
        let answer = json!({"action": action, "content": {"answer": "tea"}});
        json!({"name": name, "arguments": {"input": "x"}, "_meta": request_meta(elicitation_capability()),
            "requestState": waits["requestState"], "inputResponses": {"/subject": answer}})
    };
    let refused = [(&bob, again("ask-a-person", "accept")), (&ann, again("hello", "accept"))];
    for (key, params) in refused {
        let refused = call_tool(&server, &[key], params);
        assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "FL1507", "{refused}");
    }
    // A declined question can still be answered later; the result explains how.
    let declined = call_tool(&server, &[&ann], again("ask-a-person", "decline"))["result"].clone();
    assert_eq!(declined["structuredContent"]["status"], "waiting", "{declined}");
    let answered = call_tool(&server, &[&ann], again("ask-a-person", "accept"))["result"].clone();
    assert_eq!(answered["content"][0]["text"], "LLM(Write a poem of four short lines about tea.)", "{answered}");
    // The question is answered already: the result is the same.
    assert_eq!(call_tool(&server, &[&ann], again("ask-a-person", "accept"))["result"], answered);
}

#[test]
fn a_client_that_cannot_ask_is_reported_what_is_asked() {
    let place = create_asking_workspace();
    let server = RunningServer::start(&place, &[]);
    let waits = call_tool(&server, &[], json!({"name": "ask-a-person", "arguments": {"input": "x"}}))["result"].clone();
    let run = waits["_meta"]["flowloom/run"].as_str().expect("a run");
    let text = waits["content"][0]["text"].as_str().expect("text");
    assert!(
        text.contains("What shall the poem be about?") && text.contains(&format!("flowloom answer {run}")),
        "{text}"
    );
    assert_eq!((&waits["structuredContent"]["status"], &waits["isError"]), (&json!("waiting"), &json!(false)));
    let answered = server.post(&format!("/api/v1/runs/{run}/answer?wait=60"), &json!({"value": "tea"}));
    assert_eq!(answered.json()["status"], "succeeded");
}

#[test]
fn a_session_belongs_to_its_key() {
    let place = Workspace::with_hello("");
    let (ann, bob) = (create_key(&place, &["--user", "ann"]), create_key(&place, &["--user", "bob"]));
    let reading = create_key(&place, &["--user", "ann", "--scopes", "read"]);
    let server = RunningServer::start(&place, &[]);
    let session = open_session(&server, &[&ann]);
    let list = build_request("tools/list", json!({})).to_string();
    let of = |key: &str| server.send_and_read("POST", "/mcp", &[JSON_CONTENT_TYPE, ACCEPT_BOTH, key, &session], &list);
    assert_eq!([of(&bob).status, of(&reading).status], [404, 404]);
    assert!(of(&ann).body.contains("\"name\":\"hello\""));
    assert_eq!(server.send_and_read("DELETE", "/mcp", &[ACCEPT_BOTH, &bob, &session], "").status, 404);
    assert_eq!(server.send_and_read("DELETE", "/mcp", &[ACCEPT_BOTH, &ann, &session], "").status, 204);
    assert_eq!(of(&ann).status, 404);
}

#[test]
fn the_end_of_a_session_cancels_its_runs() {
    let (slow, place) = create_slow_workspace();
    let server = RunningServer::start(&place, &[]);
    let session = open_session(&server, &[]);
    let call = build_request("tools/call", json!({"name": "two_calls", "arguments": {}})).to_string();
    let connection = server.send("POST", "/mcp", &[JSON_CONTENT_TYPE, ACCEPT_BOTH, &session], &call);
    slow.wait_for_requests("/slow", 1);
    assert_eq!(server.send_and_read("DELETE", "/mcp", &[ACCEPT_BOTH, &session], "").status, 204);
    drop(connection);
    assert_run_is_cancelled(&server);
    assert_eq!(slow.request_count("/slow"), 1);
}

#[test]
fn sessions_that_are_opened_together_do_not_exceed_the_limit() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let hands =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = build_request("initialize", hands).to_string();
    let open_sessions = || -> Vec<u16> {
        let open = || server.send_and_read("POST", "/mcp", &[JSON_CONTENT_TYPE, ACCEPT_BOTH], &body).status;
        (0..33).map(|_| open()).collect()
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(open_sessions)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(200), count(429)), (250, 14), "{statuses:?}");
}

#[test]
fn a_conversation_continues_in_its_thread() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("talk.json", &talking_graph().to_string());
    let server = RunningServer::start(&place, &[]);
    let send_text = |thread: Value| {
        let params = json!({"name": "talk", "arguments": {"message": "hi"}, "_meta": request_meta(thread)});
        call_tool(&server, &[], params)["result"].clone()
    };
    let first = send_text(json!({}));
    let thread = first["_meta"]["flowloom/thread"].as_str().unwrap_or_else(|| panic!("{first}"));
    let second = send_text(json!({"flowloom/thread": thread}));
    assert_eq!(second["_meta"]["flowloom/thread"], thread);
    let kept = server.get(&format!("/api/v1/threads/talk/{thread}")).json();
    assert_eq!(kept["messages"].as_array().map(Vec::len), Some(4), "{kept}");
    // A call without a thread starts a new one.
    assert_ne!(send_text(json!({}))["_meta"]["flowloom/thread"], thread);
    assert_eq!(send_text(json!({"flowloom/thread": "no such/name"}))["_meta"], Value::Null);
}

#[test]
fn only_active_flows_are_tools_and_two_of_one_name_are_distinguished() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let flow = |active: bool, text: &str| {
        json!({"name": "Say it", "description": "d", "active": active, "steps": [
            {"type": "llmInstruction", "config": {"instruction": text, "resultVariable": "r"}}]})
        .to_string()
    };
    place.write("a.json", &flow(true, "one"));
    place.write("b.json", &flow(true, "two"));
    place.write("c.json", &flow(false, "three"));
    place.write("broken.json", r#"{"name": "broken", "steps": [{"type": "apiCall", "config": {}}]}"#);
    let server = RunningServer::start(&place, &[]);
    let listed = send_request(&server, &[], "tools/list", json!({})).json();
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(
        names.len() == 2 && names[0] != names[1] && names.iter().all(|name| name.starts_with("say_it_")),
        "{names:?}"
    );
    for (name, printed) in names.iter().zip(["LLM(one)", "LLM(two)"]) {
        let called = call_tool(&server, &[], json!({"name": name, "arguments": {}}));
        assert_eq!(called["result"]["content"][0]["text"], printed);
    }
}

#[test]
fn a_client_that_hangs_up_cancels_its_run() {
    let (slow, place) = create_slow_workspace();
    let server = RunningServer::start(&place, &[]);
    let params = json!({"name": "two_calls", "arguments": {}, "_meta": request_meta(json!({}))});
    let headers = [
        JSON_CONTENT_TYPE,
        ACCEPT_BOTH,
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: two_calls",
    ];
    let connection = server.send("POST", "/mcp", &headers, &build_request("tools/call", params).to_string());
    slow.wait_for_requests("/slow", 1);
    drop(connection);
    assert_run_is_cancelled(&server);
}

#[test]
fn on_stdio_runs_end_with_their_client_next_to_a_server_of_the_same_data() {
    let (slow, place) = create_slow_workspace();
    let server = RunningServer::start(&place, &[]);
    let mut command = place.build_command(&["mcp", "."]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (mut says, mut received) =
        (child.stdin.take().expect("a pipe"), BufReader::new(child.stdout.take().expect("a pipe")));
    let mut call = |name: &str| {
        let params = json!({"name": name, "arguments": {}, "_meta": request_meta(json!({}))});
        writeln!(says, "{}", build_request("tools/call", params)).expect("written");
    };
    call("nothing");
    let mut line = String::new();
    received.read_line(&mut line).expect("readable");
    assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON")["error"]["code"], -32602);
    call("two_calls");
    slow.wait_for_requests("/slow", 1);
    support::send_signal(&child, "-TERM");
    assert!(child.wait().expect("it ends").success());
    let runs = server.get("/api/v1/runs").json();
    assert_eq!(runs["items"][0]["status"], "cancelled", "{runs}");
}

/// An invalid line is answered, and the conversation continues.
#[test]
fn on_stdio_lines_that_are_no_messages_have_the_errors_of_json_rpc() {
    let place = Workspace::with_hello("");
    let mut command = place.build_command(&["mcp", "."]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let without_id = json!({"jsonrpc": "2.0", "id": null, "method": "tools/list"}).to_string();
    let lines = ["{bad".to_owned(), "[]".to_owned(), without_id, build_request("initialize", hello).to_string()];
    input.write_all(lines.join("\n").as_bytes()).expect("sent");
    input.write_all(b"\n").expect("sent");
    let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines().take(4);
    let answers: Vec<Value> = answers.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    let mut codes: Vec<_> = answers.iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [-32700, -32600, -32600], "{answers:?}");
    let errors = answers.iter().filter(|answer| answer.get("error").is_some());
    assert!(errors.map(|error| error.get("id")).all(|id| id == Some(&Value::Null)), "{answers:?}");
    assert!(answers.iter().any(|answer| answer["result"]["serverInfo"]["name"] == "flowloom"), "{answers:?}");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}
