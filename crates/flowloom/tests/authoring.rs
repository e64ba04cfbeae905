//! Creating pipelines from plain language over HTTP, with scripted model answers, the real sandbox and the real store.

mod support;

use serde_json::{Value, json};
use support::author::{create_looping_workspace, create_workspace};
use support::http::RunningServer;

/// Reads the events of a stream as id, name and data.
fn read_events(server: &RunningServer, path: &str, headers: &[&str]) -> Vec<(String, String, Value)> {
    let (mut id, mut name) = (String::new(), String::new());
    let mut all = Vec::new();
    for line in server.stream(path, headers) {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        } else if let Some(last) = line.strip_prefix("id: ") {
            id = last.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            all.push((id.clone(), name.clone(), serde_json::from_str(data).expect("JSON")));
        }
    }
    all
}

#[test]
fn a_goal_becomes_a_pipeline_that_is_kept_and_runs() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let made = server.post("/api/create-agent", &json!({"intent": "Shout hello", "user_id": "local"}));
    let agent = made.json();
    assert_eq!((made.status, &agent["status"]), (200, &json!("done")), "{agent}");
    assert_eq!(agent["pipeline_json"]["nodes"][0]["block_id"], "shout");
    assert_eq!(agent["tried"]["nodes"][0]["output"], json!({"text": "HELLO"}), "{agent}");
    assert_eq!(agent["missing_blocks"], json!([]));
    assert!(agent["usage"]["stages"]["create"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{agent}");
    assert_eq!(server.get("/api/blocks/shout").json()["metadata"]["created_by"], "thinker");
    let ran = server.post("/api/pipelines/pipeline_shout/run", &json!({})).json();
    assert_eq!(ran["shared_context"]["n1"], json!({"text": "HELLO"}), "{ran}");
    // The second time, the block is found, and the new pipeline gets its own id.
    let request = json!({"intent": "Shout hello as before", "user_id": "local"});
    let again = server.post("/api/create-agent", &request).json();
    assert_eq!(again["pipeline_json"]["id"], "pipeline_shout_2", "{again}");
    assert_eq!(again["log"][1], json!({"step": "search", "matched": ["shout"], "missing": []}));
}

#[test]
fn a_goal_is_reached_in_one_call() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let request = json!({"intent": "Shout hello", "user_id": "local"}).to_string();
    let call = || {
        server.send_and_read(
            "POST",
            "/api/automate",
            &["Idempotency-Key: k", "Content-Type: application/json"],
            &request,
        )
    };
    let done = call().json();
    assert_eq!((&done["status"], &done["results"]["n1"]), (&json!("completed"), &json!({"text": "HELLO"})), "{done}");
    let steps: Vec<&Value> = done["log"].as_array().expect("a log").iter().map(|entry| &entry["step"]).collect();
    assert_eq!(steps[0], "decompose");
    assert!(steps.contains(&&json!("_load_memory")), "{steps:?}");
    let again = call().json();
    assert_eq!((&again["run_id"], &again["thinker_run_id"]), (&done["run_id"], &done["thinker_run_id"]));
    let failed = server.post("/api/automate", &json!({"intent": "Shout hello at nobody"})).json();
    assert_eq!((&failed["status"], &failed["missing_blocks"]), (&json!("failed"), &json!([])), "{failed}");
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("required_blocks")), "{failed}");
}

#[test]
fn the_stages_and_then_the_nodes_are_reported_and_the_pipeline_runs_once() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let path = "/api/automate/stream?intent=Shout%20hello";
    let all = read_events(&server, path, &[]);
    let names: Vec<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
    let made = names.iter().position(|name| *name == "pipeline").expect("a pipeline");
    assert_eq!(names[0], "start");
    assert_eq!(names[made + 1..], ["start", "node_started", "node_completed", "complete"]);
    let (_, _, last) = all.last().expect("events");
    assert_eq!(last["results"]["n1"], json!({"text": "HELLO"}), "{last}");
    // A client that reconnects after the stages follows the same run.
    let again = read_events(&server, path, &[&format!("Last-Event-ID: {}", all[made].0)]);
    assert_eq!(again.last().map(|(_, _, data)| &data["run_id"]), Some(&last["run_id"]));
    assert_eq!(again.len(), 4);
    let over = format!("Last-Event-ID: {}", all.last().expect("events").0);
    assert_eq!(server.send_and_read("GET", path, &[&over], "").status, 204);
    let failed = read_events(&server, "/api/automate/stream?intent=Shout%20hello%20at%20nobody", &[]);
    assert_eq!(failed.last().map(|(_, name, _)| name.as_str()), Some("error"));
}

