//! Language models behind `runtime::effects::Model`: providers over the network, models on this machine (run by the crate
//! `models-local`), and scripted answers for tests. Independent of the formats and of the command line.
#![warn(missing_docs)]

mod catalog;
pub mod embed;
mod error;
mod estimate;
mod fit;
mod given_answers;
mod local;
mod models;
mod remote;
mod resolve;
mod scripted;
mod served;
mod settings;
mod structured;

pub use catalog::{LOCAL_EMBEDDING_MODEL, LOCAL_MODEL, list_priced_models};
pub use error::{ModelError, ResolveError, SchemaError, ScriptError};
pub use local::{InferenceEngine, LOCAL_MAX_ANSWER_TOKENS};
pub use models::{Models, ProviderStatus};
pub use remote::{MAX_CALL_ATTEMPTS, ProviderCallError, SseEvent, SseParser, Unreadable};
pub use resolve::is_file_model;
pub use served::{is_nearby, list_served_models};
pub use settings::{Environment, ModelSettings, ProcessEnvironment, ProviderSettings, cache_dir};
