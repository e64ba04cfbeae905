//! The memory of pipelines: read and changed over HTTP, restricted to declared keys, and safe under concurrent runs.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace};

fn send_put(server: &RunningServer, path: &str, value: &Value) -> HttpAnswer {
    server.send_and_read("PUT", path, &["Content-Type: application/json"], &value.to_string())
}

fn block_json(id: &str, body: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({"id": id, "name": id, "description": "d", "category": "memory", "execution_type": "python",
        "input_schema": schema, "output_schema": schema, "source_code": format!("async def execute(inputs, context):\n    {body}\n")})
}

fn pipeline_json(keys: &[&str], body: &str, inputs: &Value) -> Value {
    json!({"pipeline": {"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "b", "inputs": inputs}], "edges": [],
        "memory_keys": keys}, "blocks": [block_json("b", body)]})
}

#[test]
fn a_memory_is_read_and_changed_key_by_key_or_as_a_whole() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    for base in ["/api/memory/ann", "/api/v1/memory/ann"] {
        let read = || server.get(base).json();
        assert_eq!(read(), json!({}));
        assert_eq!(send_put(&server, &format!("{base}/a"), &json!([1])).status, 204);
        assert_eq!(send_put(&server, &format!("{base}/b"), &json!(null)).status, 204);
        assert_eq!(read(), json!({"a": [1], "b": null}));
        let delete = |key: &str| server.send_and_read("DELETE", &format!("{base}/{key}"), &[], "").status;
        assert_eq!((delete("a"), delete("a")), (204, 404));
        assert_eq!(send_put(&server, base, &json!({"b": 2, "c": {"d": 1}})).status, 204);
        assert_eq!(read(), json!({"b": 2, "c": {"d": 1}}));
        assert_eq!(send_put(&server, base, &json!([1])).status, 400);
        assert_eq!(send_put(&server, &format!("{base}/{}", "k".repeat(1025)), &json!(1)).status, 400);
        assert_eq!(send_put(&server, base, &json!({})).status, 204);
    }
}

#[test]
fn blocks_have_to_do_with_the_declared_keys_only() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    send_put(&server, "/api/memory/local", &json!({"a": 1, "b": 2}));
    let run = |keys: &[&str], body: &str, inputs: Value| {
        let ran = server.post("/api/pipeline/run", &pipeline_json(keys, body, &inputs)).json();
        (ran["status"].clone(), ran["results"]["n"].clone())
    };
    let memory = || server.get("/api/memory/local").json();
    let see = "return {'seen': dict(context['memory']), 'given': inputs.get('x')}";
    let given = json!({"x": "{{memory.b}}"});
    assert_eq!(run(&[], see, given.clone()), (json!("completed"), json!({"seen": {"a": 1, "b": 2}, "given": 2})));
    assert_eq!(run(&["a"], see, given), (json!("completed"), json!({"seen": {"a": 1}, "given": null})));
    let write = "context['memory']['a'] = 5; context['memory']['c'] = 6; return {}";
    let (status, failed) = run(&["a"], write, json!({}));
    assert_eq!(status, "failed");
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("\"c\"") && error.contains("memory_keys")));
    assert_eq!(memory(), json!({"a": 1, "b": 2}), "writes of a failed block are discarded");
    assert_eq!(run(&["a", "c"], write, json!({})).0, "completed");
    assert_eq!(memory(), json!({"a": 5, "b": 2, "c": 6}));
    assert_eq!(run(&["a"], "context['memory'].clear(); return {}", json!({})).0, "completed");
    assert_eq!(memory(), json!({"b": 2, "c": 6}), "invisible keys cannot be deleted");
}

#[test]
fn a_workflow_that_a_block_runs_has_keys_of_its_own() {
    let config = "[functions.\"my::inner\"]\nworkflow = \"inner.json\"\n";
    let place = Workspace::new(config);
    place.write(
        "inner.json",
        &pipeline_json(&["inner"], "context['memory']['inner'] = 1; return dict(context['memory'])", &json!({}))
            .to_string(),
    );
    let schema = json!({"type": "object", "properties": {}});
    let call = json!({"id": "call", "name": "c", "description": "d", "category": "process", "execution_type": "function",
        "input_schema": schema, "output_schema": schema, "function_id": "my::inner"});
    let outer = json!({"pipeline": {"id": "o", "name": "o", "nodes": [{"id": "n", "block_id": "call", "inputs": {}},
        {"id": "m", "block_id": "memory_write", "inputs": {"key": "outer", "value": 2}}], "edges": [], "memory_keys": ["outer"]}, "blocks": [call]});
    place.write("outer.json", &outer.to_string());
    let (code, ran) = place.run_json(&["run", "outer.json"]);
    assert_eq!((code, &ran["result"]["results"]["n"]), (0, &json!({"inner": 1})), "{ran}");
}

