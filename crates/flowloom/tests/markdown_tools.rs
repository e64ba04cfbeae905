//! Tools of Markdown actions: built-in ones, lists that an expression chooses, and the example workflows of Agentflow
//! (`tests/agentflow`, under its license, Apache 2.0), which save files.

mod support;

use serde_json::{Value, json};
use support::{Workspace, exit_code, stderr_text};

/// The models that the examples name, answered from the script `model.json`.
const CONFIG: &str = "[files]\nroot = \"out\"\n[models.alias]\n\"*\" = \"scripted:model.json\"\n";

/// A workspace whose model answers from `script`.
fn create_workspace(script: &Value) -> Workspace {
    let place = Workspace::new(CONFIG);
    std::fs::create_dir(place.path("out")).expect("a folder");
    place.write("model.json", &script.to_string());
    place
}

fn save_call(file: &str, text: &str) -> Value {
    json!({"text": "", "tool_calls": [{"name": "write_files", "arguments": {"files": {file: text}}}]})
}

/// Runs an example with the answers of a model. Returns the results of its actions, and the place.
fn run_example(name: &str, text: &str, answers: &Value, inputs: &[&str]) -> (Value, Workspace) {
    let place = create_workspace(answers);
    place.write(name, text);
    std::fs::write(place.path("x.gif"), b"GIF89a\x01\x00\x01\x00\x00\x00\x00;").expect("written");
    let given = inputs.iter().flat_map(|input| ["-i", input]);
    let arguments: Vec<&str> = ["run", name].into_iter().chain(given).collect();
    let (code, output) = place.run_json(&arguments);
    assert_eq!(code, 0, "{name}: {output}");
    (output["result"]["results"].clone(), place)
}

#[test]
fn the_examples_of_agentflow_run() {
    let greeted = json!(["Hello, Ann!"]);
    let style = ["name=Ann", "style=Confused alien"];
    let (results, _) = run_example("hello.mdx", include_str!("agentflow/hello-world.mdx"), &greeted, &style);
    assert_eq!(results["greeting"], "Hello, Ann!");

    let reviewed = json!(["A joke.", {"json": {"review": "Fine.", "score": 4}}]);
    let (results, _) = run_example("joke.mdx", include_str!("agentflow/joke-review.mdx"), &reviewed, &[]);
    assert_eq!(results, json!({"joke": "A joke.", "review": {"review": "Fine.", "score": 4}}));

    let described = json!(["A beach.", "One star."]);
    let trip = include_str!("agentflow/trip-advisor-review.mdx");
    let (results, _) = run_example("trip.mdx", trip, &described, &["image=@x.gif"]);
    assert_eq!(results, json!({"description": "A beach.", "review": "One star."}));

    let written = json!(["Ann", "Bob", "Cid", save_call("story.txt", "Once."), "It is saved."]);
    let (results, place) = run_example("story.mdx", include_str!("agentflow/story-gen.mdx"), &written, &["theme=tea"]);
    assert_eq!(results["story"], "It is saved.");
    assert_eq!(std::fs::read_to_string(place.path("out/story.txt")).expect("the story"), "Once.");

    let done = |is_complete: bool| json!({"json": {"isComplete": is_complete}});
    let solved =
        json!(["first", "r1", done(false), "second", "r2", done(true), save_call("a/plan.md", "All."), "Saved."]);
    let (results, place) = run_example("maestro.mdx", include_str!("agentflow/maestro.mdx"), &solved, &["objective=x"]);
    assert_eq!((&results["final"], results["loop"].as_array().map(Vec::len)), (&json!("Saved."), Some(2)));
    assert_eq!(std::fs::read_to_string(place.path("out/a/plan.md")).expect("the plan"), "All.");
}

#[test]
fn built_in_functions_are_tools_under_both_names() {
    let call = json!({"text": "", "tool_calls": [{"name": "tool_file_write", "arguments": {"path": "a.txt", "content": "A"}}]});
    for name in ["tool::file_write", "tool_file_write"] {
        let place = create_workspace(&json!([call, "done"]));
        place.write("w.mdx", &format!("Save it.\n\n<GenText as=\"s\" model=\"m:x\" tools={{['{name}']}} />\n"));
        let (code, output) = place.run_json(&["run", "w.mdx"]);
        assert_eq!((code, &output["result"]["results"]["s"]), (0, &json!("done")), "{name}: {output}");
        assert_eq!(std::fs::read_to_string(place.path("out/a.txt")).expect("the file"), "A", "{name}");
    }
    let place = create_workspace(&json!([]));
    place.write("w.mdx", "Save it.\n\n<GenText as=\"s\" model=\"m:x\" tools={['write_file']} />\n");
    let refused = place.run(&["check", "w.mdx"]);
    assert!(stderr_text(&refused).contains("did you mean write_files?"), "{}", stderr_text(&refused));
}

