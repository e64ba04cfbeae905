//! Streams of pipeline runs.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace};

/// A Python block without required inputs.
fn block_json(id: &str, body: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({"id": id, "name": id, "description": "d", "category": "process", "execution_type": "python",
        "input_schema": schema, "output_schema": schema, "source_code": format!("def execute(inputs, context):\n    {body}\n")})
}

fn pipeline_json() -> Value {
    let node = |id: &str, block: &str, needs: &str| json!({"id": id, "block_id": block, "inputs": {"after": needs}});
    let mut odd = block_json("odd", "return {'n': 'text'}");
    odd["output_schema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let start = json!({"id": "daily", "name": "d", "description": "d", "category": "trigger", "input_schema": {}, "output_schema": {}});
    json!({"pipeline": {"id": "p", "name": "p", "nodes": [
        node("t", "daily", ""), node("good", "fine", "{{t.status}}"), node("says", "sorry", "{{good.ok}}"),
        node("odd", "odd", "{{says.x}}"), node("late", "fine", "{{says.x}}")], "edges": []},
        "blocks": [block_json("fine", "return {'ok': inputs['after']}"), block_json("sorry", "return {'error': 'no', 'x': 1}"), odd, start]})
}

/// The events of a stream as name, id and data.
fn parse_events(reply: &HttpAnswer) -> Vec<(String, String, Value)> {
    assert!(reply.status == 200 && reply.head.contains("text/event-stream"), "{reply:?}");
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches([':', ' ']).to_owned())
    };
    let whole = reply.body.split("\n\n").filter(|event| event.contains("event:"));
    let read = |event: &str| {
        let data = serde_json::from_str(&field(event, "data").unwrap_or_default()).expect("JSON");
        (field(event, "event").unwrap_or_default(), field(event, "id").unwrap_or_default(), data)
    };
    whole.map(read).collect()
}

fn event_names(events: &[(String, String, Value)]) -> Vec<String> {
    let name = |(name, _, data): &(String, String, Value)| {
        assert_eq!((&data["type"], data["ts"].is_f64()), (&json!(name), true), "{data}");
        format!("{name} {}", data["node"].as_str().unwrap_or_default()).trim_end().to_owned()
    };
    events.iter().map(name).collect()
}

/// Removes fields that differ from run to run.
fn without_volatile_fields(output: &Value) -> Value {
    let mut output = output.clone();
    let map = output.as_object_mut().expect("an object");
    ["type", "ts", "run_id"].iter().for_each(|key| drop(map.shift_remove(*key)));
    for node in output["node_results"].as_array_mut().into_iter().flatten() {
        node["finished_at"] = json!(null);
    }
    output
}

#[test]
fn every_node_is_reported_and_at_the_end_what_the_call_answers() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    let all = [
        "start",
        "node_completed t",
        "node_started good",
        "node_completed good",
        "node_started says",
        "node_failed says",
        "node_skipped odd",
        "node_skipped late",
        "complete",
    ];
    let output = parse_events(&server.post("/api/pipeline/run/stream", &pipeline_json()));
    assert_eq!(event_names(&output), all);
    let data = |at: usize| &output[at].2;
    assert_eq!(data(0)["nodes"][1], json!({"node": "good", "block": "fine"}));
    assert_eq!(data(3)["output"], json!({"ok": "triggered"}));
    assert_eq!((&data(5)["error"], &data(5)["output"]), (&json!("no"), &json!({"error": "no", "x": 1})));
    assert_eq!(data(6)["reason"], "upstream node(s) says failed");
    let answered = server.post("/api/pipeline/run", &pipeline_json()).json();
    assert_eq!(without_volatile_fields(data(8)), without_volatile_fields(&answered));
    assert_eq!(answered["status"], "failed");

    server.post("/api/pipelines", &pipeline_json());
    let answered = server.post("/api/pipelines/p/run", &json!({})).json();
    for output in [server.post("/api/pipelines/p/run/stream", &json!({})), server.get("/api/pipelines/p/run/stream")] {
        let output = parse_events(&output);
        assert_eq!(event_names(&output), all);
        assert_eq!(without_volatile_fields(&output[8].2), without_volatile_fields(&answered));
    }
    assert_eq!(server.get("/api/pipelines/none/run/stream").status, 404);
    let other = server.send_and_read("GET", "/api/pipelines/p/run/stream", &["Sec-Fetch-Site: cross-site"], "");
    assert_eq!(other.status, 403, "{other:?}");
    let bad = json!({"pipeline": {"nodes": [{"id": "n", "block_id": "nobody"}]}});
    let refused = server.post("/api/pipeline/run/stream", &bad);
    assert_eq!((refused.status, refused.json()["errors"][0]["code"].clone()), (422, json!("FL0401")), "{refused:?}");
}

