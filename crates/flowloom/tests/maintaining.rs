//! Maintaining workflows: runs are forked and compared, recorded as tests, and the tests run without models.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, stderr_text};

/// A workflow of the examples, how it is run, and a step whose prompt is changed.
struct Example {
    file: &'static str,
    inputs: &'static [&'static str],
    model: &'static str,
    step: &'static str,
    /// The file with the text of a prompt that the run sends, and a part of this text.
    prompt: (&'static str, &'static str),
}

/// The answer that most of the examples ask a model for.
const REWRITE: &str = "to make it more concise";

/// Workflows in every format. They call models, an API, a web page, blocks and tools.
const EXAMPLES: [Example; 10] = [
    Example {
        file: "flow/summarize-page.json",
        inputs: &[],
        model: "scripted:echo",
        step: "/summary",
        prompt: ("flow/summarize-page.json", REWRITE),
    },
    Example {
        file: "flow/weather-report.json",
        inputs: &["city=Oslo"],
        model: "scripted:echo",
        step: "/report",
        prompt: ("flow/weather-report.json", REWRITE),
    },
    Example {
        file: "steps/review-document.json",
        inputs: &["input=nice"],
        model: "scripted:echo",
        step: "/merge",
        prompt: ("steps/review-document.json", REWRITE),
    },
    Example {
        file: "steps/refine.json",
        inputs: &["input=lamps"],
        model: "scripted:echo",
        step: "/improve",
        prompt: ("steps/refine.json", REWRITE),
    },
    Example {
        file: "steps/ask-a-person.json",
        inputs: &["input=lamps"],
        model: "scripted:echo",
        step: "/poem",
        prompt: ("steps/ask-a-person.json", "Write a poem of four"),
    },
    Example {
        file: "markdown/poem.mdx",
        inputs: &["topic=lamps"],
        model: "scripted:echo",
        step: "/shorter",
        prompt: ("markdown/poem.mdx", REWRITE),
    },
    Example {
        file: "markdown/postcards.mdx",
        inputs: &[],
        model: "scripted:echo",
        step: "/phase~1/cards[1]/phase~1/text",
        prompt: ("markdown/postcards.mdx", REWRITE),
    },
    Example {
        file: "markdown/review.mdx",
        inputs: &[],
        model: "scripted:answers.json",
        step: "/short",
        prompt: ("markdown/review.mdx", REWRITE),
    },
    Example {
        file: "pipeline/analyse-review.json",
        inputs: &[],
        model: "scripted:answers.json",
        step: "/n3",
        prompt: ("pipeline/blocks/shorten.json", REWRITE),
    },
    Example {
        file: "graph/helpdesk.json",
        inputs: &["message=Hello"],
        model: "scripted:talk.json",
        step: "/Orders",
        prompt: ("graph/agents/orders/systemPrompt.md", "You look up orders."),
    },
];

/// A workspace with the examples, whose pages come from a server of the test.
fn place_with_examples(server: &TestServer) -> Workspace {
    let place = Workspace::new(&server.egress_config());
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for folder in ["flow", "steps", "markdown", "pipeline", "graph"] {
        copy_folder(&format!("{examples}/{folder}"), &place.path(folder), &server.address);
    }
    let product = json!({"city": "Bergen", "short": "A clean hotel."});
    let answers = json!({"match": [], "default": {"json": product}});
    place.write("answers.json", &answers.to_string());
    let talk = json!({"match": [
        {"contains": "Hello", "answer": {"text": "", "tool_calls": [{"name": "router", "arguments": {"next_node": "Orders"}}]}},
    ], "default": "Your order is on its way."});
    place.write("talk.json", &talk.to_string());
    place
}

fn copy_folder(from: &str, to: &std::path::Path, address: &str) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path.display().to_string(), &target, address);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            std::fs::write(target, text.replace("127.0.0.1:8791", address)).expect("written");
        }
    }
}

fn stdout_of(place: &Workspace, expected: i32, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), expected, "{arguments:?}: {}", stderr_text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn count_reused(run: &Value) -> usize {
    run["steps"].as_array().expect("steps").iter().filter(|step| step["reused"] == true).count()
}

