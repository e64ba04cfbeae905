//! The block registry over HTTP and on the command line.

mod support;

use serde_json::{Value, json};
use support::embedder::EmbeddingServer;
use support::http::{HttpAnswer, RunningServer};
use support::{TestServer, Workspace, exit_code, stderr_text};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

fn block_json(id: &str, description: &str) -> Value {
    json!({"id": id, "name": id, "description": description, "category": "process", "execution_type": "python",
        "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"y": {"type": "string"}}},
        "source_code": "async def execute(inputs, context):\n    return {'y': inputs['x']}\n"})
}

fn block_ids(found: &Value) -> Vec<&str> {
    found.as_array().expect("a bare list").iter().filter_map(|block| block["id"].as_str()).collect()
}

fn send_delete(server: &RunningServer, path: &str) -> HttpAnswer {
    server.send_and_read("DELETE", path, &[], "")
}

fn search_blocks(server: &RunningServer, words: &str) -> Value {
    server.post("/api/blocks/search", &json!({"query": words})).json()
}

#[test]
fn a_block_is_found_by_what_it_means_and_by_words_when_nobody_makes_vectors() {
    let embedder = EmbeddingServer::start();
    let place = Workspace::new(&embedder.config());
    let server = RunningServer::start(&place, &[]);
    server.post("/api/blocks", &block_json("pets", "Draws a feline."));
    server.post("/api/blocks", &block_json("sum", "Adds one amount to another."));
    embedder.wait_for_text("feline");
    embedder.wait_for_text("amount");
    // An embedding is stored shortly after it was computed.
    let near = std::iter::repeat_with(|| search_blocks(&server, "kitten")).find(|found| *found != json!([]));
    assert_eq!(block_ids(&near.expect("there is always a next")), ["pets"]);
    assert_eq!(
        block_ids(&search_blocks(&server, "how is the weather")),
        Vec::<&str>::new(),
        "unrelated blocks are not found"
    );

    embedder.set_failing(true);
    assert_eq!(block_ids(&search_blocks(&server, "cat")), Vec::<&str>::new(), "full text finds no synonyms");
    assert_eq!(block_ids(&search_blocks(&server, "drawing of felines")), ["pets"]);
    let calls = embedder.call_count();
    assert_eq!(block_ids(&search_blocks(&server, "adding amounts")), ["sum"]);
    assert_eq!(embedder.call_count(), calls, "a model that just failed is not called again at once");
    assert!(server.get("/metrics").body.contains("\nflowloom_embeddings_failing 1\n"));
}

#[test]
fn a_command_makes_the_vectors_that_are_missing_first() {
    let embedder = EmbeddingServer::start();
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    server.post("/api/blocks", &block_json("pets", "Draws a feline."));
    assert_eq!(search_blocks(&server, "kitten"), json!([]), "no model is configured");
    assert!(server.get("/metrics").body.contains("\nflowloom_embeddings_failing 0\n"), "so nobody need be alarmed");
    drop(server);

    let found = place.run(&["blocks", "find", "kitten"]);
    assert!(found.stdout.is_empty() && stderr_text(&found).contains("flowloom models pull"), "{found:?}");
    place.write("flowloom.toml", "[embeddings]\nmodel = \"none\"\n");
    let found = place.run(&["blocks", "find", "kitten"]);
    assert_eq!(
        (exit_code(&found), found.stdout.is_empty(), stderr_text(&found).as_str()),
        (0, true, "no block fits\n")
    );
    place.write("flowloom.toml", &embedder.config());
    let (code, found) = place.run_json(&["blocks", "find", "a kitten"]);
    assert_eq!((code, &found[0]["block"]["id"], &found[0]["fits"]), (0, &json!("pets"), &json!(true)), "{found}");
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    for (name, warning) in
        [("similarity_threshold", ""), ("likeness", "[embeddings] likeness is now called similarity_threshold")]
    {
        let config = embedder.config().replace("[providers", &format!("{name} = 1.1\n[providers"));
        place.write("flowloom.toml", &config);
        assert_eq!(place.run_json(&["blocks", "find", "a kitten"]).1[0]["fits"], json!(false), "{name}");
        assert!(stderr_text(&place.run(&["blocks", "find", "a kitten"])).contains(warning), "{name}");
    }
}

fn send_put(server: &RunningServer, path: &str, block: &Value) -> HttpAnswer {
    server.send_and_read("PUT", path, &["Content-Type: application/json"], &block.to_string())
}

