//! Warnings about cost without a bound of its own, if a definition calls models: loops that only the limits of the run or of
//! the format would end, and agents that may call any number of tools.

use flowloom_core::bound::{Count, Latencies, Unbounded, WorstCase, bound_plan};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::expr::Expr;
use flowloom_core::expr::js::Js;
use flowloom_core::plan::{BlockCode, Composite, Leaf, Step, StepKind};
use flowloom_models::Models;

use super::source::LoadedDefinition;
use crate::config::Config;
use crate::estimate::ConfiguredFigures;
use crate::wiring::build_default_models;

/// A loop that may run as often as this is meant to end by its condition.
const MANY_ITERATIONS: u64 = 1_000;

impl LoadedDefinition {
    /// Adds a warning for each part of a definition that calls models and has no bound of its own.
    pub fn add_cost_warnings(&mut self, config: &Config) {
        if let Some(worst) = self.bound_worst_case(config, &build_default_models(config)) {
            self.warn_about_cost(config, &worst);
        }
    }

    /// The worst case of a run; `None` if the definition has errors.
    pub(super) fn bound_worst_case(&self, config: &Config, models: &Models) -> Option<WorstCase> {
        let figures = ConfiguredFigures { config, models, tools: None };
        let plan = self.compiled.plan.as_ref()?;
        Some(bound_plan(plan, None, &config.limits, &figures, Latencies::default()))
    }

    pub(super) fn warn_about_cost(&mut self, config: &Config, worst: &WorstCase) {
        let Some(plan) = &self.compiled.plan else { return };
        if worst.bound.total_calls().calls == Count::ZERO {
            return;
        }
        let file = self.name().to_owned();
        let warn = |unbounded: &Unbounded| {
            let message = format!("the cost has no bound: {}", unbounded.reason);
            Diagnostic::new_warning(Code::CostUnbounded, &file, unbounded.span, message)
                .with_help("set a maximum, or a budget for the run; `flowloom plan` shows the worst case")
        };
        let mut warnings: Vec<Diagnostic> = worst.unbounded.iter().filter(|open| open.needs_budget).map(warn).collect();
        plan.root.visit(&mut |step| {
            if let StepKind::Composite(Composite::Loop(looped)) = &step.kind
                && calls_models(&looped.body)
                && looped.until.as_ref().is_none_or(|until| !is_always_true(until))
                && let iterations = worst.most_iterations(step.span)
                && (MANY_ITERATIONS..config.limits.iterations).contains(&iterations)
            {
                let message = format!("the loop may run {iterations} times, and it calls models");
                let warning = Diagnostic::new_warning(Code::CostUnbounded, &file, step.span, message);
                warnings.push(warning.with_help("set a smaller maximum; `flowloom plan` shows the worst case"));
            }
        });
        self.compiled.diagnostics.extend(warnings);
    }
}

/// Whether a step, or one in it, may call a model.
fn calls_models(step: &Step) -> bool {
    let mut found = false;
    step.visit(&mut |step| {
        found |= match &step.kind {
            StepKind::Leaf(Leaf::Generate(_) | Leaf::Call(_)) => true,
            StepKind::Leaf(Leaf::Block(block)) => !matches!(block.code, BlockCode::Function(_)),
            StepKind::Leaf(Leaf::Scrape(scrape)) => scrape.summary.is_some(),
            StepKind::Composite(Composite::Agent(_) | Composite::Turn(_) | Composite::Subflow(_)) => true,
            _ => false,
        };
    });
    found
}

/// Whether a condition is a constant that is true.
fn is_always_true(condition: &Expr) -> bool {
    let Expr::Js(js) = condition else { return matches!(condition, Expr::Constant(value) if value.is_truthy()) };
    match &**js {
        Js::Literal(value) => value.is_truthy(),
        Js::Placed(inner, _) => matches!(&**inner, Js::Literal(value) if value.is_truthy()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flowloom_core::code::Code;

    use crate::config::{Config, Overrides};
    use crate::definitions::source::Loader;

    fn count_warnings(iterations: u64) -> usize {
        count_warnings_in(
            "x.json",
            format!(
                r#"{{"id": "x", "name": "x", "description": "d", "steps": [{{"name": "again", "functionId": "agent::chat",
            "mode": "loop", "until": "!", "maxIterations": {iterations}, "promptTemplate": "{{{{input}}}}",
            "outputVar": "x", "errorMode": "fail"}}]}}"#
            ),
        )
    }

    fn count_warnings_in(name: &str, definition: String) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("flowloom.toml");
        std::fs::write(&file, "").expect("written");
        let config = Config::load(Overrides { file: Some(file), ..Overrides::default() }).expect("the configuration");
        let files = BTreeMap::from([(name.to_owned(), definition.into_bytes())]);
        let mut source = Loader::new(&config).compile_files(name, files);
        source.add_cost_warnings(&config);
        source.compiled.diagnostics.iter().filter(|problem| problem.code == Code::CostUnbounded).count()
    }

    #[test]
    fn a_loop_that_only_the_limits_end_is_a_warning() {
        assert_eq!((count_warnings(10), count_warnings(1_000), count_warnings(1_000_000)), (0, 1, 1));
    }

    #[test]
    fn a_constant_of_the_definition_bounds_a_loop() {
        let looped = |limit: u64| {
            let data = format!("---\ndata: {{limit: {limit}}}\n---\n\n");
            let body = "  A\n\n  <GenText as=\"text\" model=\"m\" />\n";
            let text = format!("{data}<Loop as=\"all\" until={{$.index >= limit}}>\n{body}</Loop>\n");
            count_warnings_in("x.mdx", text)
        };
        assert_eq!((looped(3), looped(5_000)), (0, 1));
    }
}
