//! Web pages: fetching, conversion to Markdown, and CSS selectors.
//!
//! A page is read as it is served: no scripts run, nothing it refers to is loaded, and a requested refresh is ignored.
//! `shape` checks whether a page is safe to parse; `content` selects what is converted, without what `hidden` finds, and
//! `markdown` and `table` convert it; `select` finds the matches of a selector.

mod content;
pub(crate) mod error;
mod hidden;
mod markdown;
mod select;
mod shape;
mod table;
mod write_html;

use std::sync::Arc;

use flowloom_core::effect::{HttpRequest, ScrapeRequest, normalize_url};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Capture;
use flowloom_core::rich::Rich;
use flowloom_runtime::effects::{EffectContext, EffectFuture, Scraper};

use crate::error::ToolError;
use crate::http::error::{HttpError, RequestError};
use crate::http::{HttpClient, HttpResponse, RequestSender};
use error::ScrapeError;

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

    /// Reads a page. Its URL may contain secrets.
    pub(crate) async fn load_page(
        &self,
        url: &Rich,
        capture: Capture,
        context: &EffectContext,
    ) -> Result<String, ToolError> {
        if url.pieces().is_empty() {
            return Err(ScrapeError::NoUrl.into());
        }
        let accept = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5";
        let request = HttpRequest {
            method: "GET".to_owned(),
            url: url.map_text(|text| normalize_url(text.trim())).map_err(RequestError::Refused)?,
            headers: vec![("accept".to_owned(), accept.into())],
            body: None,
            uses_tool_host: false,
        };
        let received = self.client.exchange(&request, &RequestSender::of_definition(context)).await.map_err(
            |error| match error {
                ToolError::Http(error) if matches!(error.inner(), HttpError::Exchange(_)) => {
                    ScrapeError::NotFetched(error).into()
                }
                error => error,
            },
        )?;
        if !(200..300).contains(&received.status) {
            return Err(ScrapeError::ErrorStatus { status: received.status }.into());
        }
        let text = read_content(received, capture).await?;
        if text.trim().is_empty() {
            return Err(ScrapeError::Empty.into());
        }
        Ok(text)
    }
}

/// The content of a response in the requested form.
async fn read_content(received: HttpResponse, capture: Capture) -> Result<String, ScrapeError> {
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
            Err(ScrapeError::NotText { media_type: media })
        }
    }
}

impl Scraper for PageScraper {
    fn fetch_page<'a>(&'a self, request: &'a ScrapeRequest, context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async move {
            let url = request.url.as_str().trim().into();
            Ok(self.load_page(&url, request.capture, context).await?)
        })
    }

    fn select_html(&self, html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        PageScraper::select_elements(html, selector)
    }
}

impl PageScraper {
    /// The inner HTML of all elements in `html` that match `selector` (CSS). Fails if the selector is invalid.
    pub fn select_elements(html: &str, selector: &str) -> Result<Vec<String>, StepFailure> {
        Ok(select::select_inner_html(html, selector).map_err(ToolError::from)?)
    }
}
