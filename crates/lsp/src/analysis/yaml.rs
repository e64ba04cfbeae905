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

/// The keys in the lines of `range`. Keys between braces are found on the line of the key that they belong to, those of the
/// items of a list below the key of the list.
pub fn find_yaml_keys(text: &str, range: Range<usize>) -> Vec<YamlKey> {
    let mut keys: Vec<YamlKey> = Vec::new();
    let mut open = OpenKeys::default();
    let mut at = range.start;
    for line in text.get(range).unwrap_or_default().split_inclusive('\n') {
        let (start, content) = (at, line.trim_end());
        at += line.len();
        let is_empty = content.trim_start().is_empty() || content.trim_start().starts_with('#');
        let (indentation, trimmed) = if is_empty { continue } else { open.enter_line(content) };
        let Some((key, value)) = trimmed.split_once(':').filter(|(key, _)| is_key(key)) else {
            add_inline_keys(trimmed, start + indentation, &open.list_path(), &mut keys);
            continue;
        };
        let name = key.trim_matches(['"', '\'']).to_owned();
        let path: Vec<String> = open.list_path().into_iter().chain([name.clone()]).collect();
        let key_start = start + indentation + usize::from(key.starts_with(['"', '\'']));
        let value_start = start + indentation + key.len() + 1;
        keys.push(YamlKey {
            span: Span { start: key_start, length: name.len() },
            value: Span { start: value_start, length: value.len() },
            path: path.clone(),
        });
        add_inline_keys(value, value_start, &path, &mut keys);
        open.0.push((indentation, name));
    }
    keys
}

/// The keys around byte `offset` of the lines of `range`.
pub fn find_yaml_path(text: &str, range: Range<usize>, offset: usize) -> Vec<String> {
    let mut open = OpenKeys::default();
    let mut lines = text.get(range.start..offset).unwrap_or_default().split('\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let is_empty = line.trim().is_empty() || line.trim_start().starts_with('#');
        if is_empty && !is_last {
            continue;
        }
        let (indentation, trimmed) = open.enter_line(line.trim_end_matches('\r'));
        let key = trimmed.split_once(':').filter(|(key, _)| is_key(key));
        if is_last {
            let (key, value) = key.map_or((None, trimmed), |(key, value)| (Some(key), value));
            let inner = list_open_keys(value);
            let own = key.filter(|_| value.contains('{')).map(|key| key.trim_matches(['"', '\'']).to_owned());
            return open.list_path().into_iter().chain(own).chain(inner).collect();
        }
        if let Some((key, _)) = key {
            open.0.push((indentation, key.trim_matches(['"', '\'']).to_owned()));
        }
    }
    open.list_path()
}

/// The keys around a line, with the indentation of each.
#[derive(Default)]
struct OpenKeys(Vec<(usize, String)>);

impl OpenKeys {
    /// Closes the keys that end before a line. Returns where its content begins, after the sign of an item, and the content.
    fn enter_line<'t>(&mut self, line: &'t str) -> (usize, &'t str) {
        let mut content = line.trim_start();
        let sign = line.len() - content.len();
        let is_item = |content: &str| content == "-" || content.starts_with("- ");
        // The items of a list may begin below the first letter of its key. Those of a section are not its keys.
        let outer = if is_item(content) { sign + 1 } else { sign };
        self.0.retain(|(key, _)| *key < outer);
        while is_item(content) && self.0.len() > 1 {
            content = content[1..].trim_start();
        }
        (line.len() - content.len(), content)
    }

    fn list_path(&self) -> Vec<String> {
        self.0.iter().map(|(_, key)| key.clone()).collect()
    }
}

