//! Tools of remote MCP servers: egress policy, secrets, both generations of the protocol, and reconnecting.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;
use support::clients::{find_clients, repository_root};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

/// A workspace whose step list `call` passes its input to `tool` of the server at `address`.
fn create_workspace(address: &str, tool: &str, more: &str) -> Workspace {
    let place = Workspace::new(&format!(
        "default_model = \"scripted:echo\"\n[mcp.other]\nurl = \"http://{address}/mcp\"\n{more}"
    ));
    let list = json!({"id": "call", "name": "call", "description": "d", "steps": [
        {"name": "s", "functionId": format!("other::{tool}"), "mode": "sequential", "errorMode": "fail", "promptTemplate": "{{input}}"},
    ]});
    place.write("call.json", &list.to_string());
    place
}

fn egress_config(address: &str) -> String {
    format!("[egress]\nallow = [\"{address}\"]\n")
}

/// A server built with the Python SDK of one generation adds two numbers.
fn check_addition(set: &str) {
    let Some(folder) = find_clients(set) else { return };
    let script = repository_root().join("tests/clients").join(set).join("server.py");
    let mut server = Command::new(folder.join("python/bin/python"));
    let mut server = server.arg(script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut address = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut address).expect("a line");
    let place = create_workspace(address.trim(), "add", &egress_config(address.trim()));
    place.write("input", r#"{"a": 2, "b": 3}"#);
    let (code, output) = place.run_json(&["run", "call.json", "--input", "input"]);
    server.kill().and_then(|()| server.wait()).expect("ended");
    assert_eq!((code, &output["output"]), (0, &json!({"result": 5})), "{output}");
}

#[test]
fn a_server_of_the_current_generation() {
    check_addition("mcp");
}

#[test]
fn a_server_of_the_previous_generation() {
    check_addition("mcp-legacy");
}

#[test]
fn an_address_of_this_machine_must_be_allowed() {
    let far = Workspace::with_hello("");
    let server = RunningServer::start(&far, &[]);
    let place = create_workspace(&server.address, "hello", "");
    let (code, output) = place.run_json(&["run", "call.json", "-i", "input=hi"]);
    assert_eq!((code, output["error"]["code"].as_str()), (1, Some("FL1004")), "{output}");
}

#[test]
fn a_key_goes_with_every_request_and_is_never_shown() {
    let far = Workspace::with_hello("");
    let key = String::from_utf8(far.run(&["keys", "create", "--name", "k"]).stdout).expect("UTF-8");
    let server = RunningServer::start(&far, &[]);
    let header = "headers = { Authorization = \"Bearer ${secret.FAR}\" }\n";
    let place = create_workspace(&server.address, "hello", &format!("{header}{}", egress_config(&server.address)));
    place.write("input", r#"{"input": "hi"}"#);
    let run = |key: &str| {
        let mut command = place.build_command(&["run", "call.json", "--input", "input"]);
        command.env("FLOWLOOM_SECRET_FAR", key).output().expect("it runs")
    };
    let right = run(key.trim());
    assert_eq!(exit_code(&right), 0, "{}", stderr_text(&right));
    assert!(String::from_utf8_lossy(&right.stdout).contains("LLM(Say hi)"));
    let wrong = run("fl_this-is-another-key");
    assert_eq!(exit_code(&wrong), 1);
    let output = stderr_text(&wrong);
    assert!(output.contains("FL1027") && output.contains("Auth required"), "{output}");
    assert!(!output.contains("this-is-another-key") && !output.contains("rmcp"), "{output}");
}

#[test]
fn a_server_that_was_away_is_reached_again() {
    let far = Workspace::with_hello("");
    let away = RunningServer::start(&far, &[]);
    let place = create_workspace(&away.address, "hello", &egress_config(&away.address));
    let near = RunningServer::start(&place, &[]);
    let call = || near.post("/api/v1/runs?wait=60", &json!({"workflow": "call", "inputs": {"input": "hi"}})).json();
    assert_eq!(call()["output"], json!({"result": "LLM(Say hi)"}));
    let address = away.address.clone();
    drop(away);
    assert_eq!(call()["status"], "failed");
    let _back = RunningServer::start_at(&far, &address, &[]);
    assert_eq!(call()["output"], json!({"result": "LLM(Say hi)"}));
}

#[test]
fn a_server_has_a_program_or_an_address() {
    for (settings, problem) in [
        ("", "needs either a command or a url"),
        ("command = \"a\"\nurl = \"http://a.example/mcp\"", "needs either a command or a url"),
        ("url = \"http://a.example/mcp\"\nargs = [\"a\"]", "args and env are for a command"),
        ("command = \"a\"\nheaders = { a = \"b\" }", "headers are for a url"),
    ] {
        let place = Workspace::new(&format!("[mcp.other]\n{settings}\n"));
        let refused = place.run(&["doctor"]);
        assert!(
            stderr_text(&refused).contains("FL1401") && stderr_text(&refused).contains(problem),
            "{}",
            stderr_text(&refused)
        );
    }
}
