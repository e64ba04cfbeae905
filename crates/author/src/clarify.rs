//! Clarification: whether the goal is clear enough to start, or which question to ask.

use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::answer::{ask, object, text_of};
use crate::marked::marked;
use crate::world::{Question, World, user_says};

/// Maximum number of questions. After the last answer the conversation is the specification.
pub const ROUNDS: usize = 3;

const STAGE: &str = "clarify";
const SYSTEM: &str = include_str!("prompts/clarify.txt");
const SCHEMA: &str = include_str!("prompts/clarify.schema.json");
const REFINE: &str = include_str!("prompts/refine.txt");

/// The author of an earlier message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The user.
    User,
    /// The planner.
    Assistant,
}

/// An earlier message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The author.
    pub role: Speaker,
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
    pub history: Vec<Said>,
}

/// The result of a clarification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clarified {
    /// Whether the goal is clear.
    pub ready: bool,
    /// The goal as a self-contained specification.
    pub refined_intent: Option<String>,
    /// The question for the user.
    pub question: Option<String>,
}

impl Clarified {
    fn ready(intent: String) -> Clarified {
        Clarified { ready: true, refined_intent: Some(intent), question: None }
    }
}

/// Decides whether the goal is clear. After three questions, or after an undecided answer of the model, the
/// conversation is written down as a specification: there is never a fourth question, and a weak model is not a dead
/// end. Fails if the model cannot be called.
pub async fn clarify(world: &dyn World, conversation: &Conversation) -> Result<Clarified, StepError> {
    let said_by_user = conversation.history.iter().filter(|said| said.role == Speaker::User).count() + 1;
    if said_by_user > ROUNDS {
        return refine(world, conversation).await;
    }
    let mut question = Question::new(STAGE, SYSTEM, conversation.message.clone(), Some(SCHEMA));
    question.messages.splice(0..0, conversation.history.iter().map(message));
    match ask(world, &question).await?.ok().as_deref().and_then(read) {
        Some(clarified) => Ok(clarified),
        None => refine(world, conversation).await,
    }
}

fn message(said: &Said) -> Message {
    let role = match said.role {
        Speaker::User => Role::User,
        Speaker::Assistant => Role::Assistant,
    };
    Message::new(role, said.content.as_str())
}

/// The decision of an answer; `None` if it contains none.
fn read(text: &str) -> Option<Clarified> {
    let map = object(text, &["ready"])?;
    if map.get("ready").and_then(Value::as_bool)? {
        return text_of(&map, "refined_intent").map(Clarified::ready);
    }
    Some(Clarified { ready: false, refined_intent: None, question: text_of(&map, "question") })
}

/// Writes the whole conversation down as one specification.
async fn refine(world: &dyn World, conversation: &Conversation) -> Result<Clarified, StepError> {
    let question = Question {
        messages: vec![user_says(marked("conversation", &transcript(conversation)))],
        ..Question::new(STAGE, REFINE, String::new(), None)
    };
    let text = ask(world, &question).await?.unwrap_or_default();
    let text = text.trim();
    // If the model returns nothing, the user's messages are the specification.
    Ok(Clarified::ready(if text.is_empty() { wishes(conversation) } else { text.to_owned() }))
}

fn transcript(conversation: &Conversation) -> String {
    let mut lines = Vec::new();
    for said in &conversation.history {
        let speaker = if said.role == Speaker::User { "User" } else { "Assistant" };
        lines.push(format!("{speaker}: {}", said.content));
    }
    lines.push(format!("User: {}", conversation.message));
    lines.join("\n")
}

fn wishes(conversation: &Conversation) -> String {
    let before = conversation.history.iter().filter(|said| said.role == Speaker::User).map(|said| &said.content);
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
