//! Reads Markdown workflows that are being written: the frontmatter, the elements with their attributes, and the
//! expressions. An element that is not closed ends with its line.

use std::ops::Range;

use flowloom_core::diagnostic::Span;
use flowloom_formats::markdown::find_expression_end;

/// The parts of a Markdown document.
#[derive(Clone, Debug, Default)]
pub struct MdxDocument {
    /// The bytes between the two lines of dashes at the start.
    pub frontmatter: Option<Range<usize>>,
    /// The elements, in the order of their opening tags.
    pub elements: Vec<Element>,
    /// The expressions, in the order of the document.
    pub expressions: Vec<Expression>,
    /// The headings.
    pub headings: Vec<Heading>,
}

/// Elements whose content is a scope.
pub const BLOCKS: [&str; 2] = ["loop", "cond"];

/// The name of an element in lower case, without signs between its words.
pub fn plain_name(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_lowercase()
}

/// An element.
#[derive(Clone, Debug)]
pub struct Element {
    /// The name, as written.
    pub name: String,
    /// The place of the name in the opening tag.
    pub name_span: Span,
    /// The opening tag.
    pub tag: Span,
    /// The place of the name in the closing tag.
    pub closing_name: Option<Span>,
    /// The whole element.
    pub span: Span,
    /// The attributes.
    pub attributes: Vec<Attribute>,
    /// The element around it.
    pub parent: Option<usize>,
    /// The scope around it.
    pub scope: usize,
    /// Whether it may have content.
    pub has_content: bool,
}

/// An attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The name, as written.
    pub name: String,
    /// The place of the name.
    pub name_span: Span,
    /// The value between its quotes or braces.
    pub value: Option<Span>,
    /// Whether the value is an expression.
    pub is_expression: bool,
}

/// A JavaScript expression between braces.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The bytes between the braces.
    pub span: Span,
    /// The element and the name of the attribute whose value it is.
    pub attribute: Option<(usize, String)>,
    /// The element in whose content, or in whose tag, it is.
    pub element: Option<usize>,
}

/// A heading.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The number of its signs.
    pub level: usize,
    /// The text after the signs.
    pub span: Span,
}

/// Reads a document.
pub fn read_mdx(text: &str) -> MdxDocument {
    let mut reader = MdxReader { text, at: 0, open: Vec::new(), fence: None, document: MdxDocument::default() };
    reader.read_frontmatter();
    while reader.at < text.len() {
        reader.read_next();
    }
    let end = text.len();
    for index in std::mem::take(&mut reader.open) {
        let element = &mut reader.document.elements[index];
        element.span.length = end - element.span.start;
    }
    reader.document
}

impl MdxDocument {
    /// The scope of the content of an element: that of the innermost block around it. The number of a scope is the position of
    /// the block's element plus one, and 0 is the whole document.
    pub fn find_scope(&self, element: Option<usize>) -> usize {
        match element.map(|index| (index, &self.elements[index])) {
            Some((index, element)) if BLOCKS.contains(&plain_name(&element.name).as_str()) => index + 1,
            Some((_, element)) => element.scope,
            None => 0,
        }
    }

    /// The innermost element whose content or tag contains a position.
    pub fn find_element(&self, offset: usize) -> Option<usize> {
        let around = |element: &Element| element.span.start < offset && offset < element.span.end();
        self.elements.iter().enumerate().rev().find(|(_, element)| around(element)).map(|(index, _)| index)
    }
}

struct MdxReader<'t> {
    text: &'t str,
    at: usize,
    /// The elements that are not closed.
    open: Vec<usize>,
    /// The signs of the code fence that is open.
    fence: Option<String>,
    document: MdxDocument,
}

