//! The routes of the original systems, called as by their own clients.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use support::Workspace;
use support::http::{HttpAnswer, RunningServer};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

const SHOUT_SOURCE: &str = "async def execute(inputs, context):\n    return {'loud': inputs['text'] + '!'}\n";

fn send_delete(server: &RunningServer, path: &str) -> HttpAnswer {
    server.send_and_read("DELETE", path, &[], "")
}

#[test]
fn agentos() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let definition = json!({"name": "Analysis", "description": "d", "steps": [
        {"name": "analyze", "functionId": "agent::chat", "mode": "sequential", "timeoutMs": 1000, "errorMode": "fail",
            "promptTemplate": "Analyze: {{input}}", "outputVar": "analysis"},
    ]});
    let made = server.post("/api/workflows", &definition);
    assert_eq!(made.status, 200, "{made:?}");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let wrapped = json!({"workflow": {"id": "given", "name": "n", "description": "d", "steps": []}});
    assert_eq!(server.post("/api/workflows", &wrapped).json(), json!({"id": "given"}));
    let list = server.get("/api/workflows").json();
    let names: Vec<&Value> = list.as_array().expect("a bare list").iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!("Analysis")) && names.contains(&&json!("n")), "{list}");

    let ran = server.post("/api/workflows/run", &json!({"workflowId": id, "input": "the text"}));
    let result = ran.json();
    assert_eq!((ran.status, &result["status"]), (200, &json!("completed")), "{ran:?}");
    assert_eq!(result["vars"]["analysis"], "LLM(Analyze: the text)");
    assert_eq!(result["results"][0]["stepName"], "analyze");
    server.post("/api/workflows/run", &json!({"workflowId": "given", "input": 1}));
    let page = server.get(&format!("/api/workflows/runs?workflowId={id}&limit=5")).json();
    assert_eq!((&page["total"], &page["limit"], &page["offset"]), (&json!(1), &json!(5), &json!(0)), "{page}");
    assert_eq!(page["runs"][0]["runId"], result["runId"]);
    assert_eq!(page["runs"][0]["status"], "completed");

    let passed_on = json!({"body": {"workflowId": id, "input": "more", "agentId": ""}, "method": "POST"});
    assert_eq!(server.post("/api/workflows/run", &passed_on).json()["vars"]["analysis"], "LLM(Analyze: more)");
    let created = json!({"body": {"id": "inner", "name": "n", "steps": []}});
    assert_eq!(server.post("/api/workflows", &created).json(), json!({"id": "inner"}));

    let missing = server.post("/api/workflows/run", &json!({"workflowId": "nobody", "input": 1}));
    assert_eq!((missing.status, &missing.json()["detail"]), (404, &json!("Workflow nobody not found")));
    assert_eq!(server.post("/api/workflows", &json!({"name": "x", "description": "d", "steps": 1})).status, 422);
}

/// AgentOS lets a run start without an input: references to it stay as text.
#[test]
fn a_step_list_without_an_input_keeps_its_references() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("one.json", &json!({"id": "one", "name": "one", "steps": [
        {"name": "s", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "Say {{input}} {{input.a}}"},
    ]}).to_string());
    let server = RunningServer::start(&place, &[]);
    let answers = |body: &Value| {
        let (path, output) = match body.get("workflowId") {
            Some(_) => ("/api/workflows/run", "vars"),
            None => ("/api/v1/runs?wait=30", "output"),
        };
        let answer = server.post(path, body).json();
        match output {
            "vars" => answer["vars"]["input"].clone(),
            _ => answer["output"].clone(),
        }
    };
    assert_eq!(answers(&json!({"workflowId": "one"})), "LLM(Say {{input}} {{input.a}})");
    assert_eq!(answers(&json!({"workflow": "one"})), "LLM(Say {{input}} {{input.a}})");
    assert_eq!(answers(&json!({"workflow": "one", "inputs": {}})), "LLM(Say {} {{input.a}})");
    assert_eq!(answers(&json!({"workflow": "one", "inputs": {"a": 1}})), "LLM(Say {\"a\":1} 1)");
}

