//! The keys of a frontmatter that is being written. Only their places are read; the values are read when it is compiled.

use std::ops::Range;

use flowloom_core::diagnostic::Span;

/// A key of the frontmatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlKey {
    /// The keys around it and the key itself.
    pub path: Vec<String>,
    /// The place of the key.
    pub span: Span,
    /// The rest of its line.
    pub value: Span,
}

/// The keys in the lines of `range`. Keys between braces are found on the line of the key that they belong to.
pub fn find_yaml_keys(text: &str, range: Range<usize>) -> Vec<YamlKey> {
    let mut keys: Vec<YamlKey> = Vec::new();
    // The indentation of each enclosing key.
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut at = range.start;
    for line in text.get(range).unwrap_or_default().split_inclusive('\n') {
        let (start, content) = (at, line.trim_end());
        at += line.len();
        let trimmed = content.trim_start();
        let indentation = content.len() - trimmed.len();
        let Some((key, value)) = trimmed.split_once(':').filter(|(key, _)| is_key(key)) else { continue };
        open.retain(|(outer, _)| *outer < indentation);
        let name = key.trim_matches(['"', '\'']).to_owned();
        let path: Vec<String> = open.iter().map(|(_, key)| key.clone()).chain([name.clone()]).collect();
        let key_start = start + indentation + usize::from(key.starts_with(['"', '\'']));
        let value_start = start + indentation + key.len() + 1;
        keys.push(YamlKey {
            span: Span { start: key_start, length: name.len() },
            value: Span { start: value_start, length: value.len() },
            path: path.clone(),
        });
        add_inline_keys(value, value_start, &path, &mut keys);
        open.push((indentation, name));
    }
    keys
}

fn is_key(key: &str) -> bool {
    let plain = key.trim_matches(['"', '\'']);
    !plain.is_empty() && plain.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// The keys of `{key: value, …}`.
fn add_inline_keys(value: &str, start: usize, path: &[String], keys: &mut Vec<YamlKey>) {
    let mut quote = None;
    let mut depth = 0;
    let mut piece = 0;
    for (at, c) in value.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => {
                depth += 1;
                if depth == 1 {
                    piece = at + 1;
                }
            }
            (None, '}' | ']') => depth -= 1,
            (None, ',') if depth == 1 => piece = at + 1,
            (None, ':') if depth == 1 => {
                let written = &value[piece..at];
                let key = written.trim();
                if is_key(key) {
                    let key_start = start + piece + (written.len() - written.trim_start().len());
                    let rest = &value[at + 1..];
                    let length = rest.find([',', '}']).unwrap_or(rest.len());
                    keys.push(YamlKey {
                        path: path.iter().cloned().chain([key.to_owned()]).collect(),
                        span: Span { start: key_start, length: key.len() },
                        value: Span { start: start + at + 1, length },
                    });
                }
            }
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_path_and_place() {
        let text =
            "title: A: b\ninput:\n  topic: {type: select, options: [a, b]}\n  more:\n    type: text\ndata:\n  x: 1\n";
        let keys = find_yaml_keys(text, 0..text.len());
        let shown: Vec<String> = keys
            .iter()
            .map(|key| {
                let part = |span: Span| &text[span.start..span.end()];
                format!("{} {} {}", key.path.join("."), part(key.span), part(key.value).trim())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "title title A: b",
                "input input ",
                "input.topic topic {type: select, options: [a, b]}",
                "input.topic.type type select",
                "input.topic.options options [a",
                "input.more more ",
                "input.more.type type text",
                "data data ",
                "data.x x 1",
            ]
        );
    }
}