#[test]
fn a_block_is_made_changed_read_as_it_was_and_taken_away() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    assert_eq!(
        send_put(&server, "/api/blocks/b", &block_json("b", "One.")).status,
        404,
        "only existing blocks can be updated"
    );
    assert_eq!(server.post("/api/blocks", &block_json("b", "One.")).status, 200);
    let changed = send_put(&server, "/api/blocks/b", &block_json("b", "Two."));
    assert_eq!((changed.status, &changed.json()["description"]), (200, &json!("Two.")), "{changed:?}");
    assert_eq!(send_put(&server, "/api/blocks/b", &block_json("c", "Two.")).status, 400);

    let mut wrong = block_json("b", "");
    wrong["tags"] = json!("no list");
    wrong["source_code"] = json!(null);
    for refused in [server.post("/api/blocks", &wrong), send_put(&server, "/api/v1/blocks/b", &wrong)] {
        assert_eq!((refused.status, refused.error_code()), (422, "FL0404".to_owned()), "{refused:?}");
        assert_eq!(refused.json()["errors"].as_array().map(Vec::len), Some(3), "{refused:?}");
    }
    let versions = server.get("/api/v1/blocks/b/versions").json();
    let numbers: Vec<&Value> =
        versions["items"].as_array().expect("a list").iter().map(|one| &one["version"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    let first = server.get("/api/v1/blocks/b?version=1").json();
    assert_eq!((&first["definition"]["description"], &first["version"]), (&json!("One."), &json!(1)), "{first}");
    assert_eq!(server.get("/api/v1/blocks/b?version=3").status, 404);
    assert_eq!(send_delete(&server, "/api/blocks/b").status, 204);
    assert_eq!(server.get("/api/blocks/b").status, 404);
    assert_eq!(server.get("/api/v1/blocks/b/versions").json(), versions, "versions outlive the block");
}

#[test]
fn one_of_ones_own_takes_the_place_of_a_built_in_block() {
    let place = Workspace::new(ECHO_CONFIG);
    let server = RunningServer::start(&place, &[]);
    let built_in = server.get("/api/v1/blocks/memory_read").json();
    assert_eq!((&built_in["is_built_in"], &built_in["is_shared"]), (&json!(true), &json!(true)), "{built_in}");
    let all = server.get("/api/v1/blocks").json();
    let named =
        |all: &Value| all["items"].as_array().expect("a list").iter().filter(|one| one["id"] == "memory_read").count();
    assert_eq!(named(&all), 1);
    let gone = send_delete(&server, "/api/blocks/memory_read");
    assert_eq!((gone.status, gone.error_code()), (409, "FL1510".to_owned()), "{gone:?}");

    let node = json!({"id": "n", "block_id": "memory_read", "inputs": {"key": "k", "x": "mine"}});
    let pipeline = json!({"id": "p", "name": "p", "nodes": [node], "edges": []});
    let problems = server.post("/api/pipelines", &pipeline).json()["problems"].clone();
    assert_eq!(problems.as_array().map(Vec::len), Some(1), "the built-in block has no input x: {problems}");
    let ran = || server.post("/api/pipelines/p/run", &json!({})).json()["shared_context"]["n"].clone();
    assert_eq!(ran(), json!({"value": null}));
    assert_eq!(send_put(&server, "/api/blocks/memory_read", &block_json("memory_read", "Mine.")).status, 200);
    assert_eq!(named(&server.get("/api/v1/blocks").json()), 1);
    assert_eq!(ran(), json!({"y": "mine"}), "it applies from the next run on");
    assert_eq!(send_delete(&server, "/api/blocks/memory_read").error_code(), "FL1509", "the pipeline uses it now");
}

#[test]
fn blocks_leave_as_files_and_come_back() {
    let place = Workspace::new("");
    place.write("one.json", &block_json("one", "One.").to_string());
    place.write("two.json", &json!([block_json("two", "Two."), block_json("three", "")]).to_string());
    let refused = place.run(&["blocks", "import", "one.json", "two.json"]);
    assert!(exit_code(&refused) != 0 && stderr_text(&refused).contains("\"three\""), "{refused:?}");
    assert_eq!(place.run(&["blocks", "export", "out"]).stdout, b"", "all or none");
    place.write("two.json", &json!([block_json("two", "Two.")]).to_string());
    let kept = place.run(&["blocks", "import", "one.json", "two.json"]);
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "created one\ncreated two\n");
    place.run(&["blocks", "export", "out"]);
    place.run(&["blocks", "export", "out", "filter"]);
    place.write("out/one.json", "mine");
    let refused = place.run(&["blocks", "export", "out"]);
    let expected = "out/one.json differs from its block; use --force to replace it";
    assert!(exit_code(&refused) == 2 && stderr_text(&refused).contains(expected), "{refused:?}");
    assert_eq!(exit_code(&place.run(&["blocks", "export", "out", "--force"])), 0);
    let again = place.run(&["blocks", "import", "out", "--user", "ann"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), "created filter\ncreated one\ncreated two\n", "{again:?}");
    let (_, shown) = place.run_json(&["blocks", "show", "two"]);
    assert_eq!(shown, block_json("two", "Two."));
    let listed = place.run(&["blocks", "list"]);
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(lines.contains("stored    one ") && lines.contains("built in  for_each "), "{lines}");
    for command in ["show", "remove"] {
        let misspelt = stderr_text(&place.run(&["blocks", command, "filtr"]));
        assert!(misspelt.contains("there is no block filtr; did you mean filter?"), "{misspelt}");
    }
    assert_eq!(exit_code(&place.run(&["blocks", "remove", "one"])), 0);
    assert_eq!(exit_code(&place.run(&["blocks", "show", "one"])), 2);
}