/// The original servers ignore parameters that they do not know. Flowloom's own routes refuse them.
#[test]
fn unknown_parameters_are_ignored_where_the_originals_ignore_them() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    for path in ["/api/blocks", "/api/executions", "/api/notifications", "/api/pipelines"] {
        let answer = server.get(&format!("{path}?origin=studio"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    assert_eq!(server.get("/api/workflows/runs?workflowId=x&origin=studio").status, 200);
    assert_eq!(server.get("/api/v1/runs?origin=studio").status, 400);
}

#[test]
fn anythingllm() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let config = json!({"description": "Says hello", "active": true, "steps": [
        {"type": "start", "config": {"variables": [{"name": "who", "value": "you"}]}},
        {"type": "llmInstruction", "config": {"instruction": "Greet ${who}", "resultVariable": "said"}},
    ]});
    let saved = server.post("/api/agent-flows/save", &json!({"name": "Greeter", "config": config})).json();
    assert_eq!(saved["success"], true, "{saved}");
    let uuid = saved["flow"]["uuid"].as_str().expect("a uuid").to_owned();
    let listed = server.get("/api/agent-flows/list").json();
    assert_eq!(listed["flows"][0]["active"], true);
    assert_eq!(listed["flows"][0]["plugin"], format!("@@flow_{uuid}"));
    let got = server.get(&format!("/api/agent-flows/{uuid}")).json();
    assert_eq!(
        (&got["flow"]["name"], &got["flow"]["config"]["steps"][0]["type"]),
        (&json!("Greeter"), &json!("start"))
    );

    let run = |body: Value| server.post(&format!("/api/agent-flows/{uuid}/run"), &body).json();
    let ran = run(json!({"variables": {"who": "Ann"}}));
    assert_eq!((&ran["success"], &ran["variables"]["said"]), (&json!(true), &json!("LLM(Greet Ann)")), "{ran}");
    assert_eq!(run(json!({}))["variables"]["said"], "LLM(Greet you)");

    let toggled = server.post(&format!("/api/agent-flows/{uuid}/toggle"), &json!({"active": false})).json();
    assert_eq!(toggled["flow"]["config"]["active"], false);
    assert_eq!(server.get("/api/agent-flows/list").json()["flows"][0]["active"], false);

    let nameless = server.post("/api/agent-flows/save", &json!({"config": {}}));
    assert_eq!((nameless.status, nameless.json()["error"].clone()), (400, json!("Name and config are required")));
    let odd = json!({"name": "n", "config": {"steps": [{"type": "shell", "config": {}}]}});
    assert_eq!(server.post("/api/agent-flows/save", &odd).json()["success"], false);
    assert_eq!(send_delete(&server, &format!("/api/agent-flows/{uuid}")).json(), json!({"success": true}));
    assert_eq!(server.get(&format!("/api/agent-flows/{uuid}")).status, 404);
    assert_eq!(send_delete(&server, &format!("/api/agent-flows/{uuid}")).json()["success"], false);
}

fn shout_block() -> Value {
    json!({"id": "shout", "name": "Shout", "description": "Says it loudly", "category": "process",
        "execution_type": "python", "use_when": "something must be loud", "tags": ["voice"],
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "source_code": SHOUT_SOURCE,
        "output_schema": {"type": "object", "properties": {"loud": {"type": "string"}}}, "examples": []})
}

#[test]
fn agentflow() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    assert_eq!(server.post("/api/blocks", &shout_block()).json(), json!({"status": "created", "block_id": "shout"}));
    let mut broken = shout_block();
    broken["source_code"] = "def execute(:".into();
    let refused = server.post("/api/blocks", &broken);
    assert!(refused.status == 422 && refused.body.contains("is not Python: line 1"), "{refused:?}");
    broken["source_code"] = "def exekute(inputs, context):\n    return {}\n".into();
    broken["input_schema"]["properties"]["text"]["type"] = "txt".into();
    let refused = server.post("/api/blocks", &broken).body;
    assert!(refused.contains("has no function execute") && refused.contains("there is no type"), "{refused}");
    let blocks = server.get("/api/blocks").json();
    let ids: Vec<&Value> = blocks.as_array().expect("a bare list").iter().map(|block| &block["id"]).collect();
    assert!(ids.contains(&&json!("shout")) && ids.contains(&&json!("memory_read")), "{ids:?}");
    assert_eq!(server.get("/api/blocks/shout").json()["name"], "Shout");
    assert_eq!(server.get("/api/blocks/shout/").json()["name"], "Shout", "FastAPI leads there, too");
    assert_eq!(server.get("/api/blocks/?user_id=local").json(), blocks);
    assert_eq!(server.get("/api/v1/blocks/").status, 404);
    assert_eq!(server.get("/api/blocks/shout/source").json(), json!({"source": SHOUT_SOURCE, "type": "python"}));
    assert_eq!(server.get("/api/blocks/memory_read/source").json()["type"], "python");
    assert_eq!(server.get("/api/blocks/nobody").json()["detail"], "Block not found: nobody");
    assert_eq!(server.post("/api/blocks/search", &json!({"query": "loud voice"})).json()[0]["id"], "shout");

    let pipeline = json!({"name": "Loud", "user_prompt": "be loud", "nodes": [
        {"id": "n1", "block_id": "shout", "inputs": {"text": "hey"}},
        {"id": "n2", "block_id": "shout", "inputs": {"text": "{{n1.loud}}"}},
    ], "edges": [{"from": "n1", "to": "n2"}], "memory_keys": []});
    let made = server.post("/api/pipelines", &json!({"pipeline": pipeline})).json();
    assert_eq!((&made["status"], &made["problems"]), (&json!("created"), &json!([])), "{made}");
    let id = made["id"].as_str().expect("an id").to_owned();
    let listed = server.get("/api/pipelines").json();
    assert_eq!((&listed[0]["node_count"], &listed[0]["status"]), (&json!(2), &json!("created")), "{listed}");
    assert_eq!(server.get(&format!("/api/pipelines/{id}")).json()["user_prompt"], "be loud");

    let ran = server.post(&format!("/api/pipelines/{id}/run"), &json!({}));
    let execution = ran.json();
    assert_eq!((ran.status, &execution["status"]), (200, &json!("completed")), "{ran:?}");
    assert_eq!((&execution["pipeline_id"], &execution["errors"]), (&json!(id), &json!([])));
    let node = &execution["node_results"][0];
    assert_eq!((&node["node_id"], &node["status"], &node["id"]), (&json!("n1"), &json!("completed"), &json!(1)));
    assert_eq!(server.get("/api/pipelines").json()[0]["status"], "completed");
    let all = server.get("/api/executions?limit=5").json();
    assert_eq!(all[0]["run_id"], execution["run_id"]);
    assert_eq!(all[0]["pipeline_name"], "Loud");
    let one = format!("/api/executions/{}", execution["run_id"].as_str().expect("an id"));
    assert_eq!(server.get(&one).json(), all[0]);
    assert_eq!(server.get("/api/v1/executions").json(), all);

    let once = json!({"pipeline": pipeline, "user_id": "ann"});
    let ran = server.post("/api/pipeline/run", &once).json();
    assert_eq!((&ran["status"], &ran["user_id"]), (&json!("completed"), &json!("ann")), "{ran}");
    assert!(ran["log"].as_array().is_some_and(|log| log.len() == 4), "{ran}");
    let bad = json!({"pipeline": {"nodes": [{"id": "n1", "block_id": "nobody", "inputs": {}}], "edges": []}});
    assert_eq!(server.post("/api/pipeline/run", &bad).error_code(), "FL1034");
    let draft = server.post("/api/pipelines", &bad).json();
    assert_eq!(draft["problems"][0]["severity"], "error", "{draft}");

    assert_eq!(send_delete(&server, &format!("/api/pipelines/{id}")).status, 204);
    assert_eq!(send_delete(&server, &format!("/api/pipelines/{id}")).status, 404);
    assert_eq!(server.get("/api/memory/ann").json(), json!({}));
    assert_eq!(server.get("/api/notifications").json(), json!([]));
    let notifying = json!({"pipeline": {"id": "tells", "name": "Tells", "edges": [], "nodes": [
        {"id": "n1", "block_id": "notify_push", "inputs": {"title": "Done", "body": "All is well"}},
    ]}});
    let output = server.post("/api/pipeline/run", &notifying).json();
    assert_eq!(output["results"]["n1"], json!({"delivered": true}), "{output}");
    let notifications = server.get("/api/notifications").json();
    assert_eq!((&notifications[0]["title"], &notifications[0]["read"]), (&json!("Done"), &json!(false)));
    let read = format!("/api/notifications/{}/read", notifications[0]["id"]);
    assert_eq!(server.post(&read, &json!({})).status, 200);
    assert_eq!(server.get("/api/v1/notifications").json()[0]["read"], true);
    assert_eq!(server.post("/api/notifications/77/read", &json!({})).status, 404);
}

