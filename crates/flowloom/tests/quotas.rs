//! Quotas of users: a request that exceeds one is refused with a remedy, and stored data stays usable.

mod support;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

const JSON_TYPE: &str = "Content-Type: application/json";

/// Asserts that a quota refused a call, and returns the seconds of `Retry-After`.
fn assert_refused(reply: &HttpAnswer, quota: &str) -> u64 {
    assert_eq!((reply.status, reply.error_code()), (429, "FL1113".to_owned()), "{reply:?}");
    assert!(reply.body.contains(quota), "{reply:?}");
    let line = reply.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).expect("a time");
    line.trim().parse().expect("seconds")
}

fn start_hello(server: &RunningServer, user: &str) -> HttpAnswer {
    let body = json!({"workflow": "hello", "inputs": "x", "user": user});
    server.post("/api/v1/runs?wait=60", &body)
}

/// The row of a quota in `GET /api/v1/usage`.
fn read_usage(server: &RunningServer, user: &str, quota: &str) -> Value {
    let usage = server.get(&format!("/api/v1/usage?user={user}")).json();
    let rows = usage["quotas"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == quota).expect("the quota").clone()
}

/// A workspace whose flow `calls` waits at a slow server.
fn slow_workspace(config: &str) -> (Workspace, TestServer) {
    let slow = TestServer::start();
    let egress = format!("[egress]\nallow = [\"{}\"]\n", slow.address);
    let place = Workspace::new(&format!(
        "{config}\ndefault_model = \"scripted:echo\"\n{egress}[quotas]\nconcurrent_runs = 1\n"
    ));
    place.write("calls.json", &two_calls_flow(&slow, "GET", "/slow"));
    (place, slow)
}

fn check_concurrent_runs(config: &str, has_two_servers: bool) {
    let (place, slow) = slow_workspace(config);
    let first = RunningServer::start(&place, &[]);
    let other = has_two_servers.then(|| RunningServer::start(&place, &[]));
    let second = other.as_ref().unwrap_or(&first);
    let start = |server: &RunningServer, user: &str| {
        server.post("/api/v1/runs", &json!({"workflow": "calls", "inputs": {}, "user": user}))
    };
    let running = start(&first, "ann");
    assert_eq!(running.status, 202, "{running:?}");
    slow.wait_for_requests("/slow", 1);
    assert_refused(&start(second, "ann"), "concurrent_runs");
    let of_bob = start(second, "bob");
    assert_eq!(of_bob.status, 202, "{of_bob:?}");
    assert_eq!(read_usage(second, "ann", "concurrent_runs")["used"], 1.0);
    slow.release_slow();
    let id = running.json()["run_id"].as_str().expect("an id").to_owned();
    // The run that had started ends as if there were no quota.
    let events = first.stream(&format!("/api/v1/runs/{id}/events"), &[]).collect::<Vec<_>>().join("\n");
    assert!(events.contains("succeeded"), "{events}");
    // It may have ended before the reply.
    let next = start(second, "ann");
    assert!([200, 202].contains(&next.status), "{next:?}");
}

#[test]
fn concurrent_runs_are_limited_on_sqlite() {
    check_concurrent_runs("", false);
}

#[test]
fn concurrent_runs_are_limited_for_all_servers_of_a_postgres() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    check_concurrent_runs(&format!("database = \"{}\"", database.url), true);
}

#[test]
fn a_retry_needs_the_quotas_of_a_start() {
    let (place, slow) = slow_workspace("");
    place.write("fails.json", &two_calls_flow(&slow, "GET", "/status/503"));
    let server = RunningServer::start(&place, &[]);
    let start = |workflow: &str, wait: &str| {
        let body = json!({"workflow": workflow, "inputs": {}, "user": "ann"});
        server.post(&format!("/api/v1/runs{wait}"), &body)
    };
    let failed = start("fails", "?wait=60").json();
    assert_eq!(failed["status"], "failed", "{failed}");
    let retry =
        || server.post(&format!("/api/v1/runs/{}/retry", failed["run_id"].as_str().expect("an id")), &json!({}));
    assert_eq!(start("calls", "").status, 202);
    slow.wait_for_requests("/slow", 1);
    assert_refused(&retry(), "concurrent_runs");
    slow.release_slow();
}