#[test]
fn what_cannot_be_made_is_an_error_and_nothing_is_kept() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let made = server.post("/api/create-agent", &json!({"intent": "Shout hello at nobody"}));
    let agent = made.json();
    assert_eq!((made.status, &agent["status"], &agent["code"]), (200, &json!("failed"), &json!("FL1060")), "{agent}");
    assert_eq!(agent["pipeline_json"], Value::Null);
    assert_eq!(server.get("/api/pipelines").json(), json!([]));
    assert_eq!(server.post("/api/create-agent", &json!({"intent": " "})).status, 400);
    assert_eq!(server.post("/api/create-agent", &json!({"intent": "x", "user_id": "somebody"})).status, 200);
}

#[test]
fn endless_loops_of_a_model_end_soon() {
    // The limit of a trial is 5 s if it is not set: 20 s in total.
    let place = create_looping_workspace("[sandbox]\ntrial_timeout_ms = 300\n");
    let server = RunningServer::start(&place, &[]);
    let since = std::time::Instant::now();
    let agent = server.post("/api/create-agent", &json!({"intent": "Loop for ever"})).json();
    assert!(since.elapsed() < std::time::Duration::from_secs(30), "{:?}: {agent}", since.elapsed());
    assert_eq!((&agent["status"], &agent["code"]), (&json!("failed"), &json!("FL1060")), "{agent}");
    let printed = agent.to_string();
    assert!(printed.contains("it ran longer than 300 ms") && printed.contains("2 more were not tried"), "{printed}");
}

#[test]
fn the_stream_reports_each_stage_once_and_continues_where_it_was_lost() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let all = read_events(&server, "/api/create-agent/stream?intent=Shout%20hello&user_id=local", &[]);
    let names: Vec<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
    let expected = [
        "start",
        "stage",
        "llm_prompt",
        "llm_response",
        "stage_result",
        "decompose_blocks",
        "validation",
        "stage",
        "search_missing",
        "stage_result",
        "stage",
        "creating_block",
        "llm_prompt",
        "llm_response",
        "block_created",
        "block_test_failed",
        "llm_prompt",
        "llm_response",
        "block_created",
        "block_test_passed",
        "stage_result",
        "stage",
        "llm_prompt",
        "llm_response",
        "validation",
        "stage_result",
        "complete",
    ];
    assert_eq!(
        names.iter().filter(|name| **name != "stage").collect::<Vec<_>>(),
        expected.iter().filter(|name| **name != "stage").collect::<Vec<_>>()
    );
    let (_, _, last) = all.last().expect("events");
    assert_eq!(last["result"]["pipeline_json"]["id"], "pipeline_shout", "{last}");
    assert!(last["ts"].as_f64().is_some() && last["usage"]["stages"]["decompose"].is_object(), "{last}");
    // A browser that lost the connection reconnects with its last event id; a client that has all events gets 204.
    let run = last["run_id"].as_str().expect("a run");
    let since = format!("Last-Event-ID: {}", all[20].0);
    let rest = read_events(&server, "/api/create-agent/stream?intent=Shout%20hello", &[&since]);
    assert_eq!(rest.len(), all.len() - 21);
    assert_eq!(rest.last().map(|(_, _, data)| data), Some(last), "earlier usage is counted, too");
    let over = format!("Last-Event-ID: {run}:100000");
    assert_eq!(server.send_and_read("GET", "/api/create-agent/stream?intent=Shout%20hello", &[&over], "").status, 204);
    let elsewhere = "Sec-Fetch-Site: cross-site";
    assert_eq!(
        server.send_and_read("GET", "/api/create-agent/stream?intent=Shout%20hello", &[elsewhere], "").status,
        403
    );
}

#[test]
fn a_person_is_asked_what_is_unclear() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let printed = server.post("/api/clarify", &json!({"message": "Say something"})).json();
    assert_eq!(printed["ready"], false, "{printed}");
    assert_eq!(printed["question"], Value::Null, "the model has named no question: {printed}");
    let history: Vec<Value> = ["a", "b", "c"].iter().map(|text| json!({"role": "user", "content": text})).collect();
    let fourth = server.post("/api/clarify", &json!({"message": "d", "history": history})).json();
    assert_eq!((&fourth["ready"], &fourth["question"]), (&json!(true), &Value::Null), "{fourth}");
    assert_eq!(
        server.post("/api/clarify", &json!({"message": "d", "history": [{"role": "judge", "content": ""}]})).status,
        400
    );
}

