//! Warnings about models that a definition names and whose provider there is not. A run would find out when it starts.

use flowloom_core::bound::{Latencies, bound_plan};
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_models::ResolveError;

use super::source::LoadedDefinition;
use crate::config::Config;
use crate::estimate::ConfiguredFigures;
use crate::wiring::build_default_models;

impl LoadedDefinition {
    /// Adds a warning for each model whose provider is misspelt.
    pub fn add_model_warnings(&mut self, config: &Config) {
        let Some(plan) = &self.compiled.plan else { return };
        let models = build_default_models(config);
        let figures = ConfiguredFigures { models: &models, functions: &config.functions };
        let bound = bound_plan(plan, None, &config.limits, &figures, Latencies::default()).bound;
        let text = String::from_utf8_lossy(self.bytes());
        let warn = |named: &String| match models.choose_model(Some(named)) {
            Err(error @ ResolveError::MisspelledProvider { .. }) => {
                let start = text.find(named.as_str())?;
                let span = Span { start, length: named.len() };
                Some(Diagnostic::new_warning(error.code(), self.name(), span, error.to_string()))
            }
            _ => None,
        };
        let warnings: Vec<Diagnostic> = bound.models.keys().filter_map(warn).collect();
        self.compiled.diagnostics.extend(warnings);
    }
}