/// Converts an example to Markdown, or reports what cannot be written. What it writes has no errors.
fn convert_example(place: &Workspace, file: &str) {
    let converted = format!("converted-{}.mdx", file.replace('/', "-"));
    let output = place.run(&["convert", file, "--to", "markdown", "--out", &converted]);
    if !place.path(&converted).exists() {
        assert_eq!(exit_code(&output), 1, "{file}: {}", stderr_text(&output));
        assert!(stderr_text(&output).contains("FL0124"), "{file}: {}", stderr_text(&output));
        return;
    }
    stdout_of(place, 0, &["check", &converted]);
    let (exit, diff) = place.run_json(&["diff", file, &converted]);
    assert!((0..=1).contains(&exit) && diff["steps"].is_array(), "{file}: {diff}");
}

/// Changes a prompt of an example: its test fails and shows the difference, until the change is accepted. Then the change is
/// taken back, and accepted again.
fn change_example(place: &Workspace, example: &Example, test: &str) {
    let (path, prompt) = example.prompt;
    let before = std::fs::read_to_string(place.path(path)).expect("there");
    let changed = before.replace(prompt, "Speak of boats.");
    assert_ne!(changed, before, "{path} has the prompt");
    place.write(path, &changed);
    let failed = stdout_of(place, 3, &["test", test]);
    let has_both = failed.contains("Speak of boats.") && failed.contains(prompt);
    assert!(failed.contains("the step sends another request") && has_both, "{path}: {failed}");
    stdout_of(place, 0, &["test", test, "--update"]);
    stdout_of(place, 0, &["test", test]);
    place.write(path, &before);
    stdout_of(place, 3, &["test", test]);
    stdout_of(place, 0, &["test", test, "--update"]);
}

/// Runs an example to its end, and answers its questions.
fn run_example(place: &Workspace, example: &Example) -> String {
    let model = format!("*={}", example.model);
    let mut arguments = vec!["run", example.file, "--model", &model];
    example.inputs.iter().for_each(|input| arguments.extend(["-i", input]));
    let (mut exit, mut run) = place.run_json(&arguments);
    let id = run["run_id"].as_str().expect("an id").to_owned();
    while exit == 4 {
        (exit, run) = place.run_json(&["answer", &id, "a lighthouse"]);
    }
    assert!(exit == 0 || run["status"] == "failed", "{}: {run}", example.file);
    id
}

#[test]
fn ten_workflows_are_recorded_changed_tested_forked_and_compared() {
    let server = TestServer::start();
    let place = place_with_examples(&server);
    for example in &EXAMPLES {
        let file = example.file;
        let id = run_example(&place, example);
        let test = format!("tests/{}.json", file.replace('/', "-"));
        stdout_of(&place, 0, &["test", "record", &id, "--as", &test]);
        let passed = stdout_of(&place, 0, &["test", &test]);
        assert!(passed.ends_with("1 passed, 0 failed\n"), "{file}: {passed}");

        // A fork with the same definition performs the step and what follows it.
        let (_, fork) = place.run_json(&["fork", &id, "--at", example.step, "--yes"]);
        assert!(fork["run_id"].is_string() && fork["run_id"] != json!(id), "{file}: {fork}");
        let edit = format!("{}.prompt=Say nothing about lamps.", example.step);
        let (_, fork) = place.run_json(&["fork", &id, "--edit", &edit, "--yes"]);
        let fork_id = fork["run_id"].as_str().unwrap_or_else(|| panic!("{file}: {fork}"));
        let (exit, diff) = place.run_json(&["diff", &id, fork_id]);
        assert_eq!((exit, &diff["same"]), (1, &json!(false)), "{file}");
        let first = diff["first_divergence"].as_str().expect("a path");
        let name = example.step.rsplit('/').next().expect("a name");
        assert!(first.split(['/', '[', '#']).any(|part| part == name), "{file}: {first}");
        let (_, shown) = place.run_json(&["show", fork_id]);
        assert_eq!(shown["forked_from"]["run_id"], json!(id), "{file}");
        change_example(&place, example, &test);
        convert_example(&place, file);
        stdout_of(&place, 0, &["replay", fork_id]);
    }
    // All of them together, without the server that they read pages from.
    drop(server);
    let all = stdout_of(&place, 0, &["test"]);
    assert!(all.ends_with("10 passed, 0 failed\n"), "{all}");
}

