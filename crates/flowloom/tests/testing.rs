//! Tests of workflows in a project: what else happens to their files, what they notice, and what they say.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::recording::{chat_step, place_with_echo, record_test, stdout_of, stdout_text, step_list};
use support::{TestServer, Workspace, exit_code, stderr_text};

/// The commands that the file of the hooks, or of the action, runs with `flowloom`.
fn list_commands(file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))).expect("there");
    let text = text.replace("\"$FOLDER\"", ".").replace("\"$TESTS\"", "tests").replace("> \"$REPORT\"", "");
    let commands = text.lines().filter_map(|line| {
        line.split_once("flowloom ")
            .filter(|(before, _)| before.trim_end().ends_with("entry:") || before.trim_end().ends_with("run:"))
    });
    let words = |(_, command): (&str, &str)| {
        let command = command.split("||").next().unwrap_or_default();
        command.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    commands.map(words).collect()
}

#[test]
fn a_new_project_with_a_test_passes_the_hooks_and_the_action() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
    stdout_of(&place, 0, &["init", "."]);
    stdout_of(&place, 0, &["run", "describe.json", "--model", "*=scripted:echo"]);
    stdout_of(&place, 0, &["test", "record", "last", "--as", "tests/describe.json"]);
    let commands = [list_commands(".pre-commit-hooks.yaml"), list_commands("action.yml")].concat();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in &commands {
        stdout_of(&place, 0, &command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let test = std::fs::read_to_string(place.path("tests/describe.json")).expect("there");
    assert_eq!(stdout_of(&place, 0, &["fmt", "--check", "."]), "");
    stdout_of(&place, 0, &["fmt", "."]);
    assert_eq!(std::fs::read_to_string(place.path("tests/describe.json")).expect("there"), test);
    let (_, listed) = place.run_json(&["list"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let server = RunningServer::start(&place, &[]);
    let listed = server.get("/api/v1/workflows").json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let checked = place.run(&["check", "tests/describe.json"]);
    assert!(stderr_text(&checked).contains("this is a test of a workflow"), "{}", stderr_text(&checked));
}

#[test]
fn answers_and_steps_can_be_mixed() {
    let place = place_with_echo();
    let mut question = chat_step("q", "Which one of {{first}}?");
    question["functionId"] = "human::ask".into();
    place.write("story.json", &step_list(&[chat_step("first", "One"), question, chat_step("last", "{{q}}")]));
    let test = json!({"definition": "../story.json", "answers": ["d", "e"],
        "steps": [{"path": "/q", "output": "the second"}],
        "expect": {"output": [{"equals": "e"}], "steps": {"/first": [{"equals": "d"}], "/q": [{"contains": "second"}]}}});
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn a_live_test_keeps_the_responses_of_unchanged_requests() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let flow = |first: &str| {
        json!({"name": "two", "description": "d", "steps": [
            {"type": "llmInstruction", "config": {"instruction": first, "resultVariable": "a"}},
            {"type": "apiCall", "config": {"url": format!("http://{}/page", server.address), "method": "GET",
                "responseVariable": "page"}},
            {"type": "llmInstruction", "config": {"instruction": "${a} ${page.path}", "resultVariable": "b"}},
        ]})
    };
    place.write("two.json", &flow("One").to_string());
    record_test(&place, "two.json", &[]);
    place.write("two.json", &flow("Two").to_string());
    let live = stdout_of(&place, 3, &["test", "--live"]);
    assert!(live.contains("LLM(LLM(Two) /page)") && !live.contains("FL1211"), "{live}");
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    stdout_of(&place, 0, &["test"]);
    assert_eq!(server.request_count("/page"), 1, "the page is not requested again");
}

#[test]
fn changed_code_and_changed_tools_are_noticed() {
    let place = place_with_echo();
    std::fs::create_dir(place.path("blocks")).expect("a folder");
    let block = |method: &str| {
        let source = format!("def execute(inputs, context):\n    return {{\"out\": inputs[\"text\"].{method}()}}\n");
        json!({"id": "up", "name": "Up", "description": "d", "category": "process", "execution_type": "python",
            "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "output_schema": {"type": "object", "properties": {"out": {"type": "string"}}, "required": ["out"]},
            "source_code": source})
    };
    let node = json!({"id": "n1", "block_id": "up", "inputs": {"text": "a lamp"}});
    place.write(
        "p.json",
        &json!({"id": "p", "name": "P", "user_prompt": "x", "nodes": [node], "edges": []}).to_string(),
    );
    place.write("blocks/up.json", &block("upper").to_string());
    record_test(&place, "p.json", &[]);
    stdout_of(&place, 0, &["test"]);
    place.write("blocks/up.json", &block("title").to_string());
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("/n1: the step sends another request"), "{failed}");
    assert!(failed.contains(".upper()") && failed.contains(".title()"), "the code differs: {failed}");
    assert!(failed.contains("A Lamp"), "the block runs in the sandbox: {failed}");
    stdout_of(&place, 0, &["test", "--update"]);
    stdout_of(&place, 0, &["test"]);

    let agent = |description: &str, kind: &str| {
        json!({"id": "ag", "systemPrompt": "Help", "tools": [{"type": "function", "functionId": "tool::web_fetch",
            "function": {"name": "fetch", "description": description,
                "parameters": {"type": "object", "properties": {"url": {"type": kind}}}}}]})
        .to_string()
    };
    place.write("ag.json", &agent("Reads a page", "string"));
    record_test(&place, "ag.json", &["-i", "message=Hello"]);
    stdout_of(&place, 0, &["test"]);
    for (description, kind, found) in [("Reads it", "string", "Reads it"), ("Reads a page", "number", "number")] {
        place.write("ag.json", &agent(description, kind));
        let failed = stdout_of(&place, 3, &["test"]);
        assert!(failed.contains("another request") && failed.contains(found), "{failed}");
    }
}

#[test]
fn secrets_in_headers_do_not_reach_the_test() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let flow = |key: &str| {
        let header = |name: &str, value: &str| json!({"key": name, "value": value});
        let headers = [
            header("Authorization", "Bearer bearer-1234"),
            header("Cookie", "a=1; session=cookie-1234"),
            header("X-Api-Key", key),
            header("Accept", "text/plain"),
        ];
        // The path comes back in the reply, as a secret may.
        let url = format!("http://{}/page/cookie-1234", server.address);
        json!({"name": "secret", "description": "d", "steps": [
            {"type": "apiCall", "config": {"url": url, "method": "GET", "headers": headers, "responseVariable": "page"}},
            {"type": "llmInstruction", "config": {"instruction": "Read ${page.path}", "resultVariable": "b"}},
        ]})
        .to_string()
    };
    place.write("secret.json", &flow("key-123456"));
    let test = record_test(&place, "secret.json", &[]).to_string();
    for secret in ["bearer-1234", "cookie-1234", "key-123456"] {
        assert!(!test.contains(secret), "{secret}: {test}");
    }
    assert!(test.contains("Bearer (masked)") && test.contains("text/plain"), "{test}");
    // The address is masked, too, since it contains a secret.
    stdout_of(&place, 0, &["test"]);
    place.write("secret.json", &flow("key-123456").replace("Read ", "Study "));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(!failed.contains("cookie-1234"), "{failed}");
    stdout_of(&place, 0, &["test", "--update"]);
    let updated = std::fs::read_to_string(place.path("tests/t.json")).expect("written");
    assert!(updated.contains("Study /page/(masked)") && !updated.contains("cookie-1234"), "{updated}");

    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let plain = |key: &str| flow(key).replace("/page/cookie-1234", "/page");
    place.write("secret.json", &plain("key-123456"));
    record_test(&place, "secret.json", &[]);
    stdout_of(&place, 0, &["test"]);
    place.write("secret.json", &plain("key-654321"));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("a part that the test masks") && !failed.contains("654321"), "{failed}");
}

