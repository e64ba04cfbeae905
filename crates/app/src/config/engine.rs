//! `[engine]` of the configuration: what drives runs.

use flowloom_store::Durability;
use serde::Deserialize;
use url::Url;

use super::error::{ConfigError, TableProblem};

/// `[engine]`: what drives runs. Without it, the process that starts a run drives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// The address of the ingress of a Restate server, whose workers drive the runs.
    pub restate: Option<String>,
}

impl EngineSettings {
    /// Validates the settings. Fails with `ConfigInvalid`.
    pub(super) fn validate(&self, durability: Durability) -> Result<(), ConfigError> {
        let Some(restate) = &self.restate else { return Ok(()) };
        let is_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !Url::parse(restate).is_ok_and(is_web) {
            return Err(ConfigError::in_table("engine", TableProblem::NoRestateUrl(restate.clone())));
        }
        if durability == Durability::Memory {
            return Err(ConfigError::in_table("engine", TableProblem::RestateInMemory));
        }
        Ok(())
    }
}
