//! Definitions over HTTP and `flowloom sync`.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{Workspace, exit_code, stderr_text};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

fn steps_json(id: &str, says: &str) -> Value {
    json!({"id": id, "name": id, "description": "d", "steps": [
        {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": says},
    ]})
}

/// A pipeline with one node that runs the block `shout`.
fn pipeline_json(id: &str) -> Value {
    json!({"id": id, "name": "Shouting", "user_prompt": "shout",
        "nodes": [{"id": "n1", "block_id": "shout", "inputs": {"text": "hey"}}], "edges": []})
}

fn block_json(sign: &str) -> Value {
    json!({"id": "shout", "name": "Shout", "description": "Says it loudly", "category": "process",
        "execution_type": "python", "tags": ["voice"],
        "source_code": format!("async def execute(inputs, context):\n    return {{'loud': inputs['text'] + '{sign}'}}\n"),
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "output_schema": {"type": "object", "properties": {"loud": {"type": "string"}}}})
}

fn send_put(server: &RunningServer, path: &str, body: &Value) -> HttpAnswer {
    server.send_and_read("PUT", path, &["Content-Type: application/json"], &body.to_string())
}

fn send_delete(server: &RunningServer, path: &str) -> HttpAnswer {
    server.send_and_read("DELETE", path, &[], "")
}

fn run_workflow(server: &RunningServer, workflow: &str) -> Value {
    server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "hi"})).json()
}

#[test]
fn a_workflow_is_put_run_changed_and_deleted() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let path = "/api/v1/workflows/hello";
    let created = send_put(&server, path, &steps_json("hello", "Say {{input}}"));
    assert_eq!((created.status, created.json()["changed"].as_str()), (201, Some("created")), "{created:?}");
    assert_eq!(run_workflow(&server, "hello")["output"], "LLM(Say hi)");
    assert_eq!(send_put(&server, path, &steps_json("hello", "Say {{input}}")).json()["changed"], "unchanged");
    let updated = send_put(&server, path, &steps_json("hello", "Tell {{input}}")).json();
    assert_eq!(
        (&updated["changed"], &updated["version"], &updated["origin"]),
        (&json!("updated"), &json!(2), &json!("api"))
    );
    assert_eq!(run_workflow(&server, "hello")["output"], "LLM(Tell hi)");

    let versions = server.get(&format!("{path}/versions")).json();
    assert_eq!(versions["items"].as_array().map(Vec::len), Some(2));
    let first = server.get(&format!("{path}/source?version=1")).json();
    assert!(first["files"]["hello.json"].as_str().is_some_and(|text| text.contains("Say ")), "{first}");
    // A source that was read can be stored again, which restores an earlier version.
    assert_eq!(send_put(&server, path, &first).json()["version"], 3);
    assert_eq!(run_workflow(&server, "hello")["output"], "LLM(Say hi)");

    assert_eq!(send_delete(&server, path).status, 204);
    assert_eq!((send_delete(&server, path).status, server.get(path).status), (404, 404));
    assert_eq!(server.post("/api/v1/runs", &json!({"workflow": "hello"})).status, 404);
    // Its versions remain, and it is listed until it is stored again.
    assert_eq!(server.get(&format!("{path}/versions")).json()["items"].as_array().map(Vec::len), Some(3));
    let deleted = || server.get("/api/v1/deleted-workflows").json()["items"].clone();
    assert_eq!((&deleted()[0]["id"], &deleted()[0]["version"]), (&json!("hello"), &json!(3)));
    assert_eq!(send_put(&server, path, &first).status, 201);
    assert_eq!(deleted(), json!([]));
}

/// `flowloom list` and `check` say the same.
#[test]
fn a_text_that_is_only_included_is_listed_as_no_workflow() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("greeting.mdx", "{include('tone')} Greet the guests.\n\n<GenText as=\"g\" />\n");
    place.write("tone.mdx", "Be kind.\n");
    place.write("notes.mdx", "Nobody includes this.\n");
    let server = RunningServer::start(&place, &[]);
    let list = || {
        let listed = server.get("/api/v1/workflows").json();
        let ids = listed["items"].as_array().expect("a list").iter().map(|item| item["id"].as_str().map(str::to_owned));
        ids.collect::<Option<Vec<_>>>().expect("ids")
    };
    assert_eq!(list(), ["greeting", "notes"]);
    place.write("greeting.mdx", "Greet the guests.\n\n<GenText as=\"g\" />\n");
    assert_eq!(list(), ["greeting", "notes", "tone"]);
}

