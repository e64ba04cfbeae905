//! A child run has the models, the functions and the rights of its own definition, regardless of who starts it; and
//! only the operator chooses a value with which a run around it sends a secret elsewhere.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace};

/// The value of the secret of these tests.
const SHOP: &str = "shop-4f1c99-canary";

const JSON_TYPE: &str = "Content-Type: application/json";

/// A server with a folder of the operator, and the server that receives its requests.
struct Place {
    receiver: TestServer,
    server: RunningServer,
    workspace: Workspace,
}

impl Place {
    /// `config` is added to the configuration. `write` writes the files of the operator.
    fn start(config: impl FnOnce(&str) -> String, write: impl FnOnce(&Workspace, &str)) -> Place {
        let receiver = TestServer::start();
        let own = config(&receiver.address);
        let workspace =
            Workspace::new(&format!("default_model = \"scripted:echo\"\n{}{own}", receiver.egress_config()));
        write(&workspace, &receiver.address);
        workspace.run(&["keys", "create", "--name", "first"]);
        let server = RunningServer::start_with(&workspace, &[], &[("FLOWLOOM_SECRET_SHOP", SHOP)]);
        Place { receiver, server, workspace }
    }

    /// A client with a key of a user, or of the operator if there is none.
    fn create_client(&self, user: Option<&str>) -> Client<'_> {
        let of_user: Vec<&str> = user.into_iter().flat_map(|user| ["--user", user]).collect();
        let create = ["keys", "create", "--name", "k", "--scopes", "read,run,write"];
        let made = self.workspace.run(&[&create[..], &of_user].concat());
        Client { place: self, key: format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim()) }
    }

    fn count_requests(&self, path: &str) -> u32 {
        self.receiver.request_count(path)
    }
}

struct Client<'a> {
    place: &'a Place,
    key: String,
}

impl Client<'_> {
    fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> HttpAnswer {
        self.place.server.send_and_read(method, path, &[&self.key, content_type], body)
    }

    fn post_json(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send("POST", path, JSON_TYPE, &body.to_string())
    }

    fn store_workflow(&self, id: &str, content_type: &str, definition: &str) {
        let stored = self.send("PUT", &format!("/api/v1/workflows/{id}"), content_type, definition);
        assert!((200..300).contains(&stored.status), "{stored:?}");
    }

    fn store_steps(&self, id: &str, steps: &[Value]) {
        self.store_workflow(id, JSON_TYPE, &step_list(id, steps));
    }

    fn run(&self, workflow: &str, inputs: &Value) -> Value {
        self.post_json("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": inputs})).json()
    }

    fn fork_run(&self, run: &Value, at: &str) -> Value {
        let path = format!("/api/v1/runs/{}/fork?wait=60", run["run_id"].as_str().expect("an id"));
        self.post_json(&path, &json!({"at": at})).json()
    }

    /// The runs that wait for a decision about an effect, from the outermost one, and the path of the effect in each.
    fn list_waiting(&self, run: &Value) -> Vec<(String, String)> {
        let step = run["steps"].as_array().expect("steps").iter().rfind(|step| step["phase"] == "uncertain");
        let step = step.unwrap_or_else(|| panic!("nothing waits: {run}"));
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut all = vec![(text(&run["run_id"]), text(&step["path"]))];
        if let Some(child) = step["run"].as_str() {
            all.extend(self.list_waiting(&self.send("GET", &format!("/api/v1/runs/{child}"), JSON_TYPE, "").json()));
        }
        all
    }

    fn resolve_step(&self, run: &str, path: &str, value: &Value) -> HttpAnswer {
        let decision = json!({"path": path, "how": "value", "value": value});
        self.post_json(&format!("/api/v1/runs/{run}/resolve?wait=60"), &decision)
    }
}

/// A step that calls a function and sets the variable of its name.
fn step_json(name: &str, function: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt,
        "outputVar": name})
}

/// A step that runs a stored workflow.
fn run_step(name: &str, workflow: &str) -> Value {
    step_json(name, "workflow::run", &json!({"workflowId": workflow, "input": "x"}).to_string())
}

/// A step that sends a request without a secret.
fn request_step(name: &str, method: &str, url: &str) -> Value {
    step_json(name, "tool::http_request", &json!({"url": url, "method": method}).to_string())
}

/// A step that sends the secret to the path that an earlier step has computed.
fn sending_step(address: &str, path: &str) -> Value {
    let headers = json!({"x-key": "{{secret.SHOP}}"});
    let request = json!({"url": format!("http://{address}/got{path}"), "method": "GET", "headers": headers});
    step_json("send", "tool::http_request", &request.to_string())
}