#[test]
fn what_a_prompt_used_stands_in_the_execution_and_at_its_node() {
    let place = Workspace::new("default_model = \"scripted:said.json\"\n");
    place.write("said.json", r#"{"default": {"json": {"line": "short"}}}"#);
    let server = RunningServer::start(&place, &[]);
    let line = json!({"type": "object", "properties": {"line": {"type": "string"}}});
    let block = json!({"id": "shorten", "name": "s", "description": "d", "execution_type": "llm", "prompt_template": "Shorten: {text}",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}, "output_schema": line});
    let quiet = json!({"id": "quiet", "name": "q", "description": "d", "execution_type": "python",
        "source_code": "def execute(inputs, context):\n    return {}\n"});
    let nodes = json!([{"id": "n1", "block_id": "shorten", "inputs": {"text": "long"}}, {"id": "n2", "block_id": "quiet", "inputs": {}}]);
    let wanted = json!({"pipeline": {"id": "p", "name": "p", "nodes": nodes, "edges": []}, "blocks": [block, quiet]});
    let ran = server.post("/api/pipeline/run", &wanted).json();
    let id = ran["run_id"].as_str().expect("a run");
    let execution = server.get(&format!("/api/executions/{id}")).json();
    let used = |at: &Value| at["usage"]["output_tokens"].as_u64();
    assert!(used(&execution).is_some_and(|tokens| tokens > 0), "{execution}");
    assert_eq!(used(&execution["node_results"][0]), used(&execution));
    assert_eq!(used(&execution["node_results"][1]), None);
}