/// A workspace with a step list of three model calls, and the id of a run of it.
fn place_with_run() -> (Workspace, String) {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = |name: &str, prompt: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "promptTemplate": prompt,
            "outputVar": name, "errorMode": "fail"})
    };
    let steps =
        [step("draft", "Draft: {{input}}"), step("improve", "Improve: {{draft}}"), step("title", "Title: {{improve}}")];
    let list = json!({"id": "story", "name": "Story", "description": "d", "steps": steps});
    place.write("story.json", &serde_json::to_string_pretty(&list).expect("JSON"));
    let (_, run) = place.run_json(&["run", "story.json", "-i", "input=lamps"]);
    let id = run["run_id"].as_str().expect("an id").to_owned();
    (place, id)
}

#[test]
fn a_fork_changes_values_steps_definitions_and_models() {
    let (place, id) = place_with_run();
    let fork = |more: &[&str]| {
        let (exit, run) = place.run_json(&[&["fork", &id], more].concat());
        assert_eq!(exit, 0, "{run}");
        let (_, shown) = place.run_json(&["show", run["run_id"].as_str().expect("an id")]);
        (shown["output"].as_str().expect("text").to_owned(), count_reused(&shown))
    };
    assert_eq!(fork(&["--at", "/title"]), ("LLM(Title: LLM(Improve: LLM(Draft: lamps)))".to_owned(), 2));
    assert_eq!(fork(&["--at", "improve", "--set", "draft=mine"]), ("LLM(Title: LLM(Improve: mine))".to_owned(), 1));
    assert_eq!(fork(&["--set", "input=boats"]), ("LLM(Title: LLM(Improve: LLM(Draft: boats)))".to_owned(), 0));
    let edit = "/title.prompt=Name: {{improve}}";
    assert_eq!(fork(&["--edit", edit]), ("LLM(Name: LLM(Improve: LLM(Draft: lamps)))".to_owned(), 2));
    place.write("prompt.txt", "From a file: {{draft}}\n");
    assert_eq!(fork(&["--edit", "/title.prompt=@prompt.txt"]).0, "LLM(From a file: LLM(Draft: lamps))");

    let changed = std::fs::read_to_string(place.path("story.json")).expect("there").replace("Improve:", "Better:");
    place.write("story.json", &changed);
    assert_eq!(fork(&["--definition", "story.json"]), ("LLM(Title: LLM(Better: LLM(Draft: lamps)))".to_owned(), 1));
    place.write("answers.json", r#"{"match": [], "default": "another model"}"#);
    assert_eq!(fork(&["--model", "scripted:answers.json"]), ("another model".to_owned(), 0));
    // Steps before the fork stay as they are; their answers are those of the earlier model.
    assert_eq!(fork(&["--at", "/title", "--model", "scripted:answers.json"]), ("another model".to_owned(), 2));

    let (_, shown) = place.run_json(&["show", &id]);
    assert_eq!(shown["forks"].as_array().map(Vec::len), Some(8));
    assert_eq!(shown["forked_from"], Value::Null);
}

#[test]
fn forks_that_make_no_sense_are_rejected() {
    let (place, id) = place_with_run();
    let rejected = |more: &[&str]| {
        let output = place.run(&[&["fork", &id], more].concat());
        assert_eq!(exit_code(&output), 2, "{more:?}: {}", stderr_text(&output));
        stderr_text(&output)
    };
    assert!(rejected(&[]).contains("nothing would change; name the step to begin at"));
    assert!(rejected(&["--at", "/titel"]).contains("similar ones are"));
    assert!(rejected(&["--at", "/title", "--set", "imrpove=x"]).contains("did you mean improve?"));
    assert!(rejected(&["--at", "/title", "--set", "zzzzzzzzz=x"]).contains("its variables are draft, improve, input"));
    assert!(rejected(&["--edit", "/titel.prompt=x"]).contains("its steps are /draft, /improve, /title"));
    assert!(rejected(&["--edit", "/title.promt=x"]).contains("it has errorMode, functionId, mode, name"));
    assert!(rejected(&["--edit", "title"]).contains("write PATH.FIELD=TEXT"));
    let message = rejected(&["--edit", "/title.mode=nothing"]);
    assert!(message.contains("story.json:") && message.contains("there is no mode"), "{message}");
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs.as_array().or(runs["runs"].as_array()).map(Vec::len), Some(1), "{runs}");
}

