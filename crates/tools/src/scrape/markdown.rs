//! Converts a page from HTML to Markdown: the article if there is one, else the whole body, else its bare text.

use dom_smoothie::{Config, Readability};
use htmd::HtmlToMarkdown;
use tokio::sync::oneshot;

use super::error::ScrapeError;
use super::shape::PageShape;
use super::table;

/// Stack size of the parsing thread, in bytes. The converter is recursive, and a page within the depth limit must never
/// overflow the stack. Only the used part takes memory.
const PARSER_STACK_BYTES: usize = 64 << 20;

/// Minimum length of an article's text, in characters; a shorter one is considered a wrong guess.
const MIN_ARTICLE_CHARS: usize = 140;

/// Maximum number of elements for article detection, which is slower than linear in places. Larger pages are converted
/// whole.
const MAX_ARTICLE_ELEMENTS: usize = 50_000;

/// Elements without text for a reader.
const SKIPPED_TAGS: [&str; 9] = ["head", "title", "script", "style", "noscript", "template", "svg", "iframe", "object"];

/// Converts a page on a thread of its own.
pub(super) async fn page_to_markdown(html: String, url: String) -> Result<String, ScrapeError> {
    let (send, receive) = oneshot::channel();
    std::thread::Builder::new()
        .name("page".to_owned())
        .stack_size(PARSER_STACK_BYTES)
        // A page is limited in size and shape, so the thread ends soon even if the caller is gone.
        .spawn(move || send.send(convert_page(&html, &url)))
        .map_err(ScrapeError::ThreadNotStarted)?;
    receive.await.map_err(|_| ScrapeError::ParserFailed)
}

/// Converts a page.
pub(super) fn convert_page(html: &str, url: &str) -> String {
    let shape = PageShape::scan_html(html);
    if shape.is_excessive() {
        return shape.into_text();
    }
    extract_article(html, url).unwrap_or_else(|| convert_body(html))
}

/// Converts the whole body.
fn convert_body(html: &str) -> String {
    // Parsed twice on purpose. The converter's own tree searches all siblings for each element that a broken table
    // moves out of it. This tree does not, and its output has no such elements.
    let repaired = scraper::Html::parse_document(html).root_element().inner_html();
    markdown_converter().convert(&repaired).unwrap_or_default().replace('\0', "").trim().to_owned()
}

fn markdown_converter() -> HtmlToMarkdown {
    HtmlToMarkdown::builder().skip_tags(SKIPPED_TAGS.to_vec()).add_handler(vec!["table"], table::convert_table).build()
}

/// The main text of a page, if it has one.
fn extract_article(html: &str, url: &str) -> Option<String> {
    let config = Config { max_elements_to_parse: MAX_ARTICLE_ELEMENTS, ..Config::default() };
    let article = Readability::new(html, Some(url), Some(config)).ok()?.parse().ok()?;
    if article.text_content.trim().chars().count() < MIN_ARTICLE_CHARS {
        return None;
    }
    let body = markdown_converter().convert(&article.content).ok()?.replace('\0', "");
    let (title, body) = (article.title.trim(), body.trim());
    // The title is removed from an article's text if it repeats the page's, but a reader needs it.
    let has_title = body.lines().next().is_some_and(|line| line.contains(title));
    Some(if title.is_empty() || has_title { body.to_owned() } else { format!("# {title}\n\n{body}") })
}