#[test]
fn a_failed_node_is_reported_as_failed() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let block = json!({"id": "fails", "name": "f", "description": "d", "category": "process", "execution_type": "python",
        "source_code": "async def execute(inputs, context):\n    raise ValueError('no luck')\n",
        "input_schema": {"type": "object", "properties": {}}, "output_schema": {"type": "object", "properties": {}}});
    let pipeline =
        json!({"id": "p", "name": "p", "nodes": [{"id": "n1", "block_id": "fails", "inputs": {}}], "edges": []});
    let ran = server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block]})).json();
    assert_eq!(ran["status"], "failed", "{ran}");
    assert!(ran["errors"][0]["error"].as_str().is_some_and(|error| error.contains("no luck")), "{ran}");
}

#[test]
fn anythingllm_builder_on_its_own_folder() {
    let place = Workspace::new(ECHO_CONFIG);
    let flows = place.path("plugins/agent-flows");
    std::fs::create_dir_all(&flows).expect("folders");
    let step = json!({"type": "llmInstruction", "config": {"instruction": "Hi", "resultVariable": "said"}});
    let finish = json!({"type": "finish", "config": {}});
    let old = json!({"name": "Old", "description": "d", "active": true, "steps": [step, finish]});
    std::fs::write(flows.join("3f2a-1.json"), old.to_string()).expect("written");
    // AnythingLLM may run as another user, in a container.
    std::fs::set_permissions(flows.join("3f2a-1.json"), std::fs::Permissions::from_mode(0o664)).expect("set");
    let mode_of = |file: &str| std::fs::metadata(flows.join(file)).expect("a flow").permissions().mode() & 0o777;
    let server = RunningServer::start(&place, &[]);
    let listed = server.get("/api/agent-flows/list").json();
    assert_eq!(listed["flows"][0]["uuid"], "3f2a-1", "{listed}");

    let config = json!({"description": "new", "steps": [step]});
    let saved =
        server.post("/api/agent-flows/save", &json!({"name": "New", "config": config, "uuid": "3f2a-1"})).json();
    assert_eq!(saved["success"], true, "{saved}");
    let read = |file: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(flows.join(file)).expect(file)).expect("JSON")
    };
    assert_eq!(read("3f2a-1.json")["name"], "New");
    assert_eq!(read("3f2a-1.json.previous"), old, "the previous version is kept");

    let toggled = server.post("/api/agent-flows/3f2a-1/toggle", &json!({"active": false})).json();
    assert_eq!((&toggled["success"], &read("3f2a-1.json")["active"]), (&json!(true), &json!(false)));
    assert_eq!((mode_of("3f2a-1.json"), mode_of("3f2a-1.json.previous")), (0o664, 0o664));
    let ran = server.post("/api/agent-flows/3f2a-1/run", &json!({})).json();
    assert_eq!(ran["variables"]["said"], "LLM(Hi)", "{ran}");

    let created = server.post("/api/agent-flows/save", &json!({"name": "Third", "config": config})).json();
    let uuid = created["flow"]["uuid"].as_str().expect("a uuid").to_owned();
    assert_eq!(read(&format!("{uuid}.json"))["name"], "Third");
    assert_eq!(mode_of(&format!("{uuid}.json")), 0o664, "a new flow has the mode of the others");
    assert_eq!(send_delete(&server, &format!("/api/agent-flows/{uuid}")).json(), json!({"success": true}));
    assert!(!flows.join(format!("{uuid}.json")).exists());
    assert_eq!(server.get(&format!("/api/agent-flows/{uuid}")).status, 404);
    let (_, audit) = place.run_json(&["audit"]);
    let actions: Vec<&str> =
        audit.as_array().expect("a list").iter().filter_map(|row| row["action"].as_str()).collect();
    assert_eq!(actions, ["definition.delete", "definition.put", "definition.put", "definition.put"], "{audit}");

    // The id of a flow is its file, also if the configuration was copied from another one.
    let copied = json!({"uuid": "3f2a-1", "steps": [step]});
    let saved = server.post("/api/agent-flows/save", &json!({"name": "Copy", "config": copied, "uuid": "copy"})).json();
    assert_eq!(saved["flow"]["uuid"], "copy", "{saved}");
    assert_eq!(server.get("/api/agent-flows/copy").json()["flow"]["config"]["uuid"], "3f2a-1");
    assert_eq!(server.post("/api/agent-flows/3f2a-1/run", &json!({})).json()["success"], true);
    // A file that is nearly JSON is repaired when it is opened; any other is never shown as an empty flow.
    std::fs::write(flows.join("slip.json"), r#"{"name": "Slip", "steps": [],}"#).expect("written");
    std::fs::write(flows.join("none.json"), "not JSON").expect("written");
    assert_eq!(server.get("/api/agent-flows/slip").json()["flow"]["name"], "Slip");
    assert_eq!(server.get("/api/agent-flows/none").json()["success"], false);
    let listed = server.get("/api/agent-flows/list").json();
    let ids: Vec<_> = listed["flows"].as_array().expect("flows").iter().map(|flow| flow["uuid"].clone()).collect();
    assert_eq!(ids, ["3f2a-1", "copy"], "{listed}");

    // The builder shows `error` only if the request itself succeeds.
    let odd = json!({"name": "n", "config": {"steps": [{"type": "shell", "config": {}}]}});
    let refused = server.post("/api/agent-flows/save", &odd);
    assert_eq!((refused.status, &refused.json()["flow"]), (200, &Value::Null), "{refused:?}");
    // Any value is stored; only `false` switches off.
    let toggled = server.post("/api/agent-flows/3f2a-1/toggle", &json!({"active": "yes"}));
    assert_eq!((toggled.status, &read("3f2a-1.json")["active"]), (200, &json!("yes")), "{toggled:?}");
}