#[test]
fn schedules_and_webhooks_need_space() {
    let place = Workspace::with_hello("[quotas]\ndatabase_bytes = 100\n");
    let ran = place.run(&["run", "hello.json", "--input", "hello.json", "--user", "ann"]);
    assert_eq!(exit_code(&ran), 0, "{}", stderr_text(&ran));
    let server = RunningServer::start(&place, &[]);
    let put = |path: &str, body: Value| server.send_and_read("PUT", path, &[JSON_TYPE], &body.to_string());
    let schedule =
        put("/api/v1/schedules/s?user=ann", json!({"workflow": "hello", "cron": "0 0 1 1 *", "inputs": "x"}));
    assert_refused(&schedule, "database_bytes");
    assert_refused(&put("/api/v1/hooks/h?user=ann", json!({"workflow": "hello"})), "database_bytes");
}

fn check_starts(config: &str) {
    let place = Workspace::with_hello("");
    let quotas = "[quotas]\nstarts_per_minute = 1\n[quotas.users.bob]\nstarts_per_minute = 2\n\
                  [quotas.users.carl]\nstarts_per_minute = 2\n";
    place.write("flowloom.toml", &format!("{config}\ndefault_model = \"scripted:echo\"\n{quotas}"));
    let server = RunningServer::start(&place, &[]);
    assert_eq!(start_hello(&server, "ann").status, 200);
    let seconds = assert_refused(&start_hello(&server, "ann"), "starts_per_minute");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!([start_hello(&server, "bob").status, start_hello(&server, "bob").status], [200, 200]);
    assert_refused(&start_hello(&server, "bob"), "starts_per_minute");
    // A retry starts a run again.
    let retried =
        |id: &Value| server.post(&format!("/api/v1/runs/{}/retry", id.as_str().expect("an id")), &json!({"from": "/"}));
    let carl = start_hello(&server, "carl").json();
    assert_eq!(retried(&carl["run_id"]).status, 200);
    server.follow_to_end(carl["run_id"].as_str().expect("an id"));
    let seconds = assert_refused(&retried(&carl["run_id"]), "starts_per_minute");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(read_usage(&server, "carl", "starts_per_minute")["used"], 2.0);
    // Every way to start a run is counted, and reading is not limited.
    let refused = place.run(&["run", "hello.json", "--input", "hello.json", "--user", "ann"]);
    assert!(exit_code(&refused) != 0 && stderr_text(&refused).contains("FL1113"), "{}", stderr_text(&refused));
    assert_eq!(server.get("/api/v1/runs").json()["items"].as_array().map(Vec::len), Some(4));
}

#[test]
fn starts_are_limited_on_sqlite() {
    check_starts("");
}

#[test]
fn starts_are_limited_on_postgres() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    check_starts(&format!("database = \"{}\"", database.url));
}

#[test]
fn stored_definitions_are_limited() {
    let place = Workspace::with_hello("[quotas]\ndefinitions = 1\n");
    let server = RunningServer::start(&place, &[]);
    let put = |id: &str, description: &str| {
        let body = json!({"id": id, "name": "n", "description": description, "steps": []}).to_string();
        server.send_and_read("PUT", &format!("/api/v1/workflows/{id}?user=ann"), &[JSON_TYPE], &body)
    };
    assert_eq!(put("one", "a").status, 201);
    assert_refused(&put("two", "a"), "definitions");
    // Stored definitions can be changed, run and deleted.
    assert_eq!(put("one", "b").status, 200);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "one", "inputs": "x", "user": "ann"}));
    assert_eq!(run.status, 200, "{run:?}");
    assert_eq!(server.send_and_read("DELETE", "/api/v1/workflows/one?user=ann", &[], "").status, 204);
    assert_eq!(put("two", "a").status, 201);
}

#[test]
fn stored_schedules_are_limited() {
    let place = Workspace::with_hello("[quotas]\nschedules = 1\n");
    let server = RunningServer::start(&place, &[]);
    let put = |id: &str, cron: &str| {
        let body = json!({"workflow": "hello", "cron": cron, "inputs": "x"}).to_string();
        server.send_and_read("PUT", &format!("/api/v1/schedules/{id}?user=ann"), &[JSON_TYPE], &body)
    };
    assert_eq!(put("one", "0 0 1 1 *").status, 200);
    assert_refused(&put("two", "0 0 1 1 *"), "schedules");
    assert_eq!(put("one", "0 0 2 1 *").status, 200, "what is stored can be changed");
    assert_eq!(server.send_and_read("DELETE", "/api/v1/schedules/one?user=ann", &[], "").status, 204);
    assert_eq!(put("two", "0 0 1 1 *").status, 200);
}

