//! The OpenAI-compatible API: inputs, streaming, conversations, client tools, errors, and disconnecting clients.

mod support;

use std::net::TcpStream;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::model::StreamingModel;
use support::openai::{
    CHAT_PATH, JSON_CONTENT_TYPE, answer_text, chat_request, check_error, chunk_texts, open_stream, step_json,
    steps_json, write_graph,
};
use support::{Workspace, exit_code};

#[test]
fn words_come_as_the_model_says_them() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("one.json", &steps_json("one", json!([step_json("s", "Say {{input}}")])));
    let server = RunningServer::start(&place, &[]);
    let mut body = chat_request("one", "hi");
    body["stream_options"] = json!({"include_usage": true});
    let (status, chunks) = open_stream(&server, CHAT_PATH, body);
    assert_eq!(status, 200);
    let mut chunks = chunks.map(|chunk| serde_json::from_str::<Value>(&chunk).unwrap_or(Value::Null));
    let mut next = || chunks.next().expect("a chunk");
    let first = next();
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    for piece in ["Hällo ", "wörld", " → "] {
        // The model continues only after this piece has arrived.
        model.send_piece(piece);
        let chunk = next();
        assert_eq!(chunk["choices"][0]["delta"]["content"], piece);
        assert_eq!((&chunk["id"], &chunk["model"]), (&first["id"], &json!("one")));
    }
    model.end_answer();
    assert_eq!(next()["choices"][0], json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    let last = next();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{last}");
    assert_eq!(next(), Value::Null, "[DONE]");
}

#[test]
fn an_answer_that_was_cut_says_so() {
    for is_streamed in [false, true] {
        let model = StreamingModel::start();
        let place = Workspace::new(&model.config());
        place.write("one.json", &steps_json("one", json!([step_json("s", "Say {{input}}")])));
        let server = RunningServer::start(&place, &[]);
        model.send_piece("Once upon a");
        model.cut_answer();
        let reason = match is_streamed {
            false => server.post(CHAT_PATH, &chat_request("one", "hi")).json()["choices"][0]["finish_reason"].clone(),
            true => {
                let (_, chunks) = open_stream(&server, CHAT_PATH, chat_request("one", "hi"));
                let chunks = chunks.filter_map(|chunk| serde_json::from_str::<Value>(&chunk).ok());
                let mut reasons = chunks.map(|chunk| chunk["choices"][0]["finish_reason"].clone());
                reasons.find(|reason| !reason.is_null()).unwrap_or_default()
            }
        };
        assert_eq!(reason, "length", "streamed: {is_streamed}");
    }
}

#[test]
fn only_the_answer_is_streamed_and_only_once() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("two.json", &steps_json("two", json!([step_json("a", "A {{input}}"), step_json("b", "B {{input}}")])));
    let mut again = step_json("s", "S {{input}}");
    again["errorMode"] = "retry".into();
    place.write("again.json", &steps_json("again", json!([again])));
    place.write("doc.mdx", "---\ninput:\n  topic: {type: text, message: 'What?'}\n---\n\nSay {topic}.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    let server = RunningServer::start(&place, &[]);
    let printed = |model: &str| chunk_texts(open_stream(&server, CHAT_PATH, chat_request(model, "hi")).1);
    assert_eq!(printed("two"), ["LLM(B LLM(A hi))"], "output of the first step is not part of the answer");
    assert_eq!(printed("again"), ["LLM(S hi)"]);
    assert_eq!(printed("doc"), ["Say hi.\n\nLLM(Say hi.)"]);
    for model in ["two", "again", "doc"] {
        let whole = server.post(CHAT_PATH, &chat_request(model, "hi"));
        assert_eq!(answer_text(&whole), printed(model).concat(), "{model}");
    }
}