#[test]
fn what_is_wrong_is_reported_at_once_and_nothing_is_stored() {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("file.json", &steps_json("file", "x").to_string());
    let server = RunningServer::start(&place, &[]);
    let bad = json!({"id": "bad", "name": "bad", "description": "d", "steps": [
        {"name": "s", "functionId": "agent::chat", "mode": "sideways", "errorMode": "fail"},
        {"name": "t", "functionId": "agent::chat", "mode": "upside", "errorMode": "fail"},
    ]});
    let refused = send_put(&server, "/api/v1/workflows/bad", &bad);
    assert_eq!((refused.status, refused.error_code()), (422, "FL1034".to_owned()));
    let codes: Vec<Value> =
        refused.json()["errors"].as_array().expect("a list").iter().map(|e| e["code"].clone()).collect();
    assert!(codes.len() > 1, "{codes:?}");
    assert_eq!(server.get("/api/v1/workflows/bad").status, 404);
    let checked = server.post("/api/v1/check", &bad).json();
    assert_eq!((&checked["is_refused"], &checked["format"]), (&json!(true), &json!("steps")));
    assert_eq!(checked["problems"].as_array().map(Vec::len), Some(codes.len()));

    let draft = send_put(&server, "/api/v1/workflows/bad?draft=true", &bad);
    assert_eq!((draft.status, &draft.json()["is_refused"]), (201, &json!(true)));
    assert_eq!(server.post("/api/v1/runs", &json!({"workflow": "bad"})).status, 422);

    let mut pipeline = pipeline_json("py");
    let broken = json!({"id": "b", "name": "b", "description": "d", "category": "process", "execution_type": "python",
        "input_schema": {}, "output_schema": {}, "source_code": "async def execute(inputs context):\n    return {}\n"});
    pipeline["blocks"] = json!([broken]);
    pipeline["nodes"] = json!([{"id": "n1", "block_id": "b", "inputs": {}}]);
    let refused = send_put(&server, "/api/v1/workflows/py", &pipeline);
    assert_eq!(
        (refused.status, refused.json()["errors"][0]["code"].as_str()),
        (422, Some("FL0404")),
        "{}",
        refused.json()
    );

    let other = send_put(&server, "/api/v1/workflows/one", &steps_json("two", "x"));
    assert_eq!((other.status, other.error_code()), (400, "FL1505".to_owned()));
    let mine = send_put(&server, "/api/v1/workflows/file", &steps_json("file", "y"));
    assert_eq!((mine.status, mine.error_code()), (409, "FL1510".to_owned()));
    assert_eq!(send_delete(&server, "/api/v1/workflows/file").error_code(), "FL1510");
    let outside = json!({"entry": "a.json", "files": {"a.json": "{}", "../b.json": "{}"}});
    assert_eq!(send_put(&server, "/api/v1/workflows/a", &outside).status, 400);
}

