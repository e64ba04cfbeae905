//! Conversations: messages, the tools that a model is offered, the options of a model call, and what it cost.
//!
//! What options may be is in `options`. Stored conversations are in `thread`; how values become the parts of a message is in `content`, what a person says in
//! `user_message`, and a whole conversation as an input in `given_messages`.

pub mod content;
mod given_messages;
mod options;
mod thread;
mod user_message;

use serde::{Deserialize, Serialize};

use crate::value::Value;

pub use content::Content;
pub use given_messages::{read_messages, split_data_url};
pub use options::{MODEL_OPTIONS, find_expected_option};
pub use thread::{Messages, Thread, close_open_calls, unanswered_call_message};
pub(crate) use user_message::find_wrong_type;
pub use user_message::read_user_message;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The instructions.
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
    /// The author.
    pub role: Role,
    /// The text of the message.
    pub content: String,
    /// The parts of a message that is more than one text; `content` then holds the joined texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// Tool calls that the model requests (assistant messages).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that this message answers (tool messages).
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
    /// An image.
    Image {
        /// The media type.
        mime: String,
        /// The bytes in base64.
        data: std::sync::Arc<str>,
        /// The name of the file, for transcripts; it is not sent. Empty if it has none.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        name: std::sync::Arc<str>,
    },
}

/// A tool call that a model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id from the provider; never part of a path.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: an object, or whatever else it produced.
    #[serde(alias = "args")]
    pub arguments: Value,
    /// Data that the provider must receive back with the call: Gemini signs its thoughts. Opaque, and only for this provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

impl ToolCall {
    /// A call without signatures.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments, signatures: Vec::new() }
    }
}

/// The declaration of a tool for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// Name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Sampling options. The provider's defaults apply where an option is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateOptions {
    /// Maximum length of the answer, in tokens.
    #[serde(alias = "maxTokens", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling threshold.
    #[serde(alias = "topP", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Number of most likely tokens to sample from.
    #[serde(alias = "topK", skip_serializing_if = "Option::is_none")]
    pub top_k: Option<f64>,
    /// Penalty for tokens that occurred at all.
    #[serde(alias = "presencePenalty", skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Penalty for tokens by how often they occurred.
    #[serde(alias = "frequencyPenalty", skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Seed, if the provider supports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the answer must call one of the tools.
    #[serde(alias = "mustCall", skip_serializing_if = "std::ops::Not::not")]
    pub must_call: bool,
    /// Whether the answer is streamed; `None` means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// Tokens and cost of one or more model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar; `None` if the price of any call is unknown, which is never the same as free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// Adds the usage of another call. The cost of the sum is known only if both costs are.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.micro_usd = match (self.micro_usd, other.micro_usd) {
            (Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
    }

    /// This usage without `earlier`, which is a part of it.
    pub fn subtract_usage(&self, earlier: &Usage) -> Usage {
        let cost = self.micro_usd.zip(earlier.micro_usd);
        Usage {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            micro_usd: cost.map(|(all, earlier)| all.saturating_sub(earlier)),
        }
    }

    /// The usage of no calls: the cost is known to be zero.
    pub fn none() -> Usage {
        Usage { micro_usd: Some(0), ..Usage::default() }
    }
}
