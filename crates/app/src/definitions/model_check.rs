//! Warnings about models that a definition names and whose provider there is not. A run would find out when it starts.

use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_models::{Models, ResolveError};

use super::source::LoadedDefinition;
use crate::used_models::list_used_models;

impl LoadedDefinition {
    /// Adds a warning for each model that a step names and that no configuration of keys makes usable.
    pub(super) fn warn_about_models(&mut self, models: &Models) {
        let Some(plan) = &self.compiled.plan else { return };
        let text = String::from_utf8_lossy(self.bytes());
        let warn = |named: &String| match models.choose_model(Some(named)) {
            Err(
                error @ (ResolveError::MisspelledProvider { .. }
                | ResolveError::UnknownProvider { .. }
                | ResolveError::UnclearProvider { .. }
                | ResolveError::NoModelInName { .. }),
            ) => {
                let start = text.find(named.as_str())?;
                let span = Span { start, length: named.len() };
                Some(Diagnostic::new_warning(error.code(), self.name(), span, error.to_string()))
            }
            _ => None,
        };
        let named = list_used_models(plan).into_iter().filter_map(|used| used.name).filter(|name| !name.is_empty());
        let warnings: Vec<Diagnostic> = named.filter_map(|name| warn(&name)).collect();
        self.compiled.diagnostics.extend(warnings);
    }
}
