//! Warnings about models that a definition names and whose provider there is not. A run would find out when it starts.

use flowloom_core::bound::WorstCase;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_models::{Models, ResolveError};

use super::source::LoadedDefinition;

impl LoadedDefinition {
    /// Adds a warning for each model of the worst case whose provider is unknown.
    pub(super) fn warn_about_models(&mut self, models: &Models, worst: &WorstCase) {
        let text = String::from_utf8_lossy(self.bytes());
        let warn = |named: &String| match models.choose_model(Some(named)) {
            Err(error @ (ResolveError::MisspelledProvider { .. } | ResolveError::UnknownProvider { .. })) => {
                let start = text.find(named.as_str())?;
                let span = Span { start, length: named.len() };
                Some(Diagnostic::new_warning(error.code(), self.name(), span, error.to_string()))
            }
            _ => None,
        };
        let warnings: Vec<Diagnostic> = worst.bound.models.keys().filter_map(warn).collect();
        self.compiled.diagnostics.extend(warnings);
    }
}
