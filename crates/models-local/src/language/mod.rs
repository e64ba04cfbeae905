//! The language model of a worker process: from a conversation to an answer. `model` computes tokens with llama.cpp.

pub(crate) mod error;
mod grammar;
mod model;
mod sampler;
mod template;
mod text;
mod threads;
mod vocabulary;

use flowloom_core::Value;
use flowloom_core::chat::{GenerateOptions, Message, ToolCall, ToolDeclaration, Usage};
use flowloom_core::effect::{FinishReason, GenerateReply, ResponseFacts};
use flowloom_core::json;
use serde::{Deserialize, Serialize};

pub(crate) use model::LanguageModel;

/// A request to a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AnswerJob {
    /// The conversation.
    pub(crate) messages: Vec<Message>,
    /// Tools that the answer may call.
    pub(crate) tools: Vec<ToolDeclaration>,
    /// JSON Schema that the answer must match.
    pub(crate) schema: Option<Value>,
    /// Maximum length of the answer, in tokens.
    pub(crate) max_tokens: usize,
    /// How tokens are chosen, and what ends the answer.
    pub(crate) options: GenerateOptions,
    /// The same seed yields the same answer.
    pub(crate) seed: u32,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratedText {
    /// The text.
    pub(crate) text: String,
    /// Number of prompt tokens.
    pub(crate) input_tokens: usize,
    /// Number of answer tokens.
    pub(crate) output_tokens: usize,
    /// Whether the answer reached its maximum length.
    pub(crate) is_cut: bool,
}

/// The reply of a step. Only an answer that could call tools is searched for calls.
pub(crate) fn to_reply(generated: GeneratedText, with_tools: bool) -> GenerateReply {
    let usage = Usage {
        input_tokens: generated.input_tokens as u64,
        output_tokens: generated.output_tokens as u64,
        micro_usd: Some(0),
    };
    let tool_calls = if with_tools { parse_tool_calls(&generated.text) } else { Vec::new() };
    let text = match tool_calls.is_empty() {
        true => generated.text,
        false => generated.text.split(grammar::CALL_START).next().unwrap_or_default().trim().to_owned(),
    };
    let finish_reason = generated.is_cut.then_some(FinishReason::Length);
    let response = ResponseFacts { finish_reason, ..ResponseFacts::default() };
    GenerateReply { text: GenerateReply::keep_text(text, &tool_calls), tool_calls, usage, response }
}

/// Tool calls that a model wrote as `<tool_call>{…}</tool_call>`. Unreadable ones stay text.
fn parse_tool_calls(text: &str) -> Vec<ToolCall> {
    let parts = text.split(grammar::CALL_START).skip(1);
    let written = parts.map(|part| part.split(grammar::CALL_END).next().unwrap_or_default());
    written
        .filter_map(|part| {
            let call = json::read_lenient(part)?;
            let name = call.get("name")?.as_str()?.to_owned();
            Some((name, call.get("arguments").cloned().unwrap_or_default()))
        })
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall::new(format!("call_{index}"), name, arguments))
        .collect()
}

#[cfg(test)]
mod tests;
