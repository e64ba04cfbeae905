//! The values that a fork sets: they hold for a step and for everything after it, or they are refused.

mod support;

use serde_json::json;
use support::{Workspace, exit_code, stderr_text};

/// A workspace with a definition that has run.
fn place_with_run(file: &str, text: &str) -> Workspace {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write(file, text);
    let run = place.run(&["run", file]);
    assert_eq!(exit_code(&run), 0, "{}", stderr_text(&run));
    place
}

/// The result of a fork of the first run, with the outputs of its steps, as text.
fn fork_first(place: &Workspace, arguments: &[&str]) -> String {
    let runs = place.run_json(&["runs"]).1;
    let first = runs.as_array().and_then(|runs| runs.last()).and_then(|run| run["run_id"].as_str()).expect("a run");
    let (code, forked) = place.run_json(&[&["fork", first], arguments].concat());
    assert_eq!(code, 0, "{forked}");
    forked.to_string()
}

fn run_refused(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(&[&["fork", "last"], arguments].concat());
    assert_eq!(exit_code(&output), 2, "{}", stderr_text(&output));
    stderr_text(&output)
}

#[test]
fn a_value_set_before_a_member_of_a_fan_out_holds_after_it() {
    let step = |name: &str, mode: &str, prompt: &str| json!({"name": name, "functionId": "agent::chat", "mode": mode, "promptTemplate": prompt, "outputVar": name});
    let steps = [
        step("a", "sequential", "a"),
        step("f1", "fanout", "f1 {{a}}"),
        step("f2", "fanout", "f2 {{a}}"),
        step("z", "sequential", "z {{a}}"),
    ];
    let text = json!({"id": "fan", "name": "Fan", "steps": steps}).to_string();
    let place = place_with_run("fan.json", &text);
    let given = fork_first(&place, &["--at", "/f1", "--set", "a=NEW"]);
    // The other member begins at the same time.
    for answer in ["LLM(f1 NEW)", "LLM(f2 LLM(a))", "LLM(z NEW)"] {
        assert!(given.contains(answer), "{answer}: {given}");
    }
}

#[test]
fn a_value_set_before_a_node_holds_in_the_nodes_after_it() {
    let block = json!({"id": "say", "name": "Say", "description": "d", "category": "process", "execution_type": "llm",
        "input_schema": {"type": "object", "properties": {"v": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"o": {"type": "string"}}}, "prompt_template": "Say {v}."});
    let node = |id: &str, value: &str| json!({"id": id, "block_id": "say", "inputs": {"v": value}});
    let nodes =
        [node("n1", "one"), node("n2", "{{n1.o}}"), node("n3", "{{n1.o}} and {{n2.o}}"), node("side", "side {{n1.o}}")];
    let text = json!({"id": "ch", "name": "Ch", "nodes": nodes, "edges": [], "blocks": [block]}).to_string();
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    let answer = |contains: &str, o: &str| json!({"contains": contains, "answer": json!({"o": o}).to_string()});
    let rows = [
        answer("Say one.", "OLD"),
        answer("Say OLD.", "second"),
        answer("Say NEW.", "changed"),
        answer("Say NEW and changed.", "followed"),
        answer("Say side OLD.", "kept"),
    ];
    place.write("answers.json", &json!({"match": rows, "default": "{\"o\": \"other\"}"}).to_string());
    place.write("ch.json", &text);
    assert_eq!(exit_code(&place.run(&["run", "ch.json"])), 0);
    let given = fork_first(&place, &["--at", "/n2", "--set", "n1:={\"o\":\"NEW\"}"]);
    for answer in ["changed", "followed", "kept"] {
        assert!(given.contains(answer), "{answer}: {given}");
    }
}

const CITIES: &str = "---
data:
  cities: [{name: Oslo}, {name: Bergen}]
  kind: fish
input:
  topic: {type: text, default: cats}
---

<Loop as=\"rounds\" until={$.index >= 2} provide={{ topic, city: cities[$.index] }}>
  Round {$.index} {topic} {city.name}

  <GenText as=\"line\" model=\"\" />

  Again {city.name} {line}

  <GenText as=\"more\" model=\"\" />
</Loop>

Sum {kind} {topic}

<GenText as=\"end\" model=\"\" />
";

#[test]
fn a_value_set_in_a_loop_is_one_of_the_loop() {
    let place = place_with_run("m.mdx", CITIES);
    let shown = place.run_json(&["show", "last"]).1;
    let paths = shown["steps"].as_array().expect("steps").iter().filter_map(|step| step["path"].as_str());
    let line = paths.into_iter().find(|path| path.ends_with("[0]/phase~1/line")).expect("the step").to_owned();
    let refused = run_refused(&place, &["--at", &line, "--set", "cities:=[]"]);
    assert!(refused.contains("has no variable \"cities\"; it has"), "{refused}");
    assert!(refused.contains("it has city, line, more, topic"), "{refused}");
    let given = fork_first(&place, &["--at", &line, "--set", "city:={\"name\":\"Rome\"}"]);
    for answer in ["Round 0 cats Rome", "Again Rome", "Round 1 cats Bergen"] {
        assert!(given.contains(answer), "{answer}: {given}");
    }
    let refused = run_refused(&place, &["--at", "end", "--set", "line=x"]);
    assert!(refused.contains("the workflow has no variable \"line\""), "{refused}");
}

