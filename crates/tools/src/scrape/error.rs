//! Errors of reading web pages.

use std::io;

use flowloom_core::code::Code;
use flowloom_core::effect::is_retryable_status;
use flowloom_core::error::Retry;
use flowloom_core::selector::SelectorError;

use crate::http::error::HttpError;
use crate::secrets::Redacted;

/// Why a page has no content.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The URL is empty.
    #[error("URL is required for web scraping")]
    NoUrl,
    /// The server sent no page.
    #[error("URL could not be scraped and no content was found ({0}).")]
    NotFetched(#[source] Box<Redacted<HttpError>>),
    /// The server answered with an error status.
    #[error("URL could not be scraped and no content was found (the server answered with status {status}).")]
    ErrorStatus {
        /// The status.
        status: u16,
    },
    /// The page is, for example, an image.
    #[error("URL could not be scraped and no content was found (it is {media_type}, which is not text).")]
    NotText {
        /// Its media type.
        media_type: String,
    },
    /// The page is empty.
    #[error("There was no content to be collected or read.")]
    Empty,
    /// There is no thread to convert the page on.
    #[error("the page could not be converted: {0}")]
    ThreadNotStarted(#[source] io::Error),
    /// The parser panicked.
    #[error("the page could not be converted: the parser failed on its HTML")]
    ParserFailed,
    /// The CSS selector is not valid.
    #[error("{0}")]
    InvalidSelector(#[source] SelectorError),
    /// Selecting from the page would exhaust the stack.
    #[error("the page is nested too deeply for a CSS selector; capture its text instead")]
    TooDeep,
}

impl ScrapeError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ScrapeError::InvalidSelector(_) => Code::NoSelector,
            ScrapeError::NoUrl
            | ScrapeError::NotFetched(_)
            | ScrapeError::ErrorStatus { .. }
            | ScrapeError::NotText { .. }
            | ScrapeError::Empty
            | ScrapeError::ThreadNotStarted(_)
            | ScrapeError::ParserFailed
            | ScrapeError::TooDeep => Code::ScrapeFailed,
        }
    }

    /// Whether a retry may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            ScrapeError::NotFetched(error) => error.inner().retry(),
            ScrapeError::ErrorStatus { status } if is_retryable_status(*status) => Retry::Maybe,
            _ => Retry::Never,
        }
    }
}
