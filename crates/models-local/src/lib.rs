//! Models that run in this process: a small language model and a small embedding model, on candle.
//!
//! [`LocalEngine`] implements [`flowloom_models::InferenceEngine`]. This is the only crate that depends on candle; the program
//! passes the engine to [`flowloom_models::Models`]. [`pull`] downloads the model files, [`check_processor`] reports whether
//! the processor supports the instructions that this build uses.
#![warn(missing_docs)]

mod embedding;
mod engine;
mod error;
mod language;
mod processor;
pub mod pull;
mod stop;

pub use engine::LocalEngine;
pub use error::{LocalModelError, PullError};
pub use language::{SpeedReport, measure_speed};
pub use processor::{check_processor, processor_hint};
