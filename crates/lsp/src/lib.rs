//! The language server: what editors show about definitions while people write them.
//!
//! `analysis` is pure: one index of each document, from which every feature is answered. `server` speaks the protocol,
//! holds the open documents, and compiles them on a pool of threads with the same functions as `flowloom check`.

pub mod analysis;
mod server;

pub use server::{LanguageServer, LoadConfig, ServerError};