#[test]
fn an_expression_chooses_among_the_tools_that_it_can_name() {
    let answers = json!([save_call("a.txt", "A"), "done"]);
    let run = |head: &str, tools: &str, inputs: &[&str]| {
        let place = create_workspace(&answers);
        place.write(
            "w.mdx",
            &format!("---\n{head}\n---\n\nSave it.\n\n<GenText as=\"s\" model=\"m:x\" tools={{{tools}}} />\n"),
        );
        let given = inputs.iter().flat_map(|input| ["-i", input]);
        let arguments: Vec<&str> = ["run", "w.mdx"].into_iter().chain(given).collect();
        let (code, output) = place.run_json(&arguments);
        (code, output, place.path("out/a.txt").exists())
    };
    let (code, output, is_saved) = run("data: {tl: [write_files]}", "tl", &[]);
    assert!(code == 0 && is_saved, "{output}");
    let choice = "input: {deep: {type: text, format: boolean}}";
    let (code, output, is_saved) = run(choice, "deep ? ['write_files'] : ['tool::file_read']", &["deep=true"]);
    assert!(code == 0 && is_saved, "{output}");
    // A tool that this call does not offer is not called.
    let (code, output, is_saved) = run(choice, "deep ? ['write_files'] : ['tool::file_read']", &["deep=false"]);
    assert!(code == 0 && !is_saved, "{output}");
    let any = "input: {tl: {type: array}}";
    let (code, output, is_saved) = run(any, "tl", &["tl=[\"write_files\"]"]);
    assert!(code == 0 && is_saved, "{output}");
    let (code, output, _) = run(any, "tl", &["tl=[\"author::create\"]"]);
    assert_ne!(code, 0);
    assert!(output["error"]["message"].to_string().contains("there is no tool author::create"), "{output}");
    let (code, output, _) = run("data: {tl: [write_files, nobody]}", "tl", &[]);
    assert_eq!(code, 2, "the names are known before the run: {output}");
}

#[test]
fn check_warns_about_every_tool_that_an_expression_can_choose() {
    let place = create_workspace(&json!([]));
    let warnings = |tools: &str| {
        place.write("w.mdx", &format!("---\ninput: {{tl: {{type: array}}}}\n---\n\nGo.\n\n<GenText as=\"s\" model=\"m:x\" tools={{{tools}}} />\n"));
        let checked = place.run(&["check", "w.mdx"]);
        assert_eq!(exit_code(&checked), 0, "{}", stderr_text(&checked));
        stderr_text(&checked).matches("FL0121").count()
    };
    assert_eq!(warnings("tl.length ? ['tool::file_read'] : []"), 0);
    assert_eq!(warnings("tl.length ? ['tool::web_fetch', 'write_files'] : []"), 1);
    assert!(warnings("tl") >= 4, "any tool may be meant");
}

/// The digits that a number loses in JavaScript are reported, with the place.
#[test]
fn a_number_that_javascript_rounds_is_reported() {
    let place = create_workspace(&json!(["one", "two"]));
    let data = "data: {ids: [9007199254740993, 7, 0.5], other: [1.50, 9007199254740994]}";
    place.write(
        "n.mdx",
        &format!("---\n{data}\n---\n\n{{ids.join(\", \")}} {{ids[0]}} {{other.join(\" \")}}\n\n<GenText as=\"s\" model=\"m:x\" />\n"),
    );
    let ran = place.run(&["run", "n.mdx"]);
    let printed = stderr_text(&ran);
    assert_eq!(exit_code(&ran), 0, "{printed}");
    let warning = "n.mdx:5:2: 9007199254740993 is 9007199254740992 in ids.join";
    assert!(printed.contains(warning) && printed.contains("quotes"), "{printed}");
    assert!(!printed.contains("9007199254740994"), "{printed}");
    let (_, shown) = place.run_json(&["show", "last"]);
    assert!(shown.to_string().contains(warning), "{shown}");
    // Without a step behind it, it is reported at the end of the run.
    place.write("end.mdx", &format!("---\n{data}\n---\n\n{{ids.map(i => i).length}}\n"));
    let ran = place.run(&["run", "end.mdx"]);
    assert!(stderr_text(&ran).contains("9007199254740993 is"), "{}", stderr_text(&ran));
}

/// A list without items adds nothing to a text, wherever it is.
#[test]
fn an_empty_list_adds_nothing_to_a_text() {
    let place = Workspace::new("");
    let text = "---\ndata: {e: [], rows: [{n: a, t: []}, {n: b, t: [x]}]}\n---\n\nTop {e}. \
        {rows.map(r => <>{r.n}: {r.t.map(t => <>#{t}</>)}{e}.</>)} {e.map(x => <>{x}</>)}\n\n{e}\n\n{rows[0].t.map(t => <>#{t}</>)}\n\n\
        <GenText as=\"s\" model=\"scripted:echo\" />\n";
    place.write("e.mdx", text);
    let (code, output) = place.run_json(&["run", "e.mdx"]);
    assert_eq!(code, 0, "{output}");
    assert_eq!(output["result"]["results"]["s"], "LLM(Top . a: .\nb: #x. )");
}
