//! The language server and the debugger: what editors show about definitions and their runs.
//!
//! `analysis` is pure: one index of each document, from which every feature is answered. `server` speaks the protocol,
//! holds the open documents, and compiles them on a pool of threads with the same functions as `flowloom check`. `debug` is
//! the debugger of recorded runs.
#![warn(missing_docs)]

pub mod analysis;
pub mod builder;
mod debug;
mod framing;
mod server;

pub use debug::{DebugError, serve_debugger};

pub use server::{ConversationEnd, LanguageServer, LoadConfig, ServerError};
