//! What a person configures about models, and the environment it is read from. Reads no file and chooses no model.

use std::path::PathBuf;
use std::time::Duration;

/// Configuration of [`crate::Models`].
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The model of steps that name none: `--model p:m`, else `default_model`.
    pub default: Option<String>,
    /// `named=target`; `*` stands for every name and for none. Of equal names the last one counts.
    pub aliases: Vec<(String, String)>,
    /// Where GGUF files are; `None` for [`cache_dir`].
    pub cache_dir: Option<PathBuf>,
    /// Further OpenAI-compatible providers, or other addresses for known ones.
    pub providers: Vec<ProviderSettings>,
    /// The file that `scripted:` without a path answers from.
    pub script: Option<PathBuf>,
    /// Longest silence of a provider.
    pub idle_timeout: Duration,
    /// Longest call, retries included.
    pub total_timeout: Duration,
    /// A proxy for calls of providers; the ones in the environment are not used.
    pub proxy: Option<String>,
}

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings {
            default: None,
            aliases: Vec::new(),
            cache_dir: None,
            providers: Vec::new(),
            script: None,
            idle_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(600),
            proxy: None,
        }
    }
}

/// An OpenAI-compatible provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its name, as in `name:model`.
    pub name: String,
    /// Its address up to and including `/v1` or the like.
    pub base_url: String,
    /// The environment variable with its key; `None` if it needs none.
    pub key_env: Option<String>,
}

/// Environment variables, so that tests can have their own.
pub trait Environment: Send + Sync {
    /// The value of a variable that is set and not empty.
    fn var(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String> + Send + Sync> Environment for F {
    fn var(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// Where GGUF files are kept: `$FLOWLOOM_CACHE/models`, else `$XDG_CACHE_HOME/flowloom/models`, else
/// `~/.cache/flowloom/models`. `scripts/fetch-model.sh` has the same rule.
pub fn cache_dir(environment: &dyn Environment) -> PathBuf {
    if let Some(own) = environment.var("FLOWLOOM_CACHE") {
        return PathBuf::from(own).join("models");
    }
    let caches = environment.var("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = environment.var("HOME")?;
        Some(PathBuf::from(home).join(".cache"))
    });
    caches.unwrap_or_else(|| PathBuf::from(".cache")).join("flowloom").join("models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_follows_the_environment() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            cache_dir(&move |name: &str| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(with(&[("HOME", "/h")]), PathBuf::from("/h/.cache/flowloom/models"));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), PathBuf::from("/x/flowloom/models"));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("FLOWLOOM_CACHE", "/f")]), PathBuf::from("/f/models"));
    }
}