/// Blocks and functions send requests, too, and one can carry what another received.
#[test]
fn secrets_in_the_headers_of_blocks_and_functions_do_not_reach_the_test() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let url = |path: &str| format!("http://{}{path}", server.address);
    let headers = json!({"Authorization": "Bearer bearer-1234", "X-Api-Key": "k-1", "Accept": "text/plain"});
    let node = |id: &str, path: &str, headers: &Value| {
        let inputs = json!({"url": url(path), "method": "GET", "headers": headers});
        json!({"id": id, "block_id": "http_request", "inputs": inputs})
    };
    let received = json!({"Authorization": "Bearer {{n1.body.path}}", "Cookie": "a={{n1.body.path}}"});
    let arguments = json!({"url": url("/a"), "method": "GET", "headers": headers}).to_string();
    let call =
        json!({"name": "e", "functionId": "tool::http_request", "mode": "sequential", "promptTemplate": arguments});
    let header = json!({"key": "Authorization", "value": "Bearer ${page.path}"});
    let calls = json!([
        {"type": "apiCall", "config": {"url": url("/login-cookie-1234"), "method": "GET", "responseVariable": "page"}},
        {"type": "apiCall", "config": {"url": url("/b"), "method": "GET", "headers": [header], "responseVariable": "b"}},
    ]);
    let definitions = [
        json!({"id": "p", "name": "P", "nodes": [node("n1", "/a", &headers)], "edges": []}),
        json!({"id": "d", "name": "D", "edges": [],
            "nodes": [node("n1", "/login-cookie-1234", &json!({})), node("n2", "/b", &received)]}),
        json!({"id": "s", "name": "S", "steps": [call]}),
        json!({"name": "F", "description": "d", "steps": calls}),
    ];
    for definition in definitions {
        place.write("secret.json", &definition.to_string());
        let test = record_test(&place, "secret.json", &[]).to_string();
        for secret in ["bearer-1234", "k-1", "/login-cookie-1234\\\"", "Bearer /login"] {
            assert!(!test.contains(secret), "{secret}: {test}");
        }
        assert!(test.contains("(masked)"), "{test}");
        stdout_of(&place, 0, &["test"]);
        let shown = stdout_of(&place, 0, &["show", "last", "--json"]);
        assert!(!shown.contains("Bearer bearer-1234"), "{shown}");
    }
}

