//! The content of a message: text with values in it, as a model is given it.
//!
//! Each block of text is a paragraph. A plain value replaces its expression. Lists and objects are taken out of the
//! sentence and follow its block as JSON; a file follows as a picture.

use super::{Message, MessagePart, Role};
use crate::error::StepFailure;
use crate::expr::{Expr, Lookup, Template, TemplatePart};
use crate::render::{self, TextStyle};
use crate::text_size::check_text_size;
use crate::value::Value;

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Paragraphs of text.
    Blocks(Vec<Template>),
    /// A single value.
    Value(Expr),
    /// A single value, always rendered as JSON.
    Json(Expr),
}

/// A list of parts under construction. Adjacent texts are merged into one part.
#[derive(Default)]
struct PartsBuilder {
    list: Vec<MessagePart>,
    text: String,
    /// Number of bytes of all texts.
    bytes: usize,
}

impl Content {
    /// The parts of the message. Fails if an expression in the content fails.
    pub fn render_parts(&self, scope: &dyn Lookup) -> Result<Vec<MessagePart>, StepFailure> {
        let mut parts = PartsBuilder::default();
        match self {
            Content::Value(expr) => parts.push_value(report_if_undefined(expr, expr.evaluate(scope, None)?, scope)),
            Content::Json(expr) => match expr.evaluate(scope, None)? {
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => parts.push_json(&value),
                value => parts.push_value(value),
            },
            Content::Blocks(blocks) => return Content::render_blocks(blocks, scope),
        }
        Ok(parts.into_parts())
    }

    /// The parts of a list of paragraphs. Fails if an expression in them fails.
    pub fn render_blocks(blocks: &[Template], scope: &dyn Lookup) -> Result<Vec<MessagePart>, StepFailure> {
        let mut parts = PartsBuilder::default();
        for block in blocks {
            parts.push_block(block, scope)?;
        }
        Ok(parts.into_parts())
    }
}

/// Reports an expression whose value is `undefined`. Returns the value.
fn report_if_undefined(expr: &Expr, value: Option<Value>, scope: &dyn Lookup) -> Option<Value> {
    if value.is_none() {
        scope.report_undefined(expr);
    }
    value
}

impl PartsBuilder {
    fn push_block(&mut self, block: &Template, scope: &dyn Lookup) -> Result<(), StepFailure> {
        let mut text = String::new();
        let mut after = Vec::new();
        for part in &block.parts {
            let value = match part {
                TemplatePart::Text(written) => {
                    text.push_str(written);
                    continue;
                }
                TemplatePart::Secret(_) => continue,
                TemplatePart::Ref(reference) => reference.find_value(scope).map(|found| found.to_value()),
                TemplatePart::Expr(expr) => report_if_undefined(expr, expr.evaluate(scope, None)?, scope),
            };
            match value {
                None => text.push_str("undefined"),
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                    text.push_str(&render::render_text(&value, TextStyle::JavaScript));
                    check_text_size(self.bytes + text.len())?;
                }
                // A list without items adds nothing to its sentence.
                Some(Value::List(items)) if items.is_empty() => {}
                Some(value) => after.push(value),
            }
        }
        self.push_paragraph(&text);
        for value in after {
            self.push_value(Some(value));
            check_text_size(self.bytes)?;
        }
        Ok(())
    }

    fn push_value(&mut self, value: Option<Value>) {
        match value {
            None => self.push_paragraph("undefined"),
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                self.push_paragraph(&render::render_text(&value, TextStyle::JavaScript));
            }
            Some(Value::Blob(blob)) => {
                self.flush_text();
                let (mime, data, name) = (blob.mime.clone(), blob.data.clone(), blob.name.as_str().into());
                self.list.push(MessagePart::Image { mime, data, name });
            }
            Some(value) => self.push_json(&value),
        }
    }

    fn push_json(&mut self, value: &Value) {
        self.flush_text();
        let text = fence_json(value);
        self.bytes += text.len();
        self.list.push(MessagePart::Text { text });
    }

    fn push_paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.text.is_empty() {
                self.text.push_str("\n\n");
            }
            self.text.push_str(text);
            self.bytes += text.len();
        }
    }

    fn flush_text(&mut self) {
        if !self.text.is_empty() {
            self.list.push(MessagePart::Text { text: std::mem::take(&mut self.text) });
        }
    }

    fn into_parts(mut self) -> Vec<MessagePart> {
        self.flush_text();
        self.list
    }
}

/// The value as JSON in a Markdown code fence.
pub fn fence_json(value: &Value) -> String {
    format!("```json\n{}\n```", render::to_js_json_pretty(value))
}

/// The texts of the parts, separated by blank lines. Images are left out.
pub fn join_texts(parts: &[MessagePart]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Text { text } => Some(text.as_str()),
            MessagePart::Image { .. } => None,
        })
        .collect();
    texts.join("\n\n")
}

/// The parts as Markdown, for a transcript: an image is its media type and the name of its file.
pub fn describe_parts(parts: &[MessagePart]) -> String {
    let describe = |part: &MessagePart| match part {
        MessagePart::Text { text } => text.clone(),
        MessagePart::Image { mime, name, .. } => format!("![{mime}]({name})"),
    };
    parts.iter().map(describe).collect::<Vec<_>>().join("\n\n")
}

/// A message with these parts. A message of one text has no separate `parts`.
pub fn build_message(role: Role, parts: Vec<MessagePart>) -> Message {
    let content = join_texts(&parts);
    let is_plain = matches!(parts.as_slice(), [] | [MessagePart::Text { .. }]);
    Message { parts: if is_plain { Vec::new() } else { parts }, ..Message::new(role, content) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::expr::{Missing, Ref, TextRules, Wording};
    use crate::text_size::MAX_TEXT_BYTES;
    use crate::value::Map;

    #[test]
    fn a_value_that_is_named_many_times_does_not_fill_the_memory() {
        let name = || TemplatePart::Ref(Ref { name: "x".into(), path: Vec::new(), source: "{{x}}".into() });
        let template = |count: usize| Template { parts: (0..count).map(|_| name()).collect() };
        let scope = Map::from_iter([("x".into(), "x".repeat(MAX_TEXT_BYTES / 2).as_str().into())]);
        let rules = TextRules {
            missing: Missing::Empty,
            null_is_missing: false,
            style: TextStyle::Json,
            keeps_type: false,
            wording: Wording::PLAIN,
        };
        assert!(template(2).resolve(&scope, rules).is_ok());
        let refused = template(3).resolve(&scope, rules).expect_err("too large");
        assert_eq!(refused.code, Code::LimitOutput);
        // As paragraphs of a message.
        let blocks = |count: usize| Content::Blocks((0..count).map(|_| template(1)).collect()).render_parts(&scope);
        assert!(blocks(2).is_ok());
        assert_eq!(blocks(3).expect_err("too large").code, Code::LimitOutput);
    }
}