#[test]
fn a_crash_in_the_third_stage_continues_in_the_third_stage() {
    let place = create_workspace();
    let mut server = RunningServer::start(&place, &[]);
    let path = "/api/create-agent/stream?intent=Shout%20hello";
    let mut last = String::new();
    let mut before = Vec::new();
    for line in server.stream(path, &[]) {
        if let Some(id) = line.strip_prefix("id: ") {
            last = id.to_owned();
        } else if let Some(name) = line.strip_prefix("event: ") {
            before.push(name.to_owned());
        } else if line.is_empty() && before.last().is_some_and(|name| name == "block_test_failed") {
            break;
        }
    }
    server.child.kill().and_then(|()| server.child.wait()).expect("killed");
    let server = RunningServer::start(&place, &[]);
    let after = read_events(&server, path, &[&format!("Last-Event-ID: {last}")]);
    let all: Vec<&str> =
        before.iter().map(String::as_str).chain(after.iter().map(|(_, name, _)| name.as_str())).collect();
    for once in ["start", "decompose_blocks", "search_missing", "creating_block", "block_test_passed", "complete"] {
        assert_eq!(all.iter().filter(|name| **name == once).count(), 1, "{once}: {all:?}");
    }
    // Each model call was made once, before or after the crash.
    let (_, _, complete) = after.last().expect("events");
    let run = server.get(&format!("/api/v1/runs/{}", complete["run_id"].as_str().expect("a run"))).json();
    let asked = run["steps"].as_array().expect("steps").iter().filter(|step| step["kind"] == "generate");
    let places: Vec<&str> = asked.map(|step| step["path"].as_str().expect("a path")).collect();
    assert_eq!(places.len(), 4, "{places:?}");
    assert_eq!(server.get("/api/pipelines/pipeline_shout").json()["nodes"][0]["block_id"], "shout");
}

/// AgentFlow's front end sends a `user_id` with a goal, no key, and nothing with the requests that follow.
#[test]
fn what_is_made_for_a_user_is_found_and_run_without_a_key() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let made = server.post("/api/create-agent", &json!({"intent": "Shout hello", "user_id": "user_999"})).json();
    let listed = server.get("/api/pipelines").json();
    assert_eq!((&listed[0]["id"], &listed[0]["user_id"]), (&json!("pipeline_shout"), &json!("user_999")), "{listed}");
    assert_eq!(server.get("/api/pipelines/pipeline_shout").json()["nodes"][0]["block_id"], "shout");
    let ran = server.post("/api/pipelines/pipeline_shout/run", &json!({})).json();
    assert_eq!(ran["shared_context"]["n1"], json!({"text": "HELLO"}), "{ran}");
    assert_eq!(server.get("/api/executions").json()[0]["user_id"], "user_999");
    let nodes = read_events(&server, "/api/pipelines/pipeline_shout/run/stream", &[]);
    assert_eq!(
        nodes.last().map(|(_, name, data)| (name.as_str(), &data["status"])),
        Some(("complete", &json!("completed")))
    );
    assert_eq!(server.get("/api/blocks/shout/source").json()["type"], "python");
    assert!(server.get("/api/blocks").body.contains("\"shout\""));
    // Saved again, it stays the same user's, whose blocks it uses.
    let saved = server.post("/api/pipelines", &json!({"pipeline": made["pipeline_json"]})).json();
    assert_eq!(saved["problems"], json!([]), "{saved}");
    assert_eq!(server.get("/api/pipelines").json().as_array().map(Vec::len), Some(1));
    // What is created for another user has other ids, because requests name pipelines and blocks by their id alone. The
    // scripted model knows no other block than `shout`.
    let request = json!({"intent": "Shout hello", "user_id": "ann"});
    let failed = server.post("/api/create-agent", &request).json();
    assert_eq!(failed["log"][2]["created"], json!(["shout_2"]), "{failed}");
    assert_eq!(server.get("/api/blocks/shout_2/source").json()["type"], "python");
    assert_eq!(server.send_and_read("DELETE", "/api/blocks/shout_2", &[], "").status, 204);
    let mut block = server.get("/api/blocks/shout").json();
    block["user_id"] = json!("ann");
    assert_eq!(server.post("/api/blocks?user_id=ann", &block).status, 200);
    let made = server.post("/api/create-agent", &request).json();
    assert_eq!(made["pipeline_json"]["id"], "pipeline_shout_2", "{made}");
    let ran = server.post("/api/pipelines/pipeline_shout_2/run", &json!({})).json();
    assert_eq!(ran["status"], "completed", "{ran}");
    for (user, count) in [("ann", 1), ("user_999", 2), ("nobody", 0)] {
        let listed = server.get(&format!("/api/executions?user_id={user}")).json();
        assert_eq!(listed.as_array().map(Vec::len), Some(count), "{user}: {listed}");
    }
    assert_eq!(server.send_and_read("DELETE", "/api/pipelines/pipeline_shout_2", &[], "").status, 204);
    assert_eq!(server.get("/api/pipelines").json().as_array().map(Vec::len), Some(1));
}

