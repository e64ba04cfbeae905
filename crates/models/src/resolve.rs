//! Selects the model of a step: aliases, defaults, and whether the provider can be used. Sends nothing.

use crate::catalog::{self, LOCAL_MODEL, Protocol, Provider};
use crate::error::ResolveError;
use crate::local::LocalModels;
use crate::remote::{Target, is_loopback};
use crate::settings::{Environment, ModelSettings};

/// Providers that are not reached over the network.
const BUILTIN_PROVIDERS: [&str; 2] = ["local", "scripted"];

/// The model for a step that names `named`, as `provider:model`; whether it is usable is not checked yet.
pub(crate) fn choose_model(
    settings: &ModelSettings,
    local: &LocalModels,
    named: Option<&str>,
) -> Result<String, ResolveError> {
    let named = named.map(str::trim).filter(|name| !name.is_empty());
    let wanted = named.or(settings.default.as_deref()).map(str::trim).filter(|name| !name.is_empty());
    if let Some(target) = find_alias(settings, wanted) {
        return complete_name(settings, target);
    }
    match wanted {
        Some(name) => check_no_file(settings, named, complete_name(settings, name)?),
        None if local.find_file(LOCAL_MODEL).is_ok() => Ok(format!("local:{}", LOCAL_MODEL)),
        None => Err(ResolveError::NoModelChosen),
    }
}

/// Refuses a model that a tenant's definition names and that is a file. The configuration may name a file: as the
/// default, or as the target of an alias.
fn check_no_file(settings: &ModelSettings, named: Option<&str>, model: String) -> Result<String, ResolveError> {
    let is_file = is_file_model(&model);
    let is_default = || settings.default.as_deref().and_then(|name| complete_name(settings, name).ok());
    if named.is_some() && is_file && !settings.allows_named_files && is_default().as_ref() != Some(&model) {
        return Err(ResolveError::FileNamed { model });
    }
    Ok(model)
}

/// Whether a model, as `provider:model`, is a file of this machine.
pub fn is_file_model(model: &str) -> bool {
    match model.trim().split_once(':') {
        Some(("scripted", name)) => !matches!(name.trim(), "" | "echo"),
        Some(("local", name)) => name.contains(['/', '\\']) || name.trim().ends_with(".gguf"),
        _ => false,
    }
}

/// The target of the alias for `wanted`. Its exact text takes precedence over the same model written differently, and
/// that over `*`; of several aliases with one name, the last one counts.
fn find_alias<'a>(settings: &'a ModelSettings, wanted: Option<&str>) -> Option<&'a str> {
    let find = |fits: &dyn Fn(&str) -> bool| {
        let found = settings.aliases.iter().rev().find(|(name, _)| fits(name.trim()));
        found.map(|(_, target)| target.trim())
    };
    let exact = wanted.and_then(|wanted| find(&|name| name == wanted));
    let same = || {
        let wanted = complete_name(settings, wanted?).ok()?;
        find(&|name| name != "*" && complete_name(settings, name).is_ok_and(|name| name == wanted))
    };
    exact.or_else(same).or_else(|| find(&|name| name == "*"))
}

/// `provider:model` for a name with or without a provider.
pub(crate) fn complete_name(settings: &ModelSettings, name: &str) -> Result<String, ResolveError> {
    if let Some((provider, model)) = name.split_once(':') {
        if is_known_provider(settings, provider) {
            return match (provider, model.trim()) {
                ("scripted", model) => Ok(format!("scripted:{model}")),
                (_, "") => Err(ResolveError::NoModelInName { name: name.to_owned(), provider: provider.to_owned() }),
                (_, model) => Ok(format!("{provider}:{model}")),
            };
        }
        let guess = match closest_provider(settings, provider) {
            Some(near) => format!("{near}:{model}"),
            None if is_ollama_tag(model) => format!("ollama:{name}"),
            None => return Err(unknown_provider(settings, provider)),
        };
        return Err(ResolveError::MisspelledProvider { provider: provider.to_owned(), guess });
    }
    match catalog::find_family(name) {
        Some(provider) => Ok(format!("{provider}:{name}")),
        None => {
            let guess = match name.split_once('/') {
                Some((provider, model)) if is_known_provider(settings, provider) => format!("{provider}:{model}"),
                _ => closest_provider(settings, name)
                    .map_or_else(|| format!("ollama:{name}"), |near| format!("{near}:MODEL")),
            };
            Err(ResolveError::UnclearProvider { name: name.to_owned(), guess })
        }
    }
}

