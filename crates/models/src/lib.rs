//! Language models behind `runtime::effects::Model`: providers over the network, models in this process (run by the crate
//! `models-local`), and scripted answers for tests. Independent of the formats and of the command line.
#![warn(missing_docs)]

mod catalog;
pub mod embed;
mod estimate;
mod local;
mod models;
mod remote;
mod resolve;
mod scripted;
mod settings;
mod structured;

pub use local::{InferenceEngine, LOCAL_EMBEDDING_MODEL, LOCAL_MAX_ANSWER_TOKENS, LOCAL_MODEL};
pub use models::{Models, ProviderStatus};
pub use settings::{Environment, ModelSettings, ProcessEnvironment, ProviderSettings, cache_dir};