#[test]
fn markdown_comes_as_text_and_as_a_form_of_files() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let text = "Say hello.\n\n<GenText as=\"answer\" model=\"scripted:echo\" />\n";
    let kept = server.send_and_read("PUT", "/api/v1/workflows/poem", &["Content-Type: text/markdown"], text);
    assert_eq!((kept.status, &kept.json()["format"]), (201, &json!("markdown")), "{kept:?}");
    assert_eq!(run_workflow(&server, "poem")["status"], "succeeded");

    let part = |name: &str, file: &str, text: &str| {
        let file = if file.is_empty() { String::new() } else { format!("; filename=\"{file}\"") };
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{text}\r\n")
    };
    let form = [
        part("entry", "", "pipe.json"),
        part("file", "pipe.json", &pipeline_json("pipe").to_string()),
        part("file", "blocks/shout.json", &block_json("!").to_string()),
        "--b--\r\n".to_owned(),
    ];
    let head = ["Content-Type: multipart/form-data; boundary=b"];
    let kept = server.send_and_read("PUT", "/api/v1/workflows/pipe", &head, &form.concat());
    assert_eq!((kept.status, &kept.json()["format"]), (201, &json!("pipeline")), "{kept:?}");
    // A form may be as large as another body, and a file as large as another source.
    let file =
        |bytes: usize| part("file", "large.json", &steps_json("large", &"x".repeat(bytes)).to_string()) + "--b--\r\n";
    assert_eq!(server.send_and_read("PUT", "/api/v1/workflows/large", &head, &file(3 << 20)).status, 201);
    assert_eq!(server.send_and_read("PUT", "/api/v1/workflows/large", &head, &file(17 << 20)).status, 413);
    // Another site's page could send a form by POST without preflight.
    assert_eq!(server.send_and_read("POST", "/api/v1/check", &head, &form.concat()).status, 415);
    assert_eq!(server.send_and_read("POST", "/api/v1/runs", &["Content-Type: text/markdown"], text).status, 415);
}

