//! How a run is started and found again: by the name of a stored workflow, in a new project with its declarations, and in
//! a filtered list.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{Workspace, exit_code, stderr_text};

fn listed(place: &Workspace, options: &[&str]) -> Vec<Value> {
    let (code, runs) = place.run_json(&[&["runs"], options].concat());
    assert_eq!(code, 0);
    runs.as_array().expect("a list").clone()
}

#[test]
fn a_folder_stands_for_its_one_workflow() {
    let place = Workspace::with_hello("");
    let text = std::fs::read_to_string(place.path("hello.json")).expect("readable");
    std::fs::create_dir(place.path("one")).expect("a folder");
    place.write("one/greet.json", &text);
    assert_eq!(exit_code(&place.run(&["run", "one", "-i", "input=moon"])), 0);
    assert_eq!(exit_code(&place.run(&["plan", "one"])), 0);
    place.write("one/second.json", &text);
    let refused = place.run(&["run", "one", "-i", "input=moon"]);
    let expected = "the folder one has 2 workflows; name one of them: one/greet.json, one/second.json";
    assert!(exit_code(&refused) == 2 && stderr_text(&refused).contains(expected), "{}", stderr_text(&refused));
}

#[test]
fn a_stored_workflow_runs_by_its_id_after_files() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["sync", "."])), 0);
    let text = std::fs::read_to_string(place.path("hello.json")).expect("readable");
    std::fs::remove_file(place.path("hello.json")).expect("removed");
    let stored = place.run(&["run", "hello", "-i", "input=moon"]);
    assert_eq!(exit_code(&stored), 0, "{}", stderr_text(&stored));
    assert!(String::from_utf8_lossy(&stored.stdout).contains("Say moon"));
    place.write("hello.json", &text.replace("Say ", "Sing "));
    let file = place.run(&["run", "hello", "-i", "input=moon"]);
    assert!(String::from_utf8_lossy(&file.stdout).contains("Sing moon"), "the file comes first");
    let missing = place.run(&["run", "hullo"]);
    assert_eq!(exit_code(&missing), 2);
    assert!(stderr_text(&missing).contains("did you mean hello?"), "{}", stderr_text(&missing));
}

#[test]
fn a_misspelt_name_creates_no_data() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["run", "hullo"])), 2);
    assert!(!place.path("data").exists());
}