#[test]
fn a_fork_sends_nothing_again_without_approval() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    let flow = json!({"name": "order", "steps": [
        {"type": "llmInstruction", "config": {"instruction": "Write.", "resultVariable": "letter"}},
        {"type": "apiCall", "config": {"url": format!("http://{}/order", server.address), "method": "POST",
            "bodyType": "json", "body": "{\"text\": \"${letter}\"}", "responseVariable": "sent"}},
    ]});
    place.write("order.json", &flow.to_string());
    let (_, run) = place.run_json(&["run", "order.json"]);
    let id = run["run_id"].as_str().expect("an id");
    assert_eq!(server.request_count("/order"), 1);
    let (_, fork) = place.run_json(&["fork", id, "--at", "/letter"]);
    assert_eq!((fork["status"].as_str(), server.request_count("/order")), (Some("uncertain"), 1), "{fork}");
    let waiting = fork["run_id"].as_str().expect("an id");
    let (_, resolved) = place.run_json(&["resolve", waiting, "/sent", "--resend"]);
    assert_eq!((resolved["status"].as_str(), server.request_count("/order")), (Some("succeeded"), 2), "{resolved}");
    let (_, fork) = place.run_json(&["fork", id, "--at", "/sent", "--yes"]);
    assert_eq!((fork["status"].as_str(), server.request_count("/order")), (Some("succeeded"), 3), "{fork}");
}

#[test]
fn a_fork_waits_for_no_answer_that_it_reuses() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = |name: &str, function: &str, prompt: &str| {
        json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "errorMode": "fail",
            "outputVar": name})
    };
    let steps = [step("city", "human::ask", "Which city?"), step("end", "agent::chat", "Write about {{city}}")];
    place.write("ask.json", &json!({"id": "ask", "name": "Ask", "steps": steps}).to_string());
    let (_, asked) = place.run_json(&["run", "ask.json"]);
    let run = asked["run_id"].as_str().expect("an id");
    let (_, answered) = place.run_json(&["answer", run, "Oslo"]);
    assert_eq!(answered["status"], "succeeded", "{answered}");
    let forked = place.run(&["fork", run, "--at", "/end"]);
    let shown = stderr_text(&forked);
    assert!(shown.contains("/city  reused") && !shown.contains("waiting"), "{shown}");
    let forked = place.run(&["fork", run, "--at", "/city"]);
    let shown = stderr_text(&forked);
    assert!(shown.contains("/city  waiting for an answer") && !shown.contains("reused"), "{shown}");
}

#[test]
fn forks_are_started_over_http() {
    let (place, id) = place_with_run();
    let server = RunningServer::start(&place, &[]);
    let fork = |body: Value| server.post(&format!("/api/v1/runs/{id}/fork?wait=30"), &body);
    let response = fork(json!({"at": "/title", "set": {"improve": "mine"}}));
    assert_eq!((response.status, &response.json()["output"]), (200, &json!("LLM(Title: mine)")), "{}", response.body);
    assert_eq!(response.json()["forked_from"], json!({"run_id": id, "at": "/title"}));
    let response = fork(json!({"edits": [{"path": "/title", "field": "prompt", "text": "Name: {{draft}}"}]}));
    assert_eq!(response.json()["output"], "LLM(Name: LLM(Draft: lamps))", "{}", response.body);
    let response = fork(json!({"workflow": "story", "at": "/draft"}));
    assert_eq!(response.status, 200, "{}", response.body);
    assert_eq!(fork(json!({})).status, 409);
    assert_eq!(fork(json!({"edits": [{"path": "/title", "field": "mode", "text": "x"}]})).status, 422);
    assert_eq!(fork(json!({"workflow": "nothing"})).status, 404);
    assert_eq!(fork(json!({"unknown": 1})).status, 400);
    let run = server.get(&format!("/api/v1/runs/{id}")).json();
    assert_eq!(run["forks"].as_array().map(Vec::len), Some(3), "{run}");
    let fork = run["forks"][0].as_str().expect("an id").to_owned();
    let second = server.post(&format!("/api/v1/runs/{fork}/fork?wait=30"), &json!({"at": "/title"})).json();
    assert_eq!(second["forked_from"]["run_id"], json!(fork), "{second}");
    let family = |run: &str| server.get(&format!("/api/v1/runs/{run}/family")).json();
    let members = family(&id);
    assert_eq!(members, family(second["run_id"].as_str().expect("an id")), "every member has the same family");
    let list = members["members"].as_array().expect("members");
    assert_eq!((list.len(), &list[0]["run_id"], &list[0]["forked_from"]), (5, &json!(id), &Value::Null), "{members}");
    let last = list.last().expect("a member");
    assert_eq!((&last["forked_from"], &last["at"]), (&json!(fork), &json!("/title")), "{members}");
    assert_eq!(server.get("/api/v1/runs/01a1fe67-b4e7-7263-b0a5-000000000000/family").status, 404);
}

