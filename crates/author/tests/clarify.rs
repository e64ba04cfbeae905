//! Clarification of a goal.

mod support;

use flowloom_author::clarify::{Clarification, Conversation, ConversationMessage, ConversationRole, clarify_goal};
use flowloom_core::chat::Role;
use flowloom_core::code::Code;
use support::Scripted;

fn make_conversation(messages: &[&str]) -> Conversation {
    let (last, before) = messages.split_last().expect("a message");
    let mut history = Vec::new();
    for (number, content) in before.iter().enumerate() {
        history.push(ConversationMessage { role: ConversationRole::User, content: (*content).to_owned() });
        history.push(ConversationMessage { role: ConversationRole::Assistant, content: format!("question {number}") });
    }
    Conversation { message: (*last).to_owned(), history }
}

fn ready_with(intent: &str) -> Clarification {
    Clarification { ready: true, refined_intent: Some(intent.to_owned()), question: None }
}

#[tokio::test]
async fn a_clear_request_is_taken_and_an_unclear_one_asked_about() {
    let world = Scripted::with_answers([r#"{"ready": true, "refined_intent": "do X"}"#]);
    assert_eq!(clarify_goal(&world, &make_conversation(&["do X"])).await, Ok(ready_with("do X")));
    assert_eq!(world.asked_questions().len(), 1);

    let world = Scripted::with_answers([r#"{"ready": false, "question": "Which city?"}"#]);
    let clarified = clarify_goal(&world, &make_conversation(&["a", "b", "weather"])).await.expect("clarified");
    assert_eq!(clarified, Clarification { ready: false, refined_intent: None, question: Some("Which city?".into()) });
    let roles: Vec<Role> = world.asked_questions()[0].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    assert_eq!(world.event_names(), ["llm_prompt", "llm_response"]);
}

#[tokio::test]
async fn nobody_is_asked_a_fourth_time() {
    let world = Scripted::with_answers([r#"{"ready": false, "question": "and?"}"#]);
    assert_eq!(
        clarify_goal(&world, &make_conversation(&["a", "b", "c", "d"])).await.map(|clarified| clarified.ready),
        Ok(true)
    );
    let asked = world.asked_questions();
    assert_eq!((asked.len(), &asked[0].schema), (1, &None));
    let prompt = &asked[0].messages[0].content;
    assert!(
        prompt.contains("User: a\nAssistant: question 0\nUser: b") && prompt.ends_with("end of data ====="),
        "{prompt}"
    );
}

#[tokio::test]
async fn an_answer_that_decides_nothing_is_no_dead_end() {
    for undecided in ["not json", r#"{"refined_intent": "x"}"#, r#"{"ready": true}"#, "!FL1015"] {
        let world = Scripted::with_answers([undecided, "SPEC\n"]);
        assert_eq!(clarify_goal(&world, &make_conversation(&["x"])).await, Ok(ready_with("SPEC")), "{undecided}");
    }
    let silent = Scripted::with_answers(["", " "]);
    assert_eq!(clarify_goal(&silent, &make_conversation(&["first", "then"])).await, Ok(ready_with("first\nthen")));
}

#[tokio::test]
async fn a_model_that_is_gone_is_an_error() {
    for answers in [&["!FL1010"][..], &["?", "!FL1010"][..]] {
        let world = Scripted::with_answers(answers.iter().copied());
        let error = clarify_goal(&world, &make_conversation(&["x"])).await.expect_err("no model");
        assert_eq!(error.code, Code::ModelFailed);
    }
}

#[test]
fn nobody_but_the_two_has_a_word() {
    let read = |role: &str| {
        serde_json::from_str::<Conversation>(&format!(
            r#"{{"message":"m","history":[{{"role":"{role}","content":"c"}}]}}"#
        ))
    };
    assert!(read("assistant").is_ok());
    assert!(read("system").is_err());
}
