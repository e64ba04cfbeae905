//! Selects what a reader sees of a page: its main part, without navigation, hidden elements and scripts, and with
//! absolute links. Nothing is scored, so that no text of the main part is lost.

use html5ever::serialize::TraversalScope;
use scraper::node::Element;
use scraper::{ElementRef, Html, Node, Selector};
use url::Url;

use super::hidden::{find_hidden_by_rules, is_hidden_by};
use super::write_html::write_html;

/// The main part of a page, in order of preference.
const MAIN_PARTS: [&str; 3] = ["article", "main", "[role=main]"];

/// Elements without text for a reader.
const SKIPPED_TAGS: [&str; 11] =
    ["head", "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "nav", "dialog"];

/// Parts of a page around its content, which are left out of a page without a main part.
const SURROUNDING_TAGS: [&str; 2] = ["aside", "footer"];

/// Roles of elements that are not content, and of those around it.
const SKIPPED_ROLES: [&str; 3] = ["navigation", "search", "menu"];
const SURROUNDING_ROLES: [&str; 3] = ["banner", "complementary", "contentinfo"];

/// The content of a page as HTML. `url` is the address that its links are relative to.
pub(super) fn select_content(html: &str, url: &str) -> String {
    let mut page = Html::parse_document(html);
    let base = find_base(&page, url);
    let title = find_title(&page);
    for id in find_hidden_by_rules(&page) {
        if let Some(mut node) = page.tree.get_mut(id) {
            node.detach();
        }
    }
    remove_elements(&mut page, &|element| is_skipped(element) && !is_open_dialog(element) || is_hidden(element));
    if let Some(base) = base {
        make_links_absolute(&mut page, &base);
    }
    if let Some(main) = find_main_part(&page) {
        let has_heading = Selector::parse("h1").is_ok_and(|heading| main.select(&heading).next().is_some());
        let heading =
            if has_heading || title.is_empty() { String::new() } else { format!("<h1>{}</h1>", escape(&title)) };
        return heading + &write_html(main, TraversalScope::IncludeNode, false);
    }
    let is_surrounding = |element: &Element| is_one_of(element, &SURROUNDING_TAGS, &SURROUNDING_ROLES);
    let write_content = |page: &Html| write_html(page.root_element(), TraversalScope::ChildrenOnly(None), false);
    let whole = write_content(&page);
    remove_elements(&mut page, &is_surrounding);
    let has_content = !collect_text(page.root_element()).is_empty();
    if has_content { write_content(&page) } else { whole }
}

/// The main part of the page that has text. A page with several articles lists them, so none of them is the main part.
fn find_main_part(page: &Html) -> Option<ElementRef<'_>> {
    MAIN_PARTS.iter().find_map(|part| {
        let selector = Selector::parse(part).ok()?;
        let is_inner = |element: &ElementRef<'_>| {
            element.ancestors().filter_map(ElementRef::wrap).any(|outer| selector.matches(&outer))
        };
        let mut found =
            page.select(&selector).filter(|element| !is_inner(element) && !collect_text(*element).is_empty());
        let first = found.next()?;
        found.next().is_none().then_some(first)
    })
}

/// The title of the page. A drawing can have one, too, which is not that of the page.
fn find_title(page: &Html) -> String {
    let is_drawn = |element: &ElementRef<'_>| {
        element.ancestors().filter_map(ElementRef::wrap).any(|outer| outer.value().name() == "svg")
    };
    let titles = Selector::parse("title").ok();
    let title = titles.and_then(|titles| page.select(&titles).find(|element| !is_drawn(element)).map(collect_text));
    title.unwrap_or_default()
}

fn select_first<'a>(page: &'a Html, selector: &str) -> Option<ElementRef<'a>> {
    page.select(&Selector::parse(selector).ok()?).next()
}

fn collect_text(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Longest address that relative links start from, in bytes. Each link repeats most of it.
const MAX_BASE_BYTES: usize = 4096;

/// Maximum number of bytes of all links that are made absolute.
const MAX_LINK_BYTES: usize = 16 << 20;

/// The address that relative links of the page start from; `None` if it is too long, and they stay relative.
fn find_base(page: &Html, url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let given = select_first(page, "base[href]").and_then(|base| url.join(base.attr("href")?).ok());
    Some(given.unwrap_or(url)).filter(|base| base.as_str().len() <= MAX_BASE_BYTES)
}

fn make_links_absolute(page: &mut Html, base: &Url) {
    let ids: Vec<_> = page.tree.nodes().filter(|node| node.value().is_element()).map(|node| node.id()).collect();
    let mut bytes_left = MAX_LINK_BYTES;
    for id in ids {
        let Some(mut node) = page.tree.get_mut(id) else { continue };
        let Node::Element(element) = node.value() else { continue };
        for (name, value) in &mut element.attrs {
            let is_address = matches!(&*name.local, "href" | "src") && value.len() < bytes_left;
            if let Some(absolute) = is_address.then(|| base.join(value.trim()).ok()).flatten() {
                bytes_left = bytes_left.saturating_sub(absolute.as_str().len());
                *value = absolute.as_str().into();
            }
        }
    }
}

fn remove_elements(page: &mut Html, is_removed: &dyn Fn(&Element) -> bool) {
    let is_removed = |node: &Node| node.as_element().is_some_and(is_removed);
    let ids: Vec<_> = page.tree.nodes().filter(|node| is_removed(node.value())).map(|node| node.id()).collect();
    for id in ids {
        if let Some(mut node) = page.tree.get_mut(id) {
            node.detach();
        }
    }
}

fn is_skipped(element: &Element) -> bool {
    is_one_of(element, &SKIPPED_TAGS, &SKIPPED_ROLES)
}

fn is_one_of(element: &Element, tags: &[&str], roles: &[&str]) -> bool {
    tags.contains(&element.name()) || element.attr("role").is_some_and(|role| roles.contains(&role.trim()))
}

fn is_open_dialog(element: &Element) -> bool {
    element.name() == "dialog" && element.attr("open").is_some()
}

fn is_hidden(element: &Element) -> bool {
    is_hidden_by(element.attrs())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_drawing_is_not_that_of_the_page() {
        let drawing = "<main><svg><title>Cart</title></svg><p>Text</p></main>";
        assert!(!select_content(drawing, "http://a.example/").contains("<h1>"));
        let page = format!("<body><svg><title>Cart</title></svg></body><title>Shop</title>{drawing}");
        assert!(select_content(&page, "http://a.example/").contains("<h1>Shop</h1>"));
    }

    #[test]
    fn hidden_text_is_left_out() {
        let page = "<style>.off { position: absolute; left: -9999px }</style><main><p>seen</p><p class=off>ruled</p>
            <p style='opacity:0'>clear</p><p style='font-size:0'>small</p><p style='text-indent:-9999px'>away</p></main>";
        let content = select_content(page, "http://a.example/");
        assert!(content.contains("seen"), "{content}");
        for hidden in ["ruled", "clear", "small", "away"] {
            assert!(!content.contains(hidden), "{content}");
        }
    }
}
