//! The inputs of a run in one line, by which a person distinguishes runs of the same workflow.

use flowloom_core::render::shorten_text;
use flowloom_core::value::Value;
use serde_json::Value as Json;

use crate::runs::masking::mask_request;

/// Length of the line, in characters.
const MAX_LINE_CHARS: usize = 120;

/// The inputs in one line: the text of a single input, or all of them with their names. Of a turn of a conversation, its own
/// message. Files are named; secrets in headers and in parameters of addresses are masked. `None` if there is nothing to
/// show.
pub fn write_input_line(inputs: &Value) -> Option<String> {
    let mut shown = serde_json::to_value(inputs).ok()?;
    mask_request(&mut shown);
    let text = match shown {
        Json::Object(fields) if is_turn(&fields) => write_message(&fields["message"], inputs.get("message")),
        Json::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !is_empty(value));
            let texts = fields.map(|(name, value)| (name, write_field(value, inputs.get(name))));
            match &texts.collect::<Vec<_>>()[..] {
                [(_, text)] => text.clone(),
                several => several.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join(", "),
            }
        }
        value if is_empty(&value) => return None,
        value => write_field(&value, Some(inputs)),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| shorten_text(&line, MAX_LINE_CHARS))
}

/// Whether these are the inputs of a turn: a message, and those before it.
fn is_turn(inputs: &serde_json::Map<String, Json>) -> bool {
    inputs.get("messages").is_some_and(Json::is_array)
        && inputs.get("message").is_some_and(|message| !is_empty(message))
}

/// A message: its text, and the names of its files.
fn write_message(shown: &Json, input: Option<&Value>) -> String {
    let Json::Array(parts) = shown else { return write_field(shown, input) };
    let input = |at: usize| input.and_then(Value::as_list)?.get(at);
    parts.iter().enumerate().map(|(at, part)| write_field(part, input(at))).collect::<Vec<_>>().join(", ")
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.trim().is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

fn write_field(shown: &Json, input: Option<&Value>) -> String {
    match (shown, input) {
        (_, Some(Value::Blob(file))) => file.name.to_string(),
        (Json::String(text), _) => text.clone(),
        _ => shown.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_value;

    use super::*;

    fn write(inputs: &str) -> Option<String> {
        write_input_line(&parse_value(inputs).expect("JSON"))
    }

    #[test]
    fn inputs_are_one_short_line() {
        let line = |text: &str| Some(text.to_owned());
        assert_eq!(write(r#"{"message": "The lamp\n  is broken.", "note": null}"#), line("The lamp is broken."));
        assert_eq!(
            write(r#"{"topic": "storms", "count": 3, "tags": ["a"]}"#),
            line(r#"topic: storms, count: 3, tags: ["a"]"#)
        );
        assert_eq!(write(r#""storms""#), line("storms"));
        assert_eq!(write("{}"), None);
        assert_eq!(write(r#"{"message": ""}"#), None);
        assert_eq!(
            write(r#"{"message": "And order 7?", "messages": [{"role": "user", "content": "Where is order 6?"}]}"#),
            line("And order 7?")
        );
        let file = r#"{"$file": {"name": "plan.txt", "mime": "text/plain", "base64": "aGk="}}"#;
        let inputs = format!(r#"{{"message": ["See", {file}], "messages": []}}"#);
        assert_eq!(write_input_line(&serde_json::from_str(&inputs).expect("a value")), line("See, plan.txt"));
        let long = write_input_line(&"é".repeat(500).as_str().into()).expect("a line");
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_LINE_CHARS + 1, true));
    }

    #[test]
    fn secrets_are_masked() {
        let inputs =
            r#"{"url": "https://api.example/x?api_key=k123456789", "headers": {"authorization": "Bearer abcdefgh"}}"#;
        let line = write(inputs).expect("a line");
        assert!(!line.contains("abcdefgh") && !line.contains("k123456789"), "{line}");
    }
}