#[test]
fn a_message_finds_its_input() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("doc.mdx", "---\ninput:\n  tone: {type: text, message: 'Tone?', default: kind}\n  topic: {type: text, message: 'What?'}\n---\n\nSay {topic}, {tone}.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    place.write("two.mdx", "---\ninput:\n  a: {type: text, message: 'A?'}\n  b: {type: text, message: 'B?'}\n---\n\n{a} and {b}\n\n<GenText as=\"c\" model=\"scripted:echo\" />\n");
    place.write("list.json", &steps_json("list", json!([step_json("s", "{{input}}")])));
    let server = RunningServer::start(&place, &[]);
    let call = |body: &Value| server.post(CHAT_PATH, body);
    assert!(
        answer_text(&call(&chat_request("doc", "tea"))).ends_with("LLM(Say tea, kind.)"),
        "the only required input"
    );
    assert!(
        answer_text(&call(&chat_request("doc", r#"{"topic": "tea", "tone": "cold"}"#)))
            .ends_with("LLM(Say tea, cold.)")
    );
    let mut body = chat_request("two", "tea");
    assert_eq!(check_error(&call(&body), 400, "invalid_request_error").split(';').next(), Some("missing inputs: b"));
    body["metadata"] = json!({"a": "milk", "other": "x"});
    assert!(answer_text(&call(&body)).ends_with("LLM(milk and tea)"), "metadata provides inputs");
    let parts = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "old"}, {"role": "assistant", "content": null}, {"role": "user", "content": parts}]);
    assert_eq!(
        answer_text(&call(&json!({"model": "list", "messages": messages, "temperature": 0.1, "unknown": [1]}))),
        "LLM(one\ntwo)"
    );
    let picture = json!([{"type": "image_url", "image_url": {"url": "data:,"}}]);
    let output = check_error(
        &call(&json!({"model": "list", "messages": [{"role": "user", "content": picture}]})),
        400,
        "invalid_request_error",
    );
    assert!(output.contains("image_url"), "{output}");
    let mut several = chat_request("list", "x");
    several["n"] = 2.into();
    check_error(&call(&several), 400, "invalid_request_error");
}

fn handoff_answer() -> Value {
    json!({"text": "One moment.", "tool_calls": [{"name": "router", "arguments": {"next_node": "human_handoff"}}]})
}

#[test]
fn a_conversation_is_stored_or_sent_each_time() {
    let place = Workspace::new("");
    let script = json!({"match": [{"contains": "person", "answer": handoff_answer()}, {"contains": "first", "answer": "I know the first."}], "default": "Hello."});
    write_graph(&place, &script, json!([]));
    let server = RunningServer::start(&place, &[]);
    let send_text = |text: &str, headers: &[&str], metadata: Value| {
        let mut body = chat_request("talk", text);
        body["metadata"] = metadata;
        answer_text(&server.send_and_read(
            "POST",
            CHAT_PATH,
            &[&[JSON_CONTENT_TYPE], headers].concat(),
            &body.to_string(),
        ))
    };
    assert_eq!(send_text("hi", &[], json!({"thread": "t1"})), "Hello.");
    assert_eq!(send_text("first", &[], json!({"thread_id": "t1"})), "I know the first.");
    assert_eq!(
        send_text("and?", &["x-flowloom-thread: t1"], Value::Null),
        "I know the first.",
        "earlier messages are included"
    );
    assert_eq!(
        send_text("and?", &["x-flowloom-thread: t2"], json!({"thread": "t1"})),
        "I know the first.",
        "metadata takes precedence"
    );
    assert_eq!(send_text("and?", &[], Value::Null), "Hello.", "without a thread there are no earlier messages");
    let printed = server.get("/api/v1/threads/talk/t1").json();
    assert_eq!(printed["messages"].as_array().map(Vec::len), Some(8), "{printed}");
    let history = json!([{"role": "user", "content": "first"}, {"role": "assistant", "content": "Hm."}, {"role": "user", "content": "and?"}]);
    assert_eq!(
        answer_text(&server.post(CHAT_PATH, &json!({"model": "talk", "messages": history}))),
        "I know the first."
    );
    check_error(
        &server.send_and_read(
            "POST",
            CHAT_PATH,
            &[JSON_CONTENT_TYPE, "x-flowloom-thread: a b"],
            &chat_request("talk", "x").to_string(),
        ),
        400,
        "invalid_request_error",
    );
}