#[test]
fn definitions_that_are_sent_and_schedules_count_for_the_size() {
    let place = Workspace::with_hello("[quotas]\ndatabase_bytes = 1000000\n");
    let server = RunningServer::start(&place, &[]);
    let object = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let block = json!({"id": "b", "name": "b", "description": "Asks.", "category": "process", "execution_type": "llm",
        "input_schema": object, "output_schema": object, "prompt_template": "Hello"});
    let send = |n: usize| {
        let nodes = json!([{"id": "a", "block_id": "b", "inputs": {}}]);
        let pipeline = json!({"id": format!("p{n}"), "name": "p", "nodes": nodes, "edges": [], "user_prompt": "x".repeat(400_000)});
        server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block], "user_id": "ann"}))
    };
    let sent: Vec<HttpAnswer> = (0..12).map(send).collect();
    let refused = sent.iter().filter(|answer| answer.status == 429).count();
    assert_eq!(sent[0].status, 200, "{:?}", sent[0]);
    assert!(refused >= 8, "{refused} of 12 are refused");
    assert!(read_usage(&server, "ann", "database_bytes")["used"].as_f64() > Some(400_000.0));
}

fn check_database_bytes(config: &str) {
    let place = Workspace::with_hello("");
    place.write(
        "flowloom.toml",
        &format!("{config}\ndefault_model = \"scripted:echo\"\n[quotas]\ndatabase_bytes = 100\n"),
    );
    let run = || place.run(&["run", "hello.json", "--input", "hello.json", "--user", "ann"]);
    let first = run();
    assert_eq!(exit_code(&first), 0, "{}", stderr_text(&first));
    let printed = stderr_text(&run());
    assert!(printed.contains("FL1113") && printed.contains("database_bytes"), "{printed}");
    let server = RunningServer::start(&place, &[]);
    assert!(assert_refused(&start_hello(&server, "ann"), "database_bytes") <= 60);
    let put = server.send_and_read("PUT", "/api/v1/memory/ann/note", &[JSON_TYPE], "1");
    assert_refused(&put, "database_bytes");
    assert!(read_usage(&server, "ann", "database_bytes")["used"].as_f64() > Some(100.0));
    let listed = server.get("/api/v1/runs").json();
    let id = listed["items"][0]["run_id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/api/v1/runs/{id}")).status, 200);
    assert_eq!(start_hello(&server, "bob").status, 200);
}

#[test]
fn the_size_of_a_users_data_is_limited_on_sqlite() {
    check_database_bytes("");
}

#[test]
fn the_size_of_a_users_data_is_limited_on_postgres() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    check_database_bytes(&format!("database = \"{}\"", database.url));
}

/// A workspace whose workflow `hello` calls a scripted model twice.
fn two_calls_workspace(config: &str, quotas: &str) -> Workspace {
    let place = Workspace::with_hello("");
    place.write("flowloom.toml", &format!("{config}\ndefault_model = \"scripted:echo\"\n{quotas}"));
    let step = |name: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
            "promptTemplate": "Say {{input}}"})
    };
    let definition = json!({"id": "hello", "name": "hello", "description": "d", "steps": [step("s"), step("t")]});
    place.write("hello.json", &definition.to_string());
    place
}

fn check_tokens(config: &str) {
    let place = two_calls_workspace(config, "[quotas.users.ann]\ntokens_per_day = 1\n");
    let server = RunningServer::start(&place, &[]);
    let run = start_hello(&server, "ann").json();
    // The call that crosses the limit is completed, the next one is refused.
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("FL1113")), "{run}");
    assert!(run["error"].to_string().contains("tokens_per_day"), "{run}");
    let usage = read_usage(&server, "ann", "tokens_per_day");
    assert!(usage["used"].as_f64() > Some(1.0) && usage["resets_at"].is_u64(), "{usage}");
    assert_eq!(start_hello(&server, "bob").json()["status"], "succeeded");
    assert_eq!(read_usage(&server, "bob", "tokens_per_day")["used"], Value::Null);
}

