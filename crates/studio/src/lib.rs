//! The studio: the built web page, embedded with compressed copies of its files. What it shows comes from the server's
//! API; nothing here knows runs or definitions.
#![warn(missing_docs)]

mod page;

pub use page::{PageFile, find_file, has_page, render_page};
