//! Rust source text without its comments, strings and tests, and the names that it declares.

use std::path::PathBuf;

use crate::files::{list_files, read_text, relative_path};

/// A product source file: no test, no example, no generated code.
pub struct ProductFile {
    /// Path from the repository root.
    pub path: String,
    /// The text up to its test module.
    pub text: String,
    /// The same text, as long, with comments and literals replaced by spaces.
    pub code: String,
}

/// Every product source file below `folders` (paths from the repository root).
pub fn read_product_files(folders: &[&str]) -> Vec<ProductFile> {
    let files = folders.iter().flat_map(|folder| list_files(folder, "rs"));
    files.filter(|file| !is_test_file(&relative_path(file))).map(read_product_file).collect()
}

fn read_product_file(file: PathBuf) -> ProductFile {
    let text = read_text(&file);
    let end = text.find("#[cfg(test)]\nmod tests {").or_else(|| text.find("#[cfg(test)]\npub(crate) mod tests {"));
    let text = text[..end.unwrap_or(text.len())].to_owned();
    ProductFile { path: relative_path(&file), code: blank_text(&text), text }
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("tests.rs") || path.contains("/examples/")
}

/// Replaces comments, strings and character literals with spaces; line breaks stay, and so does the length in bytes.
pub fn blank_text(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_literal(text, at);
        if let Some(end) = end {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end.unwrap_or(at + 1);
    }
    String::from_utf8(out).expect("only whole literals are replaced")
}

/// The string literals of Rust code as they are written, without their quotation marks; comments have none.
pub fn string_literals(text: &str) -> Vec<&str> {
    let mut literals = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = end_of_literal(text, at);
        if let Some(end) = end {
            let literal = &text[at..end];
            if !literal.starts_with(['/', '\'']) {
                literals.push(literal.trim_start_matches(['b', 'r', '#']).trim_end_matches('#').trim_matches('"'));
            }
        }
        at = end.unwrap_or(at + 1);
    }
    literals
}

/// Where the comment or literal that begins at `at` ends; `None` if none begins there.
fn end_of_literal(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let rest = bytes.get(at..)?;
    let follows_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Some(find_from(text, at, "\n").unwrap_or(text.len())),
        [b'/', b'*', ..] => Some(find_from(text, at + 2, "*/").map_or(text.len(), |end| end + 2)),
        [b'"', ..] => Some(end_of_string(bytes, at + 1)),
        [b'b', b'"', ..] if !follows_word => Some(end_of_string(bytes, at + 2)),
        [b'r', b'"' | b'#', ..] if !follows_word => end_of_raw_string(text, at + 1),
        [b'b', b'r', b'"' | b'#', ..] if !follows_word => end_of_raw_string(text, at + 2),
        [b'\'', ..] => end_of_character(text, at),
        _ => None,
    }
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn end_of_raw_string(text: &str, at: usize) -> Option<usize> {
    let hashes = text[at..].bytes().take_while(|byte| *byte == b'#').count();
    if text.as_bytes().get(at + hashes) != Some(&b'"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    Some(find_from(text, at + hashes + 1, &close).map_or(text.len(), |end| end + close.len()))
}

/// A character literal; a lifetime is none.
fn end_of_character(text: &str, at: usize) -> Option<usize> {
    let mut characters = text[at + 1..].char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        let (escaped, _) = characters.next()?;
        return find_from(text, at + 1 + escaped + 1, "'").map(|end| end + 1);
    }
    let (next, quote) = characters.next()?;
    (quote == '\'').then_some(at + 1 + next + 1)
}

fn find_from(text: &str, from: usize, wanted: &str) -> Option<usize> {
    text.get(from..)?.find(wanted).map(|at| from + at)
}

/// Names that follow one of `keywords` (such as `fn`) in code that [`blank_text`] returned.
pub fn declared_names<'a>(code: &'a str, keywords: &[&str]) -> Vec<&'a str> {
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).peekable();
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        if keywords.contains(&word)
            && let Some(name) = words.peek()
        {
            names.push(*name);
        }
    }
    names
}

/// Splits at the commas that are not inside brackets of any kind; an empty last part is left out.
pub fn split_list(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if previous == '-' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        previous = c;
    }
    parts.push(&text[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked_and_code_is_not() {
        let text = "let a = \"fn x\"; // fn y\nlet b = 'c'; fn z<'a>() { r#\"fn \"w\"# } /* fn v */ '\\n'";
        let code = blank_text(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(declared_names(&code, &["fn"]), ["z"]);
        assert!(code.contains("<'a>") && !code.contains("'c'"), "{code}");
        assert_eq!(string_literals(text), ["fn x", "fn \"w"]);
    }
}
