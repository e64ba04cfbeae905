//! Warnings about models that a definition names and whose provider there is not. A run would find out when it starts.

use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_formats::markdown::measure_tag;
use flowloom_models::{Models, ResolveError};

use super::source::LoadedDefinition;
use crate::used_models::list_used_models;

impl LoadedDefinition {
    /// Adds a warning for each model that a step names and that no configuration of keys makes usable.
    pub(super) fn warn_about_models(&mut self, models: &Models) {
        let Some(plan) = &self.compiled.plan else { return };
        let text = String::from_utf8_lossy(self.bytes());
        let warn = |named: &str, steps: &[Span]| match models.choose_model(Some(named)) {
            Err(
                error @ (ResolveError::MisspelledProvider { .. }
                | ResolveError::UnknownProvider { .. }
                | ResolveError::UnclearProvider { .. }
                | ResolveError::NoModelInName { .. }),
            ) => {
                let first = || steps.first().copied().unwrap_or_default();
                let span = find_named_model(&text, named, steps).unwrap_or_else(first);
                Some(Diagnostic::new_warning(error.code(), self.name(), span, error.to_string()))
            }
            _ => None,
        };
        let used = list_used_models(plan);
        let named = used.iter().filter_map(|used| Some((used.name.as_deref()?, used)));
        let warnings: Vec<Diagnostic> =
            named.filter(|(name, _)| !name.is_empty()).filter_map(|(name, used)| warn(name, &used.spans)).collect();
        self.compiled.diagnostics.extend(warnings);
    }
}

/// The place where a definition names a model: in the tag or the object of one of the steps that use it, else anywhere.
fn find_named_model(text: &str, named: &str, steps: &[Span]) -> Option<Span> {
    let values: Vec<Span> = ["\"", "'", "`"].iter().flat_map(|quote| find_values(text, named, quote)).collect();
    let is_of_step = |value: &Span| {
        let is_inside = |step: &Span| {
            let tag = text.get(step.start..).filter(|text| text.starts_with('<')).and_then(measure_tag);
            (step.start..step.start + tag.unwrap_or(step.length)).contains(&value.start)
        };
        steps.iter().any(is_inside)
    };
    values.iter().find(|value| is_of_step(value)).or(values.first()).copied()
}

/// The keys and attributes whose values are models.
const MODEL_KEYS: [&str; 3] = ["model", "llmModelId", "llm_model_id"];

/// The values of these keys or attributes that are `named` in these quotation marks.
fn find_values<'t>(text: &'t str, named: &str, quote: &'t str) -> impl Iterator<Item = Span> + 't {
    let (written, length) = (format!("{quote}{named}{quote}"), named.len());
    let is_value = |before: &str| {
        let before = before.trim_end().trim_end_matches('{').trim_end();
        let key = before.strip_suffix([':', '=']).map(str::trim_end).unwrap_or_default();
        let key = key.trim_end_matches(['"', '\'']);
        let start = key.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        MODEL_KEYS.contains(&&key[start..])
    };
    let places: Vec<usize> = text.match_indices(&written).map(|(at, _)| at).collect();
    let values = places.into_iter().filter(move |at| is_value(&text[..*at]));
    values.map(move |at| Span { start: at + quote.len(), length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_where_they_are_named() {
        let find = |text: &str, named: &str, step: &str| {
            let steps: Vec<Span> =
                text.find(step).map(|start| Span { start, length: step.len() }).into_iter().collect();
            find_named_model(text, named, &steps).map(|span| (span.start, span.length))
        };
        let markdown = "---\nsystem: none\n---\n\n`model=\"m\"`\n\n<GenText as=\"m\" model=\"m\" />\n";
        assert_eq!(find(markdown, "m", "<GenText"), markdown.rfind("m\" />").map(|start| (start, 1)));
        let braces = "<GenText as=\"a\" model={'x:y'} />";
        assert_eq!(find(braces, "x:y", "<GenText"), Some((24, 3)));
        let json = r#"{"name": "m", "systemPrompt": "Use \"model\": m", "model" : "m"}"#;
        assert_eq!(find(json, "m", "nowhere"), json.rfind("m\"}").map(|start| (start, 1)));
        assert_eq!(find(r#"{"name": "m"}"#, "m", "name"), None);
        let other_key = r#"{"embedding_model": "m", "llmModelId": "m"}"#;
        assert_eq!(find(other_key, "m", "nowhere"), other_key.rfind("m\"}").map(|start| (start, 1)));
    }
}