#[test]
fn who_waits_for_a_person_says_so_and_takes_the_next_message() {
    let place = Workspace::new("");
    let script = json!({"match": [{"contains": "Call back", "answer": "We do."}], "default": handoff_answer()});
    write_graph(&place, &script, json!([]));
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let server = RunningServer::start(&place, &[]);
    let send_text = |text: &str| {
        let mut body = chat_request("talk", text);
        body["metadata"] = json!({"thread": "t"});
        server.post(CHAT_PATH, &body)
    };
    let asked = send_text("I want a person");
    let text = answer_text(&asked);
    assert!(text.starts_with("One moment.\n\nA person is needed here") && text.contains("your next message"), "{text}");
    assert_eq!(asked.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer_text(&send_text("Call back")), "We do.");
    let asked = server.post(CHAT_PATH, &chat_request("ask-a-person", "x"));
    let run = asked.json()["id"].as_str().and_then(|id| id.strip_prefix("chatcmpl-")).expect("an id").to_owned();
    assert!(asked.head.contains(&format!("x-flowloom-run-id: {run}")), "{asked:?}");
    assert!(answer_text(&asked).contains(&format!("POST /api/v1/runs/{run}/answer")), "{asked:?}");
}

/// In a thread the next message is the answer, also to a step list, which is no conversation.
#[test]
fn a_step_list_takes_the_next_message_of_its_thread() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let server = RunningServer::start(&place, &[]);
    let send = |text: &str, thread: &str, headers: &[&str]| {
        let mut body = chat_request("ask-a-person", text);
        body["metadata"] = json!({"thread": thread});
        let headers: Vec<&str> = [JSON_CONTENT_TYPE].iter().chain(headers).copied().collect();
        server.send_and_read("POST", CHAT_PATH, &headers, &body.to_string())
    };
    for thread in ["a", "b"] {
        assert!(answer_text(&send("x", thread, &[])).contains("waits for your next message"));
    }
    let key = ["Idempotency-Key: k1"];
    let answered = send("snow", "b", &key);
    assert!(answer_text(&answered).contains("snow"), "{answered:?}");
    let again = send("snow", "b", &key);
    assert_eq!(again.json(), answered.json(), "it counts once");
    assert!(
        answer_text(&send("y", "b", &[])).contains("waits for your next message"),
        "a message after the end starts a run"
    );
    assert!(answer_text(&send("fog", "a", &[])).contains("fog"));

    let create = |input: &str| {
        let body = json!({"model": "ask-a-person", "input": input, "conversation": {"id": "c"}});
        server.post("/v1/responses", &body).json()
    };
    let (asked, answered) = (create("x"), create("rain"));
    assert!(answered["output"].to_string().contains("rain"), "{answered}");
    let run = |response: &Value| response["id"].as_str().unwrap_or_default().split('_').nth(1).map(str::to_owned);
    assert_eq!(run(&asked), run(&answered));
    let stored = server.get(&format!("/v1/responses/{}", asked["id"].as_str().expect("an id"))).json();
    for response in [&asked, &answered, &stored] {
        assert_eq!(response["conversation"], json!({"id": "c"}), "{response}");
    }
    let both = json!({"model": "ask-a-person", "input": "x", "conversation": "c", "previous_response_id": asked["id"]});
    check_error(&server.post("/v1/responses", &both), 400, "invalid_request_error");
}

