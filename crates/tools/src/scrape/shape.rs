//! Estimates the depth and size of a page's tree from its tags, in one linear pass before the tree is built, and
//! extracts the bare text of pages that are too deep to build.
//!
//! The pass uses the parser's own tokenizer, so that no trick of quoting hides a tag. Where the real tree depends on
//! more than tags, the estimate is high: a page that is wrongly considered excessive still returns its text.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use super::hidden::is_hidden_by;

/// Maximum nesting that is parsed. Browsers stop at 512; pages written by people stay below 50.
const MAX_TREE_DEPTH: usize = 256;

/// Maximum number of nodes that are built. A misplaced formatting tag is repeated in every later block, so that a small
/// page can become a tree of any size.
const MAX_TREE_NODES: usize = 1_000_000;

/// Maximum number of bytes added by indentation: each level of lists and quotes indents every line in it again.
const MAX_INDENT_BYTES: usize = 8 << 20;

/// Maximum nesting of `code`; each level may triple the marks around it.
const MAX_CODE_DEPTH: usize = 2;

/// Elements that indent the lines in them.
const INDENTING_TAGS: [&str; 6] = ["ul", "ol", "menu", "dir", "blockquote", "dl"];

/// Bytes of one indentation.
const INDENT_BYTES: usize = 4;

/// Number of bytes between two checks of the clock.
const FEED_BYTES: usize = 4096;

/// Time limit of the pass. The tokenizer compares each attribute of a tag with all previous ones, so that one tag can
/// take hours; no ordinary page takes this long.
const SCAN_TIMEOUT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 5000 } else { 1000 });

/// Elements that never nest in themselves or close implicitly: leaving them open makes nothing deeper.
const FLAT_TAGS: [&str; 36] = [
    "area", "base", "basefont", "bgsound", "body", "br", "col", "colgroup", "dd", "dt", "embed", "frame", "head", "hr",
    "html", "img", "input", "keygen", "li", "link", "meta", "optgroup", "option", "p", "param", "source", "tbody",
    "td", "tfoot", "th", "thead", "tr", "track", "wbr", "rp", "rt",
];

/// Formatting elements, which the parser reopens in later blocks.
const FORMATTING_TAGS: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Elements whose content is not parsed as tags, except inside those of `CONTEXT`.
const RAW_TAGS: [(&str, RawKind); 7] = [
    ("script", RawKind::ScriptData),
    ("style", RawKind::Rawtext),
    ("textarea", RawKind::Rcdata),
    ("title", RawKind::Rcdata),
    ("xmp", RawKind::Rawtext),
    ("iframe", RawKind::Rawtext),
    ("noframes", RawKind::Rawtext),
];

/// Elements inside which the parser reads the content of `RAW` as tags. Once one has appeared, this pass does the same.
const CONTEXT_TAGS: [&str; 5] = ["svg", "math", "select", "frameset", "template"];

/// Drawing elements of SVG. Their `/>` closes them as long as nothing else is between them and their `svg`.
const DRAWING_TAGS: [&str; 22] = [
    "path",
    "g",
    "circle",
    "rect",
    "line",
    "polygon",
    "polyline",
    "ellipse",
    "use",
    "stop",
    "defs",
    "lineargradient",
    "radialgradient",
    "clippath",
    "mask",
    "symbol",
    "image",
    "filter",
    "text",
    "tspan",
    "pattern",
    "animate",
];

/// Elements without text for a reader.
const SILENT_TAGS: [&str; 6] = ["script", "style", "title", "noscript", "template", "iframe"];

/// Elements that never have content.
const VOID_TAGS: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// Elements within a line of text; all others end the line.
const INLINE_TAGS: [&str; 8] = ["span", "sub", "sup", "abbr", "cite", "mark", "label", "q"];

/// Result of the pass.
#[derive(Default)]
pub(super) struct PageShape {
    depth: usize,
    nodes: usize,
    indent: usize,
    code: usize,
    text: String,
}

