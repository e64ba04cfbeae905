//! JSON with comments: files whose name ends with `.jsonc`. Comments, and commas after a last item, are replaced by blanks
//! of the same length, so that every place in the text stays what it is.

use std::borrow::Cow;
use std::path::Path;

/// The text of a definition as JSON, if the file is JSON with comments; otherwise the text itself.
pub fn to_plain_json<'t>(file: &str, text: &'t str) -> Cow<'t, str> {
    let has_comments = Path::new(file).extension().is_some_and(|end| end.eq_ignore_ascii_case("jsonc"));
    if has_comments { blank_comments(text) } else { Cow::Borrowed(text) }
}

/// The text with blanks in the place of comments and of commas after a last item.
pub fn blank_comments(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out: Option<Vec<u8>> = None;
    let mut blank = |from: usize, to: usize| {
        let out = out.get_or_insert_with(|| bytes.to_vec());
        out[from..to].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    };
    let mut comma = None;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = match bytes[at] {
            b'"' => string_length(bytes, at),
            b'/' if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                blank(at, at + length);
                length
            }
            b'/' if rest.starts_with("/*") => {
                let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
                blank(at, at + length);
                length
            }
            b']' | b'}' => {
                comma.take().into_iter().for_each(|comma| blank(comma, comma + 1));
                1
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        comma = match bytes[at] {
            b',' => Some(at),
            b' ' | b'\t' | b'\n' | b'\r' => comma,
            b'/' if length > 1 => comma,
            _ => None,
        };
        at += length;
    }
    match out.and_then(|out| String::from_utf8(out).ok()) {
        Some(out) => Cow::Owned(out),
        None => Cow::Borrowed(text),
    }
}

/// The length of the string literal at byte `start`, or of the rest of the text if it is not closed.
fn string_length(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1 - start,
            _ => at += 1,
        }
    }
    bytes.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_become_blanks() {
        let cases = [
            ("{\"a\": 1, // one\n}", "{\"a\": 1        \n}"),
            ("[1, /* é\n */ 2]", "[1,     \n    2]"),
            ("{\"a\": \"// no, \\\" /* no */\"}", "{\"a\": \"// no, \\\" /* no */\"}"),
            ("[1, 2,]", "[1, 2 ]"),
            ("[,]", "[ ]"),
        ];
        for (text, plain) in cases {
            let blanked = blank_comments(text);
            assert_eq!(blanked.replace("  ", " ").replace("  ", " "), plain.replace("  ", " ").replace("  ", " "));
            assert_eq!(blanked.len(), text.len(), "{text}");
        }
    }
}
