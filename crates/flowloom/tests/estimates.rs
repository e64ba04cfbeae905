//! The worst case of the examples, as `flowloom plan` prints it, and maxima in CI.

mod support;

use std::path::Path;

use serde_json::json;
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, stderr_text};

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).display().to_string()
}

#[test]
fn the_worst_case_of_every_format() {
    let place = Workspace::new("");
    let mut all = String::new();
    for name in [
        "flow/summarize-page.json",
        "steps/review-document.json",
        "steps/refine.json",
        "markdown/postcards.mdx",
        "pipeline/analyse-review.json",
        "graph/helpdesk.json",
        "flow/guide.json",
    ] {
        let config = place.path("flowloom.toml").display().to_string();
        let output = place.run(&["plan", &example(name), "--model", "openai:gpt-4o-mini", "--config", &config]);
        assert_eq!(exit_code(&output), 0, "{name}: {}", stderr_text(&output));
        let text = String::from_utf8_lossy(&output.stdout).replace(&example(name), name);
        all += &format!("{text}\n");
    }
    insta::assert_snapshot!("worst_cases", all);
}

#[test]
fn known_inputs_make_the_bounds_tighter_and_maxima_are_checked() {
    let place = Workspace::with_hello("");
    let tokens = |arguments: &[&str]| {
        let (exit, estimate) = place.run_json(&[&["plan", "hello.json"], arguments].concat());
        assert_eq!(exit, 0, "{estimate}");
        estimate["models"][0]["input_tokens"].as_u64().expect("a number")
    };
    // "Say ", the input or the reference to it, and what surrounds a message.
    assert_eq!(tokens(&["-i", "input=lamps"]), 31);
    assert!(tokens(&[]) > 1_000, "the whole window");

    let plan = |maximum: &str| place.run(&["plan", "hello.json", "-i", "input=lamps", "--max", maximum]);
    assert_eq!(exit_code(&plan("calls=1,usd=0.10,requests=0,writes=0,time=1m")), 0);
    let exceeded = plan("calls=0,time=1s");
    assert_eq!(exit_code(&exceeded), 5);
    let message = stderr_text(&exceeded);
    assert!(message.contains("error[FL1406]: calls: up to 1, and the maximum is 0"), "{message}");
    assert!(message.contains("time: up to 2000 ms, and the maximum is 1000 ms"), "{message}");
    let wrong = plan("cost=1");
    assert_eq!(exit_code(&wrong), 2);
    assert!(stderr_text(&wrong).contains("write usd=0.10, tokens=5000, calls=10"), "{}", stderr_text(&wrong));
}

