//! What an MCP tool gave back as a value: structured content as it is, else its text.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The value of a result; a result that says it is an error is one. `redact` takes secrets out of text.
pub(super) fn value(result: CallToolResult, redact: impl Fn(String) -> String) -> Result<Value, StepError> {
    let text = || redact(result.content.iter().map(shown).collect::<Vec<_>>().join("\n"));
    if result.is_error == Some(true) {
        let text = text();
        let message = if text.is_empty() { "it failed without saying why".to_owned() } else { text };
        return Err(StepError::new(Code::FunctionFailed, message));
    }
    match &result.structured_content {
        Some(structured) => {
            let json = redact(structured.to_string());
            parse_value(&json).map_err(|error| {
                StepError::new(Code::McpFailed, format!("its result cannot be read: {}", error.message))
            })
        }
        None => Ok(text().into()),
    }
}

/// A piece of content as text. What no text can show is only named.
fn shown(content: &ContentBlock) -> String {
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
