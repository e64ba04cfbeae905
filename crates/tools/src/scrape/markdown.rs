//! Converts a page from HTML to Markdown: its content, or its bare text if the page must not be parsed.

use htmd::HtmlToMarkdown;
use tokio::sync::oneshot;

use super::content::select_content;
use super::error::ScrapeError;
use super::shape::PageShape;
use super::table;

/// Stack size of the parsing thread, in bytes. The converter is recursive, and a page within the depth limit must never
/// overflow the stack. Only the used part takes memory.
const PARSER_STACK_BYTES: usize = 64 << 20;

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
    // Parsed twice on purpose. The converter's own tree searches all siblings for each element that a broken table
    // moves out of it. The first tree does not, and its output has no such elements.
    let content = select_content(html, url);
    markdown_converter().convert(&content).unwrap_or_default().replace('\0', "").trim().to_owned()
}

fn markdown_converter() -> HtmlToMarkdown {
    HtmlToMarkdown::builder().skip_tags(SKIPPED_TAGS.to_vec()).add_handler(vec!["table"], table::convert_table).build()
}
