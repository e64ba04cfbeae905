//! Tools of remote MCP servers: egress policy, secrets, both generations of the protocol, and reconnecting.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;
use support::clients::{clients, root};
use support::http::Serving;
use support::{Place, exit, stderr};

/// A workspace whose step list `call` passes its input to `tool` of the server at `address`.
fn calling(address: &str, tool: &str, more: &str) -> Place {
    let place =
        Place::new(&format!("default_model = \"scripted:echo\"\n[mcp.other]\nurl = \"http://{address}/mcp\"\n{more}"));
    let list = json!({"id": "call", "name": "call", "description": "d", "steps": [
        {"name": "s", "functionId": format!("other::{tool}"), "mode": "sequential", "errorMode": "fail", "promptTemplate": "{{input}}"},
    ]});
    place.write("call.json", &list.to_string());
    place
}

fn allowed(address: &str) -> String {
    format!("[egress]\nallow = [\"{address}\"]\n")
}

/// A server built with the Python SDK of one generation adds two numbers.
fn adds(set: &str) {
    let Some(folder) = clients(set) else { return };
    let script = root().join("tests/clients").join(set).join("server.py");
    let mut server = Command::new(folder.join("python/bin/python"));
    let mut server = server.arg(script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut address = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut address).expect("a line");
    let place = calling(address.trim(), "add", &allowed(address.trim()));
    place.write("input", r#"{"a": 2, "b": 3}"#);
    let (code, told) = place.json(&["run", "call.json", "--input", "input"]);
    server.kill().and_then(|()| server.wait()).expect("ended");
    assert_eq!((code, &told["output"]), (0, &json!({"result": 5})), "{told}");
}

#[test]
fn a_server_of_the_current_generation() {
    adds("mcp");
}

#[test]
fn a_server_of_the_previous_generation() {
    adds("mcp-legacy");
}

#[test]
fn an_address_of_this_machine_must_be_allowed() {
    let far = Place::hello("");
    let server = Serving::start(&far, &[]);
    let place = calling(&server.address, "hello", "");
    let (code, told) = place.json(&["run", "call.json", "-i", "input=hi"]);
    assert_eq!((code, told["error"]["code"].as_str()), (1, Some("FL1004")), "{told}");
}

#[test]
fn a_key_goes_with_every_request_and_is_never_told() {
    let far = Place::hello("");
    let key = String::from_utf8(far.run(&["keys", "create", "--name", "k"]).stdout).expect("UTF-8");
    let server = Serving::start(&far, &[]);
    let header = "headers = { Authorization = \"Bearer ${secret.FAR}\" }\n";
    let place = calling(&server.address, "hello", &format!("{header}{}", allowed(&server.address)));
    place.write("input", r#"{"input": "hi"}"#);
    let run = |key: &str| {
        let mut command = place.command(&["run", "call.json", "--input", "input"]);
        command.env("FLOWLOOM_SECRET_FAR", key).output().expect("it runs")
    };
    let right = run(key.trim());
    assert_eq!(exit(&right), 0, "{}", stderr(&right));
    assert!(String::from_utf8_lossy(&right.stdout).contains("LLM(Say hi)"));
    let wrong = run("fl_this-is-another-key");
    assert_eq!(exit(&wrong), 1);
    let told = stderr(&wrong);
    assert!(told.contains("FL1027") && told.contains("Auth required"), "{told}");
    assert!(!told.contains("this-is-another-key") && !told.contains("rmcp"), "{told}");
}

#[test]
fn a_server_that_was_away_is_reached_again() {
    let far = Place::hello("");
    let away = Serving::start(&far, &[]);
    let place = calling(&away.address, "hello", &allowed(&away.address));
    let near = Serving::start(&place, &[]);
    let call = || near.post("/api/v1/runs?wait=60", &json!({"workflow": "call", "inputs": {"input": "hi"}})).json();
    assert_eq!(call()["output"], json!({"result": "LLM(Say hi)"}));
    let address = away.address.clone();
    drop(away);
    assert_eq!(call()["status"], "failed");
    let _back = Serving::start_at(&far, &address, &[]);
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
        let place = Place::new(&format!("[mcp.other]\n{settings}\n"));
        let refused = place.run(&["doctor"]);
        assert!(stderr(&refused).contains("FL1401") && stderr(&refused).contains(problem), "{}", stderr(&refused));
    }
}
