//! Clarification: whether the goal is clear enough to start, or which question to ask.

use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::answer::ask_once;
use crate::env::{ModelQuestion, PlannerEnv, user_says};
use crate::fence::fence_text;
use crate::object::{find_object, text_of};

/// Maximum number of questions. After the last answer the conversation is the specification.
pub const MAX_QUESTIONS: usize = 3;

const STAGE_NAME: &str = "clarify";
const CLARIFY_PROMPT: &str = include_str!("prompts/clarify.txt");
const CLARIFY_SCHEMA: &str = include_str!("prompts/clarify.schema.json");
const REFINE_PROMPT: &str = include_str!("prompts/refine.txt");

/// The author of an earlier message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationRole {
    /// The user.
    User,
    /// The planner.
    Assistant,
}

/// An earlier message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// The author.
    pub role: ConversationRole,
    /// The text.
    pub content: String,
}

/// A message and its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The user's current message.
    pub message: String,
    /// The earlier messages.
    #[serde(default)]
    pub history: Vec<ConversationMessage>,
}

/// The result of a clarification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clarification {
    /// Whether the goal is clear.
    pub ready: bool,
    /// The goal as a self-contained specification.
    pub refined_intent: Option<String>,
    /// The question for the user.
    pub question: Option<String>,
}

impl Clarification {
    fn from_intent(intent: String) -> Clarification {
        Clarification { ready: true, refined_intent: Some(intent), question: None }
    }
}

/// Decides whether the goal is clear. After three questions, or after an undecided answer of the model, the
/// conversation is written down as a specification: there is never a fourth question, and a weak model is not a dead
/// end. Fails if the model cannot be called.
pub async fn clarify_goal(world: &dyn PlannerEnv, conversation: &Conversation) -> Result<Clarification, StepFailure> {
    let user_turns = conversation.history.iter().filter(|turn| turn.role == ConversationRole::User).count() + 1;
    if user_turns > MAX_QUESTIONS {
        return refine_goal(world, conversation).await;
    }
    let mut question =
        ModelQuestion::new(STAGE_NAME, CLARIFY_PROMPT, conversation.message.clone(), Some(CLARIFY_SCHEMA));
    question.messages.splice(0..0, conversation.history.iter().map(to_message));
    match ask_once(world, &question).await?.ok().as_deref().and_then(read) {
        Some(clarified) => Ok(clarified),
        None => refine_goal(world, conversation).await,
    }
}

fn to_message(turn: &ConversationMessage) -> Message {
    let role = match turn.role {
        ConversationRole::User => Role::User,
        ConversationRole::Assistant => Role::Assistant,
    };
    Message::new(role, turn.content.as_str())
}

/// The decision of an answer; `None` if it contains none.
fn read(text: &str) -> Option<Clarification> {
    let map = find_object(text, &["ready"])?;
    if map.get("ready").and_then(Value::as_bool)? {
        return text_of(&map, "refined_intent").map(Clarification::from_intent);
    }
    Some(Clarification { ready: false, refined_intent: None, question: text_of(&map, "question") })
}

/// Writes the whole conversation down as one specification.
async fn refine_goal(world: &dyn PlannerEnv, conversation: &Conversation) -> Result<Clarification, StepFailure> {
    let question = ModelQuestion {
        messages: vec![user_says(fence_text("conversation", &render_transcript(conversation)))],
        ..ModelQuestion::new(STAGE_NAME, REFINE_PROMPT, String::new(), None)
    };
    let text = ask_once(world, &question).await?.unwrap_or_default();
    let text = text.trim();
    // If the model returns nothing, the user's messages are the specification.
    Ok(Clarification::from_intent(if text.is_empty() { join_user_messages(conversation) } else { text.to_owned() }))
}

fn render_transcript(conversation: &Conversation) -> String {
    let mut lines = Vec::new();
    for turn in &conversation.history {
        let role = if turn.role == ConversationRole::User { "User" } else { "Assistant" };
        lines.push(format!("{role}: {}", turn.content));
    }
    lines.push(format!("User: {}", conversation.message));
    lines.join("\n")
}

fn join_user_messages(conversation: &Conversation) -> String {
    let before =
        conversation.history.iter().filter(|turn| turn.role == ConversationRole::User).map(|turn| &turn.content);
    before.chain([&conversation.message]).map(String::as_str).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_decides_or_does_not() {
        let ready = |text: &str| read(text).map(|clarified| (clarified.ready, clarified.question));
        assert_eq!(ready(r#"{"ready":true,"refined_intent":"x"}"#), Some((true, None)));
        assert_eq!(ready(r#"{"ready":false,"question":"Which?"}"#), Some((false, Some("Which?".into()))));
        assert_eq!(ready(r#"{"ready":false}"#), Some((false, None)));
        for undecided in
            ["", "no", "{}", r#"{"ready":"true"}"#, r#"{"ready":true}"#, r#"{"ready":true,"refined_intent":" "}"#]
        {
            assert_eq!(ready(undecided), None, "{undecided}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in r#"(\{|\}|"ready"|:|true|false|,|"question"|é| ){0,20}"#) {
            let _ = read(&text);
        }
    }
}
