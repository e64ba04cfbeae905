//! The models that steps can use, as listed by `flowloom models list` and `GET /api/v1/models`: local model files and
//! providers. Providers nearby are asked which models they serve.

use std::path::Path;

use flowloom_models::{Models, ProviderStatus, ResolveError, is_nearby, list_served_models};
use flowloom_models_local::gguf;
use flowloom_runtime::effects::Model as _;
use futures_util::future::join_all;
use serde::Serialize;

use crate::config::Config;
use crate::wiring::build_default_models;

/// The usable models.
#[derive(Debug, Serialize)]
pub struct ModelList {
    /// Default model for steps without one; `None` if not set.
    pub default: Option<String>,
    /// Local models as `local:NAME`.
    pub local: Vec<String>,
    /// The files of the local models.
    pub files: Vec<ModelFile>,
    /// The providers.
    pub providers: Vec<ProviderEntry>,
}

/// The file of a local model.
#[derive(Debug, Serialize)]
pub struct ModelFile {
    /// The model as `local:NAME`.
    pub model: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Architecture that the file states.
    pub architecture: Option<String>,
    /// Number of weights.
    pub parameters: Option<u64>,
    /// Maximum number of tokens of prompt and answer together.
    pub window_tokens: Option<u64>,
    /// Why the file cannot be used.
    pub problem: Option<String>,
}

/// A provider.
#[derive(Debug, Serialize)]
pub struct ProviderEntry {
    /// The name before the colon.
    pub name: String,
    /// Base URL, without a password. Not for tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable of the key.
    pub key_env: Option<String>,
    /// Why it cannot be used.
    pub problem: Option<String>,
    /// For providers nearby: the models that it serves; `None` if it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Whether the provider is nearby, and was asked for its models.
    pub probed: bool,
    /// The variable to set, if only a key is missing.
    #[serde(skip)]
    pub missing_key: Option<String>,
    /// A model to propose to people who have its key.
    #[serde(skip)]
    pub suggested: Option<String>,
}

impl ModelList {
    /// Reads the headers of the local models, and asks the providers nearby.
    pub async fn collect(config: &Config) -> ModelList {
        let models = build_default_models(config);
        let local = models.list_local_models();
        let files = local.iter().map(|model| describe_file(&models, model)).collect();
        let providers = join_all(models.list_providers().into_iter().map(describe_provider)).await;
        ModelList { default: models.resolve(None).ok(), local, files, providers }
    }

    /// A usable model that answers better than the small one: that of a provider whose key is set, one that a provider
    /// nearby serves, or another file.
    pub fn find_better_model(&self, small: &str) -> Option<String> {
        let usable = || self.providers.iter().filter(|provider| provider.problem.is_none());
        let keyed = usable().find_map(|provider| Some(format!("{}:{}", provider.name, provider.suggested.as_ref()?)));
        let served = || {
            usable().find_map(|provider| {
                let name = provider.models.as_ref()?.iter().find(|name| !name.contains("embed"))?;
                Some(format!("{}:{name}", provider.name))
            })
        };
        let file = || {
            let others = self.files.iter().filter(|file| file.model != small && file.problem.is_none());
            others.max_by_key(|file| file.parameters).map(|file| file.model.clone())
        };
        keyed.or_else(served).or_else(file)
    }
}

fn describe_file(models: &Models, model: &str) -> ModelFile {
    let name = model.strip_prefix("local:").unwrap_or(model);
    let file = models.local_dir().join(format!("{name}.gguf"));
    let bytes = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    let entry = ModelFile {
        model: model.to_owned(),
        bytes,
        architecture: None,
        parameters: None,
        window_tokens: None,
        problem: None,
    };
    match gguf::read_header(Path::new(&file)) {
        Err(error) => ModelFile { problem: Some(error.to_string()), ..entry },
        Ok(header) => ModelFile {
            architecture: Some(header.architecture),
            parameters: Some(header.parameter_count),
            window_tokens: header.window_tokens,
            ..entry
        },
    }
}

async fn describe_provider(status: ProviderStatus) -> ProviderEntry {
    let probed = status.problem.is_none() && is_nearby(&status.base_url);
    let models = if probed { list_served_models(&status.base_url).await } else { None };
    let missing_key = match &status.problem {
        Some(ResolveError::KeyMissing { variable, .. }) => Some(variable.clone()),
        _ => None,
    };
    ProviderEntry {
        suggested: status.suggested,
        problem: status.problem.map(|problem| problem.to_string()),
        name: status.name,
        base_url: Some(status.base_url),
        key_env: status.key_env,
        models,
        probed,
        missing_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(model: &str, parameters: u64) -> ModelFile {
        ModelFile {
            model: model.to_owned(),
            bytes: 1,
            architecture: None,
            parameters: Some(parameters),
            window_tokens: None,
            problem: None,
        }
    }

    fn provider(name: &str, suggested: Option<&str>, models: Option<&[&str]>) -> ProviderEntry {
        ProviderEntry {
            name: name.to_owned(),
            base_url: None,
            key_env: None,
            problem: None,
            models: models.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            probed: models.is_some(),
            missing_key: None,
            suggested: suggested.map(str::to_owned),
        }
    }

    #[test]
    fn a_key_is_proposed_before_a_server_nearby_and_that_before_a_larger_file() {
        let small = "local:small";
        let find = |files, providers| {
            let list = ModelList { default: None, local: Vec::new(), files, providers };
            list.find_better_model(small)
        };
        let files = || vec![file(small, 1), file("local:a", 3), file("local:b", 2)];
        let ollama = || provider("ollama", None, Some(&["nomic-embed-text", "qwen3:4b"]));
        assert_eq!(find(vec![file(small, 1)], Vec::new()), None);
        assert_eq!(find(files(), Vec::new()).as_deref(), Some("local:a"));
        assert_eq!(find(files(), vec![ollama()]).as_deref(), Some("ollama:qwen3:4b"));
        let keyed = || provider("openai", Some("gpt-4o-mini"), None);
        assert_eq!(find(files(), vec![ollama(), keyed()]).as_deref(), Some("openai:gpt-4o-mini"));
        let refused = ProviderEntry { problem: Some("no key".to_owned()), ..keyed() };
        assert_eq!(find(Vec::new(), vec![refused]), None);
    }
}
