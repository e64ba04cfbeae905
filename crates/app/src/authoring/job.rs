//! State passed from one stage to the next.

use flowloom_author::Draft;
use flowloom_core::code::Code;
use flowloom_core::effect::Payload;
use flowloom_core::error::StepError;
use flowloom_core::json::{parse_value, write};
use flowloom_core::value::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::author::Settings;

/// A draft and the options it is created with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// The pipeline so far.
    pub draft: Draft,
    /// The settings of the authoring.
    pub how: How,
}

/// Options of an authoring run. They are part of the run's input, so a resumed run uses the same options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct How {
    /// The model used for planning; the run's default if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that blocks call during trials; the run's default if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_model: Option<String>,
    /// Whether the pipeline and the new blocks are saved in the store.
    pub keep: bool,
    /// Ids that the pipeline may not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
}

impl How {
    /// Options from `[author]` of the configuration; nothing is stored.
    pub fn of(config: &Config) -> How {
        let Settings { model, block_model, .. } = config.author.clone();
        How { model, block_model, ..How::default() }
    }
}

impl Job {
    /// A job with no completed stage.
    pub fn new(intent: &str, user: &str, how: How) -> Job {
        Job { draft: Draft::new(intent, user), how }
    }

    /// Parses the argument of an authoring function: a whole job, or only the goal as a string.
    pub(super) fn of(payload: &Payload) -> Result<Job, StepError> {
        match given(payload) {
            Value::String(intent) => Ok(Job::new(&intent, "", How::default())),
            input => read(&input, "{\"draft\": {\"intent\": \"…\"}}, or the goal as a string"),
        }
    }
}

/// The argument of a function call: the input of its step.
pub(super) fn given(payload: &Payload) -> Value {
    match payload.prompt {
        Some(_) => payload.get("input").unwrap_or_default(),
        None => payload.to_value(),
    }
}

/// Deserialises a value. Fails with `InputInvalid`; `expected` describes the required shape for the message.
pub fn read<T: DeserializeOwned>(value: &Value, expected: &str) -> Result<T, StepError> {
    serde_json::from_str(&write(value))
        .map_err(|error| StepError::new(Code::InputInvalid, format!("this is not {expected}: {error}")))
}

/// Serialises into a value.
pub fn value_of(thing: &impl Serialize) -> Result<Value, StepError> {
    let failed = |why: String| StepError::new(Code::FunctionFailed, why);
    let text = serde_json::to_string(thing).map_err(|error| failed(error.to_string()))?;
    parse_value(&text).map_err(|error| failed(format!("{error:?}")))
}