#[test]
fn the_typical_case_comes_from_the_runs_of_the_project() {
    let place = Workspace::with_hello("");
    let (_, before) = place.run_json(&["plan", "hello.json"]);
    assert_eq!(before["typical"], json!(null));
    for input in ["one", "two words", "three more words"] {
        assert_eq!(exit_code(&place.run(&["run", "hello.json", "-i", &format!("input={input}")])), 0);
    }
    let (_, after) = place.run_json(&["plan", "hello.json"]);
    assert_eq!((&after["typical"]["runs"], &after["typical"]["model_calls"]), (&json!(3), &json!(1)), "{after}");
    let text = place.run(&["plan", "hello.json"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("In the last 3 runs (median): 1 model call, "), "{text}");
    let hello = std::fs::read_to_string(place.path("hello.json")).expect("readable");
    let mut other: serde_json::Value = serde_json::from_str(&hello).expect("JSON");
    other["id"] = "other".into();
    let of_other = plan_definition(&place, "other.json", &other.to_string(), &[]);
    assert_eq!(of_other["typical"], json!(null), "runs of another workflow with this name do not count");
}

/// Each loop is visited one time, however deep it is.
#[test]
fn nested_loops_are_bounded_at_once() {
    const DEPTH: usize = 24;
    let place = Workspace::new("");
    let open: String = (0..DEPTH).map(|n| format!("<Loop as=\"l{n}\" until={{$.index >= 2}} max={{2}}>\n\n")).collect();
    let text =
        format!("{open}Say it.\n\n<GenText as=\"x\" model=\"scripted:echo\" />\n\n{}", "</Loop>\n\n".repeat(DEPTH));
    place.write("deep.mdx", &text);
    let (exit, estimate) = place.run_json(&["plan", "deep.mdx"]);
    assert_eq!((exit, &estimate["models"][0]["calls"]), (0, &json!(1_u64 << DEPTH)), "{estimate}");
}

#[test]
fn the_worst_case_is_read_over_http() {
    let place = Workspace::with_hello("");
    place.write(
        "forever.mdx",
        "<Loop as=\"again\" max={100000} until={$.last.text === \"done\"}>\nGo on.\n\n<GenText as=\"text\" model=\"scripted:echo\" />\n</Loop>\n",
    );
    let server = RunningServer::start(&place, &[]);
    let estimate = |body: serde_json::Value| server.post("/api/v1/estimate", &body);
    let hello = |inputs: serde_json::Value| {
        let estimate = estimate(json!({"workflow": "hello", "inputs": inputs})).json();
        estimate["models"][0]["input_tokens"].as_u64().expect("a number")
    };
    assert_eq!(hello(json!("lamps")), 31, "as flowloom plan says");
    assert!(estimate(json!({"workflow": "hello"})).json()["typical"].is_null());
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "lamps"})).json();
    assert_eq!(run["status"], "succeeded", "{run}");
    let typical = estimate(json!({"workflow": "hello"})).json()["typical"].clone();
    assert_eq!((&typical["runs"], &typical["model_calls"]), (&json!(1), &json!(1)), "{typical}");

    let text = std::fs::read_to_string(place.path("hello.json")).expect("there");
    let source = |text: &str| json!({"source": {"entry": "hello.json", "files": {"hello.json": text}}});
    let written = estimate(source(&text)).json();
    assert_eq!((&written["is_compiled"], &written["models"][0]["calls"]), (&json!(true), &json!(1)), "{written}");
    let broken = estimate(source("{\"steps\": 1}")).json();
    assert_eq!((&broken["is_compiled"], &broken["models"]), (&json!(false), &json!([])), "{broken}");
    let open = estimate(json!({"workflow": "forever"})).json();
    let end = &open["unbounded"][0];
    assert_eq!((&end["path"], &end["start"]), (&json!("/phase~1/again"), &json!(0)), "{open}");
    assert_eq!(estimate(json!({"workflow": "none"})).status, 404);
    assert_eq!(estimate(json!({})).status, 400);
    assert_eq!(estimate(json!({"workflow": "hello", "source": {"entry": "a", "files": {}}})).status, 400);
}

/// Plans a flow with one request, or a pipeline with a Python block, and returns the estimate.
fn plan_definition(place: &Workspace, file: &str, text: &str, arguments: &[&str]) -> serde_json::Value {
    place.write(file, text);
    let (exit, estimate) = place.run_json(&[&["plan", file], arguments].concat());
    assert_eq!(exit, 0, "{estimate}");
    estimate
}

#[test]
fn requests_have_their_redirects_and_the_host_of_known_inputs() {
    let place = Workspace::new("");
    let flow = json!({"name": "r", "description": "d", "steps": [
        {"type": "start", "config": {"variables": [{"name": "base", "value": "http://default.test"}]}},
        {"type": "apiCall", "config": {"url": "${base}/now", "method": "GET", "responseVariable": "a"}},
    ]})
    .to_string();
    let estimate = plan_definition(&place, "r.json", &flow, &[]);
    assert_eq!((&estimate["requests"][0]["host"], &estimate["redirects"]), (&json!("*"), &json!(5)), "{estimate}");
    let estimate = plan_definition(&place, "r.json", &flow, &["-i", "base=http://api.test"]);
    assert_eq!(estimate["requests"], json!([{"method": "GET", "host": "api.test", "count": 1}]), "{estimate}");
    let text = place.run(&["plan", "r.json"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("redirects      5  any host"));
}

#[test]
fn the_chain_has_the_calls_of_a_block_and_of_a_summary() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::create_dir(place.path("blocks")).expect("a folder");
    let block = json!({"id": "up", "name": "Up", "description": "d", "category": "process", "execution_type": "python",
        "input_schema": {"type": "object", "properties": {}}, "output_schema": {"type": "object", "properties": {}},
        "source_code": "async def execute(inputs, context):\n    return {'a': await call_llm('s', 'u')}\n"});
    place.write("blocks/up.json", &block.to_string());
    let node = json!({"id": "n1", "block_id": "up", "inputs": {}});
    let pipeline = json!({"id": "p", "name": "P", "user_prompt": "x", "nodes": [node], "edges": []}).to_string();
    let estimate = plan_definition(&place, "p.json", &pipeline, &[]);
    assert_eq!(estimate["models"][0]["calls"], 1_000, "{estimate}");
    assert_eq!(estimate["longest_chain_ms"], 1_000 * 2_000 + 200, "{estimate}");
    let flow = json!({"name": "s", "description": "d", "steps": [
        {"type": "webScraping", "config": {"url": "http://a.test/", "captureAs": "text", "enableSummarization": true,
            "resultVariable": "page"}},
    ]});
    let estimate = plan_definition(&place, "s.json", &flow.to_string(), &[]);
    assert_eq!(estimate["longest_chain_ms"], json!(null), "{estimate}");
}

