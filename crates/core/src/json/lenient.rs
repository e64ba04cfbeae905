//! Reading text that is nearly JSON: answers of models, arguments of tools, replies of servers, and bodies with raw text
//! pasted in. All of them are read at run time, in every format, so the repair is here and not in a front end.
//!
//! In order: strict JSON; a repair, if the text starts like an object or list; the first bracketed part of the text that
//! can be read. The original of the flow format reads replies, bodies and arguments in this way.

use super::repair::repair_json;
use crate::json::parse_value;
use crate::value::Value;

/// Reads `text` leniently; `None` if nothing JSON-like is in it.
pub fn read_lenient(text: &str) -> Option<Value> {
    parse_value(text).ok().or_else(|| read_repaired(text)).or_else(|| extract_json(text))
}

/// Reads a text that starts like an object or list and breaks some rules of JSON; `None` if it cannot be repaired.
pub fn read_repaired(text: &str) -> Option<Value> {
    let repaired = text.starts_with(['{', '[']).then(|| repair_json(text))?;
    parse_value(&repaired?).ok()
}

/// The first part between matching brackets that parses as JSON, either unchanged or with its keys and quotes repaired.
/// Nothing is searched behind a bracket that is never closed.
fn extract_json(text: &str) -> Option<Value> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find(['{', '['])?..];
        let (part, behind) = rest.split_at(find_end(rest)?);
        if let Some(value) = parse_value(part).ok().or_else(|| parse_value(&quote_texts(&quote_keys(part))).ok()) {
            return Some(value);
        }
        rest = behind;
    }
}

/// The end of the part that starts with a bracket. Only brackets of its kind count, also within strings.
fn find_end(text: &str) -> Option<usize> {
    let (open, close) = if text.starts_with('{') { (b'{', b'}') } else { (b'[', b']') };
    let mut depth = 0i32;
    let last = text.bytes().position(|byte| {
        depth += i32::from(byte == open) - i32::from(byte == close);
        depth == 0
    });
    last.map(|last| last + 1)
}

/// Quotes bare words before colons.
fn quote_keys(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.bytes().take_while(|byte| is_word(*byte)).count().max(first.len_utf8());
        let key = word + rest[word..].len() - rest[word..].trim_start().len();
        if is_word(rest.as_bytes()[0]) && rest[key..].starts_with(':') {
            out.extend(["\"", &rest[..key], "\""]);
            rest = &rest[key..];
        } else {
            out.push_str(&rest[..word]);
            rest = &rest[word..];
        }
    }
    out
}

/// Replaces the single quotes around texts by double quotes.
fn quote_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.find('\'') {
        let (before, quoted) = (&rest[..quote], &rest[quote + 1..]);
        out.push_str(before);
        let ends_value = |end: &usize| {
            quoted[end + 1..].starts_with(|next: char| next.is_whitespace() || matches!(next, ',' | ']' | '}'))
        };
        match quoted.find('\'').filter(|end| *end > 0).filter(ends_value) {
            Some(end) => {
                out.extend(["\"", &quoted[..end], "\""]);
                rest = &quoted[end + 1..];
            }
            None => {
                out.push('\'');
                rest = quoted;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::read_lenient;

    #[test]
    fn observed_readings() {
        let cases = [
            ("x [1,2] y", Some("[1,2]")),
            ("callback({\"a\":1})", Some("{\"a\":1}")),
            ("```json\n{\"a\":1}```", Some("{\"a\":1}")),
            ("{\"a\":1}\n{\"b\":2}", Some("[{\"a\":1},{\"b\":2}]")),
            ("{\"a\":1}{\"b\":2}", Some("{\"a\":1}")),
            (" {a:1,}", None),
            ("data: {\"a\":\"}\"}", None),
            ("plain words", None),
            ("{a:'x', list:[1,2,],}", Some("{\"a\":\"x\",\"list\":[1,2]}")),
            ("{oops", Some("{\"oops\":null}")),
            ("{\"q\":\"say \"hi\" now\",\"n\":1}", Some("{\"q\":\"say \\\"hi\\\" now\",\"n\":1}")),
            ("{\"m\":\"\\ud83d\\ude00\",}", Some("{\"m\":\"😀\"}")),
            ("{\"a\":\"b\" + \"c\"}", Some("{\"a\":\"bc\"}")),
            ("{\"a\":ObjectId(\"x\")}", Some("{\"a\":\"x\"}")),
            ("[true false]", Some("[true,false]")),
            ("{\"a\" \"b\"}", Some("{\"a\":\"b\"}")),
            ("x {\"a\":{\"b\":1} y", None),
            ("x [1,2 y [3] z", None),
            ("see {a: 'it', b: ['x', 'y']} there", Some("{\"a\":\"it\",\"b\":[\"x\",\"y\"]}")),
            ("{no json} then {\"a\":1}", Some("{\"a\":1}")),
            ("{\"a\": undefined, /* c */ \"b\": [1, 2", Some("{\"a\":null,\"b\":[1,2]}")),
            ("{\"a\":\"b\" \"c\":\"d\"}", Some("{\"a\":\"b\",\"c\":\"d\"}")),
            ("[1 2 3]", Some("[1,2,3]")),
            ("{\"a\":1 // x\n}", Some("{\"a\":1}")),
            ("{\u{201c}a\u{201d}:`b`}", Some("{\"a\":\"b\"}")),
            ("null", Some("null")),
            ("{\"a\":NaN, \"b\": [-Infinity ,Infinity]}", Some("{\"a\":\"NaN\",\"b\":[\"-Infinity\",\"Infinity\"]}")),
            ("{\"a\": \"x: NaN, \\\" [NaN]\", \"b\":1,}", Some("{\"a\":\"x: NaN, \\\" [NaN]\",\"b\":1}")),
            ("", None),
        ];
        for (text, expected) in cases {
            let read = read_lenient(text).map(|value| crate::json::write_json(&value));
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in r#"[\[\]{}",':a-z0-9\\ /*\n]{0,40}"#) {
            let _ = read_lenient(&text);
        }
    }
}
