//! Configuration of models, and the environment variables they use.

use std::path::PathBuf;
use std::time::Duration;

/// Configuration of [`crate::Models`].
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Default model for steps without one: `--model p:m`, otherwise `default_model`.
    pub default: Option<String>,
    /// Aliases `name=target`; `*` matches every name and steps without a name. Of several with the same name, the last
    /// one counts.
    pub aliases: Vec<(String, String)>,
    /// Folder of GGUF files; `None` for [`cache_dir`].
    pub cache_dir: Option<PathBuf>,
    /// Additional OpenAI-compatible providers, or other addresses for known ones.
    pub providers: Vec<ProviderSettings>,
    /// The file that `scripted:` without a path answers from.
    pub script: Option<PathBuf>,
    /// The folder of the configuration: scripts are looked for there if they are not in the current folder.
    pub script_folder: PathBuf,
    /// Maximum time in which a provider sends nothing of its answer. Pings and empty chunks do not count.
    pub idle_timeout: Duration,
    /// Maximum duration of a call, including retries.
    pub total_timeout: Duration,
    /// Whether a definition may name a file as its model. A tenant's may not: every file that the server can read would
    /// answer.
    pub allows_named_files: bool,
    /// Proxy for calls of providers. Proxy settings of the environment are not used.
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
            script_folder: PathBuf::new(),
            idle_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(600),
            allows_named_files: true,
            proxy: None,
        }
    }
}

/// An OpenAI-compatible provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Name, as in `name:model`.
    pub name: String,
    /// Base URL, up to and including `/v1` or similar.
    pub base_url: String,
    /// Environment variable with the key; `None` if it needs none.
    pub key_env: Option<String>,
}

/// Source of environment variables, replaced in tests.
pub trait Environment: Send + Sync {
    /// The value of a variable that is set and not empty.
    fn get_var(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String> + Send + Sync> Environment for F {
    fn get_var(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get_var(&self, name: &str) -> Option<String> {
        let set = std::env::var(name).ok().filter(|value| !value.is_empty());
        match name {
            // Services often run without it; the user database has it, too.
            "HOME" => set.or_else(|| std::env::home_dir()?.into_os_string().into_string().ok()),
            _ => set,
        }
    }
}

/// The folder of GGUF files: `$FLOWLOOM_CACHE/models`, else `$XDG_CACHE_HOME/flowloom/models`, else
/// `~/.cache/flowloom/models`. `scripts/fetch-model.sh` uses the same rule.
pub fn cache_dir(environment: &dyn Environment) -> PathBuf {
    if let Some(own) = environment.get_var("FLOWLOOM_CACHE") {
        return PathBuf::from(own).join("models");
    }
    let caches = environment.get_var("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = environment.get_var("HOME")?;
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
