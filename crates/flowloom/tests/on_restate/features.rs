//! The features of servers are the same on Restate: quotas, secrets, schedules, webhooks, the protocols of others,
//! quarantine, large fan-outs, and the events of every definition.

use serde_json::{Value, json};
use test_restate::free_addresses;

use crate::cluster::Cluster;
use crate::support::http::{HttpAnswer, RunningServer, send_to};
use crate::support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};
use crate::{ASK, CONFIG, HELLO, read_events};

const JSON_TYPE: &str = "Content-Type: application/json";

/// A flow that calls the test's own server.
fn calling_flow(world: &TestServer, path: &str, headers: Value) -> String {
    let url = format!("http://{}{path}", world.address);
    json!({"name": "Beats", "description": "d", "steps": [
        {"type": "apiCall", "config": {"url": url, "method": "GET", "headers": headers, "responseVariable": "reply"}},
    ]})
    .to_string()
}

#[test]
fn runs_on_workers_count_for_the_quotas_of_their_user() {
    let world = TestServer::start();
    let quotas = "[quotas]\nconcurrent_runs = 1\n[quotas.users.cem]\ntokens_per_day = 1\n";
    let Some(cluster) = Cluster::start(&format!("{}{quotas}", world.egress_config())) else { return };
    cluster.place.write("calls.json", &two_calls_flow(&world, "GET", "/slow"));
    cluster.place.write("hello.json", HELLO);
    let server = RunningServer::start(&cluster.place, &[]);
    let start = |workflow: &str, user: &str, wait: &str| {
        server.post(&format!("/api/v1/runs{wait}"), &json!({"workflow": workflow, "inputs": {}, "user": user}))
    };
    assert_eq!(start("calls", "ann", "").status, 202);
    world.wait_for_requests("/slow", 1);
    // A worker drives the run of ann, and that of bob need not wait for it.
    let refused = start("calls", "ann", "");
    assert_eq!((refused.status, refused.error_code()), (429, "FL1113".to_owned()), "{refused:?}");
    assert_eq!(start("hello", "bob", "?wait=60").json()["status"], "succeeded");
    world.release_slow();
    // Tokens that were spent on a worker count for the next model call.
    assert_eq!(start("hello", "cem", "?wait=60").json()["status"], "succeeded");
    let spent = start("hello", "cem", "?wait=60").json();
    assert_eq!((&spent["status"], &spent["error"]["code"]), (&json!("failed"), &json!("FL1113")), "{spent}");
}

