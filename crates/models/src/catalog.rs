//! Built-in facts about providers and models: addresses, name families, prices, sizes. They are data (`data/*.toml`);
//! this module reads them and looks them up.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flowloom_runtime::effects::Price;
use serde::Deserialize;

/// The language model that needs no key: `local:` and this name.
pub const LOCAL_MODEL: &str = "smollm2-135m";
/// The embedding model that needs no key: `local:` and this name.
pub const LOCAL_EMBEDDING_MODEL: &str = "all-minilm-l6-v2";

/// Protocol of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// OpenAI's `POST …/chat/completions`, which most servers support.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
}

/// A provider known by name.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) base_url: String,
    #[serde(default)]
    pub(crate) base_env: Vec<String>,
    pub(crate) key_env: Option<String>,
    /// A model to propose to people who have the key.
    pub(crate) suggested: Option<String>,
}

/// Prices of a model in millionths of a US dollar per million tokens, and its limits in tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Figures {
    input: u64,
    output: u64,
    pub(crate) window: u64,
    pub(crate) answer: u64,
}

impl Figures {
    pub(crate) fn price(&self) -> Price {
        Price { input: self.input, output: self.output }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Providers {
    provider: Vec<Provider>,
    families: BTreeMap<String, String>,
}

fn load_providers() -> &'static Providers {
    static PROVIDER_TABLE: OnceLock<Providers> = OnceLock::new();
    // A test checks that the file parses, so the empty default never occurs in practice.
    PROVIDER_TABLE.get_or_init(|| toml::from_str(include_str!("../data/providers.toml")).unwrap_or_default())
}

fn load_prices() -> &'static BTreeMap<String, BTreeMap<String, Figures>> {
    static PRICE_TABLE: OnceLock<BTreeMap<String, BTreeMap<String, Figures>>> = OnceLock::new();
    PRICE_TABLE.get_or_init(|| toml::from_str(include_str!("../data/prices.toml")).unwrap_or_default())
}

/// The models with a known price, as `provider:model`.
pub fn list_priced_models() -> Vec<String> {
    let prices = load_prices().iter();
    prices.flat_map(|(provider, models)| models.keys().map(move |model| format!("{provider}:{model}"))).collect()
}

/// The providers known by name.
pub(crate) fn known_providers() -> &'static [Provider] {
    &load_providers().provider
}

/// The model to propose to people who have the key of a provider.
pub(crate) fn suggested_model(provider: &str) -> Option<&'static str> {
    let known = known_providers().iter().find(|known| known.name == provider)?;
    known.suggested.as_deref()
}

/// The provider that a model name without a provider belongs to, by its longest known prefix.
pub(crate) fn find_family(model: &str) -> Option<&'static str> {
    let fits = load_providers().families.iter().filter(|(start, _)| model.starts_with(start.as_str()));
    fits.max_by_key(|(start, _)| start.len()).map(|(_, provider)| provider.as_str())
}

/// Facts about `provider:model`, also if the model's name ends with a date.
pub(crate) fn find_figures(provider: &str, model: &str) -> Option<Figures> {
    let models = load_prices().get(provider)?;
    models.get(model).or_else(|| models.get(without_date(model))).copied()
}

fn without_date(model: &str) -> &str {
    if let Some(name) = model.strip_suffix("-latest") {
        return name;
    }
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = model.split('-').collect();
    let dated = match parts.as_slice() {
        [.., year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2) => 11,
        [.., date] if digits(date, 8) => 9,
        [.., date] if digits(date, 4) => 5,
        _ => 0,
    };
    &model[..model.len().saturating_sub(dated)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_can_be_read() {
        toml::from_str::<Providers>(include_str!("../data/providers.toml")).unwrap();
        toml::from_str::<BTreeMap<String, BTreeMap<String, Figures>>>(include_str!("../data/prices.toml")).unwrap();
        for (provider, models) in load_prices() {
            assert!(known_providers().iter().any(|known| known.name == *provider), "{provider}");
            assert!(models.values().all(|figures| figures.input <= figures.output && figures.answer <= figures.window));
        }
    }

    #[test]
    fn a_dated_name_has_the_price_of_the_plain_one() {
        let price = |model| find_figures("openai", model).map(|figures| figures.price().input);
        assert_eq!(price("gpt-4o"), Some(2_500_000));
        assert_eq!(price("gpt-4o-2024-08-06"), Some(2_500_000));
        assert_eq!(price("gpt-4-0613"), Some(30_000_000));
        assert_eq!(price("gpt-4o-mini"), Some(150_000));
        assert_eq!(price("gpt-4o-audio-preview"), None);
        assert!(find_figures("anthropic", "claude-sonnet-4-5-20250929").is_some());
        assert!(find_figures("anthropic", "claude-3-5-haiku-latest").is_some());
        assert!(find_figures("ollama", "llama3").is_none());
    }

    #[test]
    fn bare_names_belong_to_the_provider_with_the_longest_beginning() {
        assert_eq!(find_family("gpt-4o"), Some("openai"));
        assert_eq!(find_family("o3-mini"), Some("openai"));
        assert_eq!(find_family("claude-sonnet-4-5"), Some("anthropic"));
        assert_eq!(find_family("smollm2-135m"), Some("local"));
        assert_eq!(find_family("llama3"), None);
    }
}
