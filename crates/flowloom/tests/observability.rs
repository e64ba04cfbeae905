//! Observability of a server: traces, logs and metrics.

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, two_calls_flow};

#[test]
fn an_ended_run_is_a_trace_at_the_collector() {
    let collector = TestServer::start();
    let place = Workspace::with_hello(&format!("[telemetry]\notlp = \"http://{}\"\n", collector.address));
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "a secret wish"})).json();
    collector.wait_for_requests("/v1/traces", 1);
    let body = collector.last_body("/v1/traces");
    for output in
        ["invoke_workflow hello", "chat echo", "gen_ai.usage.input_tokens", run["run_id"].as_str().expect("an id")]
    {
        assert!(body.contains(output), "{output} is not in {body}");
    }
    assert!(!body.contains("wish"), "prompts are not exported");
    assert!(
        collector.last_head("/v1/traces").contains("application/x-protobuf"),
        "{}",
        collector.last_head("/v1/traces")
    );
}

#[test]
fn logs_are_lines_of_json() {
    // Without this setting, the registry could log a warning at any time.
    let place = Workspace::with_hello("[embeddings]\nmodel = \"none\"\n");
    let arguments = ["serve", ".", "--bind", "127.0.0.1:0", "--log", "json"];
    let mut child = place.build_command(&arguments).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    let serving = next();
    assert_eq!((&serving["message"], &serving["level"]), (&json!("serving"), &json!("INFO")), "{serving}");
    let address = serving["address"].as_str().expect("an address").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    std::io::Write::write_all(
        &mut stream,
        format!("GET /nowhere HTTP/1.0\r\nHost: {address}\r\nX-Request-Id: proxy-7\r\n\r\n").as_bytes(),
    )
    .expect("sent");
    let call = next();
    assert_eq!(
        (&call["message"], &call["path"], &call["status"]),
        (&json!("call"), &json!("/nowhere"), &json!(404)),
        "{call}"
    );
    assert!(call["ms"].is_number() && call["timestamp"].is_string() && call["request"] == "proxy-7", "{call}");
    let mut head = String::new();
    std::io::Read::read_to_string(&mut stream, &mut head).expect("an answer");
    assert!(head.contains("x-request-id: proxy-7"), "{head}");
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    let request = format!("GET /nowhere HTTP/1.0\r\nHost: {address}\r\nX-Request-Id: a b\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let call = next();
    assert_eq!(call["request"].as_str().map(str::len), Some(32), "it gets one: {call}");
    support::send_signal(&child, "-TERM");
    assert_eq!(next()["message"], "stopping");
    assert_eq!(next()["message"], "stopped");
    assert!(child.wait().expect("ended").success());
}

/// The lines of JSON that the program writes until it ends.
fn read_json_log(place: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let output = place.run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {text}"))).collect()
}

#[test]
fn an_error_at_the_start_is_a_line_of_json() {
    let place = Workspace::with_hello("lease_ms = 1\n");
    for command in [&["serve", ".", "--log", "json"][..], &["worker", "--restate", "http://x:1", "--log", "json"]] {
        let log = read_json_log(&place, command);
        let last = log.last().expect("a line");
        assert_eq!((&last["level"], &last["code"]), (&json!("ERROR"), &json!("FL1401")), "{command:?}: {log:?}");
        assert!(last["message"].as_str().is_some_and(|text| text.contains("lease_ms must be 100 to")), "{last}");
    }
}

/// A server that answers the POST of a run only after the server received a stop signal.
fn start_slow_post(settings: &str) -> (TestServer, Workspace, RunningServer, String) {
    let world = TestServer::start();
    let place =
        Workspace::new(&format!("default_model = \"scripted:echo\"\n[server]\n{settings}\n{}", world.egress_config()));
    place.write("flow.json", &two_calls_flow(&world, "POST", "/slow"));
    let server = RunningServer::start(&place, &[]);
    let started = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    world.wait_for_requests("/slow", 1);
    (world, place, server, run)
}

#[test]
fn a_server_that_stops_answers_until_its_runs_have_ended() {
    let (world, place, mut server, run) = start_slow_post("drain_ms = 600000");
    support::send_signal(&server.child, "-TERM");
    while server.get("/health/ready").status != 503 {}
    let unready = server.get("/health/ready");
    assert_eq!(
        (unready.error_code(), &unready.json()["title"]),
        ("FL1518".to_owned(), &json!("the server is stopping"))
    );
    let running = server.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!(running["status"], "running", "{running}");
    assert!(running["result"].is_null(), "it has none yet: {running}");
    let refused = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after"), "{refused:?}");
    world.release_slow();
    assert!(server.child.wait().expect("it ends").success());
    let shown = place.run_json(&["show", &run]).1;
    assert_eq!((&shown["status"], world.request_count("/slow")), (&json!("succeeded"), 1), "{shown}");
}

#[test]
fn a_stream_that_the_server_ends_before_its_run_tells_the_client_to_reconnect() {
    let (_world, _place, server, run) = start_slow_post("drain_ms = 1");
    let mut lines = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    assert!(lines.any(|line| line == "event: step_started"));
    support::send_signal(&server.child, "-TERM");
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().all(|line| line != "event: done"), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with(':') && line.contains("the server is stopping")), "{rest:?}");
}