#[test]
fn a_worker_reports_its_figures_to_those_with_a_key() {
    let Some(cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let refused = cluster.place.run(&["worker", "--admin", &cluster.restate.admin(), "--monitor", "0.0.0.0:0"]);
    assert!(exit_code(&refused) != 0 && stderr_text(&refused).contains("no API key"), "{}", stderr_text(&refused));
    let (_, key) = cluster.place.run_json(&["keys", "create", "--name", "prometheus", "--scopes", "read"]);
    let authorization = format!("Authorization: Bearer {}", key["key"].as_str().expect("a key"));
    let [address] = free_addresses();
    let _worker = cluster.spawn_worker(&cluster.place, &["--monitor", &address.to_string()], &[]);
    let read = |path: &str, headers: &[&str]| HttpAnswer::read(send_to(&address.to_string(), "GET", path, headers, ""));
    assert_eq!(exit_code(&cluster.place.run(&["run", "hello.json"])), 0);
    assert_eq!((read("/health/live", &[]).status, read("/health/ready", &[]).status), (200, 200));
    assert_eq!((read("/metrics", &[]).status, read("/api/v1/runs", &[&authorization]).status), (401, 404));
    let metrics = read("/metrics", &[&authorization]).body;
    for line in [
        "flowloom_ready 1",
        "flowloom_step_duration_seconds_count",
        "flowloom_model_tokens_total{provider=\"scripted\",direction=\"input\"}",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn a_worker_sends_secrets_to_the_hosts_they_are_bound_to_only() {
    let (world, other) = (TestServer::start(), TestServer::start());
    let config = format!(
        "[egress]\nallow = [\"{}\", \"{}\"]\n[secrets.SHOP]\nhosts = [\"{}\"]\n",
        world.address, other.address, world.address
    );
    let Some(cluster) = Cluster::create(&config) else { return };
    let key = json!([{"key": "x-key", "value": "${secret.SHOP}"}]);
    cluster.place.write("bound.json", &calling_flow(&world, "/bound", key.clone()));
    cluster.place.write("loose.json", &calling_flow(&other, "/loose", key));
    let canary = "shop-4f1c99-canary";
    let _worker = cluster.spawn_worker(&cluster.place, &[], &[("FLOWLOOM_SECRET_SHOP", canary)]);
    // Only the worker knows the secret.
    let sent = cluster.place.run(&["run", "bound.json"]);
    assert_eq!(exit_code(&sent), 0, "{}", stderr_text(&sent));
    assert!(world.last_head("/bound").contains(canary), "the secret is not sent");
    let refused = cluster.place.run(&["run", "loose.json"]);
    assert_eq!((exit_code(&refused), other.request_count("/loose")), (1, 0), "{}", stderr_text(&refused));
    let log = cluster.place.run(&["logs", "last", "--json"]);
    assert!(!String::from_utf8_lossy(&log.stdout).contains(canary), "the secret is recorded");
}

#[test]
fn schedules_and_webhooks_start_runs_on_workers() {
    let world = TestServer::start();
    let Some(mut cluster) = Cluster::start(&world.egress_config()) else { return };
    cluster.place.write("beats.json", &calling_flow(&world, "/called", json!([])));
    let added = cluster.place.run(&["schedule", "add", "beats.json", "--cron", "* * * * * *", "--id", "often"]);
    assert_eq!(exit_code(&added), 0, "{}", stderr_text(&added));
    let (_, hook) = cluster.place.run_json(&["hooks", "add", "beats.json"]);
    let server = RunningServer::start(&cluster.place, &[]);
    world.wait_for_requests("/called", 2);
    assert_eq!(exit_code(&cluster.place.run(&["schedule", "remove", "often"])), 0);
    cluster.kill_workers();
    let secret = format!("X-Hook-Secret: {}", hook["secret"].as_str().expect("a secret"));
    let taken = server.send_and_read("POST", "/hooks/beats", &[JSON_TYPE, &secret], "{}");
    assert_eq!(taken.status, 202, "{taken:?}");
    let before = world.request_count("/called");
    cluster.start_worker();
    world.wait_for_requests("/called", before + 1);
    let id = taken.json()["run_id"].as_str().expect("an id").to_owned();
    let shown = cluster.place.run(&["show", &id, "--follow"]);
    assert_eq!(exit_code(&shown), 0, "{}", stderr_text(&shown));
}

#[test]
fn a_question_expires_on_workers() {
    let Some(cluster) = Cluster::start("") else { return };
    let limited = ASK.replace(
        "\"errorMode\": \"fail\",\n   \"promptTemplate\": \"About",
        "\"errorMode\": \"skip\", \"timeoutMs\": 1500,\n   \"promptTemplate\": \"About",
    );
    assert!(limited.contains("timeoutMs"), "{limited}");
    cluster.place.write("ask.json", &limited);
    let server = RunningServer::start(&cluster.place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "ask", "inputs": "x"})).json();
    server.follow_to_end(started["run_id"].as_str().expect("an id"));
    let events = read_events(&cluster.place);
    assert!(events.iter().any(|event| event.to_string().contains("no answer within 1500 ms")), "{events:?}");
}

#[test]
fn mcp_and_openai_clients_start_runs_on_workers() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.place.write("hello.json", &HELLO.replace("Say hello", "Say {{input}}"));
    let server = RunningServer::start(&cluster.place, &[]);
    let body = json!({"model": "hello", "messages": [{"role": "user", "content": "hi"}]});
    let answered = server.post("/v1/chat/completions", &body).json();
    assert_eq!(answered["choices"][0]["message"]["content"], "LLM(Say hi)", "{answered}");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "hello", "arguments": {"input": "hi"}, "_meta": meta}});
    let headers = [
        JSON_TYPE,
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: hello",
    ];
    let called = server.send_and_read("POST", "/mcp", &headers, &call.to_string());
    assert!(called.body.contains("LLM(Say hi)"), "{called:?}");
}