/// The input that the header is made of is masked in the test, too.
#[test]
fn a_secret_that_is_an_input_does_not_reach_the_test() {
    let server = TestServer::start();
    let place = Workspace::new(&server.egress_config());
    let header = json!({"key": "Authorization", "value": "Bearer ${token}"});
    let call =
        json!({"url": format!("http://{}/page", server.address), "headers": [header], "responseVariable": "page"});
    let variables = json!([{"name": "token", "value": ""}]);
    let steps = json!([{"type": "start", "config": {"variables": variables}}, {"type": "apiCall", "config": call}]);
    place.write("secret.json", &json!({"name": "secret", "description": "d", "steps": steps}).to_string());
    let test = record_test(&place, "secret.json", &["-i", "token=input-1234"]).to_string();
    assert!(!test.contains("input-1234"), "{test}");
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn tests_written_by_hand_need_no_model() {
    let place = Workspace::new("");
    for folder in ["tests", "blocks"] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
    }
    let prompt = json!({"type": "llmInstruction", "config": {"instruction": "Say", "resultVariable": "said"}});
    let block = json!({"id": "say", "name": "Say", "description": "d", "category": "process", "execution_type": "llm",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "output_schema": {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]},
        "prompt_template": "Say {text}"});
    place.write("blocks/say.json", &block.to_string());
    let node = json!({"id": "n1", "block_id": "say", "inputs": {"text": "a lamp"}});
    let agent = json!({"id": "a", "systemPrompt": "Help"});
    let definitions = [
        ("markdown.mdx", "Say\n\n<GenText as=\"said\" model=\"\" />\n".to_owned()),
        ("flow.json", json!({"name": "f", "description": "d", "steps": [prompt]}).to_string()),
        (
            "pipeline.json",
            json!({"id": "p", "name": "P", "user_prompt": "x", "nodes": [node], "edges": []}).to_string(),
        ),
        (
            "graph.json",
            json!({"id": "g", "name": "G", "isConversational": false, "entrypointNodeId": "n1", "agents": [agent],
            "nodes": [{"id": "n1", "nodeType": "AGENT", "nodeName": "A", "agentId": "a"}], "edges": []})
            .to_string(),
        ),
        ("steps.json", step_list(&[chat_step("said", "Say")])),
        ("agent.json", agent.to_string()),
    ];
    for (file, text) in definitions {
        place.write(file, &text);
        let answer = if file == "pipeline.json" { json!({"json": {"said": "a lamp"}}) } else { json!("a lamp") };
        let inputs = if ["graph.json", "agent.json"].contains(&file) { json!({"message": "Hi"}) } else { json!({}) };
        let test = json!({"definition": format!("../{file}"), "inputs": inputs, "answers": [answer],
            "expect": {"output": [{"contains": "a lamp"}]}});
        place.write("tests/t.json", &test.to_string());
        stdout_of(&place, 0, &["test"]);
    }
}

