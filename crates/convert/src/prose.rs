//! Text as Markdown: as prose where Markdown reads it as it is, otherwise as an expression.

use crate::text::{Piece, write_value};

/// Whether Markdown leaves a text as it is, apart from escaped signs.
pub(crate) fn is_plain(pieces: &[Piece]) -> bool {
    let text: String =
        pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "x" }).collect();
    let has_code = text.contains('`') || text.contains("~~~");
    let is_odd_line = |line: &str| {
        let bare = line.trim();
        let is_rule = !bare.is_empty()
            && bare.chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '))
            && bare.chars().filter(|c| *c != ' ').count() > 1;
        bare.starts_with('>')
            || is_rule
            || line.ends_with(char::is_whitespace)
            || (bare.starts_with('[') && bare.contains("]:"))
    };
    let is_odd = text.is_empty()
        || text.trim() != text
        || text.contains(['\r', '\t', '\\', '\u{0}'])
        || text.contains("\n\n\n")
        || text.contains("\n\n ")
        || (has_code && text.contains(['{', '}', '<']))
        || text.starts_with("import ")
        || text.starts_with("export ")
        || text.lines().any(is_odd_line);
    !is_odd
}

/// A text as prose.
pub(crate) fn write_plain(pieces: &[Piece]) -> String {
    let write = |piece: &Piece| match piece {
        Piece::Text(text) => {
            let escaped = text.chars().map(|c| match c {
                '{' | '}' | '<' => format!("\\{c}"),
                c => c.to_string(),
            });
            escaped.collect()
        }
        Piece::Value(reference) => format!("{{{}}}", write_value(reference)),
        Piece::Secret(_) | Piece::Expression(_) => "…".to_owned(),
    };
    pieces.iter().map(write).collect()
}

/// A text as an expression with a template literal.
pub(crate) fn write_literal(pieces: &[Piece]) -> String {
    format!("{{{}}}", write_template(pieces))
}

/// A text as a template literal.
pub(crate) fn write_template(pieces: &[Piece]) -> String {
    let write = |piece: &Piece| match piece {
        Piece::Text(text) => text
            .replace('\\', "\\\\")
            .replace('`', "\\`")
            .replace("${", "\\${")
            .replace('\r', "\\r")
            .replace('\n', "\\n")
            .replace('\t', "\\t")
            .replace('\u{0}', "\\0"),
        Piece::Value(reference) => format!("${{{}}}", write_value(reference)),
        Piece::Secret(_) | Piece::Expression(_) => "…".to_owned(),
    };
    format!("`{}`", pieces.iter().map(write).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<Piece> {
        vec![Piece::Text(text.to_owned())]
    }

    #[test]
    fn prose_is_what_markdown_leaves_alone() {
        for plain in ["Say it.", "# Title\n\n- one\n- two", "a < b {c}", "1. x"] {
            assert!(is_plain(&text(plain)), "{plain}");
        }
        for odd in ["", " a", "a\n\n\nb", "> said", "a\n---\nb", "`{x}`", "a  \nb", "import x"] {
            assert!(!is_plain(&text(odd)), "{odd}");
        }
        assert_eq!(write_plain(&text("a < {b}")), "a \\< \\{b\\}");
        assert_eq!(write_literal(&text("a`\n${b}")), "{`a\\`\\n\\${b}`}");
    }
}
