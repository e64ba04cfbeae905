//! The registry of blocks, over HTTP and in the terminal.

mod support;

use serde_json::{Value, json};
use support::embedder::Embedder;
use support::http::Serving;
use support::{Place, exit, stderr};

fn block(id: &str, description: &str) -> Value {
    json!({"id": id, "name": id, "description": description, "category": "process", "execution_type": "python",
        "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"y": {"type": "string"}}},
        "source_code": "async def execute(inputs, context):\n    return {'y': inputs['x']}\n"})
}

fn ids(found: &Value) -> Vec<&str> {
    found.as_array().expect("a bare list").iter().filter_map(|block| block["id"].as_str()).collect()
}

fn search(server: &Serving, words: &str) -> Value {
    server.post("/api/blocks/search", &json!({"query": words})).json()
}

#[test]
fn a_block_is_found_by_what_it_means_and_by_words_when_nobody_makes_vectors() {
    let embedder = Embedder::start();
    let place = Place::new(&embedder.config());
    let server = Serving::start(&place, &[]);
    server.post("/api/blocks", &block("pets", "Draws a feline."));
    server.post("/api/blocks", &block("sum", "Adds one amount to another."));
    embedder.wait_for("feline");
    embedder.wait_for("amount");
    // What was made is kept just after it was made.
    let near = std::iter::repeat_with(|| search(&server, "kitten")).find(|found| *found != json!([]));
    assert_eq!(ids(&near.expect("there is always a next")), ["pets"]);
    assert_eq!(ids(&search(&server, "how is the weather")), Vec::<&str>::new(), "what is like nothing is not found");

    embedder.fail(true);
    assert_eq!(ids(&search(&server, "cat")), Vec::<&str>::new(), "words alone know no other words");
    assert_eq!(ids(&search(&server, "drawing of felines")), ["pets"]);
    let calls = embedder.calls();
    assert_eq!(ids(&search(&server, "adding amounts")), ["sum"]);
    assert_eq!(embedder.calls(), calls, "who failed just now is not asked again at once");
    assert!(server.get("/metrics").body.contains("\nflowloom_embeddings_failing 1\n"));
}

#[test]
fn a_command_makes_the_vectors_that_are_missing_first() {
    let embedder = Embedder::start();
    let place = Place::new("");
    let server = Serving::start(&place, &[]);
    server.post("/api/blocks", &block("pets", "Draws a feline."));
    assert_eq!(search(&server, "kitten"), json!([]), "there is no model in this place");
    assert!(server.get("/metrics").body.contains("\nflowloom_embeddings_failing 1\n"));
    drop(server);

    let found = place.run(&["blocks", "find", "kitten"]);
    assert!(found.stdout.is_empty() && stderr(&found).contains("flowloom models pull"), "{found:?}");
    place.write("flowloom.toml", "[embeddings]\nmodel = \"none\"\n");
    let found = place.run(&["blocks", "find", "kitten"]);
    assert_eq!((exit(&found), found.stdout.is_empty(), stderr(&found).as_str()), (0, true, ""));
    place.write("flowloom.toml", &embedder.config());
    let (code, found) = place.json(&["blocks", "find", "a kitten"]);
    assert_eq!((code, &found[0]["block"]["id"], &found[0]["fits"]), (0, &json!("pets"), &json!(true)), "{found}");
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    place.write("flowloom.toml", &embedder.config().replace("[providers", "likeness = 1.1\n[providers"));
    assert_eq!(place.json(&["blocks", "find", "a kitten"]).1[0]["fits"], json!(false));
}
