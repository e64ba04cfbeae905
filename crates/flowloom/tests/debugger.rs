//! The debugger of recorded runs, driven through its protocol: forwards, backwards, with breakpoints and variables.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use support::Workspace;

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

/// Three steps, of which the second repeats.
const STEPS: &str = r#"{
  "id": "draft", "name": "Draft",
  "steps": [
    {"name": "first", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "Write {{input}}", "outputVar": "text"},
    {"name": "again", "functionId": "agent::chat", "mode": "loop", "maxIterations": 2, "until": "never", "promptTemplate": "Improve {{text}}", "outputVar": "better"},
    {"name": "last", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "End {{better}}"}
  ]
}
"#;

/// An editor's side of a conversation.
struct Debugger {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    sequence: u64,
}

impl Debugger {
    fn start(place: &Workspace) -> Debugger {
        let mut command = place.build_command(&["dap"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Debugger { child, input, output, sequence: 0 }
    }

    /// Starts the debugger and initialises it.
    fn start_session(place: &Workspace) -> Debugger {
        let mut debugger = Debugger::start(place);
        debugger.ask("initialize", &json!({"adapterID": "flowloom"}));
        assert_eq!(debugger.receive()["event"], "initialized");
        debugger
    }

    /// Disconnects, and waits until the debugger has ended.
    fn end_session(&mut self) {
        self.ask("disconnect", &json!({}));
        assert!(self.child.wait().expect("it ends").success());
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("a header");
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().expect("a number"),
                None => break,
            }
        }
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).expect("a message");
        serde_json::from_slice(&content).expect("JSON")
    }

    /// Sends a request. Returns the body of its answer, or the message of a refusal.
    fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        self.sequence += 1;
        let request = json!({"seq": self.sequence, "type": "request", "command": command, "arguments": arguments});
        let content = request.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{content}", content.len()).expect("sent");
        self.input.flush().expect("sent");
        let answer = self.receive();
        assert_eq!(answer["request_seq"], self.sequence, "{answer}");
        if answer["success"] == true { answer["body"].clone() } else { answer["message"].clone() }
    }

    /// Moves on, and describes where the run has stopped, with its variables.
    fn go(&mut self, command: &str) -> String {
        self.ask(command, &json!({"threadId": 1}));
        let mut event = self.receive();
        while event["event"] == "output" {
            event = self.receive();
        }
        if event["event"] == "terminated" {
            return format!("{command}: over");
        }
        let frames = self.ask("stackTrace", &json!({"threadId": 1}));
        let frame = &frames["stackFrames"][0];
        let scopes = self.ask("scopes", &json!({"frameId": 1}));
        let variables =
            self.ask("variables", &json!({"variablesReference": scopes["scopes"][0]["variablesReference"]}));
        let shown: Vec<String> = variables["variables"]
            .as_array()
            .expect("variables")
            .iter()
            .map(|one| {
                format!("{}={}", one["name"].as_str().unwrap_or_default(), one["value"].as_str().unwrap_or_default())
            })
            .collect();
        let (name, line) = (frame["name"].as_str().unwrap_or_default(), &frame["line"]);
        let reason = event["body"]["reason"].as_str().unwrap_or_default();
        format!("{command}: {reason} at {name}, line {line}; {}", shown.join(", "))
    }
}

