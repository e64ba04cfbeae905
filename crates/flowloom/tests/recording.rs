//! Recording tests of workflows, updating them, and printing their results: which runs and which options fit.

mod support;

use serde_json::json;
use support::recording::{chat_step, place_with_echo, record_test, stdout_of, step_list};
use support::{TestServer, Workspace, exit_code, stderr_text, two_calls_flow};

fn read_test(place: &Workspace) -> String {
    std::fs::read_to_string(place.path("tests/t.json")).expect("a test")
}

#[test]
fn a_test_of_a_run_that_waits_is_updated() {
    let place = place_with_echo();
    let mut question = chat_step("q", "ok?");
    question["functionId"] = "human::ask".into();
    let story = |prompt: &str| step_list(&[chat_step("first", prompt), question.clone()]);
    place.write("story.json", &story("One"));
    stdout_of(&place, 4, &["run", "story.json", "-i", "input=x"]);
    stdout_of(&place, 0, &["test", "record", "last", "--as", "tests/t.json"]);
    for (prompt, update) in [("Two", &["test", "--update"][..]), ("Three", &["test", "--live", "--update"])] {
        place.write("story.json", &story(prompt));
        stdout_of(&place, 3, &["test"]);
        let updated = stdout_of(&place, 0, update);
        assert!(updated.contains("1 updated"), "{updated}");
        stdout_of(&place, 0, &["test"]);
    }
}

#[test]
fn a_live_update_leaves_a_test_that_passes_as_it_is() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    let mut test = record_test(&place, "story.json", &["-i", "input=x"]);
    test.as_object_mut().expect("an object").remove("model");
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    assert_eq!(read_test(&place), test.to_string());
}

#[test]
fn a_live_test_asks_again_where_a_request_without_a_hash_has_changed() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    let mut test = record_test(&place, "story.json", &["-i", "input=x"]);
    for step in test["steps"].as_array_mut().expect("steps") {
        step.as_object_mut().expect("an object").remove("request_hash").expect("a hash");
    }
    place.write("tests/t.json", &test.to_string());
    stdout_of(&place, 0, &["test", "--live"]);
    place.write("story.json", &step_list(&[chat_step("first", "Tell {{input}}")]));
    let live = stdout_of(&place, 3, &["test", "--live"]);
    assert!(live.contains("LLM(Tell x)"), "the model is asked: {live}");
    stdout_of(&place, 0, &["test", "--live", "--update"]);
    let updated = read_test(&place);
    assert!(updated.contains("LLM(Tell x)") && !updated.contains("Say x"), "{updated}");
}

#[test]
fn a_run_that_a_test_cannot_repeat_is_not_recorded() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    stdout_of(&place, 5, &["run", "story.json", "-i", "input=x", "--budget", "tokens=1"]);
    let refused = place.run(&["test", "record", "last", "--as", "tests/t.json"]);
    let shown = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 2, "{shown}");
    assert!(shown.contains("FL1405") && shown.contains("it had limits of its own"), "{shown}");
    let world = TestServer::start();
    place.write("flowloom.toml", &format!("default_model = \"scripted:echo\"\n{}", world.egress_config()));
    place.write("slow.json", &two_calls_flow(&world, "GET", "/slow"));
    let (code, timed_out) = place.run_json(&["run", "slow.json", "--budget", "time=100ms"]);
    assert_eq!((code, &timed_out["result"]["success"]), (124, &json!(false)), "{timed_out}");
    let shown = stderr_text(&place.run(&["test", "record", "last", "--as", "tests/t.json"]));
    assert!(shown.contains("its time was up"), "{shown}");
    assert!(!place.path("tests/t.json").exists());
}