#[test]
fn parts_are_shared_and_not_deleted_while_they_are_needed() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    assert_eq!(send_put(&server, "/api/v1/workflows/p", &pipeline_json("p")).status, 422);
    assert_eq!(send_put(&server, "/api/v1/blocks/shout", &block_json("!")).status, 201);
    assert_eq!(send_put(&server, "/api/v1/workflows/p", &pipeline_json("p")).status, 201);
    let printed = |run: &Value| run["result"]["results"]["n1"].to_string();
    let first = run_workflow(&server, "p");
    assert!(printed(&first).contains("hey!"), "{first}");
    // A changed block applies from the next run on.
    assert_eq!(send_put(&server, "/api/v1/blocks/shout", &block_json("?")).status, 200);
    let second = run_workflow(&server, "p");
    assert!(printed(&second).contains("hey?"), "{second}");
    assert_eq!(server.get("/api/v1/blocks/shout").json()["used_by"], serde_json::json!(["p"]));
    let used = send_delete(&server, "/api/v1/blocks/shout");
    assert_eq!((used.status, used.error_code()), (409, "FL1509".to_owned()));
    assert!(used.json()["detail"].as_str().is_some_and(|detail| detail.ends_with("used by p")), "{used:?}");
    assert_eq!(send_delete(&server, "/api/v1/workflows/p").status, 204);
    assert_eq!(send_delete(&server, "/api/v1/blocks/shout").status, 204);

    // Agents and shared tools.
    let graph = json!({"id": "g", "name": "g", "entrypointNodeId": "n", "nodes": [
        {"id": "n", "workflowId": "g", "nodeType": "AGENT", "nodeName": "Ann", "agentId": "ann"},
        {"id": "t", "workflowId": "g", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor"},
    ], "edges": [{"id": "e", "workflowId": "g", "sourceNodeId": "n", "targetNodeId": "t", "conditionType": "CONDITIONAL", "conditionValue": "tool_executor"}]});
    let agent = json!({"agentId": "ann", "systemPrompt": "Be kind.", "tools": ["look"]});
    let tool = json!({"toolId": "look", "type": "function", "internalApiPath": "/look",
        "function": {"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {}}}});
    assert_eq!(send_put(&server, "/api/v1/agents/ann", &agent).status, 201);
    assert_eq!(send_put(&server, "/api/v1/workflows/g", &graph).status, 422);
    assert_eq!(send_put(&server, "/api/v1/tools/look", &tool).status, 201);
    assert_eq!(send_put(&server, "/api/v1/workflows/g", &graph).status, 201);
    assert_eq!(send_delete(&server, "/api/v1/agents/ann").error_code(), "FL1509");
    assert_eq!(send_delete(&server, "/api/v1/tools/look").error_code(), "FL1509");
    assert_eq!(server.get("/api/v1/agents").json()["items"][0]["definition"]["systemPrompt"], "Be kind.");

    let turn = |text: &str| server.post("/api/v1/threads/g/t1?wait=60", &json!({"message": text}));
    assert_eq!((turn("hello").status, turn("again").status), (200, 200));
    let printed = server.get("/api/v1/threads/g/t1").json();
    assert_eq!(printed["messages"].as_array().map(Vec::len), Some(4), "{printed}");
    assert_eq!(server.get("/api/v1/threads").json()["items"][0]["messages"], 4);
    assert_eq!(send_delete(&server, "/api/v1/threads/g/t1").status, 204);
    assert_eq!(server.get("/api/v1/threads/g/t1").status, 404);
}

#[test]
fn definitions_belong_to_their_users() {
    let place = Workspace::new(ECHO_CONFIG);
    let key = |user: &str| {
        let made = place.run(&["keys", "create", "--name", user, "--scopes", "write,run", "--user", user]);
        format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
    };
    let (ann, bob) = (key("ann"), key("bob"));
    let server = RunningServer::start(&place, &[]);
    let call = |who: &str, method: &str, path: &str, body: &str| {
        server.send_and_read(method, path, &[who, "Content-Type: application/json"], body)
    };
    let path = "/api/v1/workflows/mine";
    assert_eq!(call(&ann, "PUT", path, &steps_json("mine", "A {{input}}").to_string()).status, 201);
    assert_eq!(call(&bob, "GET", path, "").status, 404);
    assert_eq!(call(&bob, "DELETE", path, "").status, 404);
    assert_eq!(call(&bob, "GET", &format!("{path}?user=ann"), "").status, 404);
    assert_eq!(call(&bob, "PUT", path, &steps_json("mine", "B {{input}}").to_string()).status, 201);
    let run = |who: &str| call(who, "POST", "/api/v1/runs?wait=60", r#"{"workflow": "mine", "inputs": "x"}"#).json();
    assert_eq!((&run(&ann)["output"], &run(&bob)["output"]), (&json!("LLM(A x)"), &json!("LLM(B x)")));
    assert_eq!(call(&ann, "PUT", "/api/v1/memory/bob/k", "1").status, 404);
    assert_eq!(call(&ann, "PUT", "/api/v1/memory/ann/k", "1").status, 204);
    assert_eq!(call(&ann, "GET", "/api/memory/ann", "").json(), json!({"k": 1}));
}

#[test]
fn files_with_the_same_id_are_reported_by_every_command() {
    let place = Workspace::new(ECHO_CONFIG);
    std::fs::create_dir_all(place.path("flows")).expect("a folder");
    place.write("flows/a.json", &steps_json("twin", "A").to_string());
    place.write("flows/b.json", &steps_json("twin", "B").to_string());
    let checked = place.run(&["check", "flows"]);
    assert_eq!((exit_code(&checked), stderr_text(&checked).matches("have the same id \"twin\"").count()), (2, 2));
    let (_, listed) = place.run_json(&["list", "flows"]);
    assert!(listed.as_array().is_some_and(|all| all.iter().all(|one| one["errors"] == 1)), "{listed}");
    let agent = place.run(&["agent", "flows", "-m", "hi"]);
    assert!(stderr_text(&agent).contains("the agent cannot use a.json"), "{}", stderr_text(&agent));
    assert!(stderr_text(&agent).contains("have the same id \"twin\""), "{}", stderr_text(&agent));
}

#[test]
fn a_folder_is_taken_over_as_a_whole() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let folder = place.path("flows");
    let folder = folder.to_str().expect("text");
    let sync = |more: &[&str]| place.run_json(&[&["sync", folder], more].concat());
    std::fs::create_dir_all(place.path("flows/deep/blocks")).expect("folders");
    place.write("flows/a.json", &steps_json("a", "A {{input}}").to_string());
    place.write("flows/deep/p.json", &pipeline_json("p").to_string());
    place.write("flows/deep/blocks/shout.json", &block_json("!").to_string());
    let (code, dry) = sync(&["--dry-run"]);
    assert_eq!((code, &dry["created"]), (0, &json!(["a", "p"])), "{dry}");
    assert_eq!(server.get("/api/v1/workflows/p").json()["origin"], Value::Null, "the folder is also served directly");
    sync(&[]);
    assert_eq!(sync(&[]).1["unchanged"], json!(["a", "p"]));

    // Workflows stored by other requests are not pruned.
    send_put(&server, "/api/v1/workflows/other", &steps_json("other", "x"));
    place.write("flows/a.json", &steps_json("a", "Now {{input}}").to_string());
    std::fs::remove_file(place.path("flows/deep/p.json")).expect("removed");
    let (_, pruned) = sync(&["--prune"]);
    assert_eq!((&pruned["updated"], &pruned["deleted"]), (&json!(["a"]), &json!(["p"])));
    assert_eq!(server.get("/api/v1/workflows/other").status, 200);

    place.write("flows/other.json", &steps_json("other", "y").to_string());
    let replaced = place.run(&["sync", folder]);
    assert!(stderr_text(&replaced).contains("replaced what was stored through the API: other"), "{replaced:?}");
    std::fs::remove_file(place.path("flows/other.json")).expect("removed");

    place.write("flows/bad.json", "{\"steps\": 1, \"name\": \"bad\", \"description\": \"\"}");
    let refused = place.run(&["sync", folder]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("Nothing was changed: 1 of 2 have errors"), "{}", stderr_text(&refused));

    std::fs::remove_file(place.path("flows/bad.json")).expect("removed");
    let address = format!("http://{}", server.address);
    let elsewhere = Workspace::new("");
    std::fs::create_dir_all(elsewhere.path("flows")).expect("a folder");
    elsewhere.write("flows/b.json", &steps_json("b", "B {{input}}").to_string());
    let folder = elsewhere.path("flows");
    let folder = folder.to_str().expect("text");
    let synced = elsewhere.run_json(&["sync", folder, "--server", &address]);
    assert_eq!(synced, (0, json!({"created": ["b"], "updated": [], "unchanged": [], "deleted": []})));
    assert_eq!(server.get("/api/v1/workflows/b").status, 200);
    let nobody = elsewhere.run(&["sync", folder, "--server", "http://127.0.0.1:1"]);
    assert!(exit_code(&nobody) == 1 && stderr_text(&nobody).contains("did not respond"), "{}", stderr_text(&nobody));
    let refused =
        elsewhere.build_command(&["sync", folder, "--server", &address]).env("FLOWLOOM_KEY", "fl_no").output();
    let refused = refused.expect("it runs");
    assert!(exit_code(&refused) == 2 && stderr_text(&refused).contains("FL1502"), "{}", stderr_text(&refused));

    let items =
        json!({"items": [{"id": "c", "entry": "c.json", "files": {"c.json": steps_json("c", "C").to_string()}}]});
    let over_http = send_put(&server, "/api/v1/workflows?prune=true", &items);
    assert_eq!(
        over_http.json(),
        json!({"created": ["c"], "updated": [], "unchanged": [], "deleted": ["a", "b", "other"]})
    );
}

#[test]
fn a_workflow_whose_file_is_broken_is_not_pruned() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let address = format!("http://{}", server.address);
    let elsewhere = Workspace::new("");
    std::fs::create_dir_all(elsewhere.path("flows")).expect("a folder");
    let text = steps_json("a", "A {{input}}").to_string();
    elsewhere.write("flows/a.json", &text);
    let sync = |more: &[&str]| elsewhere.run(&[&["sync", "flows", "--server", &address], more].concat());
    assert_eq!(exit_code(&sync(&[])), 0);

    // A merge without a resolution, an empty file, and one that is no definition any more.
    for (broken, expected) in [
        (format!("<<<<<<< HEAD\n{text}\n=======\n{{}}\n>>>>>>> x\n"), "Nothing was changed: 1 of 1 have errors"),
        (String::new(), "a.json is no workflow any more, and the stored workflow a is from it"),
        ("{\"wind\": 3}".to_owned(), "a.json is no workflow any more"),
    ] {
        elsewhere.write("flows/a.json", &broken);
        let refused = sync(&["--prune"]);
        assert_eq!(exit_code(&refused), 2, "{broken}: {}", stderr_text(&refused));
        assert!(stderr_text(&refused).contains(expected), "{broken}: {}", stderr_text(&refused));
        assert_eq!(server.get("/api/v1/workflows/a").status, 200, "{broken}");
    }
    let below = elsewhere.run(&["sync", "flows", "--prune", "--server", &format!("{address}/below")]);
    assert_ne!(exit_code(&below), 0, "the path of the address counts");
    std::fs::remove_file(elsewhere.path("flows/a.json")).expect("removed");
    assert_eq!(exit_code(&sync(&["--prune"])), 0);
    assert_eq!(server.get("/api/v1/workflows/a").status, 404);
}

#[test]
fn a_change_returns_what_it_has_stored() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    for _ in 0..5 {
        let stored = std::thread::scope(|scope| {
            let put = |name: String| {
                let body = json!({"id": "shared", "name": name, "description": "", "steps": []});
                let reply = send_put(&server, "/api/v1/workflows/shared?draft=true", &body);
                (name, reply.json()["name"].clone(), read_tag(&reply))
            };
            let writers: Vec<_> = (0..6).map(|writer| scope.spawn(move || put(format!("w{writer}")))).collect();
            writers.into_iter().map(|writer| writer.join().expect("it ends")).collect::<Vec<_>>()
        });
        let tags: std::collections::HashSet<&String> = stored.iter().map(|(_, _, tag)| tag).collect();
        assert_eq!(tags.len(), stored.len(), "{stored:?}");
        assert!(stored.iter().all(|(sent, returned, _)| returned == sent), "{stored:?}");
    }
}

#[test]
fn a_kept_graph_has_the_agents_of_the_configuration() {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[agents.ann]\nfolder = \"people/ann\"\n"));
    std::fs::create_dir_all(place.path("people/ann")).expect("a folder");
    place.write("people/ann/jsonSchema.json", r#"{"agentId": "ann", "tools": []}"#);
    place.write("people/ann/systemPrompt.md", "Be kind.");
    let server = RunningServer::start(&place, &[]);
    let node =
        |agent: &str| json!({"id": "n", "workflowId": "g", "nodeType": "AGENT", "nodeName": "A", "agentId": agent});
    let graph =
        |agent: &str| json!({"id": "g", "name": "g", "entrypointNodeId": "n", "nodes": [node(agent)], "edges": []});
    assert_eq!(send_put(&server, "/api/v1/workflows/g", &graph("bob")).status, 422);
    let kept = send_put(&server, "/api/v1/workflows/g", &graph("ann"));
    assert_eq!((kept.status, &kept.json()["problems"]), (201, &json!([])), "{kept:?}");
}