fn step_list(id: &str, steps: &[Value]) -> String {
    json!({"id": id, "name": id, "steps": steps}).to_string()
}

/// A flow that sends the secret.
fn sending_flow(address: &str) -> String {
    json!({"name": "Send", "description": "d", "steps": [
        {"type": "apiCall", "config": {"url": format!("http://{address}/sent"), "method": "GET", "responseVariable": "reply",
            "headers": [{"key": "x-key", "value": "${secret.SHOP}"}]}}]})
    .to_string()
}

#[test]
fn a_definition_of_a_user_names_no_file_whoever_runs_it() {
    let place = Place::start(
        |_| String::new(),
        |workspace, _| {
            workspace.write("payroll.script", "[\"9000-canary\"]");
            let call = json!({"text": "", "tool_calls": [{"name": "reader", "arguments": {}}]});
            let script = json!({"match": [{"contains": "CALL", "answer": call}], "default": "done"});
            let script = workspace.write("guide.script", &script.to_string());
            let agent =
                json!({"agentId": "guide", "systemPrompt": "help", "model": format!("scripted:{}", script.display())});
            workspace.write("guide.json", &agent.to_string());
            let dispatch = step_json("go", "workflow::run", "{\"workflowId\": \"{{input}}\"}");
            workspace.write("dispatch.json", &step_list("dispatch", &[dispatch]));
        },
    );
    let ann = place.create_client(Some("ann"));
    // Another level between the operator's workflow and the user's definition.
    ann.store_steps("between", &[run_step("go", "reader")]);
    for model in ["scripted:payroll.script", "scripted:/etc/hostname", "local:/etc/hostname"] {
        ann.store_workflow(
            "reader",
            "Content-Type: text/markdown",
            &format!("Hi.\n\n<GenText as=\"x\" model=\"{model}\" />\n"),
        );
        let direct = ann.run("reader", &json!({}));
        assert_eq!(direct["error"]["code"], "FL1011", "{direct}");
        for id in ["reader", "between"] {
            let dispatched = ann.run("dispatch", &json!(id));
            assert_eq!(dispatched["error"]["code"], "FL1011", "{model} {id}: {dispatched}");
        }
        let chat = ann.post_json("/api/v1/agents/guide/chat?wait=60", &json!({"message": "CALL"}));
        assert!(chat.body.contains("FL1011") && !chat.body.contains("9000-canary"), "{model}: {chat:?}");
    }
}

#[test]
fn a_function_belongs_to_the_definition_that_calls_it() {
    let place = Place::start(
        |_| "[functions.\"ops::send\"]\nworkflow = \"send.json\"\n".to_owned(),
        |workspace, address| {
            workspace.write("send.json", &sending_flow(address));
            let dispatch = step_json("go", "workflow::run", "{\"workflowId\": \"{{input}}\"}");
            workspace.write("dispatch.json", &step_list("dispatch", &[dispatch]));
        },
    );
    let ann = place.create_client(Some("ann"));
    ann.store_steps("mine", &[step_json("s", "ops::send", "x")]);
    ann.store_steps("between", &[run_step("go", "mine")]);
    for (workflow, inputs) in [("mine", "x"), ("dispatch", "mine"), ("dispatch", "between")] {
        let refused = ann.run(workflow, &json!(inputs));
        assert_eq!(
            (&refused["error"]["code"], place.count_requests("/sent")),
            (&json!("FL1039"), 0),
            "{workflow}: {refused}"
        );
    }
    // A run that is repeated has the same rights.
    let repeated = ann.fork_run(&ann.run("dispatch", &json!("mine")), "/go");
    assert_eq!((&repeated["error"]["code"], place.count_requests("/sent")), (&json!("FL1039"), 0), "{repeated}");
}

