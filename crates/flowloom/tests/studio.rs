//! The studio as the server serves it, and the routes that it reads. The page itself is tested in `web/browser`.

mod support;

use serde_json::json;
use support::Workspace;
use support::http::RunningServer;

/// The status and the head of a response, in lower case.
fn read_head(server: &RunningServer, path: &str) -> (u16, String) {
    let reply = server.get(path);
    (reply.status, reply.head.to_lowercase())
}

#[test]
fn the_page_is_served_at_its_places() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    for path in ["/", "/runs", "/runs/some-id", "/workflows/hello", "/inbox", "/settings"] {
        let (status, head) = read_head(&server, path);
        assert_eq!(status, 200, "{path}");
        assert!(head.contains("text/html"), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'self';"), "{path}: {head}");
    }
    // Everything else is still a problem for programs.
    for path in ["/nowhere", "/assets/none.js", "/api/v1/nowhere"] {
        let (status, head) = read_head(&server, path);
        assert_eq!(status, 404, "{path}");
        assert!(head.contains("application/problem+json"), "{path}: {head}");
    }
    assert_eq!(server.post("/", &json!({})).status, 404);
}

#[test]
fn a_mistyped_address_shows_a_browser_the_page() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    for path in ["/workflow/hello", "/nonsense", "/api/v1/nowhere"] {
        let reply = server.send_and_read("GET", path, &["Accept: text/html,application/xhtml+xml,*/*;q=0.8"], "");
        let head = reply.head.to_lowercase();
        assert_eq!(reply.status, 404, "{path}");
        assert!(head.contains("content-type: text/html") && head.contains("content-security-policy"), "{path}: {head}");
        for accepted in ["Accept: application/json", "Accept: */*"] {
            let reply = server.send_and_read("GET", path, &[accepted], "");
            assert_eq!((reply.status, reply.error_code()), (404, "FL1507".to_owned()), "{path} {accepted}");
        }
    }
}

#[test]
fn a_server_without_the_studio_answers_as_before() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &["--no-studio"]);
    assert_eq!(server.get("/").status, 404);
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn the_page_knows_the_prefix_of_its_address() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &["--public-url", "https://example.com/flows"]);
    let page = server.get("/").body;
    // A program that was built without the page has another one.
    assert!(page.contains("<base href=\"/flows/\">") || page.contains("make page"), "{page}");
}

#[test]
fn graphs_have_the_paths_of_runs_and_the_places_of_the_source() {
    let place = Workspace::with_hello("");
    let source = json!({"id": "two", "name": "Two", "steps": [
        {"name": "first", "functionId": "agent::chat", "mode": "loop", "maxIterations": 2, "errorMode": "fail"},
        {"name": "second", "functionId": "agent::chat", "mode": "conditional", "condition": "x", "errorMode": "fail"},
    ]});
    place.write("two.json", &source.to_string());
    let server = RunningServer::start(&place, &[]);
    let graph = server.get("/api/v1/workflows/two/graph").json();
    let paths: Vec<_> = graph["nodes"].as_array().expect("nodes").iter().map(|node| node["path"].clone()).collect();
    assert_eq!(paths, ["/first", "/second"]);
    let start = graph["nodes"][1]["start"].as_u64().expect("a place") as usize;
    assert!(source.to_string()[start..].starts_with("{\"name\":\"second\""), "{graph}");
    let labels: Vec<_> = graph["edges"].as_array().expect("edges").iter().map(|edge| edge["label"].clone()).collect();
    assert_eq!(labels, ["at most 2 times", "it contains \"x\"", "", "else"]);
    // The same without storing it, and of a run.
    assert_eq!(server.post("/api/v1/graph", &source).json(), graph);
    assert_eq!(server.post("/api/v1/graph", &json!({"id": "bad", "name": "n", "steps": 1})).body, "null");
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "two", "inputs": "hi"})).json();
    let run = run["run_id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/api/v1/runs/{run}/graph")).json(), graph);
    assert_eq!(server.get("/api/v1/workflows/none/graph").status, 404);
}

#[test]
fn a_graph_names_its_nodes_and_arrows_as_the_drawing_does() {
    let place = Workspace::new("");
    for (file, example) in
        [("helpdesk.json", "graph/helpdesk.json"), ("analyse_review.json", "pipeline/analyse-review.json")]
    {
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        place.write(file, &std::fs::read_to_string(examples.join(example)).expect("an example"));
    }
    for block in ["count_words", "shorten", "find_city", "report"] {
        let text = json!({"id": block, "name": block, "description": "d", "execution_type": "llm",
            "prompt_template": "x", "input_schema": {"type": "object"}, "output_schema": {"type": "object"}});
        std::fs::create_dir_all(place.path("blocks")).expect("a folder");
        place.write(&format!("blocks/{block}.json"), &text.to_string());
    }
    let server = RunningServer::start(&place, &[]);
    for file in ["helpdesk", "analyse_review"] {
        let graph = server.get(&format!("/api/v1/workflows/{file}/graph")).json();
        let output = place.run(&["graph", &format!("{file}.json"), "--format", "mermaid"]);
        let drawing = String::from_utf8(output.stdout).expect("UTF-8");
        // Steps without a place are not in the definition: they read and write the memory.
        for node in graph["nodes"].as_array().expect("nodes").iter().filter(|node| !node["start"].is_null()) {
            let title = node["title"].as_str().expect("a title");
            let is_drawn = ["<br/>", "\""].iter().any(|end| drawing.contains(&format!("\"{title}{end}")));
            assert!(is_drawn, "{title} is not in {drawing}");
        }
        for edge in graph["edges"].as_array().expect("edges") {
            let label = edge["label"].as_str().expect("a label");
            assert!(["", "END"].contains(&label) || drawing.contains(label), "{label} is not in {drawing}");
        }
    }
}

#[test]
fn statistics_count_runs() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    for _ in 0..3 {
        server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    }
    let statistics = server.get("/api/v1/statistics?days=7").json();
    assert_eq!(statistics["counts"][0]["count"], 3, "{statistics}");
    assert_eq!(statistics["workflows"][0]["workflow"], "hello", "{statistics}");
    for (filter, count) in [("workflow=hello", 1), ("status=succeeded&trigger=api", 1), ("trigger=mcp", 0)] {
        let filtered = server.get(&format!("/api/v1/statistics?{filter}")).json();
        let usage = server.get(&format!("/api/v1/statistics/models?{filter}")).json();
        assert_eq!(filtered["workflows"].as_array().map(Vec::len), Some(count), "{filtered}");
        assert_eq!(usage["items"].as_array().map(Vec::len), Some(count), "{usage}");
    }
    for wrong in ["days=0", "status=gone", "trigger=gone"] {
        assert_eq!(server.get(&format!("/api/v1/statistics?{wrong}")).status, 400, "{wrong}");
    }
}