#[test]
fn what_only_a_budget_ends_is_a_warning() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let check = |file: &str, text: &str| {
        place.write(file, text);
        stderr_text(&place.run(&["check", file]))
    };
    let looped = "---\ninput:\n  a: {type: text}\n---\n\n<Loop as=\"l\" until={false}>\n  Say it\n\n  <GenText as=\"b\" model=\"\" />\n</Loop>\n";
    let found = check("loop.mdx", looped);
    assert!(found.contains("FL0125") && found.contains("the loop may run 1000 times"), "{found}");
    let found = stderr_text(&place.run(&["check", &example("graph/helpdesk.json")]));
    assert!(found.contains("FL0125") && found.contains("an answer may request any number"), "{found}");
}

#[test]
fn a_known_input_or_constant_bounds_a_loop() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let calls = |until: &str, arguments: &[&str]| {
        let text = format!(
            "---\ninput:\n  n: {{type: text, format: number}}\ndata:\n  most: 7\n---\n\n<Loop as=\"l\" until={{{until}}}>\n  \
             Say it\n\n  <GenText as=\"b\" model=\"\" />\n</Loop>\n"
        );
        plan_definition(&place, "loop.mdx", &text, arguments)["models"][0]["calls"].clone()
    };
    assert_eq!(calls("$.index >= n", &["-i", "n=3"]), 3);
    assert_eq!(calls("$.index >= n", &[]), 1000);
    assert_eq!(calls("$.index >= n || $.index > most", &[]), 8);
    assert_eq!(calls("$.index >= n || $.index > most", &["-i", "n=2"]), 2);
}

/// A workspace with an agent that may call its tool `greet` three times, and a flow of that name.
fn place_with_agent(steps: &serde_json::Value) -> Workspace {
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    let call = json!({"text": "", "tool_calls": [{"name": "greet", "arguments": {}}]});
    let rows = [json!({"contains": "Greet", "answer": "good day"}), json!({"contains": "good day", "answer": "Done."})];
    place.write("answers.json", &json!({"match": rows, "default": call}).to_string());
    place.write("greet.json", &json!({"name": "greet", "description": "Greets", "steps": steps}).to_string());
    let agent = json!({"name": "helper", "systemPrompt": "You help.", "tools": ["greet"], "maxToolCalls": 3});
    place.write("helper.json", &agent.to_string());
    place
}

/// The workflows that are tools of an agent are bounded: as often as the agent may call tools.
#[test]
fn the_workflows_of_an_agent_are_part_of_its_worst_case() {
    let greet = json!({"type": "llmInstruction", "config": {"instruction": "Greet", "resultVariable": "a"}});
    let page =
        json!({"type": "apiCall", "config": {"url": "http://a.test/", "method": "POST", "responseVariable": "b"}});
    let place = place_with_agent(&json!([greet, page]));
    let (_, planned) = place.run_json(&["plan", "helper.json"]);
    // Four of the agent, and one in each of three calls.
    assert_eq!((&planned["models"][0]["calls"], &planned["unbounded"]), (&json!(7), &json!([])), "{planned}");
    assert_eq!(planned["requests"], json!([{"method": "POST", "host": "a.test", "count": 3}]), "{planned}");
    assert_eq!(exit_code(&place.run(&["plan", "helper.json", "--max", "calls=7,requests=3"])), 0);
    let server = RunningServer::start(&place, &[]);
    let listed = server.post("/api/v1/estimate", &json!({"workflow": "helper"})).json();
    assert_eq!((&listed["models"], &listed["unbounded"]), (&planned["models"], &json!([])), "{listed}");

    let scrape = json!({"type": "webScraping", "config": {"url": "http://a.test/", "captureAs": "text",
        "enableSummarization": true, "resultVariable": "p"}});
    let place = place_with_agent(&json!([scrape]));
    let (_, planned) = place.run_json(&["plan", "helper.json"]);
    let reason = planned["unbounded"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("in the workflow greet, /") && reason.contains("summarised in parts"), "{planned}");
}

