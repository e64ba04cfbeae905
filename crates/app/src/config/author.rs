//! Settings `[author]` of the configuration.

use flowloom_core::limits::Limits;
use serde::Deserialize;

use super::error::{ConfigError, TableProblem};
use crate::runs::inputs::parse_budget;

/// Defaults of authoring runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthorSettings {
    /// The model used for planning; the default model if unset.
    pub model: Option<String>,
    /// The model that blocks call during trials; the default model if unset.
    pub block_model: Option<String>,
    /// Bounds of one authoring, as [`parse_budget`] reads them.
    pub budget: Option<String>,
}

impl AuthorSettings {
    /// Validates the settings. Fails with `ConfigInvalid` if the budget is malformed.
    pub fn validate(self) -> Result<AuthorSettings, ConfigError> {
        if let Some(text) = &self.budget {
            let invalid = |error| ConfigError::in_table("author", TableProblem::Budget(error));
            parse_budget(text, &mut Limits::default()).map_err(invalid)?;
        }
        Ok(self)
    }
}