#[test]
fn a_step_that_ran_several_times_is_named_by_its_path() {
    let place = place_with_run("m.mdx", CITIES);
    for name in ["line", "/rounds/phase~1/line"] {
        let refused = run_refused(&place, &["--at", name]);
        assert!(refused.contains("2 steps of the run are named /") && refused.contains("[0]/"), "{refused}");
        assert!(refused.contains("[1]/") && !refused.contains("continue the run"), "{refused}");
    }
}

#[test]
fn a_condition_is_named_by_the_end_of_its_path() {
    let text = "---\ntitle: T\n---\n\nFirst.\n\n<GenText as=\"a\" model=\"\" />\n\n<Cond as=\"c\" if={a !== ''} provide={{ a }}>\n  \
        Yes {a}\n\n  <GenText as=\"x\" model=\"\" />\n</Cond>\n\nEnd.\n\n<GenText as=\"e\" model=\"\" />\n";
    let place = place_with_run("c.mdx", text);
    let forked = place.run(&["fork", "last", "--at", "/c"]);
    assert!(
        exit_code(&forked) == 0 && stderr_text(&forked).contains("1 step from its record, 2 performed"),
        "{forked:?}"
    );
    let refused = run_refused(&place, &["--at", "/a#2"]);
    assert!(refused.contains("the run has no step /a#2") && !refused.contains("continue the run"), "{refused}");
}

#[test]
fn an_edit_of_a_shared_block_names_the_other_steps() {
    let block = json!({"id": "say", "name": "Say", "description": "d", "category": "process", "execution_type": "llm",
        "input_schema": {"type": "object", "properties": {}},
        "output_schema": {"type": "object", "properties": {"o": {"type": "string"}}}, "prompt_template": "Say."});
    let nodes = ["n1", "n2"].map(|id| json!({"id": id, "block_id": "say", "inputs": {}}));
    let edges: [serde_json::Value; 0] = [];
    let text = json!({"id": "sh", "name": "Sh", "nodes": nodes, "edges": edges, "blocks": [block]}).to_string();
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    place.write("answers.json", r#"{"match": [], "default": "{\"o\": \"x\"}"}"#);
    place.write("p.json", &text);
    assert_eq!(exit_code(&place.run(&["run", "p.json"])), 0);
    let forked = place.run(&["fork", "last", "--at", "n2", "--edit", "n2.prompt=Sing."]);
    let shown = stderr_text(&forked);
    assert!(shown.contains("the edit of /n2 also changes the prompt of n1"), "{shown}");
}

#[test]
fn what_is_no_input_is_not_set_as_one() {
    let place = place_with_run("m.mdx", CITIES);
    let refused = run_refused(&place, &["--set", "kind=X"]);
    assert!(refused.contains("the workflow has no input \"kind\"; its inputs are topic"), "{refused}");
    let given = fork_first(&place, &["--set", "topic=dogs"]);
    assert!(given.contains("Round 0 dogs Oslo"), "{given}");
}

/// A fork of a fork keeps the variables that were set, unless something before it is performed: then the new values are
/// used.
#[test]
fn a_fork_of_a_fork_keeps_the_values_that_were_set_before_it_begins() {
    let step = |name: &str, prompt: &str| json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "promptTemplate": prompt, "outputVar": name});
    let steps = [step("draft", "draft {{input}}"), step("better", "better {{draft}}"), step("end", "end {{better}}")];
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("s.json", &json!({"id": "s", "name": "S", "steps": steps}).to_string());
    assert_eq!(exit_code(&place.run(&["run", "s.json", "-i", "input=lamps"])), 0);
    let fork = |run: &str, arguments: &[&str]| {
        let (code, forked) = place.run_json(&[&["fork", run], arguments].concat());
        assert_eq!(code, 0, "{forked}");
        let id = forked["run_id"].as_str().expect("an id").to_owned();
        let shown = place.run_json(&["show", &id]).1;
        (id, shown["output"].as_str().expect("a text").to_owned())
    };
    let (first, output) = fork("last", &["--at", "/better", "--set", "draft=MINE"]);
    assert_eq!(output, "LLM(end LLM(better MINE))");
    let (_, output) = fork(&first, &["--edit", "/end.prompt=stop {{better}}"]);
    assert_eq!(output, "LLM(stop LLM(better MINE))", "nothing before the value is performed");
    let (second, output) = fork(&first, &["--set", "input=boats"]);
    assert_eq!(output, "LLM(end LLM(better LLM(draft boats)))", "the draft is another one");
    let (_, output) = fork(&first, &["--edit", "/draft.prompt=sketch {{input}}", "--at", "/end"]);
    assert_eq!(output, "LLM(end LLM(better LLM(sketch lamps)))", "the fork begins before --at");
    let (_, output) = fork(&second, &["--edit", "/end.prompt=stop {{better}}"]);
    assert_eq!(output, "LLM(stop LLM(better LLM(draft boats)))", "what a fork has not kept does not come back");
}