fn is_key(key: &str) -> bool {
    let plain = key.trim_matches(['"', '\'']);
    !plain.is_empty() && plain.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// The keys of `{key: value, …}`, also within each other and in lists.
fn add_inline_keys(value: &str, start: usize, path: &[String], keys: &mut Vec<YamlKey>) {
    read_brackets(value, &mut |open, key| {
        let rest = &value[key.end + 1..];
        let length = rest.find([',', '}']).unwrap_or(rest.len());
        let name = value[key.start..key.end].trim_end();
        keys.push(YamlKey {
            path: path.iter().cloned().chain(list_keys_of(open)).chain([name.to_owned()]).collect(),
            span: Span { start: start + key.start, length: name.len() },
            value: Span { start: start + key.end + 1, length },
        });
    });
}

/// The keys whose values are open at the end of a text.
fn list_open_keys(text: &str) -> Vec<String> {
    let mut open = read_brackets(text, &mut |_, _| {});
    // The innermost bracket is where the next key is written.
    open.pop();
    list_keys_of(&open).collect()
}

/// A bracket that is open.
struct InlineBracket {
    is_map: bool,
    /// Where its present entry begins.
    piece: usize,
    /// The key of this entry, once it has one.
    key: Option<String>,
}

/// Reads the brackets of a text. Calls `on_key` with those that are open around each key, and the place of the key up to its
/// colon. Returns those that are open at the end.
fn read_brackets(text: &str, on_key: &mut dyn FnMut(&[InlineBracket], Range<usize>)) -> Vec<InlineBracket> {
    let mut open: Vec<InlineBracket> = Vec::new();
    visit_signs(text, &mut |at, sign| match sign {
        '{' | '[' => open.push(InlineBracket { is_map: sign == '{', piece: at + 1, key: None }),
        '}' | ']' => drop(open.pop()),
        ',' => open.iter_mut().last().into_iter().for_each(|last| (last.piece, last.key) = (at + 1, None)),
        _ => {
            let Some(last) = open.last().filter(|last| last.is_map && last.key.is_none()) else { return };
            let written = text[last.piece..at].trim_start();
            let key = written.trim_end();
            if is_key(key) {
                on_key(&open, at - written.len()..at);
                open.iter_mut().last().into_iter().for_each(|last| last.key = Some(key.to_owned()));
            }
        }
    });
    open
}

fn list_keys_of(open: &[InlineBracket]) -> impl Iterator<Item = String> {
    open.iter().filter_map(|bracket| bracket.key.clone())
}

/// Visits the brackets, commas and colons of a text that are not between quotation marks.
fn visit_signs(text: &str, visit: &mut dyn FnMut(usize, char)) {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[' | '}' | ']' | ',' | ':') => visit(at, c),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_objects_in_lists_are_those_of_the_list() {
        let text = "data:\n  - no\n  towns: [{name: Oslo, at: {x: 1}}, {name: Rome}]\n  rivers:\n  - name: Rhine\n    length: 3\n  - {a: 1}\n  limit: 2\n";
        let keys: Vec<String> = find_yaml_keys(text, 0..text.len()).iter().map(|key| key.path.join(".")).collect();
        assert_eq!(
            keys,
            [
                "data",
                "data.towns",
                "data.towns.name",
                "data.towns.at",
                "data.towns.at.x",
                "data.towns.name",
                "data.rivers",
                "data.rivers.name",
                "data.rivers.length",
                "data.rivers.a",
                "data.limit",
            ]
        );
    }

    #[test]
    fn a_place_has_the_keys_around_it() {
        let text = "title: x\ninput:\n  topic: {type: text, ‸}\n  more:\n    ‸\n  ‸\ndata:\n  towns: [{name: Oslo, at: {x: 1, ‸}}, {‸\n  rivers:\n    - na‸\n‸";
        let plain = text.replace('‸', "");
        let marks = text.match_indices('‸').enumerate().map(|(before, (at, mark))| at - before * mark.len());
        let found: Vec<String> = marks.map(|at| find_yaml_path(&plain, 0..plain.len(), at).join(".")).collect();
        assert_eq!(found, ["input.topic", "input.more", "input", "data.towns.at", "data.towns", "data.rivers", ""]);
    }

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