/// The value of the header `ETag`.
fn read_tag(reply: &HttpAnswer) -> String {
    let line = reply.head.lines().find_map(|line| line.strip_prefix("etag: "));
    line.unwrap_or_else(|| panic!("no etag: {reply:?}")).to_owned()
}

#[test]
fn a_change_needs_the_content_that_it_was_made_for() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let kinds = [
        ("/api/v1/workflows/hello", steps_json("hello", "A"), steps_json("hello", "B")),
        ("/api/v1/blocks/shout", block_json("!"), block_json("?")),
        ("/api/v1/agents/guide", json!({"id": "guide", "name": "A"}), json!({"id": "guide", "name": "B"})),
        ("/api/v1/tools/weather", json!({"id": "weather", "name": "A"}), json!({"id": "weather", "name": "B"})),
    ];
    for (path, first, second) in &kinds {
        let put = |body: &Value, condition: &str| {
            server.send_and_read("PUT", path, &["Content-Type: application/json", condition], &body.to_string())
        };
        let refused = put(first, "If-Match: *");
        assert_eq!((refused.status, refused.error_code()), (412, "FL1516".to_owned()), "{path}: {refused:?}");
        let created = put(first, "If-None-Match: *");
        assert_eq!(created.status, 201, "{path}: {created:?}");
        let before = read_tag(&created);
        assert_eq!(read_tag(&server.get(path)), before, "{path}");
        let updated = put(second, &format!("If-Match: {before}"));
        assert_eq!(updated.status, 200, "{path}: {updated:?}");
        let now = read_tag(&updated);
        // A client that has read the first content does not overwrite the second.
        for condition in [&format!("If-Match: {before}"), "If-Match: \"bogus\"", "If-None-Match: *"] {
            assert_eq!(put(first, condition).status, 412, "{path} {condition}");
        }
        assert_eq!(read_tag(&server.get(path)), now, "{path}: nothing was changed");
        assert_eq!(put(second, "If-Match: bogus").status, 400, "{path}: a tag has quotes");
        let read = if path.contains("workflows") { format!("{path}/source") } else { (*path).to_owned() };
        let unchanged = server.send_and_read("GET", &read, &[&format!("If-None-Match: {now}")], "");
        assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""), "{path}");
        // The same content again is another version.
        let again = put(first, &format!("If-Match: \"x\", {now}"));
        assert_ne!((again.status, read_tag(&again)), (200, before.clone()), "{path}");
        let delete = |tag: &str| server.send_and_read("DELETE", path, &[&format!("If-Match: {tag}")], "");
        assert_eq!(delete(&before).status, 412, "{path}");
        assert_eq!(delete(&read_tag(&again)).status, 204, "{path}");
    }
}

