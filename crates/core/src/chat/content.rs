//! The content of a message: text with values in it, as a model is given it.
//!
//! Each block of text is a paragraph. A plain value stands in its place. Lists and objects are taken out of the sentence
//! and follow its block as JSON; a file follows as a picture.

use super::{Message, MessagePart, Role};
use crate::error::StepError;
use crate::expr::{Expr, Lookup, Part, Template};
use crate::render::{self, Style};
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
struct Parts {
    list: Vec<MessagePart>,
    text: String,
}

impl Content {
    /// The parts of the message. Fails if an expression in the content fails.
    pub fn parts(&self, scope: &dyn Lookup) -> Result<Vec<MessagePart>, StepError> {
        let mut parts = Parts::default();
        match self {
            Content::Value(expr) => parts.value(expr.evaluate(scope, None)?),
            Content::Json(expr) => match expr.evaluate(scope, None)? {
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => parts.json(&value),
                value => parts.value(value),
            },
            Content::Blocks(blocks) => return Content::parts_of(blocks, scope),
        }
        Ok(parts.finish())
    }

    /// The parts of a list of paragraphs. Fails if an expression in them fails.
    pub fn parts_of(blocks: &[Template], scope: &dyn Lookup) -> Result<Vec<MessagePart>, StepError> {
        let mut parts = Parts::default();
        for block in blocks {
            parts.block(block, scope)?;
        }
        Ok(parts.finish())
    }
}

impl Parts {
    fn block(&mut self, block: &Template, scope: &dyn Lookup) -> Result<(), StepError> {
        let mut text = String::new();
        let mut after = Vec::new();
        for part in &block.parts {
            let value = match part {
                Part::Text(written) => {
                    text.push_str(written);
                    continue;
                }
                Part::Secret(_) => continue,
                Part::Ref(reference) => reference.value(scope).map(|found| found.to_value()),
                Part::Expr(expr) => expr.evaluate(scope, None)?,
            };
            match value {
                None => text.push_str("undefined"),
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                    text.push_str(&render::text(&value, Style::JavaScript));
                }
                Some(value) => after.push(value),
            }
        }
        self.paragraph(&text);
        after.into_iter().for_each(|value| self.value(Some(value)));
        Ok(())
    }

    fn value(&mut self, value: Option<Value>) {
        match value {
            None => self.paragraph("undefined"),
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                self.paragraph(&render::text(&value, Style::JavaScript));
            }
            Some(Value::Blob(blob)) => {
                self.flush();
                self.list.push(MessagePart::Image { mime: blob.mime.clone(), data: blob.data.clone() });
            }
            Some(value) => self.json(&value),
        }
    }

    fn json(&mut self, value: &Value) {
        self.flush();
        self.list.push(MessagePart::Text { text: fenced(value) });
    }

    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.text.is_empty() {
                self.text.push_str("\n\n");
            }
            self.text.push_str(text);
        }
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.list.push(MessagePart::Text { text: std::mem::take(&mut self.text) });
        }
    }

    fn finish(mut self) -> Vec<MessagePart> {
        self.flush();
        self.list
    }
}

/// The value as JSON in a Markdown code fence.
pub fn fenced(value: &Value) -> String {
    format!("```json\n{}\n```", render::js_pretty(value))
}

/// The texts of the parts, separated by blank lines. Images are left out.
pub fn text_of(parts: &[MessagePart]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Text { text } => Some(text.as_str()),
            MessagePart::Image { .. } => None,
        })
        .collect();
    texts.join("\n\n")
}

/// A message with these parts. A message of one text has no separate `parts`.
pub fn message(role: Role, parts: Vec<MessagePart>) -> Message {
    let content = text_of(&parts);
    let is_plain = matches!(parts.as_slice(), [] | [MessagePart::Text { .. }]);
    Message { parts: if is_plain { Vec::new() } else { parts }, ..Message::new(role, content) }
}
