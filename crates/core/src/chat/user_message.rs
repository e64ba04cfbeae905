//! The message of a user: a text, or a list of texts and files.

use super::content::build_message;
use super::{Message, MessagePart, Role};
use crate::value::{Blob, Value};

/// Reads the message of a user: a text, or a list of texts and files. An image is a part of its own; any other file is
/// sent as its text. Fails with what is wrong with the value.
///
/// # Errors
///
/// If the value is neither, or a file is neither an image nor UTF-8 text.
pub fn read_user_message(value: &Value) -> Result<Message, String> {
    match value {
        Value::String(text) => Ok(Message::new(Role::User, &**text)),
        Value::List(items) => {
            let parts = items.iter().map(read_part).collect::<Result<Vec<_>, _>>()?;
            Ok(build_message(Role::User, parts))
        }
        other => Err(format!("a message is a text, or a list of texts and files, not {}", other.kind_name())),
    }
}

pub(super) fn read_part(item: &Value) -> Result<MessagePart, String> {
    match item {
        Value::String(text) => Ok(MessagePart::Text { text: text.to_string() }),
        Value::Blob(file) => read_file(file),
        other => match Blob::from_input(other) {
            Some(file) => read_file(&file),
            None => Err(format!("a part of a message is a text or a file, not {}", other.kind_name())),
        },
    }
}

fn read_file(file: &Blob) -> Result<MessagePart, String> {
    if file.mime.starts_with("image/") {
        if !file.is_base64() {
            return Err(format!("{} is not encoded in base64", file.name));
        }
        let (mime, data, name) = (file.mime.clone(), file.data.clone(), file.name.as_str().into());
        return Ok(MessagePart::Image { mime, data, name });
    }
    match file.decode_text() {
        Some(text) => Ok(MessagePart::Text { text: format!("{}:\n\n{text}", file.name) }),
        None => Err(format!("{} is {}; expected an image or UTF-8 text", file.name, file.mime)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, mime: &str, base64: &str) -> Value {
        Value::map([(
            "$file",
            Value::map([("name", Value::from(name)), ("mime", mime.into()), ("base64", base64.into())]),
        )])
    }

    #[test]
    fn images_and_texts_become_parts() {
        let value = Value::list(vec![
            "What is this?".into(),
            file("a.png", "image/png", "iVBORw0="),
            file("b.txt", "text/plain", "YsOkaA=="),
        ]);
        let message = read_user_message(&value).expect("valid");
        assert_eq!(message.content, "What is this?\n\nb.txt:\n\nb\u{e4}h");
        assert_eq!(message.parts.len(), 3);
        assert!(matches!(&message.parts[1], MessagePart::Image { mime, .. } if mime == "image/png"));
    }

    #[test]
    fn what_a_model_cannot_read_is_refused() {
        let refused = |value: Value| read_user_message(&value).expect_err("refused");
        assert_eq!(
            refused(Value::list(vec![file("a.zip", "application/zip", "/w==")])),
            "a.zip is application/zip; expected an image or UTF-8 text"
        );
        let wrong = refused(Value::list(vec![file("a.png", "image/png", "%%%")]));
        assert_eq!(wrong, "a.png is not encoded in base64");
        assert!(refused(Value::from(5)).contains("not a number"));
        assert!(refused(Value::list(vec![Value::from(5)])).contains("a text or a file"));
    }
}
