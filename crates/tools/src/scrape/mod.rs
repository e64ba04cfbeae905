//! Web pages: fetching, conversion to Markdown, and CSS selectors.
//!
//! A page is read as it is served: no scripts run, nothing it refers to is loaded, and a requested refresh is ignored.
//! `shape` checks whether a page is safe to parse; `markdown` and `table` convert it.

mod markdown;
mod shape;
mod table;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::{HttpRequest, ScrapeRequest, is_retryable_status, normalize_url};
use flowloom_core::error::StepError;
use flowloom_core::plan::Capture;
use flowloom_core::rich::Rich;
use flowloom_runtime::effects::{EffectContext, EffectFuture, Scraper};

use crate::http::{HttpClient, HttpResponse};

/// Media types other than `text/*` whose body is text.
const TEXT_TYPES: [&str; 6] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/x-yaml",
    "application/x-ndjson",
];

/// Reads web pages through the HTTP client.
pub struct PageScraper {
    client: Arc<HttpClient>,
}

impl PageScraper {
    /// A scraper that sends with `client`.
    pub fn new(client: Arc<HttpClient>) -> PageScraper {
        PageScraper { client }
    }

    /// Reads a page. Its URL may contain secrets. Fails with `ScrapeFailed`, or with the errors of the HTTP client.
    pub(crate) async fn load_page(&self, url: &Rich, capture: Capture, key: &str) -> Result<String, StepError> {
        if url.pieces().is_empty() {
            return Err(StepError::new(Code::ScrapeFailed, "URL is required for web scraping"));
        }
        let accept = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5";
        let request = HttpRequest {
            method: "GET".to_owned(),
            url: url.map_text(|text| normalize_url(text.trim()))?,
            headers: vec![("accept".to_owned(), accept.into())],
            body: None,
        };
        let received = self.client.exchange(&request, key).await.map_err(|error| match error.code {
            Code::HttpFailed => StepError { code: Code::ScrapeFailed, message: nothing_found(&error.message), ..error },
            _ => error,
        })?;
        if !(200..300).contains(&received.status) {
            let message = nothing_found(&format!("the server answered with status {}", received.status));
            let passing = is_retryable_status(received.status);
            let error = if passing { StepError::new_retryable } else { StepError::new };
            return Err(error(Code::ScrapeFailed, message));
        }
        let text = read_content(received, capture).await?;
        if text.trim().is_empty() {
            return Err(StepError::new(Code::ScrapeFailed, "There was no content to be collected or read."));
        }
        Ok(text)
    }
}

fn nothing_found(why: &str) -> String {
    format!("URL could not be scraped and no content was found ({why}).")
}

/// The content of a response in the requested form.
async fn read_content(received: HttpResponse, capture: Capture) -> Result<String, StepError> {
    let media = received.media_type();
    let is_html = match media.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => received.text.trim_start().starts_with('<'),
        _ => false,
    };
    match capture {
        Capture::Html if is_html => Ok(shape::inner_document(&received.text).to_owned()),
        Capture::Text if is_html => markdown::page_to_markdown(received.text, received.url).await,
        Capture::Html | Capture::Text => {
            let is_text = media.is_empty()
                || media.starts_with("text/")
                || media.ends_with("+json")
                || media.ends_with("+xml")
                || TEXT_TYPES.contains(&media.as_str());
            if is_text {
                return Ok(received.text);
            }
            Err(StepError::new(Code::ScrapeFailed, nothing_found(&format!("it is {media}, which is not text"))))
        }
    }
}

impl Scraper for PageScraper {
    fn fetch_page<'a>(&'a self, request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move {
            self.load_page(&request.url.as_str().trim().into(), request.capture, &context.idempotency_key()).await
        })
    }

    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepError> {
        if selector.trim().is_empty() {
            return Ok(vec![html.to_owned()]);
        }
        let parsed = scraper::Selector::parse(selector).map_err(|error| {
            StepError::new(Code::NoSelector, format!("{selector:?} is not a CSS selector: {error}"))
        })?;
        if shape::PageShape::scan_html(html).is_excessive() {
            let message = "the page is nested too deeply for a CSS selector; capture its text instead";
            return Err(StepError::new(Code::ScrapeFailed, message));
        }
        let page = scraper::Html::parse_document(html);
        Ok(page.select(&parsed).map(|element| element.inner_html()).collect())
    }
}