#[test]
fn two_forms_of_a_report_are_refused() {
    let place = place_with_echo();
    place.write("story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    record_test(&place, "story.json", &["-i", "input=x"]);
    for arguments in [
        &["test", "--report", "junit"][..],
        &["test", "--report", "tap"],
        &["check", "story.json", "--report", "sarif"],
        &["check", "story.json", "--report", "github"],
    ] {
        let (code, refused) = place.run_json(arguments);
        assert_eq!((code, &refused["error"]["code"]), (2, &json!("FL1402")), "{arguments:?}: {refused}");
        assert_eq!(exit_code(&place.run(arguments)), 0, "{arguments:?}");
    }
}

/// Parameters of addresses are masked in steps, functions and prompts, and where servers return them in another encoding.
#[test]
fn credentials_in_parameters_do_not_reach_the_test() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    std::fs::create_dir(place.path("tests")).expect("a folder");
    let url = |query: &str| format!("http://{}/page?{query}", server.address);
    let flow = |query: &str| {
        let config = json!({"url": url(query), "method": "GET", "responseVariable": "page"});
        json!({"name": "secret", "description": "d", "steps": [
            {"type": "apiCall", "config": config},
            {"type": "llmInstruction", "config": {"instruction": "Read /x?token=inline-1234 ${page}", "resultVariable": "b"}},
        ]})
        .to_string()
    };
    let arguments = json!({"url": url("page=2&api%5Fkey=par%2Fam-1234"), "method": "GET"}).to_string();
    let call = json!({"name": "call", "functionId": "tool::http_request", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": arguments, "outputVar": "page"});
    let prompt = chat_step("read", "It is par/am-1234, cGFyL2FtLTEyMzQ= or par%2fam-1234: {{page}}");
    for definition in [flow("page=2&api_key=par%2Fam-1234"), step_list(&[call, prompt])] {
        place.write("secret.json", &definition);
        let test = record_test(&place, "secret.json", &[]).to_string();
        for secret in ["par%2Fam-1234", "par/am-1234", "par%2fam-1234", "cGFyL2FtLTEyMzQ", "inline-1234"] {
            assert!(!test.contains(secret), "{secret}: {test}");
        }
        assert!(test.contains("page=2&api") && test.contains("key=(masked)"), "{test}");
        stdout_of(&place, 0, &["test"]);
        let shown = stdout_of(&place, 0, &["show", "last", "--json"]);
        assert!(!shown.contains("am-1234\",\"method"), "{shown}");
    }
    place.write("secret.json", &flow("page=3&api_key=par%2Fam-1234"));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(!failed.contains("am-1234"), "{failed}");
}

/// Fields of bodies are masked by their names, and their values where they occur again.
#[test]
fn secret_fields_of_bodies_do_not_reach_the_test() {
    let server = TestServer::start();
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    std::fs::create_dir(place.path("tests")).expect("a folder");
    let flow = |secret: &str| {
        let body =
            format!("{{\"client_secret\": \"{secret}\", \"pin\": {{\"password\": \"p1\"}}, \"grant\": \"code\"}}");
        let config = json!({"url": format!("http://{}/token", server.address), "method": "POST", "bodyType": "json",
            "body": body, "responseVariable": "reply"});
        json!({"name": "secret", "description": "d", "steps": [
            {"type": "apiCall", "config": config},
            {"type": "llmInstruction", "config": {"instruction": format!("Use {secret}"), "resultVariable": "used"}},
        ]})
        .to_string()
    };
    place.write("secret.json", &flow("cs-12345678"));
    let test = record_test(&place, "secret.json", &[]).to_string();
    assert!(!test.contains("cs-12345678") && !test.contains("\\\"p1\\\""), "{test}");
    assert!(test.contains("grant"), "{test}");
    stdout_of(&place, 0, &["test"]);
    // Another secret is no other request, since neither of them is in the test.
    place.write("secret.json", &flow("cs-87654321"));
    stdout_of(&place, 0, &["test"]);
    place.write("secret.json", &flow("cs-87654321").replace("code", "other"));
    let failed = stdout_of(&place, 3, &["test"]);
    assert!(!failed.contains("cs-87654321"), "{failed}");
}

/// A secret whose value the definition has as text.
#[test]
fn configured_secrets_do_not_reach_the_test() {
    let place = place_with_echo();
    place.write(
        "secret.json",
        &step_list(&[chat_step("draft", "Say conf/ured-1234, twice Y29uZi91cmVkLTEyMzQ= {{input}}")]),
    );
    let with_secret = |arguments: &[&str]| {
        let output =
            place.build_command(arguments).env("FLOWLOOM_SECRET_SHOP", "conf/ured-1234").output().expect("it runs");
        assert_eq!(exit_code(&output), 0, "{arguments:?}: {}", stderr_text(&output));
    };
    with_secret(&["run", "secret.json", "-i", "input=conf%2Fured-1234"]);
    with_secret(&["test", "record", "last", "--as", "tests/t.json"]);
    let test = std::fs::read_to_string(place.path("tests/t.json")).expect("written");
    for secret in ["ured-1234", "Y29uZi91cmVkLTEyMzQ"] {
        assert!(!test.contains(secret), "{secret}: {test}");
    }
    with_secret(&["test"]);
    // Also where the secret is not known.
    stdout_of(&place, 0, &["test"]);
}

#[test]
fn a_run_that_was_started_in_another_folder_is_recorded() {
    let place = place_with_echo();
    for folder in ["flows/deep", "bot"] {
        std::fs::create_dir_all(place.path(folder)).expect("created");
    }
    place.write("flows/story.json", &step_list(&[chat_step("first", "Say {{input}}")]));
    // Another definition at the path of the run, as it is seen from here.
    place.write("story.json", &step_list(&[chat_step("second", "Other {{input}}")]));
    place.write("bot/agent.json", r#"{"name": "bot", "systemPrompt": "Be kind."}"#);
    for (arguments, subject) in [
        (&["run", "../story.json", "-i", "input=x"][..], "../flows/story.json"),
        (&["run", "../../bot", "-i", "message=hi"], "../bot/agent.json"),
    ] {
        let ran = place.build_command(arguments).current_dir(place.path("flows/deep")).output().expect("it runs");
        assert_eq!(exit_code(&ran), 0, "{}", stderr_text(&ran));
        stdout_of(&place, 0, &["test", "record", "last", "--as", "tests/t.json", "--force"]);
        let test: serde_json::Value = serde_json::from_str(&read_test(&place)).expect("JSON");
        assert_eq!(test["definition"], subject);
        stdout_of(&place, 0, &["test"]);
    }
}
