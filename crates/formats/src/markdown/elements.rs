//! The elements of a Markdown text that may not be a workflow, without reading it as one.

use super::actions::{BUILT_IN_ACTIONS, to_kebab_case};
use super::lex::{find_expression_end, measure_tag};

/// Maximum number of tags, expressions and code spans whose ends are looked for in vain, each to the end of the text. After
/// them, such a beginning is text, so that every text takes linear time.
const MAX_FAILED_SEARCHES: usize = 16;

/// Whether a text has an action: a built-in one, a function or a tool of a server. What is in code or in an expression is none.
pub fn has_action(text: &str, functions: &[&str], servers: &[&str]) -> bool {
    let is_tool = |name: &str, server: &str| {
        name.strip_prefix(&to_kebab_case(server)).is_some_and(|rest| rest.starts_with('-') && rest.len() > 1)
    };
    let is_action = |name: &str| {
        let name = to_kebab_case(name);
        BUILT_IN_ACTIONS.iter().chain(functions).any(|known| to_kebab_case(known) == name)
            || servers.iter().any(|server| is_tool(&name, server))
    };
    list_element_names(text).into_iter().any(is_action)
}

/// The names of the elements, as written.
fn list_element_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut searches_left = MAX_FAILED_SEARCHES;
    let mut search = |find: &dyn Fn() -> Option<usize>| {
        let found = (searches_left > 0).then(find).flatten();
        searches_left = searches_left.saturating_sub(usize::from(found.is_none()));
        found
    };
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let is_line_start = at == 0 || text[..at].ends_with('\n');
        if let Some(length) = is_line_start.then(|| measure_fence(rest)).flatten() {
            at += length;
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        at += match first {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '`' => search(&|| measure_code(rest)).unwrap_or_else(|| count_leading(rest, '`')),
            '{' => search(&|| find_expression_end(&rest[1..])).map_or(1, |end| end + 2),
            '<' => {
                let name = read_name(&rest[1..]);
                names.extend((!name.is_empty()).then_some(name));
                if name.is_empty() { 1 } else { search(&|| measure_tag(rest)).unwrap_or(1 + name.len()) }
            }
            other => other.len_utf8(),
        };
    }
    names
}

fn read_name(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let length = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) { &text[..length] } else { "" }
}

/// The length of a code block between fences at the start of a line, or of the rest of the text if it does not end.
fn measure_fence(text: &str) -> Option<usize> {
    let line = text.lines().next().unwrap_or_default().trim_start();
    let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let count = count_leading(line, sign);
    if count < 3 || (sign == '`' && line[count..].contains('`')) {
        return None;
    }
    let mut length = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        let bare = line.trim();
        if index > 0 && bare.len() >= count && bare.chars().all(|c| c == sign) {
            break;
        }
    }
    Some(length)
}

fn count_leading(text: &str, sign: char) -> usize {
    text.chars().take_while(|c| *c == sign).count()
}

/// The length of a code span; `None` if it does not end in its paragraph.
fn measure_code(text: &str) -> Option<usize> {
    let count = count_leading(text, '`');
    let paragraph = &text[..text.find("\n\n").unwrap_or(text.len())];
    let mut at = count;
    while let Some(found) = paragraph[at..].find('`') {
        let start = at + found;
        let length = paragraph[start..].bytes().take_while(|byte| *byte == b'`').count();
        at = start + length;
        if length == count {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_found_outside_of_code_only() {
        let found = |text: &str| has_action(text, &["shop::find"], &["notes"]);
        for action in [
            "Hi.\n\n<GenText as=\"a\" />\n",
            "<gen-text />",
            "<Loop until={x}>",
            "Look up.\n\n<ShopFind as=\"x\" q=\"1\" />\n",
            "<NotesAdd text=\"a\" />",
            "a `code` b\n\n<Cond if={1 > 2}>",
            "```\ncode\n```\n<GenText />",
        ] {
            assert!(found(action), "{action}");
        }
        for text in [
            "Write `<GenText as=\"a\" />` to ask a model.",
            "``a ` <GenText />``",
            "```\n<GenText />\n```\n",
            "  ~~~mdx\n<GenText />\n",
            "{`<GenText />`}",
            "\\<GenText />",
            "<Tabs><Tab>generated</Tab></Tabs>",
            "a < GenText",
            "<General />",
            "",
        ] {
            assert!(!found(text), "{text}");
        }
    }

    #[test]
    fn an_action_is_found_after_much_that_does_not_end() {
        for beginning in ["{", "<a {", "`` "] {
            let text = format!("{}\n\n<GenText />\n", beginning.repeat(200_001));
            assert!(has_action(&text, &[], &[]), "{beginning}");
        }
    }
}
