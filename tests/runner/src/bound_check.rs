//! Holds every run of a case to the worst case of its plan: no run may do more than was computed before it.

use flowloom_core::bound::{Count, Latencies, ModelFigures, bound_plan};
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::state::RunState;

/// Scripted models have no limits of their own.
struct ScriptedFigures;

impl ModelFigures for ScriptedFigures {
    fn resolve(&self, named: Option<&str>) -> String {
        named.unwrap_or("default").to_owned()
    }

    fn window_tokens(&self, _model: &str) -> u64 {
        1 << 40
    }

    fn answer_tokens(&self, _model: &str) -> u64 {
        1 << 20
    }
}

/// Panics if a run did more than the worst case of its plan.
#[track_caller]
pub(crate) fn check_bound(plan: &Plan, state: &RunState) {
    let worst =
        bound_plan(plan, Some(&state.inputs()), &Limits::default(), &ScriptedFigures, Latencies::default()).bound;
    let count = |kinds: &[&str]| -> u64 {
        let steps = state.steps().iter().filter(|step| step.kind.as_deref().is_some_and(|kind| kinds.contains(&kind)));
        steps.map(|step| u64::from(step.attempts)).sum()
    };
    let calls = worst.total_calls();
    let found = [
        ("model calls", calls.calls, count(&["generate"])),
        ("input tokens", calls.input_tokens, state.usage.input_tokens),
        ("output tokens", calls.output_tokens, state.usage.output_tokens),
        ("requests", worst.total_requests(), count(&["http", "http_exchange", "scrape"])),
        ("functions", worst.total_functions(), count(&["call"])),
        ("blocks", worst.blocks, count(&["python"])),
        ("questions", worst.questions, count(&["ask"])),
    ];
    let exceeded: Vec<&(&str, Count, u64)> = found.iter().filter(|(_, bound, found)| !bound.allows(*found)).collect();
    assert!(exceeded.is_empty(), "{} does more than its worst case: {exceeded:?}", plan.name);
}
