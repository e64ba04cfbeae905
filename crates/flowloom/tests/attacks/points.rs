//! The injection points: how an input gets into the program.
//!
//! A point is a request, such as `GET /api/v1/runs?status={input}` or `PUT /api/v1/memory/bob/k "{input}"`, in which
//! `{input}` is the input, encoded for its place, and `{raw}` is the input as it is. The points that are not a request
//! have a name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::{HttpCall, HttpReply, READ_TIMEOUT, encode_percent, exchange_bytes};
use crate::corpus::AttackRow;
use crate::support::exit_code;
use crate::world::World;

/// The result of one attack as an attacker sees it.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    pub(crate) status: u16,
    /// The error codes in the response.
    pub(crate) codes: BTreeSet<String>,
    /// The state of the run, if the attack started one.
    pub(crate) run: Option<String>,
    /// The output of the run: a text, or JSON.
    pub(crate) output: String,
    /// The number of responses on the connection.
    pub(crate) responses: usize,
    /// The exit code of a command.
    pub(crate) exit: Option<i32>,
    /// Everything that the attacker received.
    pub(crate) text: String,
}

/// Tries an input at a point.
pub(crate) fn attack_point(world: &World, point: &str, row: &AttackRow, input: &str) -> Observation {
    match point {
        "markdown-expression" => attack_markdown(world, input),
        "steps-template" | "flow-template" | "pipeline-template" => attack_template(world, point, input),
        "python-block" => attack_python(world, input),
        "python-expression" | "python-look" => attack_python(world, &crate::python::attempt_block(input)),
        "pipeline-echo" => attack_python(world, &echo_block(input)),
        "model-markdown" | "model-agent" => attack_model(world, point, input),
        "http-bytes" => attack_bytes(world, input),
        "request-header" => attack_header(world, &row.key, input),
        "file-name" => attack_file_name(world, input),
        "check-json" => attack_check(world, "application/json", input),
        "check-markdown" => attack_check(world, "text/markdown", input),
        "put-json" => attack_put(world, input),
        "check-command" | "check-command-markdown" => attack_check_command(world, point, input),
        "restore-command" => attack_restore(world, input),
        _ => attack_request(world, &row.key, point, input),
    }
}

impl Observation {
    pub(crate) fn of_reply(reply: &HttpReply) -> Observation {
        let body = reply.json();
        let mut codes = BTreeSet::new();
        collect_codes(&body, &mut codes);
        let output = match &body["output"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Observation {
            status: reply.status,
            codes,
            run: body["status"].as_str().map(str::to_owned),
            output,
            responses: ["HTTP/1.0 ", "HTTP/1.1 "].iter().map(|start| reply.text.matches(start).count()).sum(),
            exit: None,
            text: reply.text.clone(),
        }
    }

    /// Adds the record of the run, which the attacker may read.
    pub(crate) fn with_events(mut self, world: &World, reply: &HttpReply) -> Observation {
        if let Some(run) = reply.json()["run_id"].as_str() {
            self.text += &world.call("bob", "GET", &format!("/api/v1/runs/{run}/events"), "").text;
        }
        self
    }
}

/// All error codes in a value: the texts under `code`.
fn collect_codes(value: &Value, codes: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let code = map.get("code").and_then(Value::as_str);
            codes.extend(code.filter(|code| code.starts_with("FL")).map(str::to_owned));
            map.values().for_each(|value| collect_codes(value, codes));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_codes(value, codes)),
        _ => {}
    }
}

fn attack_request(world: &World, key: &str, point: &str, input: &str) -> Observation {
    let (method, rest) = point.split_once(' ').unwrap_or_else(|| panic!("the point {point} does not exist"));
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = path.replace("{input}", &encode_percent(input)).replace("{raw}", input);
    let quoted = json!(input).to_string();
    let body = body.replace("{input}", &quoted[1..quoted.len() - 1]).replace("{raw}", input);
    let reply = world.call(key, method, &path, &body);
    Observation::of_reply(&reply).with_events(world, &reply)
}

/// The input is an expression in a prompt, which the model returns.
fn attack_markdown(world: &World, input: &str) -> Observation {
    let definition = format!("Value: {{{input}}}\n\n<GenText as=\"answer\" model=\"scripted:echo\" />\n");
    let reply = world.run_definition("expression", "text/markdown", &definition, &json!({}));
    Observation::of_reply(&reply).with_events(world, &reply)
}