/// A client that chooses ids itself can give two users the same id; its requests must then name the user.
#[test]
fn a_pipeline_that_two_users_have_is_run_for_the_user_in_the_request() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let node = json!({"id": "n1", "block_id": "memory_read", "inputs": {"key": "a"}});
    let pipeline = json!({"id": "same", "name": "Same", "nodes": [node], "edges": []});
    for user in ["ann", "bob"] {
        let stored = server.post("/api/pipelines", &json!({"pipeline": pipeline, "user_id": user})).json();
        assert_eq!(stored["problems"], json!([]), "{stored}");
    }
    for unclear in [server.get("/api/pipelines/same"), server.post("/api/pipelines/same/run", &json!({}))] {
        assert_eq!((unclear.status, unclear.error_code()), (400, "FL1505".to_owned()), "{unclear:?}");
    }
    let ran = server.post("/api/pipelines/same/run", &json!({"user_id": "bob"}));
    assert_eq!(ran.status, 200, "{ran:?}");
    assert_eq!(server.post("/api/pipelines/same/run?user_id=ann", &json!({})).status, 200);
    let users: Vec<Value> = ["ann", "bob"]
        .iter()
        .map(|user| server.get(&format!("/api/executions?user_id={user}")).json()[0]["user_id"].clone())
        .collect();
    assert_eq!(users, ["ann", "bob"]);
    assert_eq!(server.send_and_read("DELETE", "/api/pipelines/same?user_id=ann", &[], "").status, 204);
    assert_eq!(server.get("/api/pipelines/same").status, 200);
}

#[test]
fn with_keys_the_pipelines_of_other_users_are_not_there() {
    let place = create_workspace();
    let key = |user: &str| {
        let (_, made) =
            place.run_json(&["keys", "create", "--name", user, "--user", user, "--scopes", "read,run,write"]);
        format!("Authorization: Bearer {}", made["key"].as_str().unwrap_or_else(|| panic!("{made}")))
    };
    let (ann, bob) = (key("ann"), key("bob"));
    let server = RunningServer::start(&place, &[]);
    let json_type = "Content-Type: application/json";
    let goal = json!({"intent": "Shout hello"}).to_string();
    let made = server.send_and_read("POST", "/api/create-agent", &[&ann, json_type], &goal);
    assert_eq!(made.json()["status"], "done", "{made:?}");
    let as_user = |key: &str, method: &str, path: &str| server.send_and_read(method, path, &[key], "");
    assert_eq!(as_user(&ann, "GET", "/api/pipelines/pipeline_shout").status, 200);
    for path in ["/api/pipelines", "/api/pipelines?user_id=bob"] {
        assert_eq!(as_user(&bob, "GET", path).json(), json!([]), "{path}");
    }
    assert!(!as_user(&bob, "GET", "/api/blocks").body.contains("\"shout\""));
    for suffix in ["", "?user_id=ann"] {
        for (method, path) in [
            ("GET", "/api/pipelines/pipeline_shout"),
            ("DELETE", "/api/pipelines/pipeline_shout"),
            ("POST", "/api/pipelines/pipeline_shout/run"),
            ("GET", "/api/pipelines/pipeline_shout/run/stream"),
            ("GET", "/api/blocks/shout"),
            ("GET", "/api/blocks/shout/source"),
            ("DELETE", "/api/blocks/shout"),
        ] {
            let refused = as_user(&bob, method, &format!("{path}{suffix}"));
            assert_eq!(refused.status, 404, "{method} {path}{suffix}: {refused:?}");
        }
    }
    assert_eq!(as_user(&bob, "GET", "/api/pipelines?user_id=ann").status, 404);
    assert_eq!(as_user(&ann, "GET", "/api/pipelines/pipeline_shout").status, 200);
}