#[test]
fn questions_to_a_judge_are_skipped_or_answered_by_a_model_of_their_own() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("said", "Say")]));
    let judge = json!({"match": [{"contains": "Oslo", "answer": "Yes, it is."}], "default": "No."});
    place.write("judge.json", &judge.to_string());
    let write = |expectations: Value, answers: Value| {
        let test = json!({"definition": "../story.json", "answers": answers, "expect": {"output": expectations}});
        place.write("tests/t.json", &test.to_string());
    };
    let answer = "{\"city\": \"Oslo\", \"land\": \"Norway\"}";
    let ask = |path: &str| json!({"judge": "Is it a capital?", "model": "scripted:judge.json", "jsonpath": path});
    write(json!([ask("$")]), json!([answer]));
    let text = stdout_of(&place, 0, &["test"]);
    assert!(text.contains("skipped, a model must judge: Is it a capital?") && text.contains("1 skipped"), "{text}");
    let tap = stdout_of(&place, 0, &["test", "--report", "tap"]);
    assert!(
        tap.contains("ok 1 - Story (tests/t.json) # SKIP a model must judge, which only a live test asks"),
        "{tap}"
    );
    let junit = stdout_of(&place, 0, &["test", "--report", "junit"]);
    assert!(junit.contains("skipped=\"1\"") && junit.contains("<skipped message="), "{junit}");
    let (_, outcomes) = place.run_json(&["test"]);
    assert_eq!(outcomes[0]["skipped"], json!([{"place": "output", "judge": "Is it a capital?"}]));
    write(json!([{"contains": "Oslo"}, ask("$")]), json!([answer]));
    let tap = stdout_of(&place, 0, &["test", "--report", "tap"]);
    assert!(!tap.contains("# SKIP") && tap.contains("Is it a capital?"), "{tap}");

    // Live, its own model answers, and not the rest of the answers.
    stdout_of(&place, 0, &["test", "--live"]);
    write(json!([ask("$")]), json!([answer, "Yes."]));
    let failed = stdout_of(&place, 3, &["test", "--live"]);
    assert!(failed.contains("the last 1 answer is not used"), "{failed}");
    // A part that is not there is not shown to the model.
    write(json!([ask("$.land")]), json!([answer]));
    let failed = stdout_of(&place, 3, &["test", "--live"]);
    assert!(failed.contains("there is nothing at $.land"), "{failed}");
    write(json!([ask("$")]), json!(["Bergen"]));
    let failed = stdout_of(&place, 3, &["test", "--live"]);
    assert!(failed.contains("does not answer yes"), "{failed}");
    let spent = place.run(&["test", "--live", "--budget", "tokens=1"]);
    assert!(stdout_text(&spent).contains("the model that judges failed"), "{}", stdout_text(&spent));
}

#[test]
fn a_recorded_test_expects_the_outputs_of_named_steps() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "One"), chat_step("second", "{{first}}!")]));
    let test = record_test(&place, "story.json", &["-i", "input=x"]);
    assert_eq!(test["expect"]["steps"]["/first"], json!([{"equals": "LLM(One)"}]), "{test}");
    assert_eq!(test["expect"]["steps"]["/second"], json!([{"equals": "LLM(LLM(One)!)"}]), "{test}");
    place.write("story.json", &step_list(&[chat_step("first", "Two"), chat_step("second", "{{first}}!")]));
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    let test = std::fs::read_to_string(place.path("tests/t.json")).expect("there");
    assert!(test.contains("\"equals\": \"LLM(Two)\""), "{test}");
}

#[test]
fn a_renamed_step_keeps_its_response() {
    let place = place_with_echo();
    let list = |name: &str| step_list(&[chat_step(name, "One"), chat_step("last", "Two")]);
    place.write("story.json", &list("first"));
    record_test(&place, "story.json", &["-i", "input=x"]);
    place.write("story.json", &list("begin"));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("/first: the step has another path now: /begin") && !failed.contains("FL1211"), "{failed}");
    stdout_of(&place, 0, &["test", "--update"]);
    stdout_of(&place, 0, &["test"]);
    // A further step with the same request is a new one.
    place.write(
        "story.json",
        &step_list(&[chat_step("begin", "One"), chat_step("again", "One"), chat_step("last", "Two")]),
    );
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("/again: the step is new, and sends the same request as /begin"), "{failed}");
}