#[test]
fn a_run_that_kills_its_workers_is_quarantined_until_somebody_resumes_it() {
    let Some(mut cluster) = Cluster::create("") else { return };
    cluster.place.write("hello.json", HELLO);
    let deadly = [("FLOWLOOM_FAILPOINT", "run_resume_before")];
    let mut worker = cluster.spawn_worker(&cluster.place, &[], &deadly);
    let started = cluster.place.start(&["run", "hello.json"]);
    for _ in 0..3 {
        worker.wait_for_end();
        // It may end before it reports that it has registered.
        worker = cluster.spawn_unregistered(&cluster.place, &[], &deadly);
    }
    let ended = started.wait_with_output().expect("it ends");
    assert_eq!(cluster.place.run_json(&["show", "last"]).1["status"], "quarantined", "{}", stderr_text(&ended));
    drop(worker);
    cluster.start_worker();
    let (exit, resumed) = cluster.place.run_json(&["resume", "last"]);
    assert_eq!((exit, &resumed["output"]), (0, &json!("LLM(Say hello)")), "{resumed}");
}

/// Number of branches of the large fan-out.
const BRANCH_COUNT: usize = 10_000;

#[test]
fn a_fan_out_of_ten_thousand_ends() {
    let Some(cluster) = Cluster::start("") else { return };
    let branch = |number: usize| {
        json!({"name": format!("b{number}"), "functionId": "agent::chat", "mode": "fanout", "errorMode": "fail",
            "promptTemplate": format!("Say {number}")})
    };
    let mut steps: Vec<Value> = (0..BRANCH_COUNT).map(branch).collect();
    steps.push(json!({"name": "end", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": "End"}));
    let definition = json!({"id": "wide", "name": "wide", "description": "d", "steps": steps});
    cluster.place.write("wide.json", &definition.to_string());
    let ended = cluster.place.run(&["run", "wide.json"]);
    assert_eq!(exit_code(&ended), 0, "{}", stderr_text(&ended));
    let events = read_events(&cluster.place);
    let seqs: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "events are missing");
    let finished = events.iter().filter(|event| event["event"] == "step_finished").count();
    assert!(finished > BRANCH_COUNT, "{finished} steps");
}

/// Definitions with every kind of step that a test can run without a network.
fn write_definitions(place: &Workspace) -> [&'static str; 4] {
    let step = |name: &str, mode: &str, prompt: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": mode, "errorMode": "fail", "promptTemplate": prompt,
            "outputVar": name})
    };
    let mut repeated = step("round", "loop", "Round {{iteration}}");
    (repeated["until"], repeated["maxIterations"]) = ("round 3".into(), 5.into());
    let mut kept = step("note", "sequential", "{\"key\": \"note\", \"value\": \"{{a}}\"}");
    kept["functionId"] = "memory::set".into();
    let definitions = [
        ("hello", vec![step("s", "sequential", "Say hello")]),
        ("wide", vec![step("a", "fanout", "A"), step("b", "fanout", "B"), step("c", "collect", "Merge {{a}} {{b}}")]),
        ("round", vec![repeated, step("end", "sequential", "End {{round}}")]),
        ("notes", vec![step("a", "sequential", "A"), kept, step("b", "sequential", "B {{a}}")]),
    ];
    definitions.map(|(name, steps)| {
        let definition = json!({"id": name, "name": name, "description": "d", "steps": steps});
        place.write(&format!("{name}.json"), &definition.to_string());
        name
    })
}

#[test]
fn definitions_have_the_same_events_on_both_engines() {
    let Some(cluster) = Cluster::start("") else { return };
    let built_in = Workspace::new(CONFIG);
    write_definitions(&built_in);
    for name in write_definitions(&cluster.place) {
        let histories = [&built_in, &cluster.place].map(|place| {
            let ended = place.run(&["run", &format!("{name}.json")]);
            assert_eq!(exit_code(&ended), 0, "{}", stderr_text(&ended));
            by_step(&read_events(place))
        });
        assert!(!histories[0].is_empty());
        assert_eq!(histories[0], histories[1], "{name}");
    }
}

/// Events in the order of their steps: branches that run at the same time may end in any order.
fn by_step(events: &[Value]) -> Vec<(String, Vec<Value>)> {
    let mut steps = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for event in events {
        let mut event = event.clone();
        event.as_object_mut().expect("an object").remove("seq");
        steps.entry(event["path"].as_str().unwrap_or_default().to_owned()).or_default().push(event);
    }
    steps.into_iter().collect()
}