#[test]
fn files_of_any_script_have_ids_of_their_own() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    std::fs::create_dir_all(place.path("flows")).expect("a folder");
    let folder = place.path("flows");
    let folder = folder.to_str().expect("text");
    for name in ["\u{5e02}", "\u{573a}", "\u{5929}\u{6c14}"] {
        let step = json!({"type": "llmInstruction", "config": {"instruction": name, "resultVariable": "said"}});
        let flow = json!({"name": name, "description": "d", "steps": [step]});
        place.write(&format!("flows/{name}.json"), &flow.to_string());
    }
    let (code, synced) = place.run_json(&["sync", folder]);
    assert_eq!((code, synced["created"].as_array().map(Vec::len)), (0, Some(3)), "{synced}");
    let (_, again) = place.run_json(&["sync", folder]);
    assert_eq!(again["unchanged"].as_array().map(Vec::len), Some(3), "{again}");
    let run = server.post("/api/v1/runs?wait=10", &json!({"workflow": "\u{5929}\u{6c14}", "inputs": {}}));
    assert_eq!(run.json()["output"], "LLM(\u{5929}\u{6c14})", "{run:?}");
}

#[test]
fn definitions_that_share_an_id_are_refused() {
    let place = Workspace::new(ECHO_CONFIG);
    std::fs::create_dir_all(place.path("flows/x")).expect("folders");
    for file in ["flows/x.y.json", "flows/x/y.json"] {
        place.write(file, &json!({"name": file, "description": "d", "steps": []}).to_string());
    }
    let folder = place.path("flows");
    let refused = place.run(&["sync", folder.to_str().expect("text")]);
    let printed = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2);
    assert!(printed.contains("FL0116") && printed.contains("Nothing was changed"), "{printed}");

    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flows.x.y", "inputs": {}}));
    assert_eq!(run.status, 422, "{run:?}");
    assert!(run.json().to_string().contains("flows/x/y.json and flows/x.y.json"), "{run:?}");
    let item = json!({"id": "c", "entry": "c.json", "files": {"c.json": steps_json("c", "C").to_string()}});
    let twice = send_put(&server, "/api/v1/workflows", &json!({"items": [item, item]}));
    assert_eq!((twice.status, &twice.json()["code"]), (422, &json!("FL0116")), "{twice:?}");
}

#[test]
fn the_example_call_of_a_server_has_the_inputs_that_are_required() {
    let place = Workspace::new(ECHO_CONFIG);
    let inputs = "input:\n  who:\n    type: text\n  size:\n    type: select\n    options: [short, long]\n  how:\n    type: text\n    default: warmly\n";
    let action = "<GenText as=\"g\" model=\"scripted:echo\" />";
    place.write("greet.mdx", &format!("---\n{inputs}---\n\nGreet {{who}}.\n\n{action}\n"));
    let server = RunningServer::start(&place, &[]);
    let call = r#"--json '{"workflow": "greet", "inputs": {"who":"…","size":"short"}}' 'http://"#;
    // The greeting is printed in several lines.
    let is_printed = |_| server.get("/health").status == 200 && server.read_log().contains(call);
    assert!((0..1000).any(is_printed), "{}", server.read_log());
}
