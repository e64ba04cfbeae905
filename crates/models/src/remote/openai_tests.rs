//! Request bodies and response streams of OpenAI's protocol.

use flowloom_core::chat::{GenerateOptions, ToolDeclaration};
use flowloom_core::effect::Purpose;

use super::*;

fn new_request() -> GenerateRequest {
    GenerateRequest {
        model: "openai:m".to_owned(),
        messages: vec![Message::new(Role::User, "hi")].into(),
        tools: Vec::new(),
        schema: None,
        options: GenerateOptions::default(),
        purpose: Purpose::Step,
    }
}

fn assemble_events(events: &[&str]) -> Result<(ProviderAnswer, String), ProviderError> {
    let mut stream = AnswerAssembler::default();
    let mut deltas = String::new();
    for data in events {
        let event = SseEvent { name: String::new(), data: (*data).to_owned() };
        stream.push_event(&event, &mut |text| deltas.push_str(text))?;
    }
    Ok((stream.finish_answer()?, deltas))
}

#[test]
fn a_body_says_only_what_was_asked() {
    let plain = request_body("openai", "m", &new_request(), true);
    let keys: Vec<&String> = plain.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "messages", "stream", "stream_options"]);
    let schema = json::parse_value(
        r#"{"type":"object","properties":{"a":{"type":"number"}},"required":["a"],"additionalProperties":false}"#,
    );
    let full = GenerateRequest {
        tools: vec![ToolDeclaration { name: "t".into(), description: "d".into(), parameters: Value::map::<&str>([]) }],
        schema: schema.ok(),
        options: GenerateOptions {
            max_tokens: Some(5),
            temperature: Some(0.5),
            top_p: Some(0.9),
            seed: Some(1),
            stop: vec!["x".into()],
            ..GenerateOptions::default()
        },
        ..new_request()
    };
    let full = request_body("openai", "gpt-5-mini", &full, true);
    assert_eq!(full["max_completion_tokens"], 5);
    assert_eq!(full["stop"][0], "x");
    assert_eq!(full["tools"][0]["function"]["name"], "t");
    assert_eq!(full["response_format"]["json_schema"]["strict"], true);
}

#[test]
fn options_are_sent_where_the_api_knows_them() {
    let options = GenerateOptions {
        top_k: Some(40.0),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-1.0),
        stream: Some(false),
        ..GenerateOptions::default()
    };
    let request = GenerateRequest { options, ..new_request() };
    let body = request_body("openai", "m", &request, true);
    assert_eq!((&body["presence_penalty"], &body["frequency_penalty"]), (&json!(0.5), &json!(-1.0)));
    assert_eq!((&body["stream"], body.get("stream_options"), body.get("top_k")), (&json!(false), None, None));
    assert_eq!(request_body("openrouter", "m", &request, true)["top_k"], json!(40));
}

#[test]
fn a_conversation_with_calls_keeps_their_ids() {
    let call = ToolCall::new("c1", "add", Value::map([("a", 1.into())]));
    let mut asking = Message::new(Role::Assistant, "");
    asking.tool_calls.push(call);
    let mut result = Message::new(Role::Tool, "3");
    result.tool_call_id = Some("c1".into());
    let body =
        request_body("openai", "m", &GenerateRequest { messages: vec![asking, result].into(), ..new_request() }, true);
    assert_eq!(body["messages"][0]["content"], Json::Null);
    assert_eq!(body["messages"][0]["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
    assert_eq!(body["messages"][1]["tool_call_id"], "c1");
}

#[test]
fn calls_split_over_chunks_are_joined() {
    let (answer, deltas) = assemble_events(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"id":"b","function":{"name":"sub","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1.50}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ])
    .unwrap();
    assert_eq!(deltas, "");
    let calls: Vec<_> =
        answer.calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), json::write_json(&c.arguments))).collect();
    assert_eq!(calls, [("a", "add", r#"{"x":1.50}"#.to_owned()), ("b", "sub", "{}".to_owned())]);
}

#[test]
fn calls_with_the_same_index_stay_apart_if_their_ids_differ() {
    let call = |id: &str, function: &str| {
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"{id}","function":{{{function}}}}}]}}}}]}}"#)
    };
    let (answer, _) = assemble_events(&[
        &call("a", r#""name":"add","arguments":"{\"x\":1}""#),
        &call("b", r#""name":"add","arguments":"{\"x\"""#),
        &call("another", r#""arguments":":2}""#),
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ])
    .unwrap();
    let calls: Vec<_> = answer.calls.iter().map(|c| (c.id.as_str(), json::write_json(&c.arguments))).collect();
    assert_eq!(calls, [("a", r#"{"x":1}"#.to_owned()), ("b", r#"{"x":2}"#.to_owned())]);
}

#[test]
fn calls_without_an_index_and_arguments_that_are_no_json_survive() {
    let (answer, _) = assemble_events(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"oops"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"!"}},{"id":"b","function":{"name":"n","arguments":{"k":2}}}]},"finish_reason":"stop"}]}"#,
    ])
    .unwrap();
    assert_eq!(answer.calls[0].arguments, "oops!".into());
    assert_eq!(answer.calls[1].arguments.get("k"), Some(&2.into()));
}

#[test]
fn whole_calls_stay_apart_whatever_their_ids() {
    let call = |id: &str, name: &str| format!(r#"{{{id}"function":{{"name":"{name}","arguments":"{{}}"}}}}"#);
    for id in ["", r#""id":"","#, r#""id":null,"#, r#""id":"same","#] {
        let calls = ["s", "t", "s"].map(|name| call(id, name)).join(",");
        let whole = format!(r#"{{"choices":[{{"message":{{"tool_calls":[{calls}]}},"finish_reason":"tool_calls"}}]}}"#);
        let mut answers = vec![assemble_events(&[&whole]).unwrap().0];
        if !id.contains("same") {
            // In a stream, pieces with one id are pieces of one call.
            answers.push(assemble_events(&[&whole.replace("message", "delta")]).unwrap().0);
        }
        for answer in answers {
            let names: Vec<_> = answer.calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["s", "t", "s"], "{id}");
            let ids: std::collections::BTreeSet<_> = answer.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids.len(), 3, "{id}");
        }
    }
}

#[test]
fn a_flood_of_calls_is_refused() {
    let many: Vec<String> =
        (0..200).map(|i| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{i}}}]}}}}]}}"#)).collect();
    assert!(assemble_events(&many.iter().map(String::as_str).collect::<Vec<_>>()).is_err());
    assert!(
        assemble_events(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":4294967295,"id":"x"}]},"finish_reason":"stop"}]}"#
        ])
        .is_ok()
    );
}

#[test]
fn only_a_finish_reason_ends_an_answer_well() {
    let text = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    assert_eq!(assemble_events(&[text, end]).unwrap().0.usage, Some((3, 1)));
    for broken in [
        &[text][..],
        &[text, "[DONE]"],
        &[text, r#"{"error":{"message":"boom"}}"#, end],
        &[text, r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#],
        &[text, r#"{"choices":[{"delta":{},"finish_reason":null}]}"#],
        &[text, "{not json"],
    ] {
        assert!(assemble_events(broken).is_err(), "{broken:?}");
    }
}

#[test]
fn only_closed_schemas_are_strict() {
    let strict = |text: &str| is_strict(&serde_json::from_str(text).unwrap());
    assert!(strict(
        r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#
    ));
    assert!(!strict(r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#));
    assert!(!strict(r#"{"type":"object"}"#));
    assert!(!strict(
        r#"{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}"#
    ));
}
