//! Holds every run of a case to the worst case of its plan: no run may do more than was computed before it.

use std::collections::BTreeMap;

use flowloom_core::bound::{Bound, Count, FunctionReach, Latencies, ModelFigures, bound_plan};
use flowloom_core::chat::Usage;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Composite, Plan, StepKind};
use flowloom_core::state::{RunState, StepState};

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

    fn find_reach(&self, _function: &str) -> FunctionReach {
        FunctionReach::Nothing
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
    let found = found.into_iter().chain([
        ("writes", worst.writes, count_writes(state)),
        ("longest chain", worst.chain_ms, if has_branches(plan) { 0 } else { sum_latencies(state) }),
    ]);
    let found: Vec<(&str, Count, u64)> = found.collect();
    check_requests(plan, &worst, state);
    check_models(plan, &worst, state);
    let exceeded: Vec<&(&str, Count, u64)> = found.iter().filter(|(_, bound, found)| !bound.allows(*found)).collect();
    assert!(exceeded.is_empty(), "{} does more than its worst case: {exceeded:?}", plan.name);
}

/// The method and the host of each request, with the number of its attempts.
fn list_requests(state: &RunState) -> Vec<(String, String, u64)> {
    let request = |step: &StepState| {
        let target = step.target.as_deref()?;
        let (method, url) = match step.kind.as_deref()? {
            "http" => target.split_once(' ')?,
            "scrape" => ("GET", target),
            _ => return None,
        };
        let authority =
            url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
        let host = authority.split(':').next().unwrap_or_default();
        Some((method.to_owned(), host.to_owned(), u64::from(step.attempts)))
    };
    state.steps().iter().filter_map(request).collect()
}

fn count_writes(state: &RunState) -> u64 {
    let requests = list_requests(state);
    let requests = requests.iter().filter(|(method, ..)| !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS"));
    let others = state.steps().iter().filter(|step| matches!(step.kind.as_deref(), Some("call" | "memory_set")));
    requests.map(|(.., attempts)| attempts).sum::<u64>() + others.map(|step| u64::from(step.attempts)).sum::<u64>()
}

/// Panics if a run sent more requests to a host, with a method, than its plan allows.
fn check_requests(plan: &Plan, worst: &Bound, state: &RunState) {
    let mut sent: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (method, host, attempts) in list_requests(state) {
        *sent.entry((method, host)).or_default() += attempts;
    }
    for ((method, host), found) in sent {
        let fits = |bound: &str, found: &str| bound == "*" || bound == found;
        let allowed = worst.requests.iter().filter(|((bound, at), _)| fits(bound, &method) && fits(at, &host));
        let allowed = allowed.fold(Count::ZERO, |all, (_, count)| all.plus(*count));
        // Without an address, nothing was sent.
        assert!(
            host.is_empty() || allowed.allows(found),
            "{}: {found} times {method} {host}, not {allowed:?}",
            plan.name
        );
    }
}

/// Panics if a model was used more than its plan allows: the cost follows from calls and tokens, whatever the prices are.
fn check_models(plan: &Plan, worst: &Bound, state: &RunState) {
    let mut used: BTreeMap<String, (u64, Usage)> = BTreeMap::new();
    for step in state.steps().iter().filter(|step| step.kind.as_deref() == Some("generate")) {
        let (calls, usage) = used.entry(step.target.as_deref().unwrap_or_default().to_owned()).or_default();
        *calls += u64::from(step.attempts);
        step.usage.iter().for_each(|step| usage.add(step));
    }
    for (model, (calls, usage)) in used {
        // A case decides which model the default one is, and its expressions can name any.
        let can_be = |name: &String| *name == model || ["*", "default"].contains(&name.as_str());
        let is_known = worst.models.contains_key(&model);
        let possible = worst.models.iter().filter(|(name, _)| !is_known || can_be(name));
        let possible =
            Bound { models: possible.map(|(name, call)| (name.clone(), *call)).collect(), ..Bound::default() };
        let bound = possible.total_calls();
        let fits = bound.calls.allows(calls)
            && bound.input_tokens.allows(usage.input_tokens)
            && bound.output_tokens.allows(usage.output_tokens);
        assert!(fits, "{}: {model} was used {calls} times for {usage:?}, not {bound:?}", plan.name);
    }
}

/// Whether steps can run at the same time.
fn has_branches(plan: &Plan) -> bool {
    let mut found = false;
    plan.root.visit(&mut |step| {
        found |= matches!(
            step.kind,
            StepKind::Composite(Composite::Parallel(_) | Composite::Dag(_) | Composite::Subflow(_))
        );
    });
    found
}

/// How long the steps take one after another, if each takes the time that plans assume.
fn sum_latencies(state: &RunState) -> u64 {
    let latencies = Latencies::default();
    let latency = |step: &StepState| match step.kind.as_deref() {
        Some("generate") => latencies.model_ms,
        Some("http" | "scrape") => latencies.request_ms,
        Some("call") => latencies.function_ms,
        Some("python") => latencies.block_ms,
        _ => 0,
    };
    state.steps().iter().map(|step| latency(step) * u64::from(step.attempts)).sum()
}
