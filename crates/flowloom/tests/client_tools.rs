//! Tools that the clients of the OpenAI-compatible API execute.

mod support;

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;
use support::openai::{
    CHAT_PATH, answer_text, chat_request, check_error, chunk_texts, open_stream, step_json, steps_json, write_graph,
    write_weather_graph,
};

#[test]
fn tools_of_the_client_are_called_by_it() {
    let place = Workspace::new("");
    let call = |city: &str| json!({"name": "weather", "arguments": {"city": city}});
    let both = json!({"text": "Let me look.", "tool_calls": [call("Bonn"), call("Rome")]});
    let script = json!({"match": [{"contains": "sunny", "answer": "Fine."}], "default": both});
    write_graph(
        &place,
        &script,
        json!([{"name": "weather", "execution_location": "client", "parameters": {"type": "object"}}]),
    );
    let server = RunningServer::start(&place, &[]);
    let asked = server.post(CHAT_PATH, &chat_request("talk", "How is it?")).json();
    let choice = &asked["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("Let me look."))
    );
    let calls = choice["message"]["tool_calls"].as_array().expect("calls");
    let names: Vec<_> = calls.iter().map(|call| call["function"]["arguments"].as_str().expect("JSON")).collect();
    assert_eq!(names, [r#"{"city":"Bonn"}"#, r#"{"city":"Rome"}"#]);
    let result = |call: &Value, text: &str| json!({"role": "tool", "tool_call_id": call["id"], "content": text});
    let output = |results: Vec<Value>| {
        let printed = [json!({"role": "user", "content": "How is it?"}), choice["message"].clone()];
        json!({"model": "talk", "messages": printed.into_iter().chain(results).collect::<Vec<_>>()})
    };
    let half = server.post(CHAT_PATH, &output(vec![result(&calls[0], "sunny")])).json();
    assert_eq!(half["choices"][0]["message"]["tool_calls"], json!([calls[1]]), "one call is still open");
    let body = output(vec![result(&calls[1], "sunny, too")]);
    let answered = open_stream(&server, CHAT_PATH, body.clone()).1;
    assert_eq!(chunk_texts(answered), ["Fine."]);
    assert_eq!(answer_text(&server.post(CHAT_PATH, &body)), "Fine.", "a repeated result was processed already");
    let ids: Vec<_> = [&asked, &half, &server.post(CHAT_PATH, &body).json()].map(|answer| answer["id"].clone()).into();
    let run = ids[0].as_str().expect("an id");
    assert_eq!(ids[1..], [json!(format!("{run}_1")), json!(format!("{run}_2"))], "each answer has an id of its own");
    let (_, chunks) = open_stream(&server, CHAT_PATH, chat_request("talk", "Again?"));
    let chunks: Vec<Value> = chunks.filter_map(|chunk| serde_json::from_str(&chunk).ok()).collect();
    let reasons: Vec<_> = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    let indexes: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["index"].as_u64()).collect();
    assert_eq!((reasons, indexes), (vec!["tool_calls"], vec![0, 1]));
}

/// The result of the tool in the run that asked for a call.
fn tool_result(server: &RunningServer, call: &Value) -> Value {
    let id = call["id"].as_str().or_else(|| call["call_id"].as_str()).expect("an id");
    let run = id.split('_').nth(1).expect("the run");
    let messages = server.get(&format!("/api/v1/runs/{run}")).json()["result"]["messages"].clone();
    let mut results = messages.as_array().expect("messages").iter().filter(|message| message["role"] == "tool");
    results.next().map(|message| message["content"].clone()).expect("a result")
}

#[test]
fn a_result_is_the_result_whatever_follows_it() {
    let place = Workspace::new("");
    write_weather_graph(&place);
    let server = RunningServer::start(&place, &[]);
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    for (after, answer) in [
        (vec![message("user", "thanks a lot")], "You are welcome."),
        (vec![message("system", "Be brief.")], "Fine."),
        (vec![message("developer", "Be brief."), message("user", "thanks")], "You are welcome."),
    ] {
        let asked = server.post(CHAT_PATH, &chat_request("talk", "How is it?")).json();
        let assistant = &asked["choices"][0]["message"];
        let call = &assistant["tool_calls"][0];
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"});
        let messages: Vec<Value> =
            [message("user", "How is it?"), assistant.clone(), result].into_iter().chain(after).collect();
        let body = json!({"model": "talk", "messages": messages});
        for _ in 0..2 {
            assert_eq!(answer_text(&server.post(CHAT_PATH, &body)), answer, "{messages:?}");
        }
        assert_eq!(tool_result(&server, call), "sunny", "{messages:?}");
    }
}

#[test]
fn results_of_a_run_that_is_gone_do_not_stop_the_next_turn() {
    let place = Workspace::new("");
    write_weather_graph(&place);
    let server = RunningServer::start(&place, &[]);
    let ask = |after: &[Value]| {
        let call = json!({"id": "call_01a21363f20d7773afaad60bb1c06659_2", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "rain"});
        let before = [
            json!({"role": "user", "content": "How is it?"}),
            json!({"role": "assistant", "tool_calls": [call]}),
            result,
        ];
        let messages = [&before[..], after].concat();
        server.post(CHAT_PATH, &json!({"model": "talk", "messages": messages}))
    };
    assert_eq!(answer_text(&ask(&[json!({"role": "user", "content": "thanks"})])), "You are welcome.");
    check_error(&ask(&[]), 404, "not_found_error");
}

#[test]
fn a_result_of_a_call_that_nobody_made_is_refused() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    write_weather_graph(&place);
    place.write("hello.json", &steps_json("hello", json!([step_json("s", "{{input}}")])));
    let server = RunningServer::start(&place, &[]);
    let user = json!({"role": "user", "content": "thanks"});
    let call = json!({"role": "assistant", "tool_calls": [{"id": "nope", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "nope", "content": "rain"});
    let unnamed = json!({"role": "tool", "content": "rain"});
    for (model, messages, status) in [
        ("hello", vec![&result], 400),
        ("hello", vec![&unnamed], 400),
        ("hello", vec![&user, &result], 400),
        ("hello", vec![&user, &call, &result], 400),
        ("talk", vec![&user, &result], 400),
        // Histories of other models are taken.
        ("talk", vec![&user, &call, &result], 200),
        ("hello", vec![&user, &call, &result, &user], 200),
        ("talk", vec![&user, &result, &user], 200),
    ] {
        let answer = server.post(CHAT_PATH, &json!({"model": model, "messages": &messages}));
        assert_eq!(answer.status, status, "{model} {messages:?}: {answer:?}");
    }
    let in_thread = json!({"model": "talk", "messages": [user, call, result], "metadata": {"thread": "t"}});
    let refused = check_error(&server.post(CHAT_PATH, &in_thread), 400, "invalid_request_error");
    assert!(refused.contains("\"nope\", which no run has made"), "{refused}");
    let started = server.get("/api/v1/runs").json()["items"].as_array().map(Vec::len);
    assert_eq!(started, Some(3), "what is refused starts nothing");
}

#[test]
fn a_message_of_the_user_is_no_result() {
    let place = Workspace::new("");
    write_weather_graph(&place);
    let server = RunningServer::start(&place, &[]);
    let in_thread = |text: &str| {
        let mut body = chat_request("talk", text);
        body["metadata"] = json!({"thread": "t"});
        server.post(CHAT_PATH, &body)
    };
    let asked = in_thread("How is it?").json();
    let call = &asked["choices"][0]["message"]["tool_calls"][0];
    let refused = check_error(&in_thread("I am not a tool"), 400, "invalid_request_error");
    assert!(refused.contains("the result of the client tool weather"), "{refused}");
    let sent = server.post("/api/v1/threads/talk/t", &json!({"message": "I am not a tool"}));
    assert_eq!(sent.status, 400, "{sent:?}");
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"});
    let body = json!({"model": "talk", "messages": [result], "metadata": {"thread": "t"}});
    assert_eq!(answer_text(&server.post(CHAT_PATH, &body)), "Fine.");
    assert_eq!(tool_result(&server, call), "sunny");

    let create = |input: Value, previous: &Value| {
        server.post("/v1/responses", &json!({"model": "talk", "input": input, "previous_response_id": previous}))
    };
    let asked = create("How is it?".into(), &Value::Null).json();
    let call = asked["output"].as_array().and_then(|output| output.last()).expect("a call");
    check_error(&create("I am not a tool".into(), &asked["id"]), 400, "invalid_request_error");
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
    let both = json!([result, {"role": "user", "content": "thanks"}]);
    let answered = create(both, &asked["id"]).json();
    assert_eq!(answered["output"][0]["content"][0]["text"], "You are welcome.", "{answered}");
    assert_ne!(answered["id"], asked["id"]);
}