#[test]
fn a_changed_prompt_is_accepted_although_the_answer_is_the_same() {
    let place = place_with_echo();
    place.write("answers.json", r#"{"match": [], "default": "the same"}"#);
    let model = ["--model", "scripted:answers.json"];
    place.write("story.json", &step_list(&[chat_step("first", "One")]));
    record_test(&place, "story.json", &model);
    place.write("story.json", &step_list(&[chat_step("first", "Two")]));
    stdout_of(&place, 3, &["test"]);
    let passed = stdout_of(&place, 0, &["test", "--live"]);
    assert!(passed.ends_with("1 passed, 0 failed\n"), "{passed}");
    let updated = stdout_of(&place, 0, &["test", "--live", "--update"]);
    assert!(updated.ends_with("0 passed, 0 failed, 1 updated\n"), "{updated}");
    let passed = stdout_of(&place, 0, &["test", "--live", "--update"]);
    assert!(passed.ends_with("1 passed, 0 failed\n"), "{passed}");
    stdout_of(&place, 0, &["test"]);
}

/// Otherwise the test would fail on a machine with another default model.
#[test]
fn an_update_names_the_model_that_its_requests_name() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    let step = json!({"path": "/first", "request": {"messages": []}, "output": "hi"});
    let test = json!({"definition": "../story.json", "inputs": "a", "steps": [step],
        "expect": {"output": [{"equals": "hi"}]}});
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test", "--update"]);
    let updated = std::fs::read_to_string(place.path("tests/t.json")).expect("a test");
    let updated: Value = serde_json::from_str(&updated).expect("JSON");
    assert_eq!(updated["model"], updated["steps"][0]["request"]["model"], "{updated}");
    place.write("flowloom.toml", "default_model = \"openai:gpt-4o\"\n");
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn recorded_steps_of_a_test_with_answers_are_updated() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "{{input}}"), chat_step("last", "Two {{first}}")]));
    let mut test = record_test(&place, "story.json", &["-i", "input=a"]);
    test["steps"].as_array_mut().expect("steps").truncate(1);
    test["answers"] = json!(["Fine"]);
    test["inputs"] = json!("b");
    test["expect"] = json!({"output": [{"equals": "Fine"}]});
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 3, &["test"]);
    stdout_of(&place, 0, &["test", "--update"]);
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn broken_tests_are_not_passed_over() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "One")]));
    let test = json!({"definition": "../story.json", "answers": ["a"], "expect": {"output": [{"equals": "a"}]}});
    place.write("tests/good.json", &format!("\u{feff}{test}"));
    place.write("tests/data.json", r#"{"definitions": {"a": 1}}"#);
    let output = place.run(&["test"]);
    assert_eq!(exit_code(&output), 0, "{}", stdout_text(&output));
    assert!(stderr_text(&output).contains("not tests: tests/data.json"), "{}", stderr_text(&output));
    place.write("tests/cut.json", r#"{"definition":"#);
    place.write("tests/misspelt.json", r#"{"defintion": "../story.json", "answers": ["a"], "expect": {}}"#);
    place.write("tests/missing.json", r#"{"definition": "../nothing.json", "answers": ["a"], "expect": {}}"#);
    let output = place.run(&["test"]);
    assert_eq!(exit_code(&output), 2, "{}", stdout_text(&output));
    assert_eq!(stderr_text(&output).matches("FL1405").count(), 3, "{}", stderr_text(&output));
    // What cannot be read cannot be updated either.
    assert!(stdout_text(&output).ends_with("1 passed, 3 failed\n"), "{}", stdout_text(&output));
    let (exit, json) = place.run_json(&["test"]);
    let codes: Vec<_> =
        json.as_array().expect("a list").iter().map(|test| test["problems"][0]["code"].clone()).collect();
    assert_eq!((exit, codes), (2, vec![json!("FL1405"), Value::Null, json!("FL1405"), json!("FL1405")]), "{json}");
    let junit = stdout_text(&place.run(&["test", "--report", "junit"]));
    assert!(junit.contains("tests=\"4\" errors=\"3\" failures=\"0\"") && junit.contains("<error message="), "{junit}");
    let tap = stdout_text(&place.run(&["test", "--report", "tap"]));
    assert_eq!(tap.matches("\nnot ok").count(), 3, "{tap}");
}

#[test]
fn expectations_that_cannot_be_checked_are_refused() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "One")]));
    let check = |expect: &str, expected: &str| {
        place.write(
            "tests/t.json",
            &format!("{{\"definition\": \"../story.json\", \"inputs\": \"x\", \"answers\": [\"a\"],\n{expect}}}"),
        );
        let output = place.run(&["test"]);
        let shown = stderr_text(&output);
        assert_eq!(exit_code(&output), 2, "{expect}: {shown}");
        assert!(shown.contains(&format!("error[FL1405]: tests/t.json:2:{expected}")), "{expect}: {shown}");
    };
    check(r#""expect": {"status": "suceeded"}"#, "22: there is no status \"suceeded\"; did you mean \"succeeded\"?");
    check(r#""expect": {"output": [{"schema": {"type": "strng"}}]}"#, "34: the schema is not valid: there is no type");
    check(r#""expect": {"output": [{}]}"#, "23: an expectation needs");
    check(r#""expect": {"output": [{"jsonpath": "$[", "equals": 1}]}"#, "36: the JSONPath \"$[\" is not valid");
    check(r#""expect": {"steps": {"/first": [{"equals": "a", "model": "m"}]}}"#, "58: `model` is the model");
}

#[test]
fn what_a_test_has_for_nothing_is_reported() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "One")]));
    let write = |test: Value| {
        let mut whole = json!({"definition": "../story.json", "inputs": "x", "answers": ["a"], "expect": {}});
        for (key, value) in test.as_object().expect("an object") {
            whole[key] = value.clone();
        }
        place.write("tests/t.json", &whole.to_string());
        stdout_text(&place.run(&["test"]))
    };
    let unknown = write(json!({"expect": {"steps": {"/frist": [{"equals": "a"}]}}}));
    assert!(unknown.contains("/frist: the run has no such step; did you mean /first?"), "{unknown}");
    let unused = write(json!({"answers": ["a", "b", "c"]}));
    assert!(unused.contains("answers: the last 2 answers are not used"), "{unused}");
    let unused = write(json!({"steps": [{"path": "/second", "output": 1}]}));
    assert!(unused.contains("/second: there is no step at this path that needs a response"), "{unused}");
    let unused = write(
        json!({"answers": [], "steps": [{"path": "/first", "output": 1}, {"path": "/first", "attempt": 2, "output": 1}]}),
    );
    assert!(unused.contains("/first: the step has no attempt 2"), "{unused}");
}