#[test]
fn runs_are_filtered() {
    let place = Workspace::with_hello("");
    place.write("script.json", r#"{"match": [], "default": {"error": "down"}}"#);
    for arguments in [
        &["run", "hello", "-i", "input=x"][..],
        &["run", "hello", "-i", "input=x", "--model", "scripted:script.json"],
        &["run", "hello", "-i", "input=x"],
    ] {
        place.run(arguments);
    }
    let count = |options: &[&str]| listed(&place, options).len();
    assert_eq!(count(&[]), 3);
    assert_eq!(
        [count(&["--status", "failed"]), count(&["--status", "succeeded"]), count(&["--status", "running"])],
        [1, 2, 0]
    );
    assert_eq!([count(&["--name", "hello"]), count(&["--name", "other"])], [3, 0]);
    assert_eq!([count(&["--workflow", "hello"]), count(&["--workflow", "other"])], [3, 0]);
    let first = listed(&place, &[])[0]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!([count(&["--before", &first]), count(&["--before", &first, "--limit", "1"])], [2, 1]);
    assert_eq!([count(&["--since", "1h"]), count(&["--since", "0s"])], [3, 0]);
    assert_eq!(exit_code(&place.run(&["runs", "--since", "30"])), 2);
    let empty = place.run(&["runs", "--name", "other"]);
    assert_eq!(stderr_text(&empty), "no runs match\n");
    for none in [["--limit", "0"], ["--since", "2099-01-01"]] {
        assert_eq!(stderr_text(&place.run(&["runs", none[0], none[1]])), "no runs match\n");
    }
    let wrong = place.run(&["runs", "--status", "broken"]);
    assert_eq!(exit_code(&wrong), 2);
    assert!(stderr_text(&wrong).contains("it is one of queued, running,"), "{}", stderr_text(&wrong));
}

#[test]
fn a_model_choice_without_a_model_is_refused() {
    let place = Workspace::with_hello("");
    for given in ["", "=openai:m", "hello="] {
        let refused = place.run(&["run", "hello", "-i", "input=x", "--model", given]);
        let shown = stderr_text(&refused);
        assert!(exit_code(&refused) == 2 && shown.contains("expected a model such as"), "{given:?}: {shown}");
    }
    let unused = stderr_text(&place.run(&["run", "hello", "-i", "input=x", "--model", "other=scripted:echo"]));
    assert!(unused.contains("names the model other"), "{unused}");
}

#[test]
fn a_new_project_declares_what_its_definition_needs() {
    let place = Workspace::new("[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\n");
    let step = |function: &str| {
        json!({"id": "s", "name": "s", "description": "d", "steps": [
            {"name": "a", "functionId": function, "mode": "sequential", "errorMode": "fail"},
        ]})
        .to_string()
    };
    place.write("find.json", &step("shop::find"));
    let created = place.run(&["init", "new", "--from", "find.json"]);
    assert_eq!(exit_code(&created), 0, "{}", stderr_text(&created));
    let config = std::fs::read_to_string(place.path("new/flowloom.toml")).expect("written");
    assert!(config.contains("[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\n"), "{config}");
    let checked = place.run(&["check", "new/find.json"]);
    assert_eq!(exit_code(&checked), 0, "{}", stderr_text(&checked));
    // What nothing declares is named with the place where it belongs.
    place.write("lost.json", &step("shop::lost"));
    let created = place.run(&["init", "other", "--from", "lost.json"]);
    assert_eq!(exit_code(&created), 2, "the project is there, but cannot run yet");
    assert!(stderr_text(&created).contains("[functions.\"shop::lost\"]"), "{}", stderr_text(&created));
}

#[test]
fn a_new_project_may_reach_what_its_definition_names() {
    let place = Workspace::new(
        "[egress]\nallow = [\"127.0.0.1:8791\", \"other.example:80\"]\n[models.alias]\nfast = \"scripted:echo\"\n",
    );
    let call = json!({"type": "apiCall", "config": {"url": "http://127.0.0.1:8791/x", "method": "GET", "responseVariable": "x"}});
    let ask =
        json!({"type": "llmInstruction", "config": {"instruction": "Say it", "model": "fast", "resultVariable": "y"}});
    place.write("call.json", &json!({"name": "call", "steps": [call, ask]}).to_string());
    let created = place.run(&["init", "new", "--from", "call.json"]);
    assert_eq!(exit_code(&created), 0, "{}", stderr_text(&created));
    assert!(stderr_text(&created).contains("it may reach 127.0.0.1:8791 (egress.allow"), "{}", stderr_text(&created));
    let config = std::fs::read_to_string(place.path("new/flowloom.toml")).expect("written");
    assert!(config.contains("\nallow = [\"127.0.0.1:8791\"]"), "{config}");
    assert!(config.contains("[models.alias]\nfast = \"scripted:echo\"\n"), "{config}");
    assert_eq!(exit_code(&place.run(&["check", "new/call.json"])), 0, "the configuration can be read");
}

#[test]
fn an_item_of_the_hub_has_its_flow_as_text_or_as_an_object() {
    let place = Workspace::new("");
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "Say it", "resultVariable": "y"}});
    let flow = json!({"description": "d", "steps": [ask]});
    for (index, item) in [flow.to_string().into(), flow].into_iter().enumerate() {
        let file = format!("item{index}.json");
        place.write(&file, &json!({"item": {"name": "Speaker", "flow": item}}).to_string());
        let imported = place.run(&["import", &file]);
        assert_eq!(exit_code(&imported), 0, "{}", stderr_text(&imported));
        let written = String::from_utf8_lossy(&imported.stdout).into_owned();
        assert!(written.contains("\"name\": \"Speaker\"") && written.contains("llmInstruction"), "{written}");
        assert_eq!(stderr_text(&imported), "", "it has a name");
    }
}

#[test]
fn a_misspelt_workflow_is_named_over_http() {
    let place = Workspace::with_hello("");
    let nodes = json!([{"id": "n", "block_id": "memory_read", "inputs": {"key": "k"}}]);
    place.write("p.json", &json!({"id": "letters", "name": "p", "nodes": nodes, "edges": []}).to_string());
    let server = RunningServer::start(&place, &[]);
    let detail = |answer: HttpAnswer| answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert_eq!(detail(server.get("/api/v1/workflows/hullo")), "there is no workflow hullo; did you mean hello?");
    let run = server.post("/api/workflows/run", &json!({"workflowId": "hullo", "input": 1}));
    assert_eq!(detail(run), "Workflow hullo not found; did you mean hello?");
    let run = server.post("/api/pipelines/leters/run", &json!({}));
    assert_eq!(detail(run), "there is no pipeline leters; did you mean letters?");
}