impl PageShape {
    pub(super) fn scan_html(html: &str) -> PageShape {
        let queue = BufferQueue::default();
        let tokenizer = Tokenizer::new(ShapeSink::default(), TokenizerOpts::default());
        let start = Instant::now();
        let mut rest = html;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(FEED_BYTES.min(rest.len())));
            queue.push_back(StrTendril::from_slice(piece));
            // The sink never pauses, so one call processes the whole piece.
            let _ = tokenizer.feed(&queue);
            if start.elapsed() > SCAN_TIMEOUT {
                let mut shape = tokenizer.sink.0.into_inner().shape;
                shape.nodes = usize::MAX;
                return shape;
            }
            rest = after;
        }
        tokenizer.end();
        tokenizer.sink.0.into_inner().shape
    }

    /// Whether the page must not be parsed into a tree.
    pub(super) fn is_excessive(&self) -> bool {
        self.depth > MAX_TREE_DEPTH
            || self.nodes > MAX_TREE_NODES
            || self.indent > MAX_INDENT_BYTES
            || self.code > MAX_CODE_DEPTH
    }

    /// The page's text without tags, one line per block.
    pub(super) fn into_text(self) -> String {
        let mut out = String::with_capacity(self.text.len());
        for line in self.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// The content of a page's `html` element, as it is served.
pub(super) fn inner_document(html: &str) -> &str {
    let lower = html.to_ascii_lowercase();
    let start = find_document_start(&lower).unwrap_or(0);
    let closes = |at: &usize| lower[at + 6..].starts_with(|c: char| c == '>' || c.is_ascii_whitespace());
    let end = lower.rmatch_indices("</html").map(|(at, _)| at).find(closes);
    let end = end.filter(|end| *end >= start).unwrap_or(html.len());
    html[start..end].trim()
}

/// The end of the start tag of the `html` element; comments may contain further ones.
fn find_document_start(lower: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += lower[at..].find('<')?;
        let rest = &lower[at..];
        if rest.starts_with("<!--") {
            at += rest.find("-->")?;
        } else if let Some(attributes) = rest.strip_prefix("<html").filter(|after| ends_tag_name(after)) {
            return Some(lower.len() - attributes.len() + find_tag_end(attributes)?);
        }
        at += 1;
    }
}

fn ends_tag_name(after: &str) -> bool {
    after.starts_with(|c: char| matches!(c, '>' | '/') || c.is_ascii_whitespace())
}

/// The place after the `>` that ends a tag; a quoted value of an attribute may contain others.
fn find_tag_end(attributes: &str) -> Option<usize> {
    let mut quote = None;
    let end = attributes.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        byte == b'>' && quote.is_none()
    });
    end.map(|end| end + 1)
}

#[derive(Default)]
struct ShapeSink(RefCell<ShapeCounter>);

#[derive(Default)]
struct ShapeCounter {
    open: HashMap<String, usize>,
    depth: usize,
    formatting: usize,
    levels: usize,
    in_text: bool,
    context_seen: bool,
    /// Open elements from the `svg` on, while it contains nothing but drawing elements.
    drawing: Option<Vec<String>>,
    silent: Option<&'static str>,
    /// The hidden element whose text is left out, and the number of open elements of its name.
    hidden: Option<(String, usize)>,
    shape: PageShape,
}

impl TokenSink for ShapeSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut count = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => count.count_tag(&tag),
            Token::CharacterTokens(text) => {
                // The tokenizer splits long text into pieces; the tree joins them again.
                if !std::mem::replace(&mut count.in_text, true) {
                    count.shape.nodes += 1 + count.formatting;
                }
                let lines = text.bytes().filter(|byte| *byte == b'\n').count();
                count.shape.indent += lines * count.levels * INDENT_BYTES;
                if count.silent.is_none() && count.hidden.is_none() {
                    count.shape.text.push_str(&text);
                }
                TokenSinkResult::Continue
            }
            Token::CommentToken(_) => {
                count.in_text = false;
                count.shape.nodes += 1;
                TokenSinkResult::Continue
            }
            Token::DoctypeToken(_) | Token::NullCharacterToken | Token::EOFToken | Token::ParseError(_) => {
                TokenSinkResult::Continue
            }
        }
    }
}

