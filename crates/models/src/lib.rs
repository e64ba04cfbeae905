//! Language models behind `runtime::effects::Model`: providers over the network, a model in this process, and scripted
//! answers for tests. Knows neither formats nor the command line.
#![warn(missing_docs)]

mod catalog;
pub mod embed;
mod estimate;
mod local;
mod models;
mod processor;
pub mod pull;
mod remote;
mod resolve;
mod scripted;
mod settings;
mod structured;

pub use local::{Speed, measure};
pub use models::{Models, ProviderStatus};
pub use processor::{check_processor, processor_hint};
pub use settings::{Environment, ModelSettings, ProcessEnvironment, ProviderSettings, cache_dir};
