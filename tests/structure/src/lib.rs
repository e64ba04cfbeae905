//! Reads the repository's own source text, for the tests of its structure in `tests/`.
//!
//! [`files`] lists the files, [`source`] separates code from comments, strings and tests, [`imports`] finds the import
//! cycles of a crate, [`signatures`] the parameters of functions. [`pages`] reads the Markdown pages.
#![warn(missing_docs)]

pub mod files;
pub mod imports;
pub mod pages;
pub mod signatures;
pub mod source;
