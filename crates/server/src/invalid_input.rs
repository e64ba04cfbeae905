//! Errors about the parameters and the body of a request, in words for its sender: where the mistake is, and what was
//! expected, without names of Rust types.

use flowloom_app::type_errors::describe_type_error;
use serde::de::DeserializeOwned;

use crate::strict_objects::Strict;

/// What the libraries that read parameters and bodies say, and the words for it. The first that fits is used.
const WORDINGS: [(&str, &str); 6] = [
    ("invalid digit found in string", "not a whole number of at least 0"),
    ("cannot parse integer from empty string", "not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "not a number"),
    ("provided string was not `true` or `false`", "neither true nor false"),
];

/// Deserialises a JSON text. Fails with a message that names the field, if the text is no JSON or does not fit.
pub(crate) fn deserialize_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|error| {
        let path = error.path().to_string();
        let message = describe_type_error(&error.inner().to_string());
        // `?` is a place before the first field.
        if matches!(path.as_str(), "." | "?") { message } else { format!("{path}: {message}") }
    })?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// The message for a parameter of the URL that cannot be read; `refused` is what the library says.
pub(crate) fn describe_parameter_error(refused: &str) -> String {
    let message = refused.strip_prefix("Failed to deserialize query string: ").unwrap_or(refused);
    // A part of the path; all that are no texts are numbers.
    if let Some((value, _)) = message.split_once("Cannot parse `").and_then(|(_, rest)| rest.split_once("` to a `")) {
        return format!("`{value}` is not a number");
    }
    let worded = WORDINGS.iter().find_map(|(theirs, ours)| Some(format!("{}{ours}", message.strip_suffix(theirs)?)));
    worded.unwrap_or_else(|| describe_type_error(message))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        #[allow(dead_code)]
        limits: Vec<Limit>,
    }

    #[derive(Debug, Deserialize)]
    struct Limit {
        #[allow(dead_code)]
        steps: u32,
    }

    #[test]
    fn a_body_error_names_the_field_and_no_type_of_the_program() {
        let cases = [
            ("3", "expected an object, found the number 3 at line 1 column 1"),
            (
                r#"{"limits": [{"steps": "x"}]}"#,
                "limits[0].steps: expected a whole number from 0 to 4294967295, found the text \"x\" at line 1 column 25",
            ),
            (r#"{"limits": [1]}"#, "limits[0]: expected an object, found the number 1 at line 1 column 13"),
            (r#"{"limits": [[1]]}"#, "limits[0]: expected an object, found a list at line 1 column 13"),
            ("[[]]", "expected an object, found a list at line 1 column 1"),
            (r#"{"limit": []}"#, "limit: unknown field `limit`, expected `limits` at line 1 column 8"),
            ("{} x", "missing field `limits` at line 1 column 2"),
            (r#"{"limits": []} x"#, "trailing characters at line 1 column 16"),
        ];
        for (text, expected) in cases {
            assert_eq!(deserialize_json::<Settings>(text).expect_err(text), expected, "{text}");
        }
    }

    #[test]
    fn a_parameter_error_says_what_was_expected() {
        let cases = [
            ("Failed to deserialize query string: wait: invalid float literal", "wait: not a number"),
            (
                "Failed to deserialize query string: limit: invalid digit found in string",
                "limit: not a whole number of at least 0",
            ),
            ("Invalid URL: Cannot parse `nope` to a `i64`", "`nope` is not a number"),
            ("Failed to deserialize query string: unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
        ];
        for (refused, expected) in cases {
            assert_eq!(describe_parameter_error(refused), expected);
        }
    }
}