#[test]
fn a_run_is_not_forked_at_a_step_that_it_has_not_reached() {
    let place = place_with_echo();
    let mut question = chat_step("q", "Which one?");
    question["functionId"] = "human::ask".into();
    place.write("story.json", &step_list(&[question, chat_step("e", "{{q}}")]));
    let (_, run) = place.run_json(&["run", "story.json", "-i", "input=x"]);
    let id = run["run_id"].as_str().expect("an id");
    let refused = place.run(&["fork", id, "--at", "/e"]);
    let message = stderr_text(&refused);
    assert!(message.contains("the step /e has not run yet"), "{message}");
    let refused = place.run(&["fork", id, "--at", "/nothing"]);
    assert!(stderr_text(&refused).contains("the run has no step /nothing"), "{}", stderr_text(&refused));
}

#[test]
fn the_examples_are_formatted() {
    let place = Workspace::new("");
    let examples = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    let folders = std::fs::read_dir(&examples).expect("there").flatten().map(|entry| entry.path());
    // Seeds are kept as their authors have sent them.
    let folders = folders.filter(|path| path.is_dir() && !path.ends_with("seeds"));
    let mut paths: Vec<String> = folders.map(|path| path.display().to_string()).collect();
    // Folders without workflows.
    paths.retain(|path| !["author", "site"].iter().any(|name| path.ends_with(name)));
    paths.sort();
    assert!(paths.len() >= 6, "{paths:?}");
    let arguments: Vec<&str> = ["fmt", "--check"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    assert_eq!(stdout_of(&place, 0, &arguments), "");
}
