//! The form of answers in the OpenAI-compatible API: JSON, forced functions, responses in the background.

mod support;

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;
use support::model::StreamingModel;
use support::openai::{CHAT_PATH, answer_text, chat_request, check_error, open_stream, step_json, steps_json};

/// A workspace with a Markdown workflow whose only model call answers in JSON, and a step list that answers with a text.
fn create_structured_workspace() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:said.json\"\n");
    let printed = json!({"match": [{"contains": "city", "answer": "{\"name\": \"Bonn\", \"people\": 330000}"}], "default": "No idea."});
    let script = place.write("said.json", &printed.to_string());
    let model = format!("scripted:{}", script.display());
    let action = "schema={$.z.object({name: $.z.string(), people: $.z.number()})} />";
    let document = format!(
        "Describe a city.\n\n<GenObject as=\"city\" model=\"{model}\" {action}\n\nThe city is {{city.name}}.\n"
    );
    place.write("city.mdx", &document);
    place.write("plain.json", &steps_json("plain", json!([step_json("s", "Say {{input}}")])));
    place.write("json.json", &steps_json("json", json!([step_json("s", "Name a city: {{input}}")])));
    place
}

fn city_schema() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}, "people": {"type": "integer"}}, "required": ["name"]})
}

#[test]
fn an_answer_has_the_form_that_was_asked_for_or_is_refused() {
    let place = create_structured_workspace();
    let server = RunningServer::start(&place, &[]);
    let asked = |model: &str, format: Value| {
        let mut body = chat_request(model, "hi");
        body["response_format"] = format;
        server.post(CHAT_PATH, &body)
    };
    let schema =
        json!({"type": "json_schema", "json_schema": {"name": "city", "strict": true, "schema": city_schema()}});
    for model in ["city", "json"] {
        for format in [schema.clone(), json!({"type": "json_object"})] {
            let reply = answer_text(&asked(model, format));
            let city: Value = serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{error}: {reply}"));
            assert_eq!(city["name"], "Bonn", "{model}: {reply}");
        }
    }
    assert!(answer_text(&asked("city", json!({"type": "text"}))).ends_with("The city is Bonn."));
    let reason = check_error(&asked("plain", schema), 422, "invalid_request_error");
    assert!(reason.contains("not a JSON object"), "{reason}");
    let other = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "required": ["mayor"]}}});
    let reason = check_error(&asked("json", other), 422, "invalid_request_error");
    assert!(reason.contains("mayor"), "{reason}");
    for wrong in [json!({"type": "grammar"}), json!({"type": "json_schema"})] {
        check_error(&asked("json", wrong), 400, "invalid_request_error");
    }
    // A stream sends nothing before the answer is known to fit.
    let mut body = chat_request("plain", "hi");
    body["response_format"] = json!({"type": "json_object"});
    let chunks: Vec<String> = open_stream(&server, CHAT_PATH, body).1.collect();
    assert!(
        chunks.iter().any(|chunk| chunk.contains("\"error\"")) && !chunks.concat().contains("No idea"),
        "{chunks:?}"
    );
    let form = json!({"format": {"type": "json_schema", "name": "city", "schema": city_schema()}});
    let response = server.post("/v1/responses", &json!({"model": "city", "input": "hi", "text": form})).json();
    assert!(
        response["output"][0]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with('{')),
        "{response}"
    );
}

#[test]
fn a_function_that_must_be_called_is_called_with_the_output() {
    let place = create_structured_workspace();
    let server = RunningServer::start(&place, &[]);
    let mut body = chat_request("city", "hi");
    body["tools"] = json!([{"type": "function", "function": {"name": "City", "parameters": city_schema()}}]);
    let free = server.post(CHAT_PATH, &body);
    assert!(answer_text(&free).contains("Bonn"), "the workflow decides which tools it calls");
    body["tool_choice"] = json!({"type": "function", "function": {"name": "City"}});
    let choice = server.post(CHAT_PATH, &body).json()["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
    let called = &choice["message"]["tool_calls"][0]["function"];
    let arguments: Value = serde_json::from_str(called["arguments"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&called["name"], &arguments["name"]), (&json!("City"), &json!("Bonn")));
    let call = &choice["message"]["tool_calls"][0];
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "done"});
    let messages = json!([body["messages"][0], choice["message"], result]);
    let next = server.post(CHAT_PATH, &json!({"model": "city", "messages": messages}));
    assert!(answer_text(&next).contains("Bonn"), "a call that was demanded may have a result: {next:?}");
    body["tool_choice"] = json!("required");
    let required = server.post(CHAT_PATH, &body).json()["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(required["function"]["name"], "City", "{required}");
    body["tool_choice"] = json!({"type": "function", "function": {"name": "Other"}});
    check_error(&server.post(CHAT_PATH, &body), 400, "invalid_request_error");
}

#[test]
fn a_response_in_the_background_is_answered_at_once() {
    let model = StreamingModel::start();
    let place = Workspace::new(&model.config());
    place.write("one.json", &steps_json("one", json!([step_json("s", "Say {{input}}")])));
    let server = RunningServer::start(&place, &[]);
    let asked = json!({"model": "one", "input": "hi", "background": true, "metadata": {"topic": "greeting"}});
    let response = server.post("/v1/responses", &asked).json();
    assert_eq!((&response["status"], &response["background"]), (&json!("in_progress"), &json!(true)), "{response}");
    let path = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
    assert_eq!(response["metadata"], json!({"topic": "greeting"}), "{response}");
    let read = server.get(&path).json();
    assert_eq!((&read["status"], &read["background"]), (&json!("in_progress"), &json!(true)), "{read}");
    model.send_piece("Hello.");
    model.end_answer();
    let run = path.replace("/v1/responses/resp_", "/api/v1/runs/") + "/events";
    server.stream(&run, &[]).for_each(drop);
    let done = server.get(&path).json();
    assert_eq!(
        (&done["status"], &done["output"][0]["content"][0]["text"]),
        (&json!("completed"), &json!("Hello.")),
        "{done}"
    );
    let form = json!({"format": {"type": "json_object"}});
    let both = json!({"model": "one", "input": "hi", "background": true, "text": form});
    check_error(&server.post("/v1/responses", &both), 400, "invalid_request_error");
}

#[test]
fn a_conversation_ends_with_what_is_to_be_answered() {
    let place = create_structured_workspace();
    let server = RunningServer::start(&place, &[]);
    let user = json!({"role": "user", "content": "hi"});
    for messages in
        [json!([]), json!([{"role": "system", "content": "x"}]), json!([user, {"role": "assistant", "content": "x"}])]
    {
        check_error(
            &server.post(CHAT_PATH, &json!({"model": "plain", "messages": messages})),
            400,
            "invalid_request_error",
        );
    }
    let messages = json!([user, {"role": "system", "content": "x"}]);
    assert_eq!(server.post(CHAT_PATH, &json!({"model": "plain", "messages": messages})).status, 200);
}
