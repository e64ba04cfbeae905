//! Models that run on this machine: language models on llama.cpp, and a small embedding model on rten.
//!
//! [`LocalEngine`] implements [`flowloom_models::InferenceEngine`]. This is the only crate that depends on an inference
//! library; the program passes the engine to [`flowloom_models::Models`]. Each language model runs in a process of its own
//! (`process`), which is this program again: it calls [`worker_main`] first. [`pull`] adds models to the cache, and
//! [`gguf`] reads what a model file states about itself.
#![warn(missing_docs)]

mod embedding;
mod engine;
mod error;
pub mod gguf;
mod language;
mod process;
pub mod pull;

pub use engine::LocalEngine;
pub use error::{LocalModelError, PullError};
pub use process::processor::check_processor;
pub use process::worker_main;
