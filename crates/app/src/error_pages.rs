//! The pages of `docs/errors`, which are part of the program.

use flowloom_core::code::Code;

/// The pages of `docs/errors`, by code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/errors.rs"));

/// The Markdown page of a code.
pub fn page(code: Code) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == code.to_string()).map(|(_, page)| *page)
}