/// Runs one node with a built-in block. Returns the node's output.
fn run_block(place: &Workspace, block: &str, inputs: &Value) -> Value {
    let nodes = json!([{"id": "n", "block_id": block, "inputs": inputs}]);
    place.write("p.json", &json!({"id": "p", "name": "p", "nodes": nodes, "edges": []}).to_string());
    place.run_json(&["run", "p.json"]).1["result"]["results"]["n"].clone()
}

#[test]
fn built_in_blocks_do_what_their_examples_show() {
    let place = Workspace::new(ECHO_CONFIG);
    let (_, all) = place.run_json(&["blocks", "list"]);
    for id in ["filter", "for_each", "notify_push", "memory_write"] {
        let block = all.as_array().expect("a list").iter().find(|block| block["id"] == id).expect(id);
        for example in block["examples"].as_array().expect("examples") {
            assert_eq!(run_block(&place, id, &example["inputs"]), example["outputs"], "{id}");
        }
    }
    let rows = json!([{"n": 3, "s": "x"}, {"n": "10", "s": "yz"}, {"s": null}]);
    let kept = |field: &str, operator: &str, value: Value| {
        let given =
            run_block(&place, "filter", &json!({"items": rows, "field": field, "operator": operator, "value": value}));
        given["items"].as_array().unwrap_or_else(|| panic!("{given}")).clone()
    };
    assert_eq!(kept("n", "gte", json!(10)), [json!({"n": "10", "s": "yz"})], "numeric text counts as a number");
    assert_eq!(kept("n", "eq", json!(10)).len(), 1);
    assert_eq!(kept("n", "ne", json!(3)).len(), 2, "an item without the field is not equal");
    assert_eq!(kept("s", "exists", json!(null)).len(), 2);
    assert_eq!(kept("s", "in", json!(["x"])).len(), 1);
    assert_eq!(kept("s", "matches", json!("^y")).len(), 1);
    assert_eq!(kept("s", "lt", json!(5)), Vec::<Value>::new(), "a text is not less than a number");
    let asked =
        run_block(&place, "for_each", &json!({"items": ["a", "b"], "template": "Say {item}", "ask_model": true}));
    let printed = asked["results"].as_array().unwrap_or_else(|| panic!("{asked}"));
    assert!(printed.len() == 2 && printed[1].as_str().is_some_and(|text| text.contains("Say b")), "{asked}");
}

#[test]
fn built_in_blocks_reach_the_web_through_the_guard() {
    let web = TestServer::start();
    let search = format!("[search]\nprovider = \"searxng\"\nurl = \"http://{}/search\"\n", web.address);
    let place = Workspace::new(&search);
    let found = run_block(&place, "web_search", &json!({"query": "a b"}));
    assert_eq!(found, json!({"results": [], "query_used": "a b", "count": 0}), "its host is allowed implicitly");
    assert_eq!(web.request_count("/search?q=a+b&format=json"), 1);
    let sent = json!({"url": format!("http://{}/things", web.address), "method": "POST", "body": {"a": 1}});
    let refused = run_block(&place, "http_request", &sent);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("egress")), "only for searches: {refused}");
    let place = Workspace::new(&web.egress_config());
    let reply = run_block(&place, "http_request", &sent);
    assert_eq!((&reply["status"], &reply["body"]), (&json!(200), &json!({"path": "/things"})), "{reply}");
    assert_eq!(web.last_body("/things"), "{\"a\":1}");
    let nobody = run_block(&place, "web_search", &json!({"query": "a"}));
    assert!(nobody["error"].as_str().is_some_and(|error| error.contains("[search]")), "{nobody}");
}

