//! Responses in the OpenAPI document: every one has a type, and what the server sends is of that type.

mod support;

use flowloom_runtime::schema::CompiledSchema;
use serde_json::{Value, json};
use support::Workspace;
use support::http::{HttpAnswer, RunningServer};

/// Responses without a body that has a type: the document itself.
const UNTYPED: [&str; 1] = ["/openapi.json"];

/// The OpenAPI document of a server.
struct Document(Value);

impl Document {
    fn of_server(server: &RunningServer) -> Document {
        Document(server.get("/openapi.json").json())
    }

    /// Checks the body of a response against the type that the document gives the route.
    #[track_caller]
    fn check(&self, method: &str, route: &str, answer: &HttpAnswer) -> Value {
        let body = answer.json();
        let response = &self.0["paths"][route][method]["responses"][answer.status.to_string()];
        let mut schema = response["content"]["application/json"]["schema"].clone();
        assert!(schema.is_object(), "{method} {route} {} has no type: {body}", answer.status);
        schema["components"] = self.0["components"].clone();
        let compiled = CompiledSchema::compile_schema(schema).unwrap_or_else(|_| panic!("{method} {route}: no schema"));
        let errors = compiled.list_errors(&body);
        assert_eq!(errors, None, "{method} {route} {}: {body}", answer.status);
        body
    }
}

#[test]
fn every_response_has_a_type() {
    let place = Workspace::new("");
    let Document(document) = Document::of_server(&RunningServer::start(&place, &[]));
    let mut untyped = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("operations") {
            for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                let has_body = status.starts_with('2') && status != "204";
                let is_typed = response["content"].as_object().is_some_and(|content| {
                    content.values().all(|body| body["schema"].as_object().is_some_and(|schema| !schema.is_empty()))
                });
                if has_body && !is_typed && !UNTYPED.contains(&path.as_str()) {
                    untyped.push(format!("{method} {path} {status}"));
                }
            }
        }
    }
    assert_eq!(untyped, Vec::<String>::new());
}

#[test]
fn responses_are_of_their_types() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let helper = json!({"name": "helper", "systemPrompt": "You help."});
    place.write("helper.json", &helper.to_string());
    let server = RunningServer::start(&place, &[]);
    let document = Document::of_server(&server);
    let get = |route: &str, path: &str| document.check("get", route, &server.get(path));
    let post = |route: &str, path: &str, body: Value| document.check("post", route, &server.post(path, &body));
    get("/health", "/health");
    get("/api/v1/models", "/api/v1/models");
    post("/api/v1/agents/{name}/chat", "/api/v1/agents/helper/chat?wait=60", json!({"message": "hello"}));

    // AgentOS
    let step = |function: &str, prompt: &str| json!({"name": "a", "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt});
    let list = json!({"name": "L", "description": "d", "steps": [
        step("agent::chat", "Say {{input}}"), step("notify::push", "{\"title\": \"done\", \"body\": \"{{input}}\"}"),
    ]});
    let made = post("/api/workflows", "/api/workflows", list);
    let id = made["id"].as_str().expect("an id");
    get("/api/workflows", "/api/workflows");
    post("/api/workflows/run", "/api/workflows/run", json!({"workflowId": id, "input": "hi"}));
    get("/api/workflows/runs", &format!("/api/workflows/runs?workflowId={id}"));
    for base in ["/api", "/api/v1"] {
        let all = get(&format!("{base}/notifications"), &format!("{base}/notifications"));
        let first = all[0]["id"].as_i64().expect("a notification");
        post(&format!("{base}/notifications/{{id}}/read"), &format!("{base}/notifications/{first}/read"), json!({}));
    }

    // AnythingLLM
    let config = json!({"description": "d", "active": true, "steps": [
        {"type": "llmInstruction", "config": {"instruction": "tea", "resultVariable": "said"}},
    ]});
    let saved = post("/api/agent-flows/save", "/api/agent-flows/save", json!({"name": "F", "config": config}));
    let uuid = saved["flow"]["uuid"].as_str().expect("an id");
    post(
        "/api/agent-flows/save",
        "/api/agent-flows/save",
        json!({"name": "F", "config": {"steps": [{"type": "odd"}]}}),
    );
    get("/api/agent-flows/list", "/api/agent-flows/list");
    get("/api/agent-flows/{uuid}", &format!("/api/agent-flows/{uuid}"));
    post("/api/agent-flows/{uuid}/run", &format!("/api/agent-flows/{uuid}/run"), json!({}));
    post("/api/agent-flows/{uuid}/toggle", &format!("/api/agent-flows/{uuid}/toggle"), json!({"active": false}));
    let path = format!("/api/agent-flows/{uuid}");
    document.check("delete", "/api/agent-flows/{uuid}", &server.send_and_read("DELETE", &path, &[], ""));

    // AgentFlow
    let block = json!({"id": "shout", "name": "Shout", "description": "Shouts", "category": "process",
        "execution_type": "llm", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "prompt_template": "Shout {text}"});
    post("/api/blocks", "/api/blocks", block.clone());
    get("/api/blocks", "/api/blocks");
    get("/api/blocks/{id}", "/api/blocks/shout");
    get("/api/blocks/{id}/source", "/api/blocks/shout/source");
    document.check(
        "put",
        "/api/blocks/{id}",
        &server.send_and_read("PUT", "/api/blocks/shout", &["content-type: application/json"], &block.to_string()),
    );
    post("/api/blocks/search", "/api/blocks/search", json!({"query": "shout"}));
    let pipeline = json!({"id": "p", "name": "P", "user_prompt": "shout",
        "nodes": [{"id": "n1", "block_id": "shout", "inputs": {"text": "hey"}}], "edges": []});
    post("/api/pipelines", "/api/pipelines", pipeline.clone());
    get("/api/pipelines", "/api/pipelines");
    get("/api/pipelines/{id}", "/api/pipelines/p");
    let run = post("/api/pipelines/{id}/run", "/api/pipelines/p/run", json!({}));
    post("/api/pipeline/run", "/api/pipeline/run", json!({"pipeline": pipeline}));
    let run = run["run_id"].as_str().expect("an id");
    for base in ["/api", "/api/v1"] {
        get(&format!("{base}/executions"), &format!("{base}/executions"));
        get(&format!("{base}/executions/{{id}}"), &format!("{base}/executions/{run}"));
    }
}
