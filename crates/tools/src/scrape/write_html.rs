//! Writes elements as HTML, in the form of browsers. The writer of `html5ever` searches the rest of a text for each sign that
//! it escapes, which takes hours for a page of nothing else.

use std::io;

use html5ever::serialize::{AttrRef, Serialize, Serializer, TraversalScope};
use html5ever::{QualName, ns};
use scraper::ElementRef;

/// Elements whose text is never escaped.
const RAW_ELEMENTS: [&str; 7] = ["style", "script", "xmp", "iframe", "noembed", "noframes", "plaintext"];

/// Whether the text of an HTML element with this name is not escaped.
pub(super) fn is_raw_element(name: &str, has_scripts: bool) -> bool {
    RAW_ELEMENTS.contains(&name) || (name == "noscript" && has_scripts)
}

/// Elements without content and end tag.
const VOID_ELEMENTS: [&str; 18] = [
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr",
];

/// An element as HTML: all of it, or its content. With `has_scripts`, `<noscript>` holds text, as where scripts run.
pub(super) fn write_html(element: ElementRef<'_>, scope: TraversalScope, has_scripts: bool) -> String {
    let mut writer = HtmlWriter { html: String::new(), open: Vec::new(), has_scripts };
    // Writing to memory cannot fail.
    let _ = element.serialize(&mut writer, scope);
    writer.html
}

struct HtmlWriter {
    html: String,
    /// The elements around the place that is written.
    open: Vec<OpenElement>,
    has_scripts: bool,
}

#[derive(Clone, Copy, Default)]
struct OpenElement {
    /// Whether its text is not escaped.
    is_raw: bool,
    /// Whether neither its content nor its end is written.
    is_void: bool,
}

impl HtmlWriter {
    fn parent_element(&self) -> OpenElement {
        self.open.last().copied().unwrap_or_default()
    }

    fn push_escaped(&mut self, text: &str, is_attribute: bool) {
        for character in text.chars() {
            match character {
                '&' => self.html.push_str("&amp;"),
                '\u{a0}' => self.html.push_str("&nbsp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' if is_attribute => self.html.push_str("&quot;"),
                other => self.html.push(other),
            }
        }
    }

    fn push_attribute(&mut self, (name, value): AttrRef<'_>) {
        self.html.push_str(match name.ns {
            ns!(xml) => " xml:",
            ns!(xmlns) if &*name.local != "xmlns" => " xmlns:",
            ns!(xlink) => " xlink:",
            _ => " ",
        });
        self.html.extend([&name.local, "=\""]);
        self.push_escaped(value, true);
        self.html.push('"');
    }
}

impl Serializer for HtmlWriter {
    fn start_elem<'a, A: Iterator<Item = AttrRef<'a>>>(&mut self, name: QualName, attributes: A) -> io::Result<()> {
        let is_html = name.ns == ns!(html);
        let local = &*name.local;
        if self.parent_element().is_void {
            self.open.push(OpenElement { is_raw: false, is_void: true });
            return Ok(());
        }
        self.html.extend(["<", local]);
        attributes.for_each(|attribute| self.push_attribute(attribute));
        self.html.push('>');
        self.open.push(OpenElement {
            is_raw: is_html && is_raw_element(local, self.has_scripts),
            is_void: is_html && VOID_ELEMENTS.contains(&local),
        });
        Ok(())
    }

    fn end_elem(&mut self, name: QualName) -> io::Result<()> {
        if !self.open.pop().unwrap_or_default().is_void {
            self.html.extend(["</", &name.local, ">"]);
        }
        Ok(())
    }

    fn write_text(&mut self, text: &str) -> io::Result<()> {
        match self.parent_element().is_raw {
            true => self.html.push_str(text),
            false => self.push_escaped(text, false),
        }
        Ok(())
    }

    fn write_comment(&mut self, text: &str) -> io::Result<()> {
        self.html.extend(["<!--", text, "-->"]);
        Ok(())
    }

    fn write_doctype(&mut self, name: &str) -> io::Result<()> {
        self.html.extend(["<!DOCTYPE ", name, ">"]);
        Ok(())
    }

    fn write_processing_instruction(&mut self, target: &str, data: &str) -> io::Result<()> {
        self.html.extend(["<?", target, " ", data, ">"]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use scraper::Html;

    use super::*;

    const PAGE: &str = "<!DOCTYPE html><p title='a \"b\" & <c>\u{a0}'>1 &lt; 2 &amp; 3 &gt; 2&nbsp;\"x\"<br>é</p><!-- c -->\
        <script>a < b && c</script><noscript><i>n</i></noscript><svg><a xlink:href='#x'>s</a><style>a>b</style></svg>\
        <input value='1'><textarea>&lt;</textarea>";

    #[test]
    fn elements_are_written_as_by_the_library() {
        let page = Html::parse_document(PAGE);
        for element in page.root_element().descendent_elements() {
            assert_eq!(write_html(element, TraversalScope::IncludeNode, false), element.html());
            assert_eq!(write_html(element, TraversalScope::ChildrenOnly(None), false), element.inner_html());
        }
    }

    #[test]
    fn a_text_of_signs_that_are_escaped_takes_linear_time() {
        let page = Html::parse_document(&format!("<p title='{0}'>{0}</p>", "&".repeat(1_000_000)));
        assert!(write_html(page.root_element(), TraversalScope::IncludeNode, false).len() > 10_000_000);
    }
}
