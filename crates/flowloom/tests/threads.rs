//! Conversations over HTTP: one turn at a time across processes, and no duplicate messages.

mod support;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::{Workspace, exit_code, stderr_text};

/// A graph with one agent.
fn graph_json() -> Value {
    json!({"id": "g", "name": "g", "entrypointNodeId": "n", "edges": [],
        "nodes": [{"id": "n", "workflowId": "g", "nodeType": "AGENT", "nodeName": "Ann", "agentId": "ann"}]})
}

#[test]
fn a_turn_that_another_process_drives_is_waited_for() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("g.json", &graph_json().to_string());
    let server = RunningServer::start(&place, &[]);
    let thread = "/api/v1/threads/g/default";
    let started = server.post(thread, &json!({"message": "hello"}));
    assert_eq!(started.status, 202, "{started:?}");

    let mut chat = place.build_command(&["chat", "g.json"]);
    let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    chat.stdin.take().expect("open").write_all(b"me too\n").expect("read");
    let refused = chat.wait_with_output().expect("it ends");
    assert!(stderr_text(&refused).contains("FL1202"), "{}", stderr_text(&refused));

    model.send_piece("Yes?");
    model.end_answer();
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({}));
    assert_eq!(server.get(thread).json()["messages"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_reply_is_shown_once() {
    let place = Workspace::new("");
    let route = json!({"text": "", "tool_calls": [{"name": "router", "arguments": {"next_node": "human_handoff"}}]});
    let answers = place.write("answers.json", &json!({"default": route}).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    place.write("helpdesk.json", include_str!("../../../examples/graph/helpdesk.json"));
    let server = RunningServer::start(&place, &[]);
    let send_text = |text: &str, key: &str| {
        let (kind, key) = ("Content-Type: application/json", format!("Idempotency-Key: {key}"));
        let body = json!({"message": text}).to_string();
        server.send_and_read("POST", "/api/v1/threads/helpdesk/t?wait=60", &[kind, &key], &body)
    };
    // The model always hands over to a person.
    let asked = send_text("I want to sue you", "a").json();
    assert_eq!(asked["status"], "waiting", "{asked}");
    let replied = send_text("We call back", "b").json();
    assert_eq!((&replied["status"], &replied["run_id"]), (&json!("waiting"), &asked["run_id"]), "{replied}");
    assert_eq!(send_text("We call back", "b").json(), replied);
    assert_eq!(send_text("Another thing", "b").status, 409);
    let printed = server.get("/api/v1/threads/helpdesk/t").json();
    assert_eq!(printed["messages"].as_array().map(Vec::len), Some(2), "{printed}");
}

/// The contents of the stored messages.
fn contents(server: &RunningServer, thread: &str) -> Vec<String> {
    let messages = server.get(thread).json()["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().filter_map(|message| Some(message["content"].as_str()?.to_owned())).collect()
}

#[test]
fn a_message_is_edited_and_the_conversation_continues_from_there() {
    let place = Workspace::new("");
    let answers =
        place.write("answers.json", &json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    place.write("g.json", &graph_json().to_string());
    let server = RunningServer::start(&place, &[]);
    let thread = "/api/v1/threads/g/t";
    let send_text = |body: Value| server.post(&format!("{thread}?wait=60"), &body);
    send_text(json!({"message": "a"}));
    send_text(json!({"message": "b"}));
    let edited = send_text(json!({"message": "c", "keep": 2}));
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(contents(&server, thread)[..3], ["a", "one", "c"].map(str::to_owned));
    let refused = send_text(json!({"message": "d", "keep": 9}));
    assert_eq!((refused.status, refused.json()["code"].clone()), (400, json!("FL1505")), "{refused:?}");

    let listed = server.get("/api/v1/threads").json();
    assert_eq!(listed["items"], json!([{"workflow": "g", "thread": "t", "messages": 4, "title": "a"}]));
    let turns = server.get("/api/v1/runs?workflow=g&thread=t").json();
    assert_eq!(turns["items"].as_array().map(Vec::len), Some(3), "{turns}");
    assert_eq!(turns["items"][0]["thread"], "t");
    assert_eq!(server.get("/api/v1/runs?workflow=g&thread=u").json()["items"], json!([]));
    assert_eq!(server.get("/api/v1/runs?thread=t").status, 400);
}

#[test]
fn a_conversation_that_waits_is_continued_from_an_earlier_message() {
    let place = Workspace::new("");
    let route = json!({"text": "", "tool_calls": [{"name": "router", "arguments": {"next_node": "human_handoff"}}]});
    let answers = place.write("answers.json", &json!({"default": route}).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    place.write("helpdesk.json", include_str!("../../../examples/graph/helpdesk.json"));
    let server = RunningServer::start(&place, &[]);
    let send_text = |body: Value| server.post("/api/v1/threads/helpdesk/t?wait=60", &body).json();
    let asked = send_text(json!({"message": "I want to sue you"}));
    let again = send_text(json!({"message": "I want a refund", "keep": 0}));
    assert_eq!(again["status"], "waiting", "{again}");
    assert_ne!(again["run_id"], asked["run_id"]);
    let first = server.get(&format!("/api/v1/runs/{}", asked["run_id"].as_str().expect("an id"))).json();
    assert_eq!(first["status"], "cancelled", "{first}");
    assert_eq!(contents(&server, "/api/v1/threads/helpdesk/t"), ["I want a refund"]);
}

#[test]
fn images_and_texts_are_part_of_a_message() {
    let place = Workspace::new("");
    let answers =
        place.write("answers.json", &json!([{"text": "A picture."}, {"text": "Yes."}, {"text": "A dog."}]).to_string());
    place.write("flowloom.toml", &format!("default_model = \"scripted:{}\"\n", answers.display()));
    place.write("g.json", &graph_json().to_string());
    let server = RunningServer::start(&place, &[]);
    let thread = "/api/v1/threads/g/default";
    let file = |name: &str, mime: &str, base64: &str| json!({"name": name, "mime": mime, "base64": base64});
    let zip = file("a.zip", "application/zip", "/w==");
    for (file, why) in [
        (zip, "a.zip is application/zip; expected an image or UTF-8 text"),
        (file("a.pdf", "application/pdf", "aGVsbG8="), "a.pdf is application/pdf; expected an image or UTF-8 text"),
        (file("a.txt", "text/plain", "%%%"), "a.txt is not encoded in base64"),
    ] {
        let refused = server.post(thread, &json!({"message": "what?", "files": [file]})).json();
        assert_eq!((&refused["status"], &refused["code"]), (&json!(422), &json!("FL1038")), "{refused}");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{refused}");
    }

    let files = [file("a.png", "image/png", "iVBORw0="), file("b.txt", "application/octet-stream", "aGVsbG8=")];
    let started =
        server.post(&format!("{thread}?wait=60"), &json!({"message": "what is this?", "files": files})).json();
    let sent = find_sent_parts(&server, &started["run_id"]);
    assert_eq!(sent, [json!({"mime": "image/png", "data": "iVBORw0="}), json!("b.txt:\n\nhello")]);
    let stored = server.get(thread).json();
    assert_eq!(stored["messages"][0]["content"], "what is this?\n\nb.txt:\n\nhello");

    // The conversation comes from the store.
    let again = server.post(&format!("{thread}?wait=60"), &json!({"message": "are you sure?"})).json();
    let run = again["run_id"].as_str().expect("an id");
    let steps = server.get(&format!("/api/v1/runs/{run}/steps")).json();
    let request = &steps["steps"][0]["requests"][0]["request"];
    let first = request["messages"].as_array().and_then(|messages| messages.iter().find(|one| one["role"] == "user"));
    assert_eq!(first.map(|first| &first["parts"][1]["name"]), Some(&json!("a.png")), "{request}");

    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let content = json!([{"type": "text", "text": "and this?"}, image]);
    let body = json!({"model": "g", "messages": [{"role": "user", "content": content}]});
    let answered = server.post("/v1/chat/completions", &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let run = &server.get("/api/v1/runs?limit=1").json()["items"][0]["run_id"];
    assert_eq!(find_sent_parts(&server, run), [json!({"mime": "image/png", "data": "AAAA"})]);
    let remote = body.to_string().replace("data:image/png;base64,AAAA", "https://example.test/a.png");
    let refused = server.post("/v1/chat/completions", &remote.parse::<Value>().expect("JSON"));
    assert_eq!(refused.status, 400, "{refused:?}");
}

/// The parts of the last message that a run's model received, after the first.
fn find_sent_parts(server: &RunningServer, run: &Value) -> Vec<Value> {
    let run = run.as_str().expect("an id");
    let steps = server.get(&format!("/api/v1/runs/{run}/steps")).json();
    let request = &steps["steps"][0]["requests"][0]["request"];
    let parts = request["messages"].as_array().and_then(|messages| messages.last()?["parts"].as_array().cloned());
    let part = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].clone(),
        _ => json!({"mime": part["mime"], "data": part["data"]}),
    };
    parts.unwrap_or_else(|| panic!("{steps}")).iter().skip(1).map(part).collect()
}

#[test]
fn a_stream_ends_when_its_key_is_revoked() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("g.json", &graph_json().to_string());
    let made = place.run(&["keys", "create", "--name", "test"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "g", "inputs": {"message": "hello"}}).to_string();
    let started = server.send_and_read("POST", "/api/v1/runs", &[&key, "Content-Type: application/json"], &body);
    let run = started.json()["run_id"].as_str().expect("an id").to_owned();
    let mut events = server.stream(&format!("/api/v1/runs/{run}/events"), &[&key]);
    assert!(events.any(|line| line == "event: step_started"), "the stream is open");

    let id = place.run_json(&["keys", "list"]).1[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(exit_code(&place.run(&["keys", "revoke", &id])), 0);
    let rest: Vec<String> = events.collect();
    assert!(!rest.iter().any(|line| line == "event: done"), "the run continues: {rest:?}");
}

#[test]
fn inputs_that_would_be_ignored_are_refused_before_a_model_is_asked() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("g.json", &graph_json().to_string());
    let server = RunningServer::start(&place, &[]);
    for (path, body) in [
        ("/api/v1/runs?wait=60", json!({"workflow": "g"})),
        ("/api/v1/runs?wait=60", json!({"workflow": "g", "inputs": {"text": "hello"}})),
        ("/api/v1/runs?wait=60", json!({"workflow": "g", "inputs": {"message": null}})),
    ] {
        let refused = server.post(path, &body);
        assert_eq!((refused.status, refused.error_code()), (422, "FL1031".to_owned()), "{path}: {}", refused.json());
    }
    let misspelt = json!({"workflow": "g", "inputs": {"message": "hello", "mesages": []}});
    let refused = server.post("/api/v1/runs?wait=60", &misspelt);
    assert_eq!((refused.status, refused.error_code()), (422, "FL1038".to_owned()), "{}", refused.json());
    assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("did you mean messages?")));
    let flow = json!({"name": "f", "description": "d", "steps": [
        {"type": "start", "config": {"variables": [{"name": "city", "value": "Bergen"}]}},
        {"type": "llmInstruction", "config": {"instruction": "Greet ${city}", "resultVariable": "a"}},
    ]});
    place.write("f.json", &flow.to_string());
    for inputs in [json!("Oslo"), json!([1])] {
        let refused = server.post("/api/v1/runs?wait=60", &json!({"workflow": "f", "inputs": inputs}));
        assert_eq!((refused.status, refused.error_code()), (422, "FL1038".to_owned()), "{}", refused.json());
    }
    assert_eq!(server.get("/api/v1/runs").json()["items"], json!([]));
}