#[test]
fn runs_at_the_same_time_do_not_overwrite_each_others_keys() {
    let web = TestServer::start();
    let place = Workspace::new(&web.egress_config());
    let server = RunningServer::start(&place, &[]);
    let get = format!("await httpx.AsyncClient().get('http://{}/slow')", web.address);
    let body = |key: &str| format!("context['memory']['{key}'] = 1; {get}; return {{}}");
    let call = |key: &str| {
        let all = pipeline_json(&[], &body(key), &json!({})).to_string();
        server.send("POST", "/api/pipeline/run", &["Content-Type: application/json"], &all)
    };
    // Both runs read the memory before either writes it.
    let calls = [call("one"), call("two")];
    web.wait_for_requests("/slow", 2);
    send_put(&server, "/api/memory/local/three", &json!(1));
    web.release_slow();
    for mut answer in calls {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut answer, &mut text).expect("readable");
        assert!(text.contains("\"status\":\"completed\""), "{text}");
    }
    assert_eq!(server.get("/api/memory/local").json(), json!({"one": 1, "three": 1, "two": 1}));
}

#[test]
fn a_full_memory_refuses_what_makes_it_larger() {
    let place = Workspace::new("");
    let before = RunningServer::start(&place, &[]);
    assert_eq!(send_put(&before, "/api/v1/memory/local/old", &json!("x".repeat(3000))).status, 204);
    drop(before);
    place.write("flowloom.toml", "[limits]\nmemory_bytes = 1000\noutput_bytes = 2000\n");
    let server = RunningServer::start(&place, &[]);
    let run = |body: &str| server.post("/api/pipeline/run", &pipeline_json(&[], body, &json!({}))).json();

    // Stored values stay usable.
    let read = run("return {'bytes': len(context['memory']['old'])}");
    assert_eq!((&read["status"], &read["results"]["n"]), (&json!("completed"), &json!({"bytes": 3000})), "{read}");
    let refused = run("context['memory']['new'] = 'y'; return {}");
    assert_eq!(refused["status"], "failed", "{refused}");
    let error = refused["errors"][0]["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("at most 1000 are allowed"), "{error}");
    let over_http = send_put(&server, "/api/v1/memory/local/new", &json!("y"));
    assert_eq!((over_http.status, over_http.error_code().as_str()), (429, "FL1108"));

    assert_eq!(run("context['memory']['old'] = 'short'; return {}")["status"], "completed");
    assert_eq!(run("context['memory']['new'] = 'y'; return {}")["status"], "completed");
    assert_eq!(server.get("/api/v1/memory/local").json(), json!({"new": "y", "old": "short"}));
}

#[test]
fn what_happened_before_a_failure_is_visible_and_reported() {
    let place = Workspace::new("[limits]\nparallel = 1\n");
    let server = RunningServer::start(&place, &[]);
    let schema =
        json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string", "default": "d"}}});
    let mut see = block_json("see", "return {'memory': dict(context['memory']), 'x': inputs['x'], 'y': inputs['y']}");
    see["input_schema"] = schema;
    let mut trigger = block_json("start", "return {}");
    trigger["category"] = "trigger".into();
    trigger["input_schema"] =
        json!({"type": "object", "properties": {"cron": {"type": "string"}}, "required": ["cron"]});
    let node = |id: &str, block: &str, inputs: Value| json!({"id": id, "block_id": block, "inputs": inputs});
    let edge = |from: &str, to: &str| json!({"from": from, "to": to});
    // One block at a time, in the order of the nodes.
    let nothing = json!({"x": "{{memory.none}}", "y": "{{memory.none}}"});
    let fail = block_json("fail", "context['memory']['g'] = 1; return {'error': 'no'}");
    // The blocks are in the same object as the nodes.
    let pipeline = json!({"pipeline": {"id": "p", "name": "p", "memory_keys": ["g", "none"],
        "nodes": [node("f", "fail", json!({})), node("t", "start", json!({})), node("w", "wait", json!({})), node("s", "see", nothing)],
        "edges": [edge("f", "t"), edge("w", "s")],
        "blocks": [fail, trigger, see, block_json("wait", "return {}")]}});
    let ran = server.post("/api/pipeline/run", &pipeline).json();
    assert_eq!(ran["results"]["t"], json!({"error": "Skipped: upstream node(s) f failed"}), "{ran}");
    // An input that is not required may be a reference to nothing.
    assert_eq!(ran["results"]["s"], json!({"memory": {"g": 1}, "x": null, "y": "d"}), "{ran}");
    assert_eq!(ran["memory"], json!({"g": 1}), "{ran}");
}