fn provider_names(settings: &ModelSettings) -> impl Iterator<Item = &str> {
    let configured = settings.providers.iter().map(|provider| provider.name.as_str());
    BUILTIN_PROVIDERS
        .into_iter()
        .chain(catalog::known_providers().iter().map(|provider| provider.name.as_str()))
        .chain(configured)
}

fn is_known_provider(settings: &ModelSettings, provider: &str) -> bool {
    provider_names(settings).any(|name| name == provider)
}

fn unknown_provider(settings: &ModelSettings, provider: &str) -> ResolveError {
    let known = provider_names(settings).map(str::to_owned).collect();
    ResolveError::UnknownProvider { provider: provider.to_owned(), known }
}

/// Whether a text is the size or the version that Ollama writes after the name of a model: `8b`, `latest`.
fn is_ollama_tag(text: &str) -> bool {
    text.trim() == "latest" || text.contains(|c: char| c.is_ascii_digit())
}

/// The known provider that `word` is most likely a misspelling of.
fn closest_provider<'a>(settings: &'a ModelSettings, word: &str) -> Option<&'a str> {
    // A size or version at the end indicates a model, not a provider.
    if word.ends_with(|last: char| last.is_ascii_digit()) {
        return None;
    }
    let word = word.to_lowercase();
    let scored = provider_names(settings).map(|name| (edit_distance(&word, name), name));
    scored
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, n)| n)
}

/// The Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replace = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Address, key and protocol of a provider over the network.
pub(crate) fn resolve_target(
    settings: &ModelSettings,
    environment: &dyn Environment,
    provider: &str,
    model: &str,
) -> Result<Target, ResolveError> {
    let provider = find_provider(settings, provider).ok_or_else(|| unknown_provider(settings, provider))?;
    let configured = provider.base_env.iter().find_map(|name| environment.get_var(name));
    let base_url = complete_base_url(&provider, configured.as_deref().unwrap_or(&provider.base_url))?;
    let key = provider.key_env.as_ref().and_then(|name| environment.get_var(name)).map(|key| key.trim().to_owned());
    let key = key.filter(|key| !key.is_empty());
    match (&provider.key_env, &key) {
        (Some(name), None) if !is_loopback(&base_url) => {
            return Err(ResolveError::KeyMissing { provider: provider.name, variable: name.clone() });
        }
        _ => {}
    }
    Ok(Target { provider: provider.name, protocol: provider.protocol, base_url, key, model: model.to_owned() })
}

/// A configured provider takes precedence over a known one of the same name, whose protocol it inherits.
fn find_provider(settings: &ModelSettings, name: &str) -> Option<Provider> {
    let known = catalog::known_providers().iter().find(|provider| provider.name == name);
    let Some(own) = settings.providers.iter().rev().find(|provider| provider.name == name) else {
        return known.cloned();
    };
    Some(Provider {
        name: own.name.clone(),
        protocol: known.map_or(Protocol::OpenAi, |known| known.protocol),
        base_url: own.base_url.clone(),
        base_env: Vec::new(),
        key_env: own.key_env.clone(),
        suggested: None,
    })
}

/// The address without a trailing slash, completed as the provider's own tools do it.
fn complete_base_url(provider: &Provider, text: &str) -> Result<String, ResolveError> {
    let mut text = text.trim().trim_end_matches('/').to_owned();
    if provider.name == "ollama" {
        if !text.contains("://") {
            text = format!("http://{text}");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", &text));
        let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        let host = if host.contains(':') || scheme == "https" { host.to_owned() } else { format!("{host}:11434") };
        // A server may listen on all addresses, but clients cannot connect to this one.
        let host = host.replacen("0.0.0.0:", "127.0.0.1:", 1);
        let path = if path.is_empty() { "v1" } else { path };
        text = format!("{scheme}://{host}/{path}");
    }
    let url = reqwest::Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else {
        return Err(ResolveError::InvalidBaseUrl { provider: provider.name.clone() });
    };
    if provider.protocol == Protocol::Anthropic && url.path() == "/" {
        text.push_str("/v1");
    }
    Ok(text)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
