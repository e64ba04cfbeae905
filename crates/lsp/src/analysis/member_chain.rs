//! The value before a dot in an expression that is being written: a name or a text, with fields and items after it.

/// A value, as far as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberChain<'t> {
    /// What the chain begins with.
    pub base: ChainBase<'t>,
    /// What follows, in order.
    pub links: Vec<ChainLink<'t>>,
}

/// The beginning of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainBase<'t> {
    /// A name.
    Name(&'t str),
    /// A text in quotation marks.
    Text,
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainLink<'t> {
    /// A field of an object.
    Field(&'t str),
    /// An item of a list.
    Item,
}

/// The value at the end of a text; `None` if it is something else, such as the result of a call.
pub(super) fn read_chain(text: &str) -> Option<MemberChain<'_>> {
    let mut links = Vec::new();
    let mut rest = text.strip_suffix('?').unwrap_or(text);
    let base = loop {
        if let Some(inner) = rest.strip_suffix(']') {
            let open = find_open_bracket(inner)?;
            let index = inner[open + 1..].trim();
            links.push(read_quoted(index).map_or(ChainLink::Item, ChainLink::Field));
            rest = inner[..open].strip_suffix("?.").unwrap_or(&inner[..open]);
            continue;
        }
        if rest.ends_with(['"', '\'', '`']) {
            break ChainBase::Text;
        }
        let word = &rest[rest.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$')).len()..];
        if word.is_empty() {
            return None;
        }
        let before = &rest[..rest.len() - word.len()];
        let Some(object) = before.strip_suffix('.').filter(|object| !object.ends_with('.')) else {
            break ChainBase::Name(word);
        };
        links.push(ChainLink::Field(word));
        rest = object.strip_suffix('?').unwrap_or(object);
    };
    links.reverse();
    Some(MemberChain { base, links })
}

/// The bracket that is open at the end of a text.
fn find_open_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The text between quotation marks.
fn read_quoted(text: &str) -> Option<&str> {
    ['"', '\'', '`'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_before_a_dot_are_read() {
        let show = |text: &str| {
            read_chain(text).map(|chain| {
                let links = chain.links.iter().map(|link| match link {
                    ChainLink::Field(name) => format!(" .{name}"),
                    ChainLink::Item => " []".to_owned(),
                });
                format!("{:?}{}", chain.base, links.collect::<String>())
            })
        };
        for (text, shown) in [
            ("1 + cards[0]", "Name(\"cards\") []"),
            ("o.tags[i[0]].name", "Name(\"o\") .tags [] .name"),
            ("c?.city?", "Name(\"c\") .city"),
            ("c?.['a b']", "Name(\"c\") .a b"),
            ("$.last", "Name(\"$\") .last"),
            ("f(\"a\"", "Text"),
            ("...rest", "Name(\"rest\")"),
        ] {
            assert_eq!(show(text).as_deref(), Some(shown), "{text}");
        }
        for text in ["", "f()", "1 + ", "]"] {
            assert_eq!(read_chain(text), None, "{text}");
        }
    }
}