impl ShapeCounter {
    fn count_tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        self.in_text = false;
        if !FORMATTING_TAGS.contains(&name) && !INLINE_TAGS.contains(&name) {
            self.shape.text.push('\n');
        }
        self.count_hidden(tag);
        match tag.kind {
            TagKind::StartTag => self.count_start(name, tag.self_closing),
            TagKind::EndTag => {
                // Any other end tag may leave the drawing, by rules that this pass does not follow.
                let top = self.drawing.as_mut().and_then(Vec::pop);
                if top.as_deref() != Some(name) || name == "svg" {
                    self.drawing = None;
                }
                if self.silent == Some(name) {
                    self.silent = None;
                }
                self.count_end(name);
                TokenSinkResult::Continue
            }
        }
    }

    /// Follows the outermost hidden element to its end. In doubt, it lasts longer.
    fn count_hidden(&mut self, tag: &Tag) {
        let name = &*tag.name;
        let is_start = tag.kind == TagKind::StartTag;
        match &mut self.hidden {
            // The next element of this name ends the previous one.
            Some((hidden, _)) if is_start && hidden == name && FLAT_TAGS.contains(&name) => self.hidden = None,
            Some((hidden, open)) if hidden == name => *open = if is_start { *open + 1 } else { *open - 1 },
            _ => {}
        }
        if self.hidden.as_ref().is_some_and(|(_, open)| *open == 0) {
            self.hidden = None;
        }
        let attributes = || tag.attrs.iter().map(|attribute| (&*attribute.name.local, &*attribute.value));
        if is_start && self.hidden.is_none() && !VOID_TAGS.contains(&name) && is_hidden_by(attributes()) {
            self.hidden = Some((name.to_owned(), 1));
        }
    }

    fn count_start(&mut self, name: &str, self_closing: bool) -> TokenSinkResult<()> {
        self.shape.nodes += 1 + self.formatting;
        match &mut self.drawing {
            None if name == "svg" && !self_closing => self.drawing = Some(vec![name.to_owned()]),
            Some(_) if DRAWING_TAGS.contains(&name) && self_closing => return TokenSinkResult::Continue,
            Some(open) if DRAWING_TAGS.contains(&name) => open.push(name.to_owned()),
            _ => self.drawing = None,
        }
        self.shape.indent += self.levels * INDENT_BYTES;
        self.context_seen |= CONTEXT_TAGS.contains(&name);
        // A second `a` or `nobr` closes the first.
        if matches!(name, "a" | "nobr") {
            self.count_end(name);
        }
        if !FLAT_TAGS.contains(&name) {
            *self.open.entry(name.to_owned()).or_default() += 1;
            self.depth += 1;
            self.formatting += usize::from(FORMATTING_TAGS.contains(&name));
            self.levels += usize::from(INDENTING_TAGS.contains(&name));
            self.shape.code = self.shape.code.max(self.open.get("code").copied().unwrap_or(0));
            self.shape.depth = self.shape.depth.max(self.depth);
        }
        if self.silent.is_none() {
            self.silent = SILENT_TAGS.iter().copied().find(|silent| *silent == name);
        }
        match RAW_TAGS.iter().find(|(raw, _)| *raw == name) {
            Some((_, kind)) if !self.context_seen => TokenSinkResult::RawData(*kind),
            _ => TokenSinkResult::Continue,
        }
    }

    fn count_end(&mut self, name: &str) {
        if let Some(open) = self.open.get_mut(name)
            && *open > 0
        {
            *open -= 1;
            self.depth -= 1;
            self.formatting -= usize::from(FORMATTING_TAGS.contains(&name));
            self.levels -= usize::from(INDENTING_TAGS.contains(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::inner_document;

    #[test]
    fn the_document_begins_after_its_own_tag() {
        for (html, inner) in [
            ("<!doctype html><html lang='a'><p>x</p></html>\n", "<p>x</p>"),
            ("<!--[if lt IE 9]> <html class=\"ie8\"> <![endif]--><html class=\"a > b\"><p>x</p></html>", "<p>x</p>"),
            ("<p>x</p>", "<p>x</p>"),
            ("<htmlx><p>x</p>", "<htmlx><p>x</p>"),
            ("<!-- <html> <p>x</p>", "<!-- <html> <p>x</p>"),
            ("<html class='", "<html class='"),
        ] {
            assert_eq!(inner_document(html), inner, "{html}");
        }
    }
}