#[test]
fn a_workflow_of_the_operator_keeps_its_functions_and_settings() {
    let place = Place::start(
        |address| {
            format!("[functions.\"my::send\"]\nworkflow = \"send.json\"\n[secrets.SHOP]\nhosts = [\"{address}\"]\n")
        },
        |workspace, address| drop(workspace.write("send.json", &sending_flow(address))),
    );
    place
        .create_client(None)
        .store_steps("ops", &[step_json("s", "my::send", "{}"), step_json("say", "agent::chat", "hello")]);
    let ann = place.create_client(Some("ann"));
    ann.store_steps("mine", &[run_step("go", "ops")]);
    let sent = ann.run("mine", &json!("x"));
    assert_eq!((&sent["status"], place.count_requests("/sent")), (&json!("succeeded"), 1), "{sent}");
    assert!(place.receiver.last_head("/sent").contains(SHOP));
    // A fork with another model is the user's. The operator's workflow below it has the operator's model.
    let fork = format!("/api/v1/runs/{}/fork?wait=60", sent["run_id"].as_str().expect("an id"));
    let forked = ann.post_json(&fork, &json!({"at": "/go", "models": ["openai:gpt-4o"]})).json();
    assert_eq!((&forked["status"], place.count_requests("/sent")), (&json!("succeeded"), 2), "{forked}");
    // A step that runs alone runs the whole workflow that it names.
    let alone = json!({"workflow": "mine", "step": "/go", "inputs": {"input": "x"}});
    let alone = ann.post_json("/api/v1/runs?wait=60", &alone).json();
    assert_eq!((&alone["status"], place.count_requests("/sent")), (&json!("succeeded"), 3), "{alone}");
}

#[test]
fn nobody_but_the_operator_chooses_an_output_for_a_run_around_a_child_run() {
    let place = Place::start(
        |_| "[functions.\"my::pick\"]\nworkflow = \"pick.json\"\n".to_owned(),
        |workspace, address| {
            workspace.write(
                "pick.json",
                &step_list("pick", &[request_step("w", "POST", &format!("http://{address}/first"))]),
            );
            let send = sending_step(address, "{{pick.vars.w.body.path}}");
            workspace.write("parent.json", &step_list("parent", &[run_step("pick", "stored"), send]));
        },
    );
    let (operator, ann, address) =
        (place.create_client(None), place.create_client(Some("ann")), &place.receiver.address);
    operator.store_steps("stored", &[request_step("w", "POST", &format!("http://{address}/first"))]);
    let send = sending_step(address, "{{pick.body.path}}");
    operator.store_steps("calling", &[step_json("pick", "my::pick", "x"), send]);
    ann.store_steps("mine", &[run_step("go", "calling")]);
    let chosen = json!({"body": {"path": "/steal"}});
    for (workflow, at, levels) in [("parent", "/pick", 2), ("mine", "/go", 3)] {
        let run = ann.run(workflow, &json!("x"));
        assert_eq!(run["status"], "succeeded", "{run}");
        let fork = ann.fork_run(&run, at);
        assert_eq!(fork["status"], "uncertain", "{fork}");
        let waiting = ann.list_waiting(&fork);
        assert_eq!(waiting.len(), levels);
        for (run, path) in &waiting {
            let refused = ann.resolve_step(run, path, &chosen);
            let answer = (refused.status, refused.error_code());
            assert_eq!(answer, (403, "FL1039".to_owned()), "{workflow} {path}: {refused:?}");
        }
        // What chooses no value is decided as before.
        let (child, path) = waiting.last().expect("a run");
        let resend = json!({"path": path, "how": "resend"});
        let resent = ann.post_json(&format!("/api/v1/runs/{child}/resolve?wait=60"), &resend);
        assert_eq!(resent.status, 200, "{resent:?}");
    }
    assert_eq!(place.count_requests("/got/steal"), 0);
}

#[test]
fn a_definition_of_a_user_returns_nothing_to_a_workflow_with_a_secret_without_hosts() {
    let start = |secrets: bool| {
        Place::start(
            |address| if secrets { format!("[secrets.SHOP]\nhosts = [\"{address}\"]\n") } else { String::new() },
            |workspace, address| {
                let dispatch = step_json("pick", "workflow::run", "{\"workflowId\": \"{{input}}\"}");
                let send = sending_step(address, "{{pick.vars.w.body.path}}");
                workspace.write("dispatch.json", &step_list("dispatch", &[dispatch, send]));
            },
        )
    };
    for is_bound in [false, true] {
        let place = start(is_bound);
        let (operator, ann) = (place.create_client(None), place.create_client(Some("ann")));
        let request = request_step("w", "GET", &format!("http://{}/x", place.receiver.address));
        operator.store_steps("theirs", std::slice::from_ref(&request));
        ann.store_steps("mine", &[request]);
        let own = ann.run("dispatch", &json!("theirs"));
        assert_eq!((&own["status"], place.count_requests("/got/x")), (&json!("succeeded"), 1), "{own}");
        let foreign = ann.run("dispatch", &json!("mine"));
        let (code, sent) = if is_bound { (json!(null), 2) } else { (json!("FL1039"), 1) };
        assert_eq!((&foreign["error"]["code"], place.count_requests("/got/x")), (&code, sent), "{foreign}");
    }
}
