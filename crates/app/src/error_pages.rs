//! The pages of `docs/errors`, which are part of the program.

use flowloom_core::code::Code;

/// The pages of `docs/errors`, by code.
const ERROR_PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/errors.rs"));

/// The Markdown page of a code.
pub fn find_page(code: Code) -> Option<&'static str> {
    ERROR_PAGES.iter().find(|(name, _)| *name == code.to_string()).map(|(_, page)| *page)
}