#[test]
fn a_message_that_began_the_conversation_is_not_set_later() {
    let graph = json!({
        "id": "g", "name": "G", "isConversational": true, "entrypointNodeId": "n",
        "nodes": [{"id": "n", "nodeType": "AGENT", "nodeName": "Desk", "agentId": "desk"}],
        "edges": [{"id": "e", "sourceNodeId": "n", "targetNodeId": null, "conditionType": "CONDITIONAL",
            "conditionValue": "END"}],
        "agents": [{"agentId": "desk", "name": "Desk", "prompt": "Help.", "model": "scripted:echo"}],
    });
    let place = Workspace::new("default_model = \"scripted:answers.json\"\n");
    place.write("answers.json", r#"{"match": [], "default": "{\"message\": \"done\", \"nextAgent\": \"END\"}"}"#);
    place.write("g.json", &graph.to_string());
    let run = place.run(&["run", "g.json", "-i", "message=hello"]);
    let shown = place.run_json(&["show", "last"]).1;
    let steps = shown["steps"].as_array().map(Vec::len);
    assert!(steps.is_some_and(|count| count > 0), "{}{shown}", stderr_text(&run));
    let first = shown["steps"][0]["path"].as_str().expect("a path").to_owned();
    let refused = run_refused(&place, &["--at", &first, "--set", "message=OTHER"]);
    assert!(refused.contains("the conversation has begun with \"message\" already"), "{refused}");
}

#[test]
fn a_fork_edits_the_prompt_of_an_agent() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("guide.json", r#"{"agentId": "guide", "systemPrompt": "You are brief.", "tools": []}"#);
    let (code, first) = place.run_json(&["run", "guide.json", "-i", "message=hi"]);
    assert_eq!(code, 0, "{first}");
    let id = first["run_id"].as_str().expect("an id");
    for step in ["/", "/turn~1[0]"] {
        let (code, forked) = place.run_json(&["fork", id, "--edit", &format!("{step}.prompt=You are kind.")]);
        assert_eq!(code, 0, "{step}: {forked}");
        let shown = String::from_utf8(place.run(&["show", "last", "-v"]).stdout).expect("UTF-8");
        assert!(shown.contains("[system] You are kind."), "{step}: {shown}");
    }
}

/// No input is lost unnoticed when the other definition has other inputs.
#[test]
fn inputs_that_another_definition_does_not_read_are_refused() {
    let flow = |name: &str| {
        let variables = json!([{"name": name, "value": "default"}]);
        json!({"name": "F", "description": "d", "steps": [{"type": "start", "config": {"variables": variables}},
            {"type": "llmInstruction", "config": {"instruction": format!("Say ${{{name}}}"), "resultVariable": "r"}}]})
        .to_string()
    };
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("f1.json", &flow("topic"));
    place.write("f2.json", &flow("subject"));
    place.write("graph.json", include_str!("../../../examples/graph/helpdesk.json"));
    let list = json!({"id": "l", "name": "L", "steps": [
        {"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "Say {{input}}"}]});
    place.write("list.json", &list.to_string());
    assert_eq!(exit_code(&place.run(&["run", "f1.json", "-i", "topic=mine"])), 0);
    let refused = run_refused(&place, &["--definition", "f2.json"]);
    assert!(refused.contains("does not read topic of this run; it has subject"), "{refused}");
    let (code, forked) = place.run_json(&["fork", "last", "--definition", "f2.json", "--set", "subject=yours"]);
    assert_eq!((code, &forked["output"]), (0, &json!("LLM(Say yours)")), "{forked}");
    assert_eq!(exit_code(&place.run(&["run", "list.json", "-i", "input=lamps"])), 0);
    let refused = run_refused(&place, &["--definition", "f2.json"]);
    assert!(refused.contains("the input of this run has no name, and the definition has subject"), "{refused}");
    let refused = run_refused(&place, &["--definition", "graph.json"]);
    assert!(refused.contains("there is no message to answer"), "{refused}");
    let refused = place.run(&["fork", "last", "--model", "openai:gpt-4o"]);
    assert!(exit_code(&refused) != 0 && stderr_text(&refused).contains("error[FL1012]"), "{}", stderr_text(&refused));
    assert_eq!(place.run_json(&["runs"]).1.as_array().map(Vec::len), Some(3), "nothing was started");
    let wrong = run_refused(&place, &["--set", "sentence"]);
    assert!(wrong.contains("--set expects name=value"), "{wrong}");
}