#[test]
fn tokens_per_day_are_limited_on_sqlite() {
    check_tokens("");
}

#[test]
fn tokens_per_day_are_limited_on_postgres() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    check_tokens(&format!("database = \"{}\"", database.url));
}

/// The steps of the run begin together. Those that do not fit into the quota wait for the others, and are then refused.
#[test]
fn calls_that_begin_together_share_the_tokens_of_a_day() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n[quotas]\ntokens_per_day = 200\n");
    let step = |n: usize| {
        json!({"name": format!("s{n}"), "functionId": "agent::chat", "mode": "fanout", "errorMode": "fail",
            "promptTemplate": "Say {{input}}"})
    };
    let definition = json!({"id": "many", "name": "many", "steps": (0..100).map(step).collect::<Vec<_>>()});
    place.write("many.json", &definition.to_string());
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "many", "inputs": "hello there", "user": "ann"});
    let run = server.post("/api/v1/runs?wait=60", &body).json();
    assert_eq!(run["error"]["code"], "FL1113", "{run}");
    let used = read_usage(&server, "ann", "tokens_per_day")["used"].as_f64().expect("tokens");
    // The last call may exceed the quota.
    assert!((200.0..400.0).contains(&used), "{used}");
}

#[test]
fn dollars_per_day_are_limited() {
    let place = two_calls_workspace("", "[quotas]\nusd_per_day = 0\n");
    let server = RunningServer::start(&place, &[]);
    let run = start_hello(&server, "ann").json();
    assert_eq!(run["error"]["code"], "FL1113", "{run}");
    assert!(run["error"].to_string().contains("usd_per_day"), "{run}");
    // A model without a known price cannot be bounded.
    let config = "default_model = \"house:m\"\n[providers.house]\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    place.write("flowloom.toml", &format!("{config}[quotas]\nusd_per_day = 5\n"));
    let step = json!({"name": "a", "functionId": "agent::chat", "promptTemplate": "Hi",
        "mode": "sequential", "errorMode": "retry", "maxRetries": 2});
    place.write("retried.json", &json!({"id": "retried", "name": "retried", "steps": [step]}).to_string());
    let output = place.run(&["run", "retried.json", "--json"]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((exit_code(&output), result["error"]["code"].as_str()), (5, Some("FL1112")), "{result}");
    let shown: Value = serde_json::from_slice(&place.run(&["show", "last", "--json"]).stdout).expect("one object");
    assert_eq!(shown["steps"][0]["attempts"], 1, "no attempt can succeed: {shown}");
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn time_of_the_sandbox_is_limited() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n[quotas]\nsandbox_seconds_per_day = 0.001\n");
    std::fs::create_dir(place.path("blocks")).expect("created");
    let block = json!({"id": "count", "name": "count", "description": "Counts.", "category": "process",
        "execution_type": "python", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "source_code": "async def execute(inputs, context):\n    return {\"n\": sum(range(200000))}"});
    place.write("blocks/count.json", &block.to_string());
    let nodes = json!([{"id": "a", "block_id": "count", "inputs": {"n": 1}},
        {"id": "b", "block_id": "count", "inputs": {"n": "{{a.n}}"}}]);
    let pipeline = json!({"id": "p", "name": "p", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]});
    place.write("p.json", &pipeline.to_string());
    let output = place.run(&["run", "p.json", "--user", "ann"]);
    let printed = stderr_text(&output);
    if printed.contains("FL1032") && std::env::var_os("FLOWLOOM_REQUIRE_SANDBOX").is_none() {
        return;
    }
    assert!(
        exit_code(&output) != 0 && printed.contains("FL1113") && printed.contains("sandbox_seconds_per_day"),
        "{printed}"
    );
    // Of blocks that begin together, one may exceed the quota.
    let nodes: Vec<Value> =
        (0..20).map(|n| json!({"id": format!("n{n}"), "block_id": "count", "inputs": {"n": 1}})).collect();
    place.write("p.json", &json!({"id": "p", "name": "p", "nodes": nodes, "edges": []}).to_string());
    let output = place.run(&["run", "p.json", "--user", "bob", "--json"]);
    let run: Value = serde_json::from_slice(&output.stdout).expect("a summary");
    let results = run["result"]["results"].as_object().expect("results");
    let succeeded = results.values().filter(|result| result.get("error").is_none()).count();
    assert_eq!(succeeded, 1, "{run}");
}