/// A server calls a file with an id of its own by this id.
#[test]
fn a_file_and_its_own_id_are_two_names_of_one_workflow() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = json!({"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "go"});
    place.write("g.json", &json!({"id": "gg", "name": "G", "description": "d", "steps": [step]}).to_string());
    assert_eq!(place.run_json(&["list"]).1[0]["id"], "gg");
    for name in ["g", "gg", "g.json"] {
        assert_eq!(exit_code(&place.run(&["run", name, "-i", "input=x"])), 0, "{name}");
    }
    let server = RunningServer::start(&place, &[]);
    for name in ["g", "gg"] {
        let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": name, "inputs": "x"})).json();
        assert_eq!(run["status"], "succeeded", "{name}: {run}");
        assert_eq!(server.get(&format!("/api/v1/workflows/{name}")).json()["id"], "gg");
    }
    for name in ["g", "gg"] {
        let page = server.get(&format!("/api/v1/runs?workflow={name}")).json();
        assert_eq!(page["items"].as_array().map(Vec::len), Some(5), "{name}: {page}");
    }
    assert_eq!([listed(&place, &["--workflow", "g"]).len(), listed(&place, &["--workflow", "gg"]).len()], [5, 5]);
}

#[test]
fn a_function_without_its_workflow_refuses_only_what_calls_it() {
    let place = Workspace::with_hello("[functions.\"my::sub\"]\nworkflow = \"sub.json\"\n");
    let step = json!({"name": "a", "functionId": "my::sub", "mode": "sequential", "promptTemplate": "go"});
    let caller = json!({"name": "U", "description": "d", "steps": [step]}).to_string();
    place.write("caller.json", &caller);
    assert_eq!(exit_code(&place.run(&["run", "hello", "-i", "input=x"])), 0);
    let refused = place.run(&["run", "caller", "-i", "input=x"]);
    let reason = "[functions.\"my::sub\"] workflow cannot be read: ";
    assert!(stderr_text(&refused).contains(&format!("error[FL1401]: {reason}")), "{}", stderr_text(&refused));
    let (code, checked) = place.run_json(&["check", "caller.json"]);
    assert!(code == 2 && checked.to_string().contains("workflow cannot be read: "), "{checked}");
    assert_eq!(exit_code(&place.run(&["check", "hello.json"])), 0);
    let (code, report) = place.run_json(&["doctor"]);
    assert!(code == 1 && report.to_string().contains("workflow cannot be read: "), "{report}");
    let server = RunningServer::start(&place, &[]);
    let start = |workflow: &str| {
        server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": {"input": "x"}})).json()
    };
    assert_eq!(start("hello")["status"], "succeeded");
    let refused = start("caller");
    assert_eq!(refused["errors"][0]["code"], "FL1401", "{refused}");
    assert!(server.read_log().contains(reason), "{}", server.read_log());
    // The server notices the new workflow.
    let text = std::fs::read_to_string(place.path("hello.json")).expect("readable");
    place.write("sub.json", &text.replace("\"hello\"", "\"sub\""));
    let run = start("caller");
    assert_eq!(run["status"], "succeeded", "{run}");
}

/// The fields that the recipes of the page take from a list of runs exist.
#[test]
fn recipes_read_fields_that_runs_have() {
    let place = Workspace::with_hello("");
    assert_eq!(exit_code(&place.run(&["run", "hello", "-i", "input=x"])), 0);
    let run = listed(&place, &[]).remove(0);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md"));
    let page = page.expect("the page");
    let recipes = page.lines().filter(|line| line.starts_with("flowloom runs ") && line.contains("jq -r '.[]"));
    let fields: Vec<&str> = recipes.filter_map(|line| line.split('\'').nth(1)?.rsplit('.').next()).collect();
    assert!(!fields.is_empty());
    for field in fields {
        assert!(run[field].is_string(), "{field}: {run}");
    }
}

#[test]
fn what_is_given_twice_or_for_nothing_is_refused() {
    let place = Workspace::with_hello("");
    for (arguments, reason) in [
        (&["run", "hello", "-i", "input=a", "-i", "input=b"][..], "the input input is given twice"),
        (&["run", "hello", "-i", "input=a", "--budget", ""], "not \"\""),
        (&["run", "hello", "-i", "input=a", "--budget", "tokens=5,tokens=10"], "given twice in the budget"),
        (&["keys", "create", "--name", "", "--scopes", "read"], "the name of a key"),
        (&["keys", "create", "--name", "k", "--scopes", ""], "at least one scope"),
        (&["keys", "create", "--name", "k", "--scopes", "read", "--expires", "0s"], "the time 0s is now"),
    ] {
        let refused = place.run(arguments);
        assert_eq!(exit_code(&refused), 2, "{arguments:?}: {}", stderr_text(&refused));
        assert!(stderr_text(&refused).contains(reason), "{arguments:?}: {}", stderr_text(&refused));
    }
    let (_, refused) = place.run_json(&["run", "--bogus"]);
    assert!(!refused.to_string().contains("For more information"), "{refused}");
}

#[test]
fn a_project_from_a_definition_with_errors_is_to_be_checked_first() {
    let place = Workspace::new("");
    place.write("bad.json", r#"{"name": "B", "description": "d", "steps": [{"type": "nothing", "config": {}}]}"#);
    let created = place.run(&["init", "new", "--from", "bad.json"]);
    let shown = stderr_text(&created);
    assert_eq!(exit_code(&created), 2, "{shown}");
    assert!(shown.contains("flowloom check bad.json"), "{shown}");
}