#[test]
fn a_person_allows_a_call_in_words() {
    let place = Workspace::new("");
    let call = json!({"text": "", "tool_calls": [{"name": "weather", "arguments": {}}]});
    let script = json!({"match": [{"contains": "did not allow", "answer": "As you like."}], "default": call});
    let tool = json!({"name": "weather", "execution_location": "client", "needsApproval": true});
    write_graph(&place, &script, json!([tool]));
    let server = RunningServer::start(&place, &[]);
    let send_text = |text: &str, thread: &str| {
        let mut body = chat_request("talk", text);
        body["metadata"] = json!({"thread": thread});
        server.post(CHAT_PATH, &body)
    };
    for thread in ["a", "b"] {
        assert!(answer_text(&send_text("How is it?", thread)).starts_with("Allow weather with {}?"));
    }
    assert_eq!(answer_text(&send_text("no", "a")), "As you like.");
    assert_eq!(send_text("Yes", "b").json()["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn responses_continue_from_one_another() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let script = json!({"match": [{"contains": "first", "answer": "I know the first."}], "default": "Hello."});
    write_graph(&place, &script, json!([]));
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let server = RunningServer::start(&place, &[]);
    let create = |model: &str, input: &str, previous: &Value| {
        let reply =
            server.post("/v1/responses", &json!({"model": model, "input": input, "previous_response_id": previous}));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let text = |response: &Value| response["output"][0]["content"][0]["text"].as_str().expect("a text").to_owned();
    let first = create("talk", "first", &Value::Null);
    let second = create("talk", "and?", &first["id"]);
    assert_eq!((text(&second).as_str(), &second["previous_response_id"]), ("I know the first.", &first["id"]));
    assert_eq!(text(&create("talk", "and?", &Value::Null)), "Hello.");
    let asked = create("ask-a-person", "x", &Value::Null);
    let answered = create("ask-a-person", "tea", &asked["id"]);
    let id = format!("{}_1", asked["id"].as_str().expect("an id"));
    assert!(text(&answered).contains("tea") && answered["id"] == json!(id), "the same run continues: {answered}");
    assert_eq!(server.get(&format!("/v1/responses/{id}")).json()["output"], answered["output"]);
    let streamed = server.get(&format!("/v1/responses/{id}?stream=true")).body;
    let last = streamed.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().expect("events");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&last["type"], &last["response"]["output"]), (&json!("response.completed"), &answered["output"]));
    assert_eq!(server.get(&format!("/v1/responses/{id}?stream=true&starting_after=1")).status, 400);
    let shown = server.get(&format!("/v1/responses/{}", first["id"].as_str().expect("an id"))).json();
    assert_eq!(
        (&shown["output"], &shown["usage"], &shown["status"]),
        (&first["output"], &first["usage"], &json!("completed"))
    );
    let nobody = json!({"model": "talk", "input": "x", "previous_response_id": "resp_x"});
    check_error(&server.post("/v1/responses", &nobody), 404, "not_found_error");
    let other = json!({"model": "ask-a-person", "input": "x", "previous_response_id": first["id"]});
    check_error(&server.post("/v1/responses", &other), 400, "invalid_request_error");
}

#[test]
fn errors_have_the_shape_that_clients_read() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("hello.json", &steps_json("hello", json!([step_json("s", "{{input}}")])));
    let script = place.write("script.json", &json!({"default": {"error": "boom"}}).to_string());
    place.write("fails.mdx", &format!("Hi.\n\n<GenText as=\"a\" model=\"scripted:{}\" />\n", script.display()));
    let output = place.run(&["keys", "create", "--name", "k", "--user", "ann", "--scopes", "run"]);
    assert_eq!(exit_code(&output), 0);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&output.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    let post = |key: &str, body: &str| server.send_and_read("POST", CHAT_PATH, &[JSON_CONTENT_TYPE, key], body);
    let hi = |model: &str| chat_request(model, "hi").to_string();
    check_error(&server.post(CHAT_PATH, &chat_request("hello", "hi")), 401, "authentication_error");
    check_error(&post("Authorization: Bearer sk-other", &hi("hello")), 401, "authentication_error");
    check_error(&server.send_and_read("GET", "/v1/models", &[&key], ""), 403, "permission_error");
    assert_eq!(answer_text(&post(&key, &hi("hello"))), "LLM(hi)");
    check_error(&post(&key, &hi("nope")), 404, "not_found_error");
    check_error(&post(&key, "{"), 400, "invalid_request_error");
    check_error(&post(&key, "{}"), 400, "invalid_request_error");
    check_error(&server.send_and_read("GET", "/v1/embeddings", &[&key], ""), 404, "not_found_error");
    check_error(&server.send_and_read("DELETE", CHAT_PATH, &[&key], ""), 405, "invalid_request_error");
    check_error(
        &server.send_and_read("POST", CHAT_PATH, &["Content-Type: text/plain", &key], "x"),
        415,
        "invalid_request_error",
    );
    // Clients must not retry this status, since each retry would start a run.
    assert_eq!(check_error(&post(&key, &hi("fails")), 422, "invalid_request_error"), "boom");
    let mut body = chat_request("fails", "hi");
    body["stream"] = true.into();
    let chunks = post(&key, &body.to_string()).body;
    let events: Vec<&str> = chunks.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let error: Value = serde_json::from_str(events[events.len() - 2]).expect("JSON");
    assert_eq!((error["error"]["message"].as_str(), events.last()), (Some("boom"), Some(&"[DONE]")), "{chunks}");
}