/// A call that needs some of a quota.
#[derive(Clone, Copy)]
enum QuotaUse {
    Start,
    StoreDefinition,
    StoreSchedule,
    WriteMemory,
    CallModel,
    RunCode,
}

/// Each quota, the call that needs some of it, and the code of the refusal.
const QUOTA_ROWS: [(&str, QuotaUse, &str); 9] = [
    ("concurrent_runs", QuotaUse::Start, "FL1113"),
    ("starts_per_minute", QuotaUse::Start, "FL1113"),
    ("definitions", QuotaUse::StoreDefinition, "FL1113"),
    ("schedules", QuotaUse::StoreSchedule, "FL1113"),
    ("database_bytes", QuotaUse::Start, "FL1113"),
    ("memory_bytes", QuotaUse::WriteMemory, "FL1108"),
    ("sandbox_seconds_per_day", QuotaUse::RunCode, "FL1113"),
    ("tokens_per_day", QuotaUse::CallModel, "FL1113"),
    ("usd_per_day", QuotaUse::CallModel, "FL1113"),
];

fn use_quota(server: &RunningServer, user: &str, kind: QuotaUse) -> HttpAnswer {
    let send = |path: &str, body: &Value| server.send_and_read("PUT", path, &[JSON_TYPE], &body.to_string());
    match kind {
        QuotaUse::Start | QuotaUse::CallModel => start_hello(server, user),
        QuotaUse::StoreDefinition => {
            let definition = json!({"id": "more", "name": "n", "description": "d", "steps": []});
            send(&format!("/api/v1/workflows/more?user={user}"), &definition)
        }
        QuotaUse::StoreSchedule => {
            let schedule = json!({"workflow": "hello", "cron": "0 0 1 1 *"});
            send(&format!("/api/v1/schedules/more?user={user}"), &schedule)
        }
        QuotaUse::WriteMemory => send(&format!("/api/v1/memory/{user}/more"), &json!("text")),
        QuotaUse::RunCode => {
            let object = json!({"type": "object", "properties": {}});
            let block = json!({"id": "b", "name": "b", "description": "d", "category": "process", "execution_type": "python",
                "input_schema": object, "output_schema": object,
                "source_code": "async def execute(inputs, context):\n    return {}"});
            let nodes = json!([{"id": "a", "block_id": "b", "inputs": {}}]);
            let pipeline = json!({"id": "p", "name": "p", "nodes": nodes, "edges": []});
            server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block], "user_id": user}))
        }
    }
}

/// Each quota is set to nothing for one user, who has data from before: the next use is refused with a remedy, the
/// quota is shown, the data can be read and deleted, and another user has no such limit.
#[test]
fn every_quota_is_set_for_a_user_and_shown_and_leaves_data_usable() {
    let place = Workspace::with_hello("");
    let before = RunningServer::start(&place, &[]);
    let store_data = |(quota, ..): (&str, QuotaUse, &str)| {
        let put = before.send_and_read("PUT", &format!("/api/v1/memory/{quota}/old"), &[JSON_TYPE], "1");
        assert_eq!(put.status, 204);
        start_hello(&before, quota).json()["run_id"].as_str().expect("an id").to_owned()
    };
    let runs = QUOTA_ROWS.map(store_data);
    drop(before);
    let limits: String =
        QUOTA_ROWS.iter().map(|(quota, ..)| format!("[quotas.users.{quota}]\n{quota} = 0\n")).collect();
    place.write("flowloom.toml", &format!("default_model = \"scripted:echo\"\n{limits}"));
    let server = RunningServer::start(&place, &[]);
    for ((quota, kind, code), run) in QUOTA_ROWS.into_iter().zip(runs) {
        let refused = use_quota(&server, quota, kind);
        let is_refused_call = matches!(
            kind,
            QuotaUse::Start | QuotaUse::StoreDefinition | QuotaUse::StoreSchedule | QuotaUse::WriteMemory
        );
        let has_sandbox = !matches!(kind, QuotaUse::RunCode) || std::env::var_os("FLOWLOOM_REQUIRE_SANDBOX").is_some();
        match is_refused_call {
            true => assert_eq!((refused.status, refused.error_code().as_str()), (429, code), "{quota}: {refused:?}"),
            false => assert!(refused.body.contains("failed"), "{quota}: {refused:?}"),
        }
        let names_quota = refused.body.contains(quota) || (!has_sandbox && refused.body.contains("sandbox"));
        assert!(names_quota, "{quota}: {refused:?}");
        assert_eq!(read_usage(&server, quota, quota)["limit"], 0.0, "{quota}");
        let (_, printed) = place.run_json(&["usage", "--user", quota]);
        let limited = printed["quotas"].as_array().into_iter().flatten().filter(|row| row["limit"] == 0.0);
        assert_eq!(limited.map(|row| row["name"].clone()).collect::<Vec<_>>(), [quota], "{printed}");
        assert_eq!(server.get(&format!("/api/v1/runs/{run}")).json()["status"], "succeeded", "{quota}");
        assert_eq!(server.get(&format!("/api/v1/memory/{quota}")).json()["old"], 1, "{quota}");
        assert_eq!(server.send_and_read("DELETE", &format!("/api/v1/memory/{quota}/old"), &[], "").status, 204);
        assert_ne!(use_quota(&server, &format!("not-{quota}"), kind).status, 429, "{quota}");
    }
}

