//! `[author]` of the configuration.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::limits::Limits;
use serde::Deserialize;

use crate::inputs;

/// How pipelines are made of wishes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The model that thinks; the default model if none is named.
    pub(crate) model: Option<String>,
    /// The model that blocks ask while they are tried; the default model if none is named.
    pub(crate) block_model: Option<String>,
    /// Bounds of one authoring, as `--budget` takes them.
    pub(crate) budget: Option<String>,
}

impl Settings {
    /// The same, if it can be meant.
    pub(crate) fn checked(self) -> Result<Settings, StepError> {
        if let Some(budget) = &self.budget {
            let invalid = |why: String| StepError::new(Code::ConfigInvalid, format!("[author] budget: {why}"));
            inputs::budget(budget, &mut Limits::default()).map_err(|failure| invalid(failure.error.message))?;
        }
        Ok(self)
    }
}
