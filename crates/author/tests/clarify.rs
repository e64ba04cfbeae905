//! Clarification of a goal.

mod support;

use flowloom_author::clarify::{Clarified, Conversation, Said, Speaker, clarify};
use flowloom_core::chat::Role;
use flowloom_core::code::Code;
use support::Scripted;

fn conversation(messages: &[&str]) -> Conversation {
    let (last, before) = messages.split_last().expect("a message");
    let mut history = Vec::new();
    for (number, content) in before.iter().enumerate() {
        history.push(Said { role: Speaker::User, content: (*content).to_owned() });
        history.push(Said { role: Speaker::Assistant, content: format!("question {number}") });
    }
    Conversation { message: (*last).to_owned(), history }
}

fn ready(intent: &str) -> Clarified {
    Clarified { ready: true, refined_intent: Some(intent.to_owned()), question: None }
}

#[tokio::test]
async fn a_clear_request_is_taken_and_an_unclear_one_asked_about() {
    let world = Scripted::says([r#"{"ready": true, "refined_intent": "do X"}"#]);
    assert_eq!(clarify(&world, &conversation(&["do X"])).await, Ok(ready("do X")));
    assert_eq!(world.asked().len(), 1);

    let world = Scripted::says([r#"{"ready": false, "question": "Which city?"}"#]);
    let clarified = clarify(&world, &conversation(&["a", "b", "weather"])).await.expect("clarified");
    assert_eq!(clarified, Clarified { ready: false, refined_intent: None, question: Some("Which city?".into()) });
    let roles: Vec<Role> = world.asked()[0].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    assert_eq!(world.names(), ["llm_prompt", "llm_response"]);
}

#[tokio::test]
async fn nobody_is_asked_a_fourth_time() {
    let world = Scripted::says([r#"{"ready": false, "question": "and?"}"#]);
    assert_eq!(clarify(&world, &conversation(&["a", "b", "c", "d"])).await.map(|clarified| clarified.ready), Ok(true));
    let asked = world.asked();
    assert_eq!((asked.len(), &asked[0].schema), (1, &None));
    let told = &asked[0].messages[0].content;
    assert!(told.contains("User: a\nAssistant: question 0\nUser: b") && told.ends_with("end of data ====="), "{told}");
}

#[tokio::test]
async fn an_answer_that_decides_nothing_is_no_dead_end() {
    for undecided in ["not json", r#"{"refined_intent": "x"}"#, r#"{"ready": true}"#, "!FL1015"] {
        let world = Scripted::says([undecided, "SPEC\n"]);
        assert_eq!(clarify(&world, &conversation(&["x"])).await, Ok(ready("SPEC")), "{undecided}");
    }
    let silent = Scripted::says(["", " "]);
    assert_eq!(clarify(&silent, &conversation(&["first", "then"])).await, Ok(ready("first\nthen")));
}

#[tokio::test]
async fn a_model_that_is_gone_is_an_error() {
    for answers in [&["!FL1010"][..], &["?", "!FL1010"][..]] {
        let world = Scripted::says(answers.iter().copied());
        let error = clarify(&world, &conversation(&["x"])).await.expect_err("no model");
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