#[test]
fn the_log_tells_of_runs_that_need_somebody() {
    let (_world, place, mut server, run) = start_slow_post("drain_ms = 1");
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    let mut child = place
        .build_command(&["serve", ".", "--bind", "127.0.0.1:0", "--log", "json"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut found =
        lines.map(|line| serde_json::from_str::<Value>(&line).expect("JSON")).filter(|line| line["run"] == *run);
    let mut lines = [found.next().expect("a line"), found.next().expect("a line")];
    // The run is driven before its claim is reported.
    lines.sort_by_key(|line| line["level"].to_string());
    let [reclaimed, uncertain] = lines;
    assert_eq!(
        (&reclaimed["message"], &reclaimed["level"]),
        (&json!("reclaimed a run"), &json!("INFO")),
        "{reclaimed}"
    );
    assert_eq!((&uncertain["level"], &uncertain["workflow"]), (&json!("WARN"), &json!("flow")), "{uncertain}");
    assert!(uncertain["message"].as_str().is_some_and(|text| text.contains("uncertain")), "{uncertain}");
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn figures_count_what_is_there() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    let figures = server.get("/metrics").body;
    for line in
        ["flowloom_runs{status=\"succeeded\"} 1", "flowloom_oldest_unfinished_seconds 0", "flowloom_runs_live 0"]
    {
        assert!(figures.lines().any(|found| found == line), "{line} is not in {figures}");
    }
    assert!(figures.contains("\nflowloom_journal_bytes "), "{figures}");
}

/// A step list that calls an API and then asks a model.
fn write_two_calls(place: &Workspace, api: &str) {
    let step = |name: &str, function: &str, more: Value| {
        let mut step = json!({"name": name, "functionId": function, "mode": "sequential", "errorMode": "fail"});
        step.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        step
    };
    let steps = json!([
        step("send", "tool::web_fetch", json!({"promptTemplate": format!("http://{api}/boom?q={{{{input}}}}")})),
        step("ask", "agent::chat", json!({"promptTemplate": "Say {{input}}"})),
    ]);
    place.write("two.json", &json!({"id": "two", "name": "two", "description": "d", "steps": steps}).to_string());
}

#[test]
fn traces_continue_those_of_callers_and_contain_nothing_that_was_written() {
    const PARENT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let (collector, api) = (TestServer::start(), TestServer::start());
    let config = format!(
        "default_model = \"scripted:echo\"\n{}[telemetry]\notlp = \"http://{}\"\n",
        api.egress_config(),
        collector.address
    );
    let place = Workspace::new(&config);
    write_two_calls(&place, &api.address);
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "two", "inputs": "wish"}).to_string();
    let headers = ["Content-Type: application/json", PARENT];
    let run = server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, &body);
    assert_eq!(run.json()["status"], "succeeded", "{run:?}");
    let sent = api.last_head("/boom?q=wish");
    let sent = sent.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap_or_else(|| panic!("{sent}"));
    assert!(sent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && !sent.contains("00f067aa0ba902b7"), "{sent}");
    collector.wait_for_requests("/v1/traces", 1);
    let body = collector.last_body("/v1/traces");
    assert!(!body.contains("wish"), "{body}");
    for expected in ["gen_ai.tool.name", "gen_ai.provider.name", "gen_ai.request.model", "service.version"] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
}

