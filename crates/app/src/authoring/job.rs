//! State passed from one stage to the next.

use std::path::PathBuf;

use flowloom_author::Draft;
use flowloom_core::code::Code;
use flowloom_core::effect::Payload;
use flowloom_core::error::StepFailure;
use flowloom_core::json::{parse_value, write_json};
use flowloom_core::value::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::author::AuthorSettings;

/// A draft and the options it is created with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthoringJob {
    /// The pipeline so far.
    pub draft: Draft,
    /// The settings of the authoring.
    pub how: AuthoringOptions,
}

/// Options of an authoring run. They are part of the run's input, so a resumed run uses the same options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthoringOptions {
    /// The model used for planning; the run's default if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that blocks call during trials; the run's default if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_model: Option<String>,
    /// Whether the pipeline is saved in the store, and each new block as soon as it has passed its trials.
    pub keep: bool,
    /// Not used any more; in the inputs of runs of earlier versions.
    #[serde(skip_serializing)]
    pub keeps_partial: bool,
    /// Where the pipeline is written as files, once it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputTarget>,
    /// Ids that the pipeline may not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
    /// Whether the pipeline and the new blocks get ids that no other user has, because clients open them by their id alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_global_id: bool,
}

/// Where a pipeline is written as files. It is part of the run's input, so that the process that resumes the run writes
/// it there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTarget {
    /// The chosen folder; `None` for one with the name of the pipeline.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The folder in which it is created otherwise.
    pub base: PathBuf,
    /// The other format to write it in, too.
    #[serde(default)]
    pub into: Option<String>,
}

impl AuthoringOptions {
    /// Options from `[author]` of the configuration; nothing is stored.
    pub fn from_config(config: &Config) -> AuthoringOptions {
        let AuthorSettings { model, block_model, .. } = config.author.clone();
        AuthoringOptions { model, block_model, ..AuthoringOptions::default() }
    }
}

impl AuthoringJob {
    /// A job with no completed stage.
    pub fn new(intent: &str, user: &str, how: AuthoringOptions) -> AuthoringJob {
        AuthoringJob { draft: Draft::new(intent, user), how }
    }

    /// Parses the argument of an authoring function: a whole job, or only the goal as a string.
    pub(super) fn from_payload(payload: &Payload) -> Result<AuthoringJob, StepFailure> {
        match function_input(payload) {
            Value::String(intent) => Ok(AuthoringJob::new(&intent, "", AuthoringOptions::default())),
            input => parse_as(&input, "{\"draft\": {\"intent\": \"…\"}}, or the goal as a string"),
        }
    }
}

/// The argument of a function call: the input of its step.
pub(super) fn function_input(payload: &Payload) -> Value {
    match payload.prompt {
        Some(_) => payload.get("input").unwrap_or_default(),
        None => payload.to_value(),
    }
}

/// Deserialises a value. Fails with `InputInvalid`; `expected` describes the required shape for the message.
pub fn parse_as<T: DeserializeOwned>(value: &Value, expected: &str) -> Result<T, StepFailure> {
    serde_json::from_str(&write_json(value))
        .map_err(|error| StepFailure::new(Code::InputInvalid, format!("this is not {expected}: {error}")))
}

/// Serialises into a value. Fails if the thing cannot be written as JSON.
pub fn to_value(thing: &impl Serialize) -> Result<Value, StepFailure> {
    let failed = |why: String| StepFailure::new(Code::FunctionFailed, why);
    let text = serde_json::to_string(thing).map_err(|error| failed(error.to_string()))?;
    parse_value(&text).map_err(|error| failed(format!("{error:?}")))
}
