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
        None if !file.is_base64() => Err(format!("{} is not encoded in base64", file.name)),
        None => Err(refuse_type(file)),
    }
}

fn refuse_type(file: &Blob) -> String {
    format!("{} is {}; expected an image or UTF-8 text", file.name, file.mime)
}

/// Media types below `application/` of files that are no text, whatever their bytes are. A file of an unknown type
/// (`application/octet-stream`) is what its bytes are.
const BINARY_APPLICATIONS: [&str; 12] = [
    "pdf",
    "zip",
    "gzip",
    "x-gzip",
    "x-bzip2",
    "x-tar",
    "x-7z-compressed",
    "x-zip-compressed",
    "vnd.rar",
    "msword",
    "wasm",
    "epub+zip",
];

/// Starts of media types of files that are no text, whatever their bytes are.
const BINARY_TYPES: [&str; 6] = [
    "audio/",
    "video/",
    "font/",
    "application/vnd.ms-",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
];

/// The problem with the type of a file in the message of a user, if there is one. Programs read such files by their type, and
/// their bytes may happen to be a text.
pub(crate) fn find_wrong_type(message: &Value) -> Option<String> {
    message.as_list()?.iter().find_map(|item| {
        let file = match item {
            Value::Blob(file) => Blob::clone(file),
            other => Blob::from_input(other)?,
        };
        let mime = file.mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_binary = mime.strip_prefix("application/").is_some_and(|kind| BINARY_APPLICATIONS.contains(&kind))
            || BINARY_TYPES.iter().any(|start| mime.starts_with(start));
        is_binary.then(|| refuse_type(&file))
    })
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
        let wrong = refused(Value::list(vec![file("a.txt", "text/plain", "%%%")]));
        assert_eq!(wrong, "a.txt is not encoded in base64");
        for (mime, is_refused) in [
            ("application/pdf", true),
            ("Application/PDF; version=1", true),
            ("audio/wav", true),
            ("application/vnd.ms-excel", true),
            ("application/octet-stream", false),
            ("application/json", false),
            ("text/plain", false),
            ("image/png", false),
            ("", false),
        ] {
            let problem = find_wrong_type(&Value::list(vec!["read".into(), file("a", mime, "JVBERg==")]));
            assert_eq!(problem.is_some(), is_refused, "{mime}: {problem:?}");
        }
        assert!(refused(Value::from(5)).contains("not a number"));
        assert!(refused(Value::list(vec![Value::from(5)])).contains("a text or a file"));
    }
}
