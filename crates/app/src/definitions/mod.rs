//! Definitions: read from files or from the store, compiled, listed, and recorded as bundles.

pub mod alone;
pub mod bundle;
pub mod catalog;
pub mod conditions;
pub mod convert;
mod cost_check;
pub mod edit;
pub mod edit_error;
pub mod error;
pub mod find;
pub mod flow_folder;
pub mod folder;
pub mod functions;
mod injection_check;
pub mod nameable;
pub mod outline;
mod python_check;
pub mod reader;
pub mod replace_file;
pub(crate) mod secret_check;
pub mod source;
pub mod sources;
mod start_check;
pub mod stored;
pub mod sync;
mod tool_check;
pub mod versions;