#[test]
fn flow_whose_name_has_a_blank_is_changed_by_its_uuid() {
    let place = Workspace::new(ECHO_CONFIG);
    let flows = place.path("plugins/agent-flows");
    std::fs::create_dir_all(&flows).expect("folders");
    let config = json!({"description": "d", "steps": [{"type": "llmInstruction", "config": {"instruction": "Hi", "resultVariable": "said"}}]});
    let file = flows.join("two words.json");
    std::fs::write(&file, json!({"name": "Two", "steps": config["steps"]}).to_string()).expect("written");
    let server = RunningServer::start(&place, &[]);
    let listed = server.get("/api/agent-flows/list").json();
    let uuid = listed["flows"][0]["uuid"].as_str().expect("a uuid");
    let path = &format!("/api/agent-flows/{uuid}");
    let saved = json!({"name": "New", "config": config, "uuid": uuid});
    assert_eq!(server.post("/api/agent-flows/save", &saved).json()["success"], true);
    assert_eq!(server.post(&format!("{path}/toggle"), &json!({"active": false})).json()["success"], true);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("a flow")).expect("JSON");
    assert_eq!((&written["name"], &written["active"]), (&json!("New"), &json!(false)));
    let ran = server.send_and_read("POST", &format!("{path}/run"), &[], "").json();
    assert_eq!(ran["variables"]["said"], "LLM(Hi)", "{ran}");
    assert_eq!(send_delete(&server, path).json(), json!({"success": true}));
    assert!(!file.exists());
    let new = json!({"name": "New", "config": config, "uuid": "three new words"});
    assert_eq!(server.post("/api/agent-flows/save", &new).json()["success"], false, "a new id is checked");
    assert_eq!(send_delete(&server, "/api/agent-flows/..%2F..%2Fflowloom").json()["success"], false);
}