#[test]
fn a_recorded_run_is_stepped_through_in_both_directions() {
    let place = Workspace::new(ECHO_CONFIG);
    let file = place.write("draft.json", STEPS);
    let run = place.run(&["run", "draft.json", "-i", "input=tea"]);
    assert!(run.status.success(), "{}", support::stderr_text(&run));
    let mut debugger = Debugger::start(&place);
    let mut seen = Vec::new();
    debugger.ask("initialize", &json!({"adapterID": "flowloom"}));
    assert_eq!(debugger.receive()["event"], "initialized");
    seen.push(format!("no definition: {}", debugger.ask("launch", &json!({}))));
    debugger.ask("launch", &json!({"definition": file, "run": "last"}));
    let lines = json!({"source": {"path": file}, "breakpoints": [{"line": 6}, {"line": 1}]});
    seen.push(format!("breakpoints: {}", debugger.ask("setBreakpoints", &lines)["breakpoints"]));
    for command in ["configurationDone", "next", "next", "stepBack", "continue", "reverseContinue", "continue"] {
        seen.push(debugger.go(command));
    }
    let value = debugger.ask("evaluate", &json!({"expression": "text", "frameId": 1}));
    seen.push(format!("text is {}", value["result"]));
    seen.push(debugger.go("continue"));
    // The text that was run is shown, not the current one.
    place.write("draft.json", &STEPS.replace("Draft", "Changed"));
    seen.push(debugger.go("stepBack"));
    let source = debugger.ask("stackTrace", &json!({"threadId": 1}))["stackFrames"][0]["source"].clone();
    seen.push(format!("source: {source}"));
    let content = debugger.ask("source", &json!({"sourceReference": source["sourceReference"]}));
    assert_eq!(content["content"], STEPS);
    debugger.end_session();
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn a_new_run_halts_before_each_step() {
    let place = Workspace::new(ECHO_CONFIG);
    let file = place.write("draft.json", STEPS);
    let mut debugger = Debugger::start(&place);
    let mut seen = Vec::new();
    debugger.ask("initialize", &json!({"adapterID": "flowloom"}));
    assert_eq!(debugger.receive()["event"], "initialized");
    debugger.ask("launch", &json!({"definition": file, "inputs": "tea"}));
    debugger.ask("setBreakpoints", &json!({"source": {"path": file}, "breakpoints": [{"line": 6}]}));
    for command in ["configurationDone", "next", "stepBack"] {
        seen.push(debugger.go(command));
    }
    // Nothing has happened that was not let happen.
    let shown = place.run_json(&["show", "last"]).1;
    let phases: Vec<String> =
        shown["steps"].as_array().expect("steps").iter().map(|step| step["phase"].to_string()).collect();
    seen.push(format!("while it halts: {}, {}", shown["status"], phases.join(", ")));
    for command in ["continue", "next", "next"] {
        seen.push(debugger.go(command));
    }
    debugger.end_session();
    seen.push(format!("after it: {}", place.run_json(&["show", "last"]).1["status"]));
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn a_changed_value_continues_in_a_fork() {
    let place = Workspace::new(ECHO_CONFIG);
    let file = place.write("draft.json", STEPS);
    let run = place.run(&["run", "draft.json", "-i", "input=tea"]);
    assert!(run.status.success(), "{}", support::stderr_text(&run));
    let mut debugger = Debugger::start_session(&place);
    debugger.ask("launch", &json!({"definition": file, "run": "last"}));
    let mut seen = vec![debugger.go("configurationDone"), debugger.go("next")];
    let change = json!({"variablesReference": 1, "name": "text", "value": "coffee"});
    seen.push(format!("changed: {}", debugger.ask("setVariable", &change)));
    for command in ["next", "next", "next", "stepBack"] {
        seen.push(debugger.go(command));
    }
    debugger.end_session();
    let runs = place.run_json(&["runs"]).1;
    seen.push(format!("{} runs, the last one is {}", runs.as_array().expect("runs").len(), runs[0]["status"]));
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn the_last_run_is_one_of_the_definition() {
    let place = Workspace::new(ECHO_CONFIG);
    let file = place.write("draft.json", STEPS);
    let other = place.write("other.json", &STEPS.replace("draft", "other").replace("Draft", "Other"));
    let unrun = place.write("unrun.json", &STEPS.replace("draft", "unrun").replace("Draft", "Unrun"));
    let broken = place.write("broken.json", &STEPS.replace("agent::chat", "agent::chatter"));
    for file in ["draft.json", "other.json"] {
        let run = place.run(&["run", file, "-i", &format!("input={file}")]);
        assert!(run.status.success(), "{}", support::stderr_text(&run));
    }
    let mut debugger = Debugger::start_session(&place);
    let missing = place.path("missing.json");
    let refusals = [
        (missing.display().to_string(), "there is no file"),
        (unrun.display().to_string(), "there is no run of Unrun yet"),
        (broken.display().to_string(), "has errors, so its last run cannot be found"),
    ];
    for (definition, reason) in refusals {
        let refused = debugger.ask("launch", &json!({"definition": definition, "run": "last"}));
        assert!(refused.as_str().is_some_and(|message| message.contains(reason)), "{definition}: {refused}");
    }
    for (definition, input) in [(file, "draft.json"), (other, "other.json")] {
        debugger.ask("launch", &json!({"definition": definition}));
        let stop = debugger.go("configurationDone");
        assert!(stop.contains(&format!("input=\"{input}\"")), "{stop}");
    }
    debugger.end_session();
}

#[test]
fn breakpoints_belong_to_their_file() {
    let place = Workspace::new(ECHO_CONFIG);
    let file = place.write("draft.json", STEPS);
    let run = place.run(&["run", "draft.json", "-i", "input=tea"]);
    assert!(run.status.success(), "{}", support::stderr_text(&run));
    let mut debugger = Debugger::start_session(&place);
    debugger.ask("launch", &json!({"definition": file, "stopOnEntry": false}));
    let set = |debugger: &mut Debugger, path: std::path::PathBuf, breakpoints: Value| {
        let arguments = json!({"source": {"path": path}, "breakpoints": breakpoints});
        debugger.ask("setBreakpoints", &arguments)["breakpoints"].clone()
    };
    let own = set(&mut debugger, file.clone(), json!([{"line": 6}]));
    assert_eq!(own, json!([{"verified": true, "line": 6}]));
    // An editor sends the breakpoints of all its files.
    let others = set(&mut debugger, place.path("other.json"), json!([{"line": 4}]));
    assert_eq!(others, json!([{"verified": false, "line": 4, "message": "the run is of another definition"}]));
    let stop = debugger.go("configurationDone");
    assert!(stop.starts_with("configurationDone: breakpoint at last") && stop.contains("line 6"), "{stop}");
    // The end can be looked at, and is reported once.
    assert!(debugger.go("continue").contains("end of the run"));
    assert_eq!(debugger.go("continue"), "continue: over");
    let refused = debugger.ask("continue", &json!({"threadId": 1}));
    assert_eq!(refused, "the run is over: step back, or start the debugger again");
    assert!(debugger.go("stepBack").contains("line 6"));
    debugger.end_session();
}

#[test]
fn a_message_that_cannot_be_read_does_not_end_the_debugger() {
    let place = Workspace::new(ECHO_CONFIG);
    let mut debugger = Debugger::start(&place);
    write!(debugger.input, "Content-Length: 3\r\n\r\n{{x}}Content-Length: two\r\n\r\n").expect("sent");
    for reason in ["it is not JSON", "its head has no Content-Length"] {
        let event = debugger.receive();
        assert_eq!(event["event"], "output", "{event}");
        assert!(event["body"]["output"].as_str().is_some_and(|text| text.contains(reason)), "{event}");
    }
    debugger.ask("initialize", &json!({"adapterID": "flowloom"}));
    assert_eq!(debugger.receive()["event"], "initialized");
    debugger.end_session();
}

/// Moves on, and returns the log and where the run has stopped.
fn go_and_log(debugger: &mut Debugger, command: &str) -> String {
    debugger.ask(command, &json!({"threadId": 1}));
    let mut logged = Vec::new();
    let mut event = debugger.receive();
    while event["event"] == "output" {
        logged.push(event["body"]["output"].as_str().unwrap_or_default().trim_end().to_owned());
        event = debugger.receive();
    }
    let frames = debugger.ask("stackTrace", &json!({"threadId": 1}));
    logged.push(format!("{} at {}", event["body"]["reason"], frames["stackFrames"][0]["name"]));
    logged.join("; ")
}

#[test]
fn breakpoints_have_conditions_hit_counts_and_messages() {
    let place = Workspace::new(ECHO_CONFIG);
    let steps = STEPS.replace("\"maxIterations\": 2", "\"maxIterations\": 4");
    let file = place.write("draft.json", &steps);
    let run = place.run(&["run", "draft.json", "-i", "input=tea"]);
    assert!(run.status.success(), "{}", support::stderr_text(&run));
    let mut debugger = Debugger::start_session(&place);
    debugger.ask("launch", &json!({"definition": file, "stopOnEntry": false}));
    let mut seen = Vec::new();
    let set = |debugger: &mut Debugger, breakpoints: Value| {
        let arguments = json!({"source": {"path": file}, "breakpoints": breakpoints});
        debugger.ask("setBreakpoints", &arguments)["breakpoints"].to_string()
    };
    let refused = json!([{"line": 5, "condition": "text =="}, {"line": 5, "hitCondition": "often"}, {"line": 5, "logMessage": "{"}]);
    seen.push(set(&mut debugger, refused));
    let log = "{iteration === undefined ? 'start' : 'again'}: {text.length} of {text}";
    let wanted = json!([
        {"line": 4, "condition": "input === 'coffee'"},
        {"line": 5, "hitCondition": "% 2"},
        {"line": 5, "condition": "text !== undefined", "hitCondition": ">= 3", "logMessage": log},
        {"line": 6, "condition": "nothing.is.here"},
    ]);
    seen.push(set(&mut debugger, wanted));
    for command in ["configurationDone", "next", "continue", "continue", "reverseContinue", "reverseContinue"] {
        seen.push(format!("{command}: {}", go_and_log(&mut debugger, command)));
    }
    let evaluated = debugger.ask("evaluate", &json!({"expression": "text + '!'", "frameId": 1}));
    seen.push(format!("evaluated: {}", evaluated["result"]));
    debugger.end_session();

    // A new run is halted where a condition holds.
    let mut debugger = Debugger::start_session(&place);
    set(&mut debugger, json!([{"line": 4, "logMessage": "begins with {input}"}, {"line": 5, "hitCondition": "3"}]));
    debugger.ask("launch", &json!({"definition": file, "inputs": "tea", "stopOnEntry": false}));
    seen.push(format!("new: {}", go_and_log(&mut debugger, "configurationDone")));
    debugger.end_session();
    insta::assert_snapshot!(seen.join("\n"));
}

/// The scopes at the present stop, with their variables.
fn list_scopes(debugger: &mut Debugger) -> String {
    let scopes = debugger.ask("scopes", &json!({"frameId": 1}))["scopes"].clone();
    let mut lines = Vec::new();
    for scope in scopes.as_array().expect("scopes").iter().filter(|scope| scope["name"] != "Run") {
        let arguments = json!({"variablesReference": scope["variablesReference"]});
        let variables = debugger.ask("variables", &arguments)["variables"].clone();
        let values =
            variables.as_array().expect("a list").iter().map(|one| format!("{}={}", one["name"], one["value"]));
        lines.push(format!("  {}: {}", scope["name"], values.collect::<Vec<_>>().join(", ")));
    }
    lines.join("\n")
}

#[test]
fn iterations_blocks_and_child_runs_around_a_step_are_shown() {
    let place = Workspace::new(&format!("{ECHO_CONFIG}[functions.\"my::inner\"]\nworkflow = \"inner.json\"\n"));
    let loops = "---\ninput:\n  topic: {type: text, message: \"What about?\"}\n---\n\nPlan {topic}\n\n<GenText as=\"plan\" model=\"\" />\n\n\
                 <Loop as=\"rounds\" provide={{ about: plan }} until={$rounds.index >= 1}>\n\nWrite {about} in round {$rounds.index}\n\n\
                 <GenText as=\"page\" model=\"\" />\n\n</Loop>\n";
    let step = |name: &str, function: &str, prompt: &str| {
        json!({"name": name, "functionId": function,
        "mode": "sequential", "errorMode": "fail", "promptTemplate": prompt, "outputVar": name})
    };
    let list = |steps: &[Value]| json!({"id": "outer", "name": "Outer", "steps": steps}).to_string();
    place.write("inner.json", &list(&[step("said", "agent::chat", "Praise {{input}}")]));
    let calls = list(&[step("call", "my::inner", "tea"), step("end", "agent::chat", "End {{call}}")]);
    let mut seen = Vec::new();
    for (file, text, input, next) in
        [("loop.mdx", loops, "topic=tea", 1), ("outer.json", calls.as_str(), "input=tea", 1)]
    {
        let path = place.write(file, text);
        let run = place.run(&["run", file, "-i", input]);
        assert!(run.status.success(), "{}", support::stderr_text(&run));
        let mut debugger = Debugger::start_session(&place);
        debugger.ask("launch", &json!({"definition": path}));
        let mut stop = go_and_log(&mut debugger, "configurationDone");
        for _ in 0..next {
            stop = go_and_log(&mut debugger, "next");
        }
        seen.push(format!("{file}: {stop}\n{}", list_scopes(&mut debugger)));
        debugger.end_session();
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn a_new_run_halts_at_each_of_the_steps_that_start_together() {
    let place = Workspace::new(ECHO_CONFIG);
    let step = |name: &str, mode: &str| {
        format!(
            r#"    {{"name": "{name}", "functionId": "agent::chat", "mode": "{mode}", "promptTemplate": "{name}", "outputVar": "{name}"}}"#
        )
    };
    let steps = [("z", "sequential"), ("a", "fanout"), ("b", "fanout"), ("c", "fanout"), ("end", "collect")]
        .map(|(name, mode)| step(name, mode));
    let text = format!("{{\n  \"id\": \"many\", \"name\": \"Many\",\n  \"steps\": [\n{}\n  ]\n}}\n", steps.join(",\n"));
    let file = place.write("many.json", &text).display().to_string();
    let mut halts = Vec::new();
    for lines in [&[5, 6][..], &[4, 5, 6, 7]] {
        let mut debugger = Debugger::start_session(&place);
        debugger.ask("launch", &json!({"definition": file, "inputs": "x", "stopOnEntry": false}));
        let points: Vec<Value> = lines.iter().map(|line| json!({"line": line})).collect();
        debugger.ask("setBreakpoints", &json!({"source": {"path": file}, "breakpoints": points}));
        let mut command = "configurationDone";
        loop {
            let halt = debugger.go(command);
            let is_over = halt.contains("end of the run");
            halts.push(halt);
            if is_over {
                break;
            }
            command = "continue";
        }
        debugger.end_session();
    }
    insta::assert_snapshot!(halts.join("\n"));
}