#[test]
fn a_user_may_have_more_memory_than_the_others() {
    let place = Workspace::new("[limits]\nmemory_bytes = 1000\n[quotas.users.ann]\nmemory_bytes = 20000000\n");
    let server = RunningServer::start(&place, &[]);
    let write = |user: &str, key: &str, bytes: usize| {
        let object = json!({"type": "object", "properties": {}});
        let body = format!(
            "async def execute(inputs, context):\n    context['memory']['{key}'] = 'x' * {bytes}\n    return {{}}"
        );
        let block = json!({"id": "b", "name": "b", "description": "d", "category": "memory", "execution_type": "python",
            "input_schema": object, "output_schema": object, "source_code": body});
        let pipeline =
            json!({"id": "p", "name": "p", "nodes": [{"id": "a", "block_id": "b", "inputs": {}}], "edges": []});
        server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block], "user_id": user})).json()
    };
    // More than the default of a run's limit, too.
    let of_ann = write("ann", "one", 5_000_000);
    if of_ann.to_string().contains("FL1032") && std::env::var_os("FLOWLOOM_REQUIRE_SANDBOX").is_none() {
        return;
    }
    assert_eq!(of_ann["status"], "completed", "{of_ann}");
    assert_eq!(write("ann", "two", 5_000_000)["status"], "completed");
    let of_bob = write("bob", "one", 2000);
    assert_eq!(of_bob["status"], "failed", "{of_bob}");
    assert!(of_bob["errors"][0]["error"].as_str().is_some_and(|error| error.contains("at most 1000 are allowed")));
    let limits = ["ann", "bob"].map(|user| read_usage(&server, user, "memory_bytes")["limit"].clone());
    assert_eq!(limits, [json!(20_000_000.0), json!(1000.0)]);
}

#[test]
fn nothing_is_limited_by_default_and_usage_is_printed() {
    let place = Workspace::with_hello("");
    let (code, usage) = place.run_json(&["usage", "--user", "ann"]);
    assert_eq!((code, &usage["user"]), (0, &json!("ann")));
    let limited = usage["quotas"].as_array().into_iter().flatten().filter(|row| !row["limit"].is_null());
    assert_eq!(limited.map(|row| row["name"].clone()).collect::<Vec<_>>(), ["memory_bytes"]);
    let text = String::from_utf8_lossy(&place.run(&["usage"]).stdout).into_owned();
    assert!(text.contains("tokens_per_day") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    place.write("flowloom.toml", "[quotas]\ntokens = 5\n");
    let wrong = stderr_text(&place.run(&["usage"]));
    assert!(wrong.contains("FL1401") && wrong.contains("tokens_per_day"), "{wrong}");
}

#[test]
fn a_key_sees_the_usage_of_its_user_only() {
    let place = Workspace::with_hello("");
    let made = place.run(&["keys", "create", "--name", "k", "--scopes", "read", "--user", "ann"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    let read = |path: &str| server.send_and_read("GET", path, &[&key], "");
    assert_eq!(read("/api/v1/usage").json()["user"], "ann");
    assert_eq!(read("/api/v1/usage?user=bob").status, 404);
}
