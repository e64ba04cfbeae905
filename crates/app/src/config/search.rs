//! `[search]` of the configuration: the provider of web searches.

use flowloom_tools::{SearchProvider, WebSearch};
use serde::Deserialize;

use super::error::{ConfigError, TableProblem};

/// `[search]`: the provider of web searches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    provider: Option<String>,
    url: Option<String>,
    /// Name of the secret that holds the API key.
    key: Option<String>,
}

impl SearchSettings {
    /// Validates the settings; `None` if the table is empty. Fails with `ConfigInvalid`.
    pub(super) fn validate(self) -> Result<Option<WebSearch>, ConfigError> {
        let invalid = |problem| Err(ConfigError::in_table("search", problem));
        let Some(name) = &self.provider else {
            return match (self.url, self.key) {
                (None, None) => Ok(None),
                _ => invalid(TableProblem::NoProvider),
            };
        };
        let Some(provider) = SearchProvider::parse(name) else {
            let known = SearchProvider::ALL.iter().map(|provider| provider.name()).collect();
            return invalid(TableProblem::UnknownProvider { name: name.clone(), known });
        };
        match self.url.or_else(|| provider.default_url().map(str::to_owned)) {
            Some(url) => Ok(Some(WebSearch { provider, url, key: self.key })),
            None => invalid(TableProblem::NoSearchUrl(name.clone())),
        }
    }
}
