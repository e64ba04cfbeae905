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
    /// The model of steps that name none; `None` if there is none.
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
    /// Base URL, without a password.
    pub base_url: String,
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

    /// A model that answers better than the small one and needs no key: one that a provider nearby serves, or another file.
    pub fn find_better_local_model(&self, small: &str) -> Option<String> {
        let served = self.providers.iter().find_map(|provider| {
            let name = provider.models.as_ref()?.iter().find(|name| !name.contains("embed"))?;
            Some(format!("{}:{name}", provider.name))
        });
        let largest = self.files.iter().filter(|file| file.model != small).max_by_key(|file| file.parameters);
        served.or_else(|| largest.filter(|file| file.problem.is_none()).map(|file| file.model.clone()))
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
        problem: status.problem.map(|problem| problem.to_string()),
        name: status.name,
        base_url: status.base_url,
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

    #[test]
    fn a_served_model_is_better_than_a_file_and_a_large_file_than_the_small_one() {
        let provider = |models: Option<Vec<String>>| ProviderEntry {
            name: "ollama".to_owned(),
            base_url: String::new(),
            key_env: None,
            problem: None,
            models,
            probed: true,
            missing_key: None,
        };
        let list =
            |files, models| ModelList { default: None, local: Vec::new(), files, providers: vec![provider(models)] };
        let small = "local:small";
        assert_eq!(list(vec![file(small, 1)], None).find_better_local_model(small), None);
        let files = vec![file(small, 1), file("local:a", 2), file("local:b", 3)];
        assert_eq!(list(files, None).find_better_local_model(small).as_deref(), Some("local:b"));
        let served = Some(vec!["nomic-embed-text".to_owned(), "qwen3:4b".to_owned()]);
        assert_eq!(list(Vec::new(), served).find_better_local_model(small).as_deref(), Some("ollama:qwen3:4b"));
    }
}
