//! Settings `[author]` of the configuration.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::limits::Limits;
use serde::Deserialize;

use crate::inputs;

/// Defaults of authoring runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The model used for planning; the default model if unset.
    pub(crate) model: Option<String>,
    /// The model that blocks call during trials; the default model if unset.
    pub(crate) block_model: Option<String>,
    /// Budget of one authoring run, in the syntax of `--budget`.
    pub(crate) budget: Option<String>,
}

impl Settings {
    /// Validates the settings. Fails with `ConfigInvalid` if the budget is malformed.
    pub(crate) fn checked(self) -> Result<Settings, StepError> {
        if let Some(budget) = &self.budget {
            let invalid = |why: String| StepError::new(Code::ConfigInvalid, format!("[author] budget: {why}"));
            inputs::budget(budget, &mut Limits::default()).map_err(|failure| invalid(failure.error.message))?;
        }
        Ok(self)
    }
}