#[test]
fn every_event_of_an_automation_says_its_own_name() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let path = "/api/automate/stream?intent=Shout%20hello";
    let all = read_events(&server, path, &[]);
    for (_, name, data) in &all {
        assert_eq!(&data["type"], name, "{data}");
    }
    let (_, _, last) = all.last().expect("events");
    assert_eq!(last["pipeline"]["id"], "pipeline_shout", "{last}");
    assert!(last["usage"]["stages"].is_object() && last["thinker_run_id"].is_string(), "{last}");
    assert_eq!(last["log"][0]["step"], "decompose", "{last}");
    // A client that follows the pipeline's run only gets the same end.
    let node = all.iter().find(|(_, name, _)| name == "node_started").expect("a node");
    let again = read_events(&server, path, &[&format!("Last-Event-ID: {}", node.0)]);
    assert_eq!(again.last().map(|(_, _, data)| data), Some(last));
}

#[test]
fn a_used_up_budget_is_the_reason_that_is_reported() {
    for (budget, code) in [("tokens=100", "FL1110"), ("steps=3", "FL1101")] {
        let place = create_workspace();
        let config = format!(
            "default_model = \"scripted:said.json\"\n[embeddings]\nmodel = \"none\"\n[author]\nbudget = \"{budget}\"\n"
        );
        place.write("flowloom.toml", &config);
        let server = RunningServer::start(&place, &[]);
        let agent = server.post("/api/create-agent", &json!({"intent": "Shout hello"})).json();
        assert_eq!((&agent["status"], &agent["code"]), (&json!("failed"), &json!(code)), "{agent}");
        assert!(!agent.to_string().contains("is ending"), "{agent}");
        // The log has one entry for each stage, and no prompts.
        assert!(
            agent["log"].as_array().is_some_and(|log| log.iter().all(|entry| entry["step"].is_string())),
            "{agent}"
        );
        assert!(agent["log"].to_string().len() < 1000, "{agent}");
        let events = read_events(&server, "/api/create-agent/stream?intent=Shout%20hello", &[]);
        let (_, name, last) = events.last().expect("events");
        assert_eq!((name.as_str(), &last["code"]), ("error", &json!(code)), "{last}");
    }
}

/// A model that would write a stub for a block that has to notify a user.
#[test]
fn a_block_that_acts_on_the_world_is_never_written() {
    let place = create_workspace();
    let fields = |names: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string", "description": "d"}))).collect();
        json!({"type": "object", "properties": properties, "required": names})
    };
    let wanted = |description: &str, category: &str| {
        json!({"required_blocks": [{"suggested_id": "deliver_it", "description": description, "category": category,
            "execution_type": "python", "depends_on": [], "input_schema": fields(&["channel", "words"]),
            "output_schema": fields(&["receipt"])}]})
    };
    let stub = json!({"source_code": "async def execute(inputs, context):\n    return {'receipt': 'sent'}\n",
        "examples": [{"inputs": {"channel": "a", "words": "b"}, "outputs": {"receipt": "sent"}}]});
    let answers = json!({"match": [
        {"contains": "Write this block.", "answer": stub.to_string()},
        {"contains": "the team", "answer": wanted("Sends the words to a channel of the team", "process").to_string()},
        {"contains": "the board", "answer": wanted("Bring the words to the board", "action").to_string()},
    ]});
    place.write("said.json", &answers.to_string());
    let server = RunningServer::start(&place, &[]);
    for goal in ["Tell the team", "Tell the board"] {
        let agent = server.post("/api/automate", &json!({"intent": goal})).json();
        assert_eq!((&agent["status"], &agent["missing_blocks"]), (&json!("failed"), &json!(["deliver_it"])), "{agent}");
        assert!(agent["reason"].as_str().is_some_and(|reason| reason.contains("acts on the outside world")), "{agent}");
    }
}

#[test]
fn a_goal_is_neither_empty_nor_endless() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    for goal in ["", "  \n", &"x".repeat((1 << 20) + 1)] {
        assert_eq!(server.post("/api/clarify", &json!({"message": goal})).status, 400);
        assert_eq!(server.post("/api/create-agent", &json!({"intent": goal})).status, 400);
    }
}