impl<'t> MdxReader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn is_line_start(&self) -> bool {
        self.at == 0 || self.text[..self.at].ends_with('\n')
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').map_or(self.rest().len(), |end| end + 1);
    }

    fn read_frontmatter(&mut self) {
        let mark = if self.text.starts_with('\u{feff}') { 3 } else { 0 };
        let text = &self.text[mark..];
        let Some(rest) = ["---\n", "---\r\n"].iter().find_map(|line| text.strip_prefix(line)) else { return };
        let start = self.text.len() - rest.len();
        let length = if rest.starts_with("---") { Some(0) } else { rest.find("\n---").map(|end| end + 1) };
        let end = length.map_or(self.text.len(), |length| start + length);
        self.document.frontmatter = Some(start..end);
        self.at = end;
        if self.at < self.text.len() {
            self.skip_line();
        }
    }

    fn read_next(&mut self) {
        if self.is_line_start() {
            if self.read_line_start() {
                return;
            }
            let line = self.rest().lines().next().unwrap_or_default();
            self.at += line.len() - line.trim_start().len();
        }
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        match first {
            '\\' => self.at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '`' => self.skip_code(),
            '{' => {
                self.read_expression(None);
            }
            '<' if rest[1..].starts_with('/') => self.read_closing_tag(),
            '<' if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) => self.read_tag(),
            _ => self.at += first.len_utf8(),
        }
    }

    /// Reads what only the start of a line can be: fences, comments and headings.
    fn read_line_start(&mut self) -> bool {
        let rest = self.rest();
        let line = rest.lines().next().unwrap_or_default();
        let trimmed = line.trim_start();
        let sign = trimmed.chars().next().filter(|sign| matches!(sign, '`' | '~'));
        let signs: String = trimmed.chars().take_while(|c| Some(*c) == sign).collect();
        if let Some(fence) = &self.fence {
            if signs.starts_with(fence.as_str()) {
                self.fence = None;
            }
            self.skip_line();
            return true;
        }
        if signs.len() >= 3 {
            self.fence = Some(signs);
            self.skip_line();
            return true;
        }
        if trimmed.starts_with('>') {
            self.skip_line();
            return true;
        }
        let level = trimmed.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && trimmed[level..].starts_with(' ') {
            let start = self.at + (line.len() - trimmed.len()) + level + 1;
            let span = Span { start, length: trimmed[level + 1..].trim_end().len() };
            self.document.headings.push(Heading { level, span });
            self.at = start;
            return true;
        }
        false
    }

    fn skip_code(&mut self) {
        let rest = self.rest();
        let signs: String = rest.chars().take_while(|c| *c == '`').collect();
        let end = rest[signs.len()..].find(&signs).map_or(signs.len(), |end| end + 2 * signs.len());
        self.at += end;
    }

    /// Reads the expression whose brace is here. Returns the span between its braces.
    fn read_expression(&mut self, attribute: Option<(usize, String)>) -> Span {
        let start = self.at + 1;
        let inner = &self.text[start..];
        let end = find_expression_end(inner);
        let length = end.unwrap_or_else(|| inner.find('\n').unwrap_or(inner.len()));
        let span = Span { start, length };
        let element = attribute.as_ref().map(|(element, _)| *element).or_else(|| self.open.last().copied());
        self.document.expressions.push(Expression { span, attribute, element });
        self.at = start + length + usize::from(end.is_some());
        span
    }

    fn read_closing_tag(&mut self) {
        let start = self.at;
        let inner = &self.text[start + 2..];
        let length = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
        let name = Span { start: start + 2, length };
        let written = inner[..length].to_owned();
        let rest = &inner[length..];
        let has_end = rest.trim_start().starts_with('>');
        let ending = if has_end { rest.find('>').map_or(0, |end| end + 1) } else { 0 };
        let name_end = name.end();
        self.at = name_end + ending;
        let found = self.open.iter().rposition(|index| self.document.elements[*index].name == written);
        let Some(position) = found else { return };
        for (index, element) in self.open.split_off(position).into_iter().enumerate() {
            let element = &mut self.document.elements[element];
            // Open elements inside end with it.
            element.span.length = self.at - element.span.start;
            if index == 0 {
                element.closing_name = Some(name);
            }
        }
    }

    fn read_tag(&mut self) {
        let start = self.at;
        let inner = &self.text[start + 1..];
        let length = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
        let name_span = Span { start: start + 1, length };
        let index = self.document.elements.len();
        let parent = self.open.last().copied();
        let scope = self.document.find_scope(parent);
        self.document.elements.push(Element {
            name: inner[..length].to_owned(),
            name_span,
            tag: Span { start, length: 0 },
            closing_name: None,
            span: Span { start, length: 0 },
            attributes: Vec::new(),
            parent,
            scope,
            has_content: false,
        });
        self.at = name_span.end();
        let is_open = self.read_attributes(index);
        let length = self.at - start;
        let element = &mut self.document.elements[index];
        (element.tag.length, element.span.length, element.has_content) = (length, length, is_open);
        if is_open {
            self.open.push(index);
        }
    }

    /// Reads attributes up to the end of the tag. Returns whether content follows.
    fn read_attributes(&mut self, element: usize) -> bool {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            // A tag that is not closed ends with its paragraph.
            if trimmed.is_empty() || rest[..rest.len() - trimmed.len()].matches('\n').count() > 1 {
                return false;
            }
            if trimmed.starts_with("/>") {
                self.at += 2;
                return false;
            }
            if trimmed.starts_with('>') {
                self.at += 1;
                return true;
            }
            if trimmed.starts_with('<') {
                return false;
            }
            self.read_attribute(element);
        }
    }

    fn read_attribute(&mut self, element: usize) {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        if length == 0 {
            match rest.starts_with('{') {
                true => {
                    self.read_expression(None);
                }
                false => self.at += rest.chars().next().map_or(1, char::len_utf8),
            }
            return;
        }
        let name = rest[..length].to_owned();
        self.at += length;
        let name_span = Span { start, length };
        let mut attribute = Attribute { name: name.clone(), name_span, value: None, is_expression: false };
        if self.rest().starts_with('=') {
            self.at += 1;
            let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
            if self.rest().starts_with('{') {
                attribute.value = Some(self.read_expression(Some((element, name))));
                attribute.is_expression = true;
            } else if let Some(quote) = quote {
                let inner = &self.text[self.at + 1..];
                let end = inner.find(quote);
                let length = end.unwrap_or_else(|| inner.find('\n').unwrap_or(inner.len()));
                attribute.value = Some(Span { start: self.at + 1, length });
                self.at += 1 + length + usize::from(end.is_some());
            }
        }
        self.document.elements[element].attributes.push(attribute);
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> Vec<String> {
        let document = read_mdx(text);
        let part = |span: &Span| text[span.start..span.end()].replace('\n', "⏎");
        let elements = document.elements.iter().map(|element| {
            let attributes: Vec<String> = element
                .attributes
                .iter()
                .map(|one| format!("{}={}", one.name, one.value.as_ref().map(part).unwrap_or_default()))
                .collect();
            format!("{} [{}] {:?} {}", element.name, attributes.join(" "), element.parent, part(&element.span))
        });
        let expressions = document.expressions.iter().map(|one| format!("{{{}}} {:?}", part(&one.span), one.element));
        elements.chain(expressions).collect()
    }

    #[test]
    fn elements_and_expressions_have_their_places() {
        let text = "---\ninput:\n  a: {type: text}\n---\nSay {a}.\n\n<Cond as=\"x\" if={a > `}`}>\n  {b}\n\n  <GenText as='y' />\n</Cond>\n";
        assert_eq!(
            show(text),
            [
                "Cond [as=x if=a > `}`] None <Cond as=\"x\" if={a > `}`}>⏎  {b}⏎⏎  <GenText as='y' />⏎</Cond>",
                "GenText [as=y] Some(0) <GenText as='y' />",
                "{a} None",
                "{a > `}`} Some(0)",
                "{b} Some(0)",
            ]
        );
    }

    #[test]
    fn what_is_no_prompt_is_skipped() {
        let text = "`{a}` \\{b} \\<C\n\n> {c}\n\n```\n{d}\n```\n\n{e}\n";
        assert_eq!(show(text), ["{e} None"]);
    }

    #[test]
    fn what_is_not_closed_ends_with_its_line() {
        assert_eq!(show("{a\nb"), ["{a} None"]);
        assert_eq!(show("<GenText as=\"x\nmore"), ["GenText [as=x more=] None <GenText as=\"x⏎more"]);
        assert_eq!(
            show("<Loop until={x}>\n{y}"),
            ["Loop [until=x] None <Loop until={x}>⏎{y}", "{x} Some(0)", "{y} Some(0)"]
        );
    }

    proptest::proptest! {
        #[test]
        fn every_text_has_an_end(text in r#"[{}<>/A-C="`'\\é \n#>-]{0,60}"#) {
            let document = read_mdx(&text);
            for element in &document.elements {
                proptest::prop_assert!(element.span.end() <= text.len());
            }
        }
    }
}
