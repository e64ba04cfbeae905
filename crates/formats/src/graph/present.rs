//! A graph's own result: `{messages, final_text, next, node_trace, end_reason}` (docs/formats/graph.md).

use flowloom_core::code::Code;
use flowloom_core::expr::Expr;
use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Edge, Env, Machine, Plan, Step, StepKind};
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};

use super::{END_NAME, THREAD_NAME};
use crate::conversation::{last_answer, messages_value};
use crate::front_end::RenderedResult;

/// The result of a run of a graph.
pub(super) fn render_result(plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
    let StepKind::Composite(Composite::Machine(machine)) = &plan.root.kind else {
        return RenderedResult { result: Value::Null, output: Value::Null };
    };
    let thread = env.find_thread(THREAD_NAME);
    let text = last_answer(&thread);
    let trace = visited_nodes(machine, state);
    let next = env.vars.get("answer").and_then(|answer| answer.get("next")).cloned().unwrap_or_default();
    let executed = env.vars.get("executed").and_then(Value::as_list).and_then(<[Value]>::last);
    let tool = executed.and_then(|output| output.get("tool")).cloned().unwrap_or_default();
    let reason = end_reason(machine, trace.last().map(|(node, _)| *node), state, &next, &tool);
    let names = trace.iter().map(|(node, _)| node.title.as_str().into()).collect();
    let mut result = Map::from_iter([
        ("messages".into(), messages_value(&thread)),
        ("final_text".into(), text.clone()),
        ("next".into(), next),
        ("node_trace".into(), Value::list(names)),
        ("end_reason".into(), reason.map_or(Value::Null, Value::from)),
    ]);
    if let Some(pair) = find_oscillation(&trace).filter(|_| reason == Some("step_limit")) {
        result.insert("oscillation".into(), Value::list(pair.into_iter().map(Value::from).collect()));
    }
    RenderedResult { result: result.into(), output: text }
}

/// The visited nodes in order, with their states.
fn visited_nodes<'a>(machine: &'a Machine, state: &'a RunState) -> Vec<(&'a Step, &'a StepState)> {
    let finished = state.steps().iter().filter(|step| step.phase == Phase::Finished);
    finished
        .filter_map(|step| {
            let key = visited_key(&step.path)?;
            Some((machine.nodes.iter().find(|node| node.key.as_str() == key)?, step))
        })
        .collect()
}

/// Whether the edge is taken for this name.
fn is_named(edge: &Edge, name: &Value) -> bool {
    matches!(&edge.condition, Some(Expr::Equals(_, right)) if name.as_str().is_some() && **right == Expr::Constant(name.clone()))
}

fn is_unconditional(edge: &Edge) -> bool {
    edge.condition == Some(Expr::Constant(true.into()))
}

/// The node of a path that is one visit of a node: the node itself, or the question of a node that asks a person.
fn visited_key(path: &Path) -> Option<&str> {
    let (key, visit) = path.as_str().strip_prefix('/')?.split_once('#')?;
    let visit = visit.strip_suffix("/ask").unwrap_or(visit);
    visit.bytes().all(|b| b.is_ascii_digit()).then_some(key)
}

/// The reason why a run ended. `next` is the destination chosen by the last agent; `tool` is the last called tool.
fn end_reason(
    machine: &Machine,
    last: Option<&Step>,
    state: &RunState,
    next: &Value,
    tool: &Value,
) -> Option<&'static str> {
    match (state.status, state.error.as_ref().map(|error| error.code)) {
        (Status::TimedOut, _) => return Some("timeout"),
        (Status::Waiting, _) => return Some("handoff"),
        (Status::Failed, Some(Code::LimitIterations)) => return Some("step_limit"),
        (Status::Succeeded, _) => {}
        _ => return None,
    }
    let last = last?;
    let is_executor = matches!(last.kind, StepKind::Composite(Composite::Tools(_)));
    let chosen = if is_executor { tool } else { next };
    if !is_executor && next.as_str() == Some(END_NAME) {
        return Some("END");
    }
    let index = machine.nodes.iter().position(|node| node.key == last.key)?;
    let mut ends = machine.edges.iter().filter(|edge| edge.from == index && edge.to.is_none());
    if ends.clone().any(|edge| is_named(edge, chosen)) {
        return Some("END");
    }
    Some(if ends.any(is_unconditional) { "always_end" } else { "no_edge" })
}

/// The two nodes between which the trace oscillates at its end.
fn find_oscillation(trace: &[(&Step, &StepState)]) -> Option<[String; 2]> {
    let names: Vec<&str> = trace.iter().rev().take(6).map(|(node, _)| node.title.as_str()).collect();
    let (first, second) = (names.first()?, names.get(1)?);
    let alternates = names.len() == 6 && names.chunks(2).all(|pair| pair == [*first, *second]);
    (alternates && first != second).then(|| [second.to_string(), first.to_string()])
}