#[test]
fn agentos_lists_files_of_any_form() {
    let place = Workspace::new(ECHO_CONFIG);
    let step = "{name: 'say', functionId: 'agent::chat', mode: 'sequential', timeoutMs: 1000, errorMode: 'fail'}";
    let call = format!("await trigger('workflow::create', {{name: 'Complete', description: 'd', steps: [{step}]}})\n");
    place.write("complete.json", &call);
    let server = RunningServer::start(&place, &[]);
    let list = server.get("/api/workflows").json();
    assert_eq!((&list[0]["name"], list[0]["steps"].as_array().map(Vec::len)), (&json!("Complete"), Some(1)), "{list}");
    assert!(list[0]["createdAt"].as_i64().is_some_and(|at| at > 0), "{list}");

    let ask = json!({"name": "w", "description": "d", "steps": [
        {"name": "ask", "functionId": "human::ask", "mode": "sequential", "timeoutMs": 60000, "errorMode": "fail"},
    ]});
    let id = server.post("/api/workflows", &ask).json()["id"].clone();
    let waiting = server.post("/api/workflows/run", &json!({"workflowId": id, "input": "Really?"}));
    assert_eq!((waiting.status, &waiting.json()["status"]), (202, &json!("waiting")), "{waiting:?}");
    let page = server.get(&format!("/api/workflows/runs?workflowId={}", id.as_str().expect("an id"))).json();
    assert_eq!(page["runs"][0]["status"], "waiting", "{page}");
}

#[test]
fn a_flow_of_a_served_folder_can_be_saved_several_times_at_once() {
    let place = Workspace::new(ECHO_CONFIG);
    std::fs::create_dir_all(place.path("plugins/agent-flows")).expect("folders");
    let server = RunningServer::start(&place, &[]);
    let flow = |name: String| json!({"name": name, "config": {"steps": []}, "uuid": "conc"});
    let answers: Vec<HttpAnswer> = std::thread::scope(|scope| {
        let save = |number: usize| server.post("/api/agent-flows/save", &flow(format!("N{number}")));
        let calls: Vec<_> = (0..12).map(|number| scope.spawn(move || save(number))).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect()
    });
    for answer in answers {
        assert_eq!((answer.status, &answer.json()["success"]), (200, &json!(true)), "{answer:?}");
    }
    let left: Vec<String> = std::fs::read_dir(place.path("plugins/agent-flows"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left.len(), 2, "the flow and its previous version: {left:?}");
}
