//! What one stage hands to the next.

use flowloom_author::Draft;
use flowloom_core::args::Payload;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::{parse_value, write};
use flowloom_core::value::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::author::Settings;

/// A draft, and how it is made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// The pipeline so far.
    pub draft: Draft,
    /// The settings of the authoring.
    pub how: How,
}

/// How a pipeline is made. It is part of the run's input, so that a run that goes on later goes on in the same way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct How {
    /// The model that thinks; the run's default if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that blocks ask while they are tried; the run's default if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_model: Option<String>,
    /// Whether the pipeline and the blocks that were written are kept in the store.
    pub keep: bool,
    /// Ids that the pipeline cannot have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
}

impl How {
    /// As it is configured; nothing is kept.
    pub fn of(config: &Config) -> How {
        let Settings { model, block_model, .. } = config.author.clone();
        How { model, block_model, ..How::default() }
    }
}

impl Job {
    /// A job of which nothing is done.
    pub fn new(intent: &str, user: &str, how: How) -> Job {
        Job { draft: Draft::new(intent, user), how }
    }

    /// The job that a function is called with: the caller's input, which may also be no more than the wish.
    pub(super) fn of(payload: &Payload) -> Result<Job, StepError> {
        match given(payload) {
            Value::String(intent) => Ok(Job::new(&intent, "", How::default())),
            input => read(&input, "{\"draft\": {\"intent\": \"…\"}}, or the wish as a text"),
        }
    }
}

/// What a function is called with: the input of its step.
pub(super) fn given(payload: &Payload) -> Value {
    match payload.prompt {
        Some(_) => payload.get("input").unwrap_or_default(),
        None => payload.to_value(),
    }
}

/// Reads a value of this shape; `expected` says what it should have been.
pub fn read<T: DeserializeOwned>(value: &Value, expected: &str) -> Result<T, StepError> {
    serde_json::from_str(&write(value))
        .map_err(|error| StepError::new(Code::InputInvalid, format!("this is not {expected}: {error}")))
}

/// The same as a value.
pub fn value_of(thing: &impl Serialize) -> Result<Value, StepError> {
    let failed = |why: String| StepError::new(Code::FunctionFailed, why);
    let text = serde_json::to_string(thing).map_err(|error| failed(error.to_string()))?;
    parse_value(&text).map_err(|error| failed(format!("{error:?}")))
}