/// The input is a template of a definition of the attacker's own.
fn attack_template(world: &World, point: &str, input: &str) -> Observation {
    let prompt = json!({"name": "own", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
        "promptTemplate": input});
    let instruction = json!({"type": "llmInstruction", "config": {"instruction": input, "resultVariable": "a"}});
    let block = json!({"id": "own", "name": "own", "category": "process", "execution_type": "llm",
        "prompt_template": input, "input_schema": {}, "output_schema": {}});
    let nodes = json!([{"id": "n", "block_id": "own", "inputs": {"text": input}}]);
    let definition = match point {
        "steps-template" => json!({"id": "own", "name": "own", "description": "d", "steps": [prompt]}),
        "flow-template" => json!({"name": "own", "description": "d", "steps": [instruction]}),
        _ => json!({"pipeline": {"id": "own", "name": "own", "nodes": nodes, "edges": []}, "blocks": [block]}),
    };
    let reply = world.run_definition("own", "application/json", &definition.to_string(), &json!({}));
    Observation::of_reply(&reply).with_events(world, &reply)
}

/// The input is the source code of a block.
fn attack_python(world: &World, source: &str) -> Observation {
    let block = json!({"id": "b", "name": "b", "category": "process", "execution_type": "python",
        "source_code": source, "input_schema": {}, "output_schema": {}});
    let inputs = json!({"file": world.values["file"], "port": world.forbidden.port, "victim": std::process::id()});
    let nodes = json!([{"id": "n", "block_id": "b", "inputs": inputs}]);
    let body =
        json!({"pipeline": {"id": "p", "name": "p", "nodes": nodes, "edges": []}, "user_id": "bob", "blocks": [block]});
    let reply = world.call("bob", "POST", "/api/pipeline/run", &body.to_string());
    let mut seen = Observation::of_reply(&reply).with_events(world, &reply);
    seen.output = match &reply.json()["results"]["n"]["out"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    seen
}

/// A block that stores a text in the memory and returns it from there.
fn echo_block(input: &str) -> String {
    let text = json!(input).to_string();
    format!(
        "def execute(inputs, context):\n    context['memory']['echo'] = {text}\n    return {{'out': context['memory']['echo']}}\n"
    )
}

/// The input is the name of a model.
fn attack_model(world: &World, point: &str, input: &str) -> Observation {
    let name = json!(input);
    let reply = if point == "model-agent" {
        let agent = json!({"agentId": "model", "systemPrompt": "x", "model": name, "tools": []});
        world.run_definition("model", "application/json", &agent.to_string(), &json!({"message": "x"}))
    } else {
        let definition = format!("Say x.\n\n<GenText as=\"answer\" model={{{name}}} />\n");
        world.run_definition("model", "text/markdown", &definition, &json!({}))
    };
    Observation::of_reply(&reply).with_events(world, &reply)
}

/// The input is a definition that is stored and then run.
fn attack_put(world: &World, input: &str) -> Observation {
    let reply = world.run_definition("stored", "application/json", input, &json!({}));
    Observation::of_reply(&reply).with_events(world, &reply)
}

/// The input is everything that is sent on a connection.
fn attack_bytes(world: &World, input: &str) -> Observation {
    let bytes: Vec<u8> = input.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    let received = exchange_bytes(&world.server.address, &bytes, READ_TIMEOUT);
    Observation::of_reply(&HttpReply::parse(&received))
}

/// The input is a line of the head of a request for the memory of bob.
fn attack_header(world: &World, key: &str, input: &str) -> Observation {
    let key = world.keys.get(key).map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
    let host =
        if input.to_lowercase().starts_with("host:") { "" } else { &format!("Host: {}\r\n", world.server.address) };
    let head = format!("GET /api/v1/memory/bob HTTP/1.0\r\n{host}{key}{input}\r\n\r\n");
    let bytes: Vec<u8> = head.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    Observation::of_reply(&HttpReply::parse(&exchange_bytes(&world.server.address, &bytes, READ_TIMEOUT)))
}

/// The input is the name of an uploaded file.
fn attack_file_name(world: &World, input: &str) -> Observation {
    let name = input.replace('\\', "\\\\").replace('"', "\\\"");
    let body = format!(
        "--x\r\nContent-Disposition: form-data; name=\"entry\"\r\n\r\n{input}\r\n\
         --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n\
         {{\"name\": \"f\", \"steps\": []}}\r\n--x--\r\n"
    );
    let headers = vec![
        format!("Authorization: Bearer {}", world.keys["bob"]),
        "Content-Type: multipart/form-data; boundary=x".to_owned(),
    ];
    let call = HttpCall { method: "PUT", path: "/api/v1/workflows/uploaded", headers, body: body.as_bytes() };
    let mut seen = Observation::of_reply(&call.send(&world.server.address));
    seen.text += &world.call("bob", "GET", "/api/v1/workflows/uploaded/source", "").text;
    seen
}

/// The input is a definition that the server checks, and that is opened in an editor: what an editor asks never fails because
/// of the server.
fn attack_check(world: &World, media_type: &str, input: &str) -> Observation {
    for (path, body) in write_editor_requests(media_type, input) {
        let reply = world.call("bob", "POST", path, &body.to_string());
        if !(200..500).contains(&reply.status) {
            return Observation { text: format!("{path}: {}", reply.text), ..Observation::of_reply(&reply) };
        }
    }
    let headers = vec![format!("Authorization: Bearer {}", world.keys["bob"]), format!("Content-Type: {media_type}")];
    let call = HttpCall { method: "POST", path: "/api/v1/check", headers, body: input.as_bytes() };
    Observation::of_reply(&call.send(&world.server.address))
}

/// The questions of an editor about a definition.
fn write_editor_requests(media_type: &str, text: &str) -> Vec<(&'static str, Value)> {
    let (entry, format, list) = match media_type {
        "text/markdown" => ("x.mdx", "markdown", "elements"),
        _ => ("x.json", "steps", "steps"),
    };
    let source = json!({"entry": entry, "files": {entry: text}, "format": format});
    let mut requests = vec![("/api/v1/definitions/inspect", json!({"source": source}))];
    for what in ["variables", "completions", "meaning"] {
        let body = json!({"source": source, "what": what, "at": text.len() / 2});
        requests.push(("/api/v1/definitions/analyze", body));
    }
    let part = json!([list, 0]);
    for edit in [
        json!({"do": "set", "path": ["name"], "value": "y"}),
        json!({"do": "rename", "path": part, "name": "y"}),
        json!({"do": "duplicate", "path": part}),
    ] {
        requests.push(("/api/v1/definitions/edit", json!({"source": source, "edits": [edit]})));
    }
    requests
}

/// The input is the type of a step, or a text, in a file that the command line checks; everything that it prints counts.
fn attack_check_command(world: &World, point: &str, input: &str) -> Observation {
    let name = if point.ends_with("markdown") { "attack.mdx" } else { "attack.json" };
    let text = match name {
        "attack.mdx" => format!("# t\n\n{{missing + `{input}`}}\n\n<GenText as=\"a\" model=\"m\" {input}=\"x\" />\n"),
        _ => json!({"name": "x", "steps": [{"type": input, "config": {input: "x"}}]}).to_string(),
    };
    world.place.write(name, &text);
    let output = world.place.run(&["check", name]);
    std::fs::remove_file(world.place.path(name)).expect("removed");
    let code = exit_code(&output);
    let printed = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    let is_control = |c: char| (c.is_control() && c != '\n') || is_direction_control(c);
    let control: Vec<String> =
        printed.chars().filter(|c| is_control(*c)).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    let output = if control.is_empty() { "clean".to_owned() } else { control.join(" ") };
    Observation { exit: Some(code), output, text: printed, ..Observation::default() }
}

/// Whether a character changes the direction of text.
fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The input is a backup, one character a byte.
fn attack_restore(world: &World, input: &str) -> Observation {
    let bytes: Vec<u8> = input.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    std::fs::write(world.place.path("backup.db"), bytes).expect("written");
    let output = world.place.run(&["restore", "backup.db", "--replace", "--data-dir", "restored"]);
    let printed = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    Observation { exit: Some(exit_code(&output)), text: printed, ..Observation::default() }
}

/// The values of `@{name}` in a row, with the input itself.
pub(crate) fn values_with_input(world: &World, input: &str) -> BTreeMap<String, String> {
    let mut values = world.values.clone();
    values.insert("input".to_owned(), input.to_owned());
    values
}
