//! Conversations: messages, the tools that a model is offered, the options of a model call, and what it cost.
//!
//! Stored conversations are in `thread`; how values become the parts of a message is in `content`.

pub mod content;
mod thread;

use serde::{Deserialize, Serialize};

use crate::value::Value;

pub use content::Content;
pub use thread::{Messages, Thread, answered, unanswered};

/// Who says something in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// What is said, part by part, where it is more than one text; `content` then holds the texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// Tool calls the model asks for (assistant messages).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that this answers (tool messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A plain message.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), parts: Vec::new(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type.
        mime: String,
        /// Its bytes in base64.
        data: std::sync::Arc<str>,
    },
}

/// A model's wish to call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id; never part of a path.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: an object, or whatever it made of it.
    #[serde(alias = "args")]
    pub arguments: Value,
}

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// Name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// Sampling options; absent ones are the provider's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateOptions {
    /// Largest answer, in tokens.
    #[serde(alias = "maxTokens", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(alias = "topP", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens are drawn from.
    #[serde(alias = "topK", skip_serializing_if = "Option::is_none")]
    pub top_k: Option<f64>,
    /// Against words that were used at all.
    #[serde(alias = "presencePenalty", skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Against words that were used often.
    #[serde(alias = "frequencyPenalty", skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Seed, where the provider has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the answer must call one of the tools.
    #[serde(alias = "mustCall", skip_serializing_if = "std::ops::Not::not")]
    pub must_call: bool,
    /// Whether the answer is shown as it comes; it is unless this says no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// Tokens and money of one or more model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Millionths of a US dollar; `None` when the price of any call is unknown, which is never the same as free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// Adds another call's usage; the sum's price is known only if both are.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.micro_usd = match (self.micro_usd, other.micro_usd) {
            (Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
    }

    /// No calls yet, at a known price of nothing.
    pub fn none() -> Usage {
        Usage { micro_usd: Some(0), ..Usage::default() }
    }
}