/// The built-in blocks of AgentFlow take and give what its own ones do.
#[test]
fn the_blocks_of_agentflow_keep_its_names() {
    let web = TestServer::start();
    let config = format!(
        "[search]\nprovider = \"serper\"\nurl = \"http://{0}/organic\"\n[egress]\nallow = [\"{0}\"]\n",
        web.address
    );
    let place = Workspace::new(&config);
    run_block(&place, "web_search", &json!({"query": "a"}));
    assert_eq!(web.last_body("/organic"), r#"{"q":"a","num":10}"#);
    let url = format!("http://{}/things", web.address);
    let whole = run_block(&place, "web_scrape", &json!({"url": url}));
    assert_eq!(whole, json!({"content": "{\"path\":\"/things\"}", "url": url, "status_code": 200}));
    for length in ["max_length", "max_chars"] {
        let part = run_block(&place, "web_scrape", &json!({"url": url, length: "3"}));
        assert_eq!(part["content"], "{\"p", "{length}");
    }
    place.write(
        "odd.json",
        r#"{"nodes": [{"id": "n", "block_id": "web_scrape", "inputs": {"url": "x", "max_len": 1}}]}"#,
    );
    let checked = place.run(&["check", "odd.json"]);
    assert!(stderr_text(&checked).contains("has no input \"max_len\""), "{}", stderr_text(&checked));
    assert!(stderr_text(&checked).contains("did you mean \"max_length\"?"), "{}", stderr_text(&checked));
}

/// A prompt without a schema accepts every answer, as AgentFlow does.
#[test]
fn a_prompt_without_a_schema_takes_any_answer() {
    let place = Workspace::new("default_model = \"scripted:model.json\"\n");
    place.write("model.json", &json!(["plain words", "Here: {\"mood\": \"glad\"}"]).to_string());
    let block = json!({"id": "ask", "name": "Ask", "execution_type": "llm", "prompt_template": "Say {a}"});
    let nodes = json!([{"id": "n1", "block_id": "ask", "inputs": {"a": "x"}},
        {"id": "n2", "block_id": "ask", "inputs": {"a": "{{n1.raw}}"}}]);
    place.write("p.json", &json!({"id": "p", "name": "p", "blocks": [block], "nodes": nodes, "edges": []}).to_string());
    let (code, output) = place.run_json(&["run", "p.json"]);
    assert_eq!(code, 0, "{output}");
    let results = &output["result"]["results"];
    assert_eq!((&results["n1"], &results["n2"]), (&json!({"raw": "plain words"}), &json!({"mood": "glad"})));
}

#[test]
fn a_pipeline_whose_block_is_not_python_does_not_start() {
    let place = Workspace::new("");
    let block = |id: &str, source: &str| {
        json!({"id": id, "name": id, "description": "d", "execution_type": "python", "source_code": source,
            "input_schema": {"type": "object"}, "output_schema": {"type": "object"}})
    };
    let good = "def execute(inputs, context):\n    context['memory']['ran'] = True\n    return {}\n";
    let blocks = [block("good", good), block("bad", "async def execute(inputs, context)\n    return {}\n")];
    let nodes = json!([{"id": "n1", "block_id": "good", "inputs": {}}, {"id": "n2", "block_id": "bad", "inputs": {}}]);
    place.write("p.json", &json!({"id": "p", "name": "P", "blocks": blocks, "nodes": nodes}).to_string());
    let output = place.run(&["run", "p.json"]);
    assert_eq!(exit_code(&output), 2, "{}", stderr_text(&output));
    assert!(stderr_text(&output).contains("FL0404"), "{}", stderr_text(&output));
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs, json!([]));
}

#[test]
fn a_block_without_its_function_is_found_before_it_runs() {
    let place = Workspace::new("");
    let defines = [
        "def execute(inputs, context):\n    return {}\n",
        "async def execute(inputs, context):\n    return {}\n",
        "if True:\n    execute = lambda inputs, context: {}\n",
        "from json import dumps as execute\n",
        "def make():\n    global execute\n    execute = print\nmake()\n",
        "exec('def execute(inputs, context): return {}')\n",
    ];
    let lacks = [
        "def exekute(inputs, context):\n    return {}\n",
        "class Block:\n    def execute(self, inputs, context):\n        return {}\n",
        "def outer():\n    def execute(inputs, context):\n        return {}\n",
        "x = execute\n",
    ];
    for (source, expected) in defines.map(|source| (source, 0)).into_iter().chain(lacks.map(|source| (source, 2))) {
        let block = json!({"id": "b", "name": "b", "description": "d", "category": "process",
            "execution_type": "python", "input_schema": {}, "output_schema": {}, "source_code": source});
        let pipeline = json!({"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "b"}], "edges": []});
        place.write("p.json", &json!({"pipeline": pipeline, "blocks": [block]}).to_string());
        let checked = place.run(&["check", "p.json"]);
        let printed = stderr_text(&checked);
        assert_eq!(exit_code(&checked), expected, "{source}: {printed}");
        let is_named = printed.contains("\"source_code\" of the block b has no function execute(inputs, context)");
        assert_eq!(is_named, expected == 2, "{source}: {printed}");
    }
}
