//! Every block of code in the documents that describe the formats, as it stands there: those that are definitions run, or
//! are refused with the codes that `examples/seeds/index.json` lists; the others are fragments.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use std::process::Output;

use support::{Place, exit};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds")
}

/// The blocks below a folder, by their path; what definitions need beside them is none.
fn blocks(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        match path.is_dir() {
            true if matches!(name.as_str(), "blocks" | "agents" | "prompts") => {}
            true => blocks(&path, &format!("{prefix}{name}/"), found),
            false if prefix.is_empty() => {}
            false => {
                found.insert(format!("{prefix}{name}"));
            }
        }
    }
}

#[test]
fn every_block_does_what_the_list_says() {
    let text = std::fs::read_to_string(seeds().join("index.json")).expect("a list");
    let list: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).expect("an object");
    let mut found = BTreeSet::new();
    blocks(&seeds(), "", &mut found);
    assert_eq!(found, list.keys().cloned().collect(), "the list and the folder differ");
    let place = Place::new("");
    for (file, expected) in &list {
        let path = seeds().join(file);
        let path = path.to_str().expect("a path");
        let output = place.run(&["check", "--report", "json", path]);
        let problems: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let problems = problems.as_array().expect("a list").iter();
        let errors: BTreeSet<&str> =
            problems.filter(|p| p["severity"] == "error").filter_map(|p| p["code"].as_str()).collect();
        match expected {
            serde_json::Value::Array(codes) => {
                assert_eq!(errors, codes.iter().filter_map(|code| code.as_str()).collect(), "{file}");
                assert_eq!(exit(&output), 2, "{file}");
            }
            serde_json::Value::String(word) if word == "fine" => assert_eq!(errors, BTreeSet::new(), "{file}"),
            word => assert_eq!(word, "fragment", "{file}"),
        }
    }
}

#[test]
fn the_graph_runs_without_its_dangling_edges() {
    let place = Place::new("");
    let file = seeds().join("graph/01.json");
    let file = file.to_str().expect("a path");
    let output = place.run(&["run", file, "--lenient", "--json", "--model", "scripted:echo", "-i", "message=hello"]);
    assert_eq!(exit(&output), 0);
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(told["result"]["node_trace"], serde_json::json!(["Router"]));
    assert_eq!(told["result"]["end_reason"], "no_edge");
}

/// Mends a seed and runs what came of it.
fn mended(file: &str, inputs: &[&str]) -> serde_json::Value {
    let place = Place::new("");
    let text = std::fs::read_to_string(seeds().join(file)).expect("a seed");
    let copy = place.write("seed.mdx", &text);
    let copy = copy.to_str().expect("a path");
    assert_eq!(exit(&place.run(&["check", "--fix", copy])), 0, "{file}");
    let mut arguments = vec!["run", copy, "--model", "*=scripted:echo"];
    inputs.iter().for_each(|input| arguments.extend(["-i", input]));
    let (code, told) = place.json(&arguments);
    assert_eq!(code, 0, "{file}: {told}");
    told["result"].clone()
}

#[test]
fn markdown_with_flaws_runs_when_they_are_mended() {
    let inputs = ["name=Ada", "instructions=[\"be kind\", \"be short\"]", "preferredModel=openai:gpt-4o"];
    let result = mended("markdown/03.mdx", &inputs);
    let foo = result["results"]["foo"].as_str().expect("a text");
    assert!(foo.contains("Hello Ada!") && foo.contains("- be kind\n- be short"), "{foo}");

    let result = mended(
        "markdown/04.mdx",
        &[r#"items=[{"name":"a","subitems":[{"name":"x"},{"name":"y"}]},{"name":"b","subitems":[]}]"#],
    );
    let output = result["output"].as_str().expect("a text");
    assert!(output.contains("Item: a\nSubitem: x") && output.contains("Item: a\nSubitem: y"), "{output}");
    assert_eq!(result["results"]["outer"].as_array().map(Vec::len), Some(2), "{result}");

    let result = mended("markdown/05.mdx", &["langs=[\"German\", \"French\"]"]);
    let translations = result["results"]["translations"].as_array().expect("a list");
    let texts: Vec<_> = translations.iter().filter_map(|one| one["poem"].as_str()).collect();
    assert!(texts.len() == 2 && texts[0].contains("to German") && texts[1].contains("to French"), "{texts:?}");
}