#[test]
fn an_output_that_does_not_fit_is_reported_as_failed_and_never_as_completed() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    let mut odd = pipeline_json();
    odd["pipeline"]["nodes"] = json!([{"id": "n", "block_id": "odd", "inputs": {}}]);
    let output = parse_events(&server.post("/api/pipeline/run/stream", &odd));
    assert_eq!(event_names(&output), ["start", "node_started n", "node_failed n", "complete"]);
    assert_eq!((&output[2].2["code"], &output[2].2["output"]), (&json!("FL1046"), &json!({"n": "text"})));
}

#[test]
fn who_comes_back_gets_what_is_missing_and_then_nothing() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/pipelines", &pipeline_json());
    let output = parse_events(&server.get("/api/pipelines/p/run/stream"));
    let after =
        |id: &str| server.send_and_read("GET", "/api/pipelines/p/run/stream", &[&format!("Last-Event-ID: {id}")], "");
    for (place, (_, id, _)) in output.iter().enumerate().take(8) {
        assert_eq!(parse_events(&after(id)), output[place + 1..], "after {place}");
    }
    assert_eq!(after(&output[8].1).status, 204);
    assert_eq!(server.get("/api/executions").json().as_array().map(Vec::len), Some(1), "nothing was run twice");
}

#[test]
fn what_happens_is_reported_while_it_happens() {
    let web = TestServer::start();
    let place = Workspace::new(&web.egress_config());
    let server = RunningServer::start(&place, &[]);
    let node =
        json!({"id": "n", "block_id": "http_request", "inputs": {"url": format!("http://{}/slow", web.address)}});
    server.post("/api/pipelines", &json!({"id": "p", "name": "p", "nodes": [node], "edges": []}));
    let mut lines = server.stream("/api/pipelines/p/run/stream", &[]);
    assert!(lines.any(|line| line == "event: node_started"));
    web.release_slow();
    assert!(lines.any(|line| line == "event: node_completed"));
    assert!(lines.any(|line| line == "event: complete"));
}

const JSON_CONTENT_TYPE: &str = "Content-Type: application/json";

/// A caller with the scope `run` alone cannot store definitions through a run.
#[test]
fn a_pipeline_that_keeps_a_workflow_asks_for_more_than_a_run() {
    let place = Workspace::new("");
    let key = |scopes: &str| {
        let made = place.run(&["keys", "create", "--name", "k", "--scopes", scopes]);
        format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
    };
    let (run, write) = (key("run"), key("run,write"));
    let schema = json!({"type": "object", "properties": {}});
    let keep = json!({"id": "keep", "name": "k", "description": "d", "category": "process", "execution_type": "function",
        "input_schema": schema, "output_schema": schema, "function_id": "workflow::create"});
    let kept = json!({"id": "kept", "name": "n", "description": "d", "steps": [{"name": "s", "functionId": "memory::get",
        "mode": "sequential", "errorMode": "fail", "promptTemplate": "k"}]});
    let body = json!({"pipeline": {"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "keep", "inputs": kept}], "edges": []},
        "blocks": [keep]});
    let server = RunningServer::start(&place, &[]);
    for path in ["/api/pipeline/run", "/api/pipeline/run/stream"] {
        let reply = server.send_and_read("POST", path, &[&run, JSON_CONTENT_TYPE], &body.to_string());
        assert_eq!((reply.status, reply.error_code().as_str()), (403, "FL1503"), "{reply:?}");
    }
    let reply = server.send_and_read("POST", "/api/pipeline/run", &[&write, JSON_CONTENT_TYPE], &body.to_string());
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("completed")), "{reply:?}");
    let reply = server.send_and_read("GET", "/api/v1/workflows/kept", &[&key("read")], "");
    assert_eq!(reply.status, 200, "{reply:?}");
}