/// A model server that answers everything with one answer. Returns its address.
fn serve_answer(answer: &Value) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let body = answer.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let reply = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            std::io::Write::write_all(&mut stream, reply.as_bytes()).expect("sent");
        }
    });
    address
}

#[test]
fn spans_have_facts_about_responses() {
    let (collector, api) = (TestServer::start(), TestServer::start());
    let model = serve_answer(&json!({"model": "small-2026", "usage": {"prompt_tokens": 7, "completion_tokens": 2},
        "choices": [{"message": {"content": "cut wish"}, "finish_reason": "length"}]}));
    let config = format!(
        "default_model = \"house:small\"\n{}[telemetry]\notlp = \"http://{}\"\n[providers.house]\nbase_url = \"http://{}/v1\"\n",
        api.egress_config(),
        collector.address,
        model
    );
    let place = Workspace::new(&config);
    let call = |path: &str, name: &str| {
        json!({"type": "apiCall", "config": {"url": format!("http://{}/{path}", api.address), "method": "GET",
            "responseVariable": name}})
    };
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "Say a wish", "resultVariable": "output"}});
    let steps = |steps: &[Value]| json!({"name": "f", "config": {"steps": steps}}).to_string();
    place.write("cut.json", &steps(&[call("ok", "ok"), ask]));
    place.write("failed.json", &steps(&[call("status/503", "bad")]));
    let server = RunningServer::start(&place, &[]);
    let run = |workflow: &str| server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow})).json();
    let run_output = run("cut");
    assert_eq!(run_output["output"], "cut wish", "{run_output}");
    collector.wait_for_requests("/v1/traces", 1);
    let spans = collector.last_body("/v1/traces");
    for expected in
        ["gen_ai.response.model", "small-2026", "gen_ai.response.finish_reasons", "length", "http.response.status_code"]
    {
        assert!(spans.contains(expected), "{expected} is not in {spans}");
    }
    assert!(!spans.contains("wish"), "{spans}");
    run("failed");
    collector.wait_for_requests("/v1/traces", 2);
    let spans = collector.last_body("/v1/traces");
    let last = spans.rsplit("error.type").next().unwrap_or_default();
    assert!(last.contains("503"), "{spans}");
    assert!(spans.contains("http.response.status_code"), "{spans}");
}