/// No run of an agent exceeds its worst case, and the typical case counts what its tools have used.
#[test]
fn the_typical_case_counts_child_runs() {
    let place = place_with_agent(&json!([
        {"type": "llmInstruction", "config": {"instruction": "Greet", "resultVariable": "a"}},
        {"type": "llmInstruction", "config": {"instruction": "Greet again", "resultVariable": "b"}},
    ]));
    assert_eq!(exit_code(&place.run(&["run", "helper.json", "-i", "message=Hello"])), 0);
    let (_, planned) = place.run_json(&["plan", "helper.json"]);
    let typical = &planned["typical"];
    // Two of the agent, and two of the flow.
    assert_eq!((&typical["model_calls"], &typical["requests"]), (&json!(4), &json!(0)), "{planned}");
    assert_eq!(planned["models"][0]["calls"], json!(10), "{planned}");
    for name in ["input_tokens", "output_tokens"] {
        let (used, most) = (typical[name].as_u64(), planned["models"][0][name].as_u64());
        assert!(used.is_some_and(|used| used > 0) && most.is_some_and(|most| used <= Some(most)), "{planned}");
    }
}

#[test]
fn the_typical_case_counts_requests_of_steps_and_functions() {
    let web = TestServer::start();
    let place = Workspace::new(&format!("[functions.\"sub::get\"]\nworkflow = \"get.json\"\n{}", web.egress_config()));
    let url = format!("http://{}/page", web.address);
    place.write("get.json", &call_function("get", "tool::web_fetch", &url));
    place.write("main.json", &call_function("main", "sub::get", "x"));
    let run = place.run(&["run", "main.json"]);
    assert_eq!(exit_code(&run), 0, "{}", stderr_text(&run));
    let (_, planned) = place.run_json(&["plan", "main.json"]);
    assert_eq!(planned["typical"]["requests"], json!(1), "{planned}");
    let text = place.run(&["plan", "main.json"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("0 model calls, 1 request, "), "{text}");
}

/// A step list with one call.
fn call_function(id: &str, function: &str, prompt: &str) -> String {
    let step = json!({"name": "a", "functionId": function, "mode": "sequential", "promptTemplate": prompt});
    json!({"id": id, "name": id, "steps": [step]}).to_string()
}

/// The workflow of a function is a part of the worst case, also if it runs further ones.
#[test]
fn the_workflow_of_a_function_is_bounded_with_its_caller() {
    let functions = "[functions.\"my::middle\"]\nworkflow = \"middle.json\"\n[functions.\"my::inner\"]\nworkflow = \"inner.json\"\n";
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{functions}"));
    place.write("middle.json", &call_function("middle", "my::inner", "x"));
    place.write("inner.json", &call_function("inner", "agent::chat", "Say it"));
    let estimate =
        plan_definition(&place, "main.json", &call_function("main", "my::middle", "x"), &["--max", "calls=1"]);
    assert_eq!((&estimate["models"][0]["calls"], &estimate["unbounded"]), (&json!(1), &json!([])), "{estimate}");
    let (exit, _) = place.run_json(&["plan", "main.json", "--max", "calls=0"]);
    assert_eq!(exit, 5);
    let server = RunningServer::start(&place, &[]);
    let listed = server.post("/api/v1/estimate", &json!({"workflow": "main"})).json();
    assert_eq!(listed["models"][0]["calls"], 1, "{listed}");
}

/// The effects of a function that are not known before the run have no bound, and the estimate names their place.
#[test]
fn workflows_that_are_not_known_or_run_themselves_have_no_bound() {
    let place = Workspace::new(
        "[functions.\"my::again\"]\nworkflow = \"main.json\"\n[functions.\"my::lost\"]\nworkflow = \"lost.json\"\n",
    );
    let cases = [("my::again", "runs itself"), ("my::lost", "plan it by itself"), ("workflow::run", "that it runs")];
    for (function, reason) in cases {
        let estimate = plan_definition(&place, "main.json", &call_function("main", function, "x"), &[]);
        let open = estimate["unbounded"].as_array().expect("a list");
        let found = open.first().and_then(|open| open["reason"].as_str()).unwrap_or_default();
        assert!(open.len() == 1 && found.contains(reason), "{function}: {estimate}");
        assert_eq!(estimate["requests"][0]["count"], json!(null), "{estimate}");
    }
}

/// Functions that send requests count as requests, not only the steps of formats that have requests of their own.
#[test]
fn requests_of_functions_are_counted() {
    let place = Workspace::new("[functions.\"crm::lookup\"]\nurl = \"https://crm.test/find\"\nmethod = \"get\"\n");
    for (function, method, host) in [
        ("tool::http_request", "*", "a.test"),
        ("tool::web_fetch", "GET", "a.test"),
        ("crm::lookup", "GET", "crm.test"),
    ] {
        let estimate = plan_definition(&place, "f.json", &call_function("f", function, "http://a.test/"), &[]);
        let expected = json!([{"method": method, "host": host, "count": 1}]);
        assert_eq!((&estimate["requests"], &estimate["redirects"]), (&expected, &json!(5)), "{function}");
        assert_eq!(exit_code(&place.run(&["plan", "f.json", "--max", "requests=0"])), 5, "{function}");
    }
    for (prompt, method, host) in [
        (r#"{"url": "http://b.test/{{input}}", "method": "post"}"#, "POST", "b.test"),
        (r#"{"url": "http://b.test{{input}}"}"#, "GET", "*"),
        (r#"{"url": "http://b.test/", "method": "{{input}}"}"#, "*", "b.test"),
        ("{{input}}", "*", "*"),
    ] {
        let estimate = plan_definition(&place, "f.json", &call_function("f", "tool::http_request", prompt), &[]);
        assert_eq!(estimate["requests"], json!([{"method": method, "host": host, "count": 1}]), "{prompt}");
    }
    let inputs = json!({"url": "https://c.test/x", "method": "GET"});
    let node = json!({"id": "n", "block_id": "http_request", "inputs": inputs});
    let pipeline = json!({"id": "p", "name": "P", "nodes": [node], "edges": []}).to_string();
    let estimate = plan_definition(&place, "p.json", &pipeline, &[]);
    assert_eq!(estimate["requests"], json!([{"method": "GET", "host": "c.test", "count": 1}]), "{estimate}");
    let estimate = plan_definition(&place, "f.json", &call_function("f", "tool::file_write", "x"), &[]);
    assert_eq!(estimate["requests"], json!([]));
}

/// A model is asked twice if its first answer does not fit the schema.
#[test]
fn an_answer_under_a_schema_may_take_two_calls() {
    let place = Workspace::new("");
    let text = "Rate it.\n\n<GenObject as=\"r\" model=\"scripted:answers.json\" options={{ maxTokens: 20 }} schema={$.z.object({ score: $.z.number() })} />\n";
    place.write("answers.json", "[\"bad answer\", \"{\\\"score\\\": 3}\"]");
    let estimate = plan_definition(&place, "o.mdx", text, &[]);
    let model = &estimate["models"][0];
    assert_eq!((&model["calls"], &model["output_tokens"]), (&json!(2), &json!(40)), "{estimate}");
    assert_eq!(estimate["longest_chain_ms"], 4_000, "{estimate}");
    assert_eq!(exit_code(&place.run(&["plan", "o.mdx", "--max", "calls=1"])), 5);
    assert_eq!(exit_code(&place.run(&["run", "o.mdx"])), 0);
}

/// The memory writes of a Python block are one write: it is stored immediately.
#[test]
fn a_block_that_can_write_memory_counts_as_a_write() {
    let place = Workspace::new("");
    std::fs::create_dir(place.path("blocks")).expect("a folder");
    let plan = |source: &str| {
        let block = json!({"id": "up", "name": "Up", "description": "d", "category": "process", "execution_type": "python",
            "input_schema": {"type": "object", "properties": {}}, "output_schema": {"type": "object", "properties": {}},
            "source_code": source});
        place.write("blocks/up.json", &block.to_string());
        let node = json!({"id": "n1", "block_id": "up", "inputs": {}});
        let pipeline = json!({"id": "p", "name": "P", "user_prompt": "x", "nodes": [node], "edges": []}).to_string();
        plan_definition(&place, "p.json", &pipeline, &[])["writes"].clone()
    };
    let block = |line: &str| format!("async def execute(inputs, context):\n    {line}\n    return {{}}\n");
    assert_eq!(plan(&block("context['memory']['k'] = 1")), 1);
    assert_eq!(plan(&block("pass")), 0);
}
