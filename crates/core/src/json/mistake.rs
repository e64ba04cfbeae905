//! Mistakes in JSON whose correction is plain: commas that are missing, and misspelt constants.

/// The constant of JSON that a word means: in other letters, cut short, with letters in another order, or in another
/// language. `None` for any other word.
pub fn find_constant(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let sorted = |word: &str| {
        let mut bytes = word.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    let is_meant =
        |constant: &&&str| (word.len() > 1 && constant.starts_with(word.as_str())) || sorted(constant) == sorted(&word);
    match word.as_str() {
        "none" | "nil" | "undefined" => Some("null"),
        _ => ["true", "false", "null"].iter().find(is_meant).copied(),
    }
}

/// Whether byte `at` of a text begins an item of a list: a list or an object, or a text on a line of its own. A text on the same
/// line may be the rest of one with quotes in it.
pub(super) fn starts_item(text: &str, at: usize) -> bool {
    let (before, rest) = text.split_at(at);
    let starts_line = before[before.trim_end().len()..].contains('\n');
    rest.starts_with(['{', '[']) || (starts_line && rest.starts_with('"'))
}

/// Whether byte `at` of a text begins an entry of an object: a key in quotes, with its colon.
pub(super) fn starts_entry(text: &str, at: usize) -> bool {
    let inner = text[at..].strip_prefix('"');
    let after_key = inner.and_then(|inner| inner[inner.find(['"', '\\', '\n'])?..].strip_prefix('"'));
    after_key.is_some_and(|rest| rest.trim_start().starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::super::{Expected, parse_misspelt, parse_node, write_json};
    use super::*;

    #[test]
    fn misspelt_constants_are_understood() {
        for (word, constant) in [
            ("tru", Some("true")),
            ("True", Some("true")),
            ("flase", Some("false")),
            ("None", Some("null")),
            ("undefined", Some("null")),
            ("the", None),
            ("t", None),
            ("", None),
        ] {
            assert_eq!(find_constant(word), constant, "{word}");
        }
        let node = parse_misspelt("{\"a\": tru, b: [Null, false,],}", 0).expect("readable");
        assert_eq!(write_json(&node.to_value()), r#"{"a":true,"b":[null,false]}"#);
        assert!(parse_misspelt("{\"a\": city}", 0).is_err());
    }

    #[test]
    fn a_missing_comma_is_noticed() {
        let lacks_comma = |text: &str| parse_node(text).map(|_| ()).expect_err("wrong").expected == Expected::Comma;
        for text in ["{\"a\": 1\n \"b\": 2}", "{\"a\": 1 \"b\" : 2}", "[{} {}]", "[\"a\"\n\"b\"]"] {
            assert!(lacks_comma(text), "{text}");
        }
        // These may have another cause: quotes within a text, a missing colon, a missing bracket.
        for text in ["{\"a\": \"say \" hi\"\"}", "[\"say \" \"hi\"]", "{\"a\" \"b\": 1}", "[1 2]", "{\"a\": 1"] {
            assert!(!lacks_comma(text), "{text}");
        }
    }
}