#[test]
fn a_retried_run_has_spans_of_its_own() {
    let (collector, api) = (TestServer::start(), TestServer::start());
    let place = Workspace::new(&format!(
        "default_model = \"scripted:echo\"\n{}[telemetry]\notlp = \"http://{}\"\n",
        api.egress_config(),
        collector.address
    ));
    let ask = json!({"type": "llmInstruction", "config": {"instruction": "Hi", "resultVariable": "hi"}});
    let call = json!({"type": "apiCall", "config": {"url": format!("http://{}/status/503", api.address),
        "method": "GET", "responseVariable": "r"}});
    place.write("f.json", &json!({"name": "f", "config": {"steps": [ask, call]}}).to_string());
    let server = RunningServer::start(&place, &[]);
    let read_traceparent = || {
        let head = api.last_head("/status/503").to_lowercase();
        let value = head.lines().find_map(|line| line.strip_prefix("traceparent: ")).expect("a header").to_owned();
        value.trim().split('-').map(str::to_owned).collect::<Vec<_>>()
    };
    let failed = server.post("/api/v1/runs?wait=60", &json!({"workflow": "f"})).json();
    let run = failed["run_id"].as_str().expect("an id");
    collector.wait_for_requests("/v1/traces", 1);
    let (first, sent) = (collector.last_body("/v1/traces"), read_traceparent());
    assert!(first.contains("gen_ai.request.model"), "{first}");
    server.post(&format!("/api/v1/runs/{run}/retry?wait=60"), &json!({}));
    collector.wait_for_requests("/v1/traces", 2);
    let (second, sent_again) = (collector.last_body("/v1/traces"), read_traceparent());
    assert!(second.contains("http.request.method"), "{second}");
    assert!(!second.contains("gen_ai.request.model"), "the span of the first step is exported already: {second}");
    assert_eq!(sent[1], sent_again[1], "the trace is the same");
    assert_ne!(sent[2], sent_again[2], "the span is another one");
}

#[test]
fn child_runs_are_part_of_the_trace_of_their_parent_run() {
    let (collector, api) = (TestServer::start(), TestServer::start());
    let place = Workspace::new(&format!(
        "default_model = \"scripted:echo\"\n{}[telemetry]\notlp = \"http://{}\"\n\
         [functions.\"my::two\"]\nworkflow = \"two.json\"\n",
        api.egress_config(),
        collector.address
    ));
    write_two_calls(&place, &api.address);
    let step = json!({"name": "call", "functionId": "my::two", "mode": "sequential", "promptTemplate": "wish",
        "errorMode": "fail", "outputVar": "out"});
    place.write("outer.json", &json!({"id": "outer", "name": "outer", "steps": [step]}).to_string());
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "outer", "inputs": ""}));
    assert_eq!(run.json()["status"], "succeeded", "{run:?}");
    for span in ["invoke_workflow two", "invoke_workflow outer"] {
        collector.wait_for_text("/v1/traces", span);
    }
    let trace = run.json()["run_id"].as_str().expect("an id").replace('-', "");
    assert!(
        api.last_head("/boom?q=wish").contains(&format!("traceparent: 00-{trace}-")),
        "the child run has the trace"
    );
}

#[test]
fn without_a_collector_a_trace_is_passed_on_as_it_came() {
    let api = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", api.egress_config()));
    write_two_calls(&place, &api.address);
    let server = RunningServer::start(&place, &[]);
    let body = json!({"workflow": "two", "inputs": "a"}).to_string();
    let call = |headers: &[&str]| {
        server.send_and_read("POST", "/api/v1/runs?wait=60", headers, &body);
        api.last_head("/boom?q=a")
    };
    assert!(!call(&["Content-Type: application/json"]).contains("traceparent"), "there is no trace");
    let parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert!(call(&["Content-Type: application/json", parent]).contains(parent));
}

#[test]
fn durations_are_counted_in_histograms() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    server.get("/nowhere");
    let figures = server.get("/metrics").body;
    for line in [
        "flowloom_http_request_duration_seconds_bucket{method=\"POST\",route=\"/api/v1/runs\",status=\"200\",le=\"+Inf\"} 1",
        "flowloom_http_request_duration_seconds_count{method=\"GET\",route=\"none\",status=\"404\"} 1",
        "flowloom_step_duration_seconds_count{kind=\"generate\",outcome=\"finished\"} 1",
        "flowloom_model_call_duration_seconds_count{provider=\"scripted\",outcome=\"finished\"} 1",
    ] {
        assert!(figures.lines().any(|found| found == line), "{line} is not in {figures}");
    }
    assert!(figures.contains("flowloom_model_tokens_total{provider=\"scripted\",direction=\"input\"} "), "{figures}");
}