#[test]
fn a_fork_gives_a_user_no_files_of_the_server_and_no_runs_of_others() {
    let (place, of_operator) = place_with_run();
    place.write("answers.json", r#"{"match": [], "default": "a file of the server"}"#);
    let created = place.run(&["keys", "create", "--name", "ann", "--scopes", "read,run,write", "--user", "ann"]);
    let key = String::from_utf8_lossy(&created.stdout).trim().to_owned();
    let server = RunningServer::start(&place, &[]);
    let headers = [&*format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
    let send = |path: &str, body: Value| server.send_and_read("POST", path, &headers, &body.to_string());
    let run = send("/api/v1/runs?wait=30", json!({"workflow": "story", "inputs": "lamps"}));
    assert_eq!(run.status, 200, "{}", run.body);
    let id = run.json()["run_id"].as_str().expect("an id").to_owned();
    let fork = |body: Value| send(&format!("/api/v1/runs/{id}/fork?wait=30"), body);
    for model in ["scripted:answers.json", "x=scripted:answers.json", "local:/etc/passwd"] {
        let refused = fork(json!({"at": "/title", "models": [model]}));
        assert!(refused.status >= 400 && refused.error_code() == "FL1011", "{model}: {}", refused.body);
    }
    assert_eq!(fork(json!({"at": "/title"})).json()["output"], "LLM(Title: LLM(Improve: LLM(Draft: lamps)))");
    assert_eq!(send(&format!("/api/v1/runs/{of_operator}/fork"), json!({"at": "/title"})).status, 404);
}

#[test]
fn a_changed_prompt_fails_a_test_until_it_is_accepted() {
    let (place, id) = place_with_run();
    stdout_of(&place, 0, &["test", "record", &id, "--as", "tests/story.json"]);
    let again = place.run(&["test", "record", &id, "--as", "tests/story.json"]);
    assert!(stderr_text(&again).contains("use --force to replace it"), "{}", stderr_text(&again));

    let text = std::fs::read_to_string(place.path("story.json")).expect("there");
    place.write("story.json", &text.replace("Improve: {{draft}}", "Improve this:\\n{{draft}}"));
    let failed = without_times(&stdout_of(&place, 3, &["test"]));
    insta::assert_snapshot!("failed_test", failed);
    let junit = without_times(&stdout_of(&place, 3, &["test", "--report", "junit"]));
    insta::assert_snapshot!("junit", junit);
    insta::assert_snapshot!("tap", stdout_of(&place, 3, &["test", "--report", "tap"]));
    let (exit, outcomes) = place.run_json(&["test"]);
    assert_eq!((exit, &outcomes[0]["problems"][0]["place"]), (3, &json!("/improve")));

    // The answer of the model is kept, or asked for again.
    stdout_of(&place, 0, &["test", "--update"]);
    stdout_of(&place, 0, &["test"]);
    place.write("story.json", &text.replace("Title:", "Name:"));
    let live = stdout_of(&place, 3, &["test", "--live"]);
    assert!(live.contains("+ LLM(Name: "), "{live}");
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn tests_are_written_by_hand() {
    let (place, _) = place_with_run();
    std::fs::create_dir(place.path("tests")).expect("a folder");
    let write = |expect: Value, answers: Value| {
        let test = json!({"definition": "../story.json", "inputs": "lamps", "answers": answers, "expect": expect});
        place.write("tests/hand.json", &test.to_string());
    };
    let expect = json!({
        "output": [{"contains": "title"}, {"schema": {"type": "string", "maxLength": 20}}],
        "steps": {"/draft": [{"equals": "a draft"}]},
    });
    write(expect, json!(["a draft", "better", "a title"]));
    stdout_of(&place, 0, &["test"]);
    write(json!({"output": [{"equals": "x"}, {"jsonpath": "$.a", "equals": 1}]}), json!(["a draft", "better"]));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(failed.contains("FL1211: the test has no response for the model call of /title"), "{failed}");

    write(json!({"output": [{}]}), json!(["a", "b", "c"]));
    let invalid = place.run(&["test"]);
    assert_eq!(exit_code(&invalid), 2);
    assert!(stderr_text(&invalid).contains("an expectation needs `equals`, `contains`, `schema` or `judge`"));
    place.write("tests/hand.json", r#"{"definition": "../story.json", "expect": {}, "outputs": 1}"#);
    let invalid = place.run(&["test"]);
    assert_eq!(exit_code(&invalid), 2);
    let message = stderr_text(&invalid);
    assert!(message.contains("error[FL1405]") && message.contains("unknown field `outputs`"), "{message}");
}

#[test]
fn an_agent_is_tested_with_the_workflows_beside_it() {
    let server = TestServer::start();
    let place = place_with_examples(&server);
    let call = json!({"text": "", "tool_calls": [{"name": "weather_report", "arguments": {"city": "Oslo"}}]});
    let talk = json!({"match": [{"contains": "What is the weather", "answer": call}], "default": "It rains."});
    place.write("agent.json", &talk.to_string());
    let arguments =
        ["run", "flow/guide.json", "--model", "*=scripted:agent.json", "-i", "message=What is the weather?"];
    let (exit, run) = place.run_json(&arguments);
    assert_eq!(exit, 0, "{run}");
    let id = run["run_id"].as_str().expect("an id");
    stdout_of(&place, 0, &["test", "record", id, "--as", "tests/guide.json"]);
    let test = std::fs::read_to_string(place.path("tests/guide.json")).expect("there");
    assert!(test.contains("weather_report"), "{test}");
    drop(server);
    stdout_of(&place, 0, &["test"]);
}

/// The text without the times that differ from run to run.
fn without_times(text: &str) -> String {
    let time = |word: &str| word.strip_suffix("ms").is_some_and(|digits| digits.parse::<u64>().is_ok());
    let line = |line: &str| {
        let line = match line.split_once("time=\"") {
            Some((before, after)) => {
                format!("{before}time=\"0\"{}", after.split_once('"').map_or("", |(_, rest)| rest))
            }
            None => line.to_owned(),
        };
        match line.rsplit_once(' ') {
            Some((before, last)) if time(last) => before.trim_end().to_owned(),
            _ => line,
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The family of a run as a tree, with letters for ids.
#[test]
fn show_draws_the_family_of_a_run() {
    let (place, id) = place_with_run();
    assert!(!stdout_of(&place, 0, &["show", &id]).contains("family"), "a run without forks has none");
    let fork = |run: &str| {
        let (_, fork) = place.run_json(&["fork", run, "--at", "/title"]);
        fork["run_id"].as_str().expect("an id").to_owned()
    };
    let first = fork(&id);
    let second = fork(&first);
    let third = fork(&id);
    let shown = stdout_of(&place, 0, &["show", &second]);
    let tree = shown.split("\nfamily\n").nth(1).expect("a tree").to_owned();
    let named = [(&id, "A"), (&first, "B"), (&second, "C"), (&third, "D")];
    let tree = named.iter().fold(tree, |tree, (run, letter)| tree.replace(run.as_str(), letter));
    assert_eq!(
        tree,
        "  A succeeded\n  ├─ B succeeded at /title\n  │  └─ C succeeded at /title ←\n  └─ D succeeded at /title\n"
    );
    let (_, shown) = place.run_json(&["show", &id]);
    assert_eq!(shown["family"].as_array().map(Vec::len), Some(4), "{shown}");
}
