//! Running one step of a workflow alone: what each step of the examples needs, and that it gives what it gave in the whole.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace};

/// Workflows of every format, with their inputs and the model of all steps.
const EXAMPLES: [(&str, &str, &str); 8] = [
    ("flow/weather-report.json", r#"{"city": "Oslo"}"#, "scripted:echo"),
    ("flow/summarize-page.json", "{}", "scripted:echo"),
    ("steps/review-document.json", r#""A fine lamp.""#, "scripted:echo"),
    ("steps/refine.json", r#""lamps""#, "scripted:echo"),
    ("markdown/poem.mdx", r#"{"topic": "lamps"}"#, "scripted:echo"),
    ("markdown/postcards.mdx", "{}", "scripted:echo"),
    ("pipeline/analyse-review.json", "{}", "scripted:answers.json"),
    ("graph/helpdesk.json", r#"{"message": "Where is my order?"}"#, "scripted:echo"),
];

fn place_with_examples(server: &TestServer, model: &str) -> Workspace {
    let place = Workspace::new(&format!(
        "default_model = \"{model}\"\n{}\n[models.alias]\n\"local:smollm2-135m\" = \"{model}\"\n",
        server.egress_config()
    ));
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for folder in ["flow", "steps", "markdown", "pipeline", "pipeline/blocks", "graph", "graph/agents"] {
        copy_files(&format!("{examples}/{folder}"), &place.path(folder), &server.address);
    }
    let product = json!({"city": "Bergen", "short": "A clean hotel."});
    place.write("answers.json", &json!({"match": [], "default": {"json": product}}).to_string());
    place
}

fn copy_files(from: &str, to: &std::path::Path, address: &str) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_files(&entry.path().display().to_string(), &target, address);
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            std::fs::write(target, text.replace("127.0.0.1:8791", address)).expect("written");
        }
    }
}

/// The output of a step of a run, at its first iteration.
fn output_of(server: &RunningServer, run: &str, path: &str) -> Value {
    let steps = server.get(&format!("/api/v1/runs/{run}/steps")).json();
    let plain = |text: &str| {
        let segments = text.split('/').map(|part| part.split(['[', '#']).next().unwrap_or_default().to_owned());
        segments.collect::<Vec<_>>().join("/")
    };
    let found = steps["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["path"].as_str().is_some_and(|own| plain(own) == path) && !step["output"].is_null());
    found.map_or(Value::Null, |step| step["output"].clone())
}

/// Runs a step alone with the values that it had in a run, and returns the result.
fn run_alone(server: &RunningServer, workflow: &str, run: &str, path: &str) -> String {
    let needed = server.get(&format!("/api/v1/workflows/{workflow}/step?path={path}&run=last")).json();
    if let Some(problem) = needed["problem"].as_str() {
        return problem.to_owned();
    }
    let names = |key: &str| {
        let names = needed[key].as_array().expect("inputs").iter();
        names.map(|input| input["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>().join(", ")
    };
    let body = json!({"workflow": workflow, "step": path, "inputs": needed["values"]});
    let alone = server.post("/api/v1/runs?wait=60", &body);
    let alone = alone.json();
    let id = alone["run_id"].as_str().unwrap_or_else(|| panic!("{path}: {alone}"));
    let is_same = output_of(server, id, path) == output_of(server, run, path);
    let replayed = server.post(&format!("/api/v1/runs/{id}/replay"), &json!({})).status;
    let same = if is_same { "as in the whole" } else { "another output" };
    format!("{}, {same}, replay {replayed}; reads {}", alone["status"].as_str().unwrap_or_default(), names("inputs"))
}

#[test]
fn every_step_of_the_examples_runs_alone_or_says_why_not() {
    let pages = TestServer::start();
    let mut report = String::new();
    for (file, inputs, model) in EXAMPLES {
        let place = place_with_examples(&pages, model);
        let server = RunningServer::start(&place, &[]);
        let workflow = server.get("/api/v1/workflows").json()["items"]
            .as_array()
            .expect("workflows")
            .iter()
            .find(|one| one["file"] == file)
            .unwrap_or_else(|| panic!("{file}"))["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let inputs: Value = serde_json::from_str(inputs).expect("JSON");
        let whole = server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": inputs})).json();
        let run = whole["run_id"].as_str().unwrap_or_else(|| panic!("{file}: {whole}")).to_owned();
        report += &format!("{file}: {}\n", whole["status"].as_str().expect("a status"));
        let graph = server.get(&format!("/api/v1/workflows/{workflow}/graph")).json();
        for node in graph["nodes"].as_array().expect("nodes") {
            let path = node["path"].as_str().expect("a path");
            // The newest run is the whole one again.
            server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": inputs}));
            report += &format!("  {path}: {}\n", run_alone(&server, &workflow, &run, path));
        }
    }
    insta::assert_snapshot!(report);
}

#[test]
fn a_step_alone_reads_what_it_is_given_and_is_an_ordinary_run() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = |name: &str, prompt: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "conditional", "condition": "never",
            "promptTemplate": prompt, "outputVar": name, "errorMode": "fail"})
    };
    let steps = [step("draft", "Draft: {{input}}"), step("title", "Title: {{draft}}")];
    place.write("story.json", &json!({"id": "story", "name": "Story", "description": "d", "steps": steps}).to_string());
    let server = RunningServer::start(&place, &[]);
    let needed = server.get("/api/v1/workflows/story/step?path=/title&run=last").json();
    assert_eq!((&needed["run"], &needed["values"]), (&Value::Null, &json!({})), "no run has begun it");
    let start = |step: &str, inputs: Value| {
        server.post("/api/v1/runs?wait=60", &json!({"workflow": "story", "step": step, "inputs": inputs}))
    };
    let run = start("/title", json!({"draft": "a draft"})).json();
    assert_eq!((&run["status"], &run["output"]), (&json!("succeeded"), &json!("LLM(Title: a draft)")), "{run}");
    assert_eq!(run["name"], "Story, only /title");
    let id = run["run_id"].as_str().expect("an id");
    let graph = server.get(&format!("/api/v1/runs/{id}/graph")).json();
    assert_eq!(graph["nodes"].as_array().map(Vec::len), Some(1), "{graph}");
    let fork = server.post(
        &format!("/api/v1/runs/{id}/fork?wait=60"),
        &json!({"edits": [{"path": "/title", "field": "prompt", "text": "Name: {{draft}}"}]}),
    );
    assert_eq!(fork.json()["output"], "LLM(Name: a draft)", "{}", fork.body);
    assert_eq!(start("/nothing", json!({})).status, 404);
    assert_eq!(start("title[", json!({})).status, 404);
    assert_eq!(server.get("/api/v1/workflows/story/step?path=/title&run=nobody").status, 404);
    assert_eq!(server.get("/api/v1/workflows/none/step?path=/title").status, 404);
    let needed = server.get("/api/v1/workflows/story/step?path=/nothing").json();
    assert_eq!(needed["problem"], "the step /nothing cannot run alone: the workflow has no such step");
}
