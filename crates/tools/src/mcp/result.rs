//! Converts the result of an MCP tool to a value: its structured content, or else its text.

use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use super::error::CallError;

/// The value of a result; fails if the result is marked as an error. `redact` removes secrets from text.
pub(super) fn result_to_value(result: CallToolResult, redact: impl Fn(String) -> String) -> Result<Value, CallError> {
    let text = || redact(result.content.iter().map(content_to_text).collect::<Vec<_>>().join("\n"));
    if result.is_error == Some(true) {
        let message = text();
        return Err(match message.is_empty() {
            true => CallError::ToolFailedSilently,
            false => CallError::ToolFailed { message },
        });
    }
    match &result.structured_content {
        Some(structured) => {
            let json = redact(structured.to_string());
            parse_value(&json).map_err(CallError::ResultNotJson)
        }
        None => Ok(text().into()),
    }
}

/// A content block as text. Blocks without text are only named.
fn content_to_text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image: {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio: {}]", audio.mime_type),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { uri, .. } => format!("[data: {uri}]"),
            _ => "[data]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[link: {}]", link.uri),
        _ => "[content of an unknown kind]".to_owned(),
    }
}