#[test]
fn parameters_that_would_be_ignored_are_refused() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("hello.json", &steps_json("hello", json!([step_json("s", "{{input}}")])));
    let server = RunningServer::start(&place, &[]);
    for (name, value, status) in [
        ("n", json!(0), 400),
        ("n", json!(2), 400),
        ("n", json!(1), 200),
        ("n", Value::Null, 200),
        ("metadata", json!({"thread": 5}), 400),
        ("metadata", json!({"thread_id": ["t"]}), 400),
        ("metadata", json!({"thread": null}), 200),
        ("metadata", json!({"thread": "t"}), 200),
    ] {
        let mut body = chat_request("hello", "hi");
        body[name] = value;
        let answer = server.post(CHAT_PATH, &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    let response = server.post("/v1/responses", &json!({"model": "hello", "input": "hi"})).json();
    let id = response["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/responses/{id}")).json()["id"], id);
    for number in ["0", "1", "9", "x", "+1"] {
        let path = format!("/v1/responses/{id}_{number}");
        check_error(&server.get(&path), 404, "not_found_error");
    }
    let next = json!({"model": "hello", "input": "hi", "previous_response_id": format!("{id}_9")});
    check_error(&server.post("/v1/responses", &next), 404, "not_found_error");
}

#[test]
fn too_many_runs_are_refused_as_clients_expect() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("one.json", &steps_json("one", json!([step_json("s", "{{input}}")])));
    let server = RunningServer::start(&place, &["--max-runs", "1"]);
    let (_, mut chunks) = open_stream(&server, CHAT_PATH, chat_request("one", "hi"));
    chunks.next();
    let reply = server.post(CHAT_PATH, &chat_request("one", "hi"));
    check_error(&reply, 429, "rate_limit_error");
    assert!(reply.head.contains("retry-after: 1"), "{reply:?}");
    model.end_answer();
}

#[test]
fn an_open_server_takes_whatever_key_a_client_sends() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let call = |key: &str| {
        server.send_and_read(
            "POST",
            CHAT_PATH,
            &[JSON_CONTENT_TYPE, &format!("Authorization: Bearer {key}")],
            &chat_request("hello", "hi").to_string(),
        )
    };
    assert_eq!(answer_text(&call("sk-anything")), "LLM(Say hi)");
    check_error(&call("fl_0000"), 401, "authentication_error");
}

/// The final status of the only run.
fn wait_for_status(server: &RunningServer) -> String {
    let run = server.get("/api/v1/runs").json()["items"][0]["run_id"].as_str().expect("a run").to_owned();
    server.stream(&format!("/api/v1/runs/{run}/events"), &[]).for_each(drop);
    server.get(&format!("/api/v1/runs/{run}")).json()["status"].as_str().expect("a status").to_owned()
}

#[test]
fn a_client_that_goes_away_stops_the_run() {
    for (is_stream, key, then) in
        [(true, None, "cancelled"), (false, None, "cancelled"), (true, Some("Idempotency-Key: k"), "succeeded")]
    {
        let model = StreamingModel::start();
        let place = Workspace::new(&model.config());
        place.write("one.json", &steps_json("one", json!([step_json("s", "{{input}}")])));
        let server = RunningServer::start(&place, &[]);
        let mut body = chat_request("one", "hi");
        body["stream"] = is_stream.into();
        let headers: Vec<&str> = [Some(JSON_CONTENT_TYPE), key].into_iter().flatten().collect();
        let client: TcpStream = server.send("POST", CHAT_PATH, &headers, &body.to_string());
        let started = || server.get("/api/v1/runs").json()["items"].as_array().is_some_and(|runs| !runs.is_empty());
        while !started() {
            std::thread::yield_now();
        }
        drop(client);
        if key.is_some() {
            model.end_answer();
        }
        assert_eq!(wait_for_status(&server), then, "{is_stream} {key:?}");
    }
}
