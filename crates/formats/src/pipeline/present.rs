//! A pipeline's own result: AgentFlow's `PipelineState` (docs/formats/pipeline.md).

use flowloom_core::expr::Data;
use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Dag, Env, Leaf, Plan, Step, StepKind};
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::{Map, Value};

use crate::front_end::RenderedResult;

/// The result of a run of a pipeline: `{pipeline_id, user_id, results, user, memory, log, status}`.
pub(super) fn render_result(plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
    let user = state.created.as_ref().map(|created| created.user.clone()).unwrap_or_default();
    let memory_step = |name: &str| Value::map([("step", Value::from(name)), ("user_id", user.as_str().into())]);
    let mut results = Map::new();
    let mut log = vec![memory_step("_load_memory")];
    let mut last = Value::Null;
    let Some((dag, place)) = find_dag(plan) else { return RenderedResult { result: Value::Null, output: Value::Null } };
    for index in
        log_order(dag, |index| node_state(dag, index, &place, state).is_some_and(|step| step.phase == Phase::Skipped))
    {
        let node = &dag.nodes[index].step;
        let Some(node_output_value) = node_output(node, node_state(dag, index, &place, state)) else { continue };
        let mut entry =
            Map::from_iter([("node".into(), Value::from(node.title.as_str())), ("block".into(), node_block(node))]);
        match node_output_value.get("error") {
            Some(error) => entry.insert("error".into(), error.clone()),
            None => {
                last = node_output_value.clone();
                entry.insert("output".into(), node_output_value.clone())
            }
        };
        log.push(entry.into());
        results.insert(node.title.as_str().into(), node_output_value);
    }
    log.push(memory_step("_save_memory"));
    let variable = |name: &str| env.vars.get(name).cloned().unwrap_or_else(|| Map::new().into());
    let result = Value::map([
        ("pipeline_id", plan.id.as_deref().map_or(Value::Null, Value::from)),
        ("user_id", user.as_str().into()),
        ("results", results.into()),
        ("user", variable("user")),
        ("memory", variable("memory")),
        ("log", Value::list(log)),
        ("status", if state.error.is_some() { "failed" } else { "completed" }.into()),
    ]);
    RenderedResult { result, output: last }
}

/// The result of each node, in log order: `{id, node_id, status, output_data, error, finished_at}`, with `finished_at`
/// in milliseconds since the Unix epoch. Nodes that have not finished are left out.
pub fn node_results(plan: &Plan, state: &RunState) -> Vec<Value> {
    let Some((dag, place)) = find_dag(plan) else { return Vec::new() };
    let is_skipped = |index| node_state(dag, index, &place, state).is_some_and(|step| step.phase == Phase::Skipped);
    let mut results = Vec::new();
    for index in log_order(dag, is_skipped) {
        let (node, step) = (&dag.nodes[index].step, node_state(dag, index, &place, state));
        let Some(node_output_value) = node_output(node, step) else { continue };
        let error = node_output_value.get("error").cloned();
        let finished = step.and_then(|step| step.finished_at);
        results.push(Value::map([
            ("id", Value::from(results.len() as i64 + 1)),
            ("node_id", node.title.as_str().into()),
            ("status", if error.is_some() { "failed" } else { "completed" }.into()),
            ("output_data", if error.is_some() { Value::Null } else { node_output_value }),
            ("error", error.unwrap_or_default()),
            ("finished_at", finished.map_or(Value::Null, |at| (at as i64).into())),
        ]));
    }
    results
}

/// A node of a compiled pipeline.
pub struct PlanNode<'a> {
    /// The id.
    pub id: &'a str,
    /// The id of its block, or the type of its trigger.
    pub block: Value,
    /// The path of its events.
    pub path: Path,
    /// The step.
    pub step: &'a Step,
    /// The output that is known without a run; only triggers have one.
    pub fixed_output: Option<Value>,
}

/// The nodes of a pipeline, in file order.
pub fn plan_nodes(plan: &Plan) -> Vec<PlanNode<'_>> {
    let Some((dag, place)) = find_dag(plan) else { return Vec::new() };
    let steps = dag.nodes.iter().map(|node| &node.step);
    let nodes = steps.map(|step| PlanNode {
        id: &step.title,
        block: node_block(step),
        path: place.child_path(&step.key),
        step,
        fixed_output: node_output(step, None),
    });
    nodes.collect()
}

/// The DAG of a pipeline's plan, and its path.
pub fn find_dag(plan: &Plan) -> Option<(&Dag, Path)> {
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return None };
    steps.iter().find_map(|step| match &step.kind {
        StepKind::Composite(Composite::Dag(dag)) => Some((dag, Path::root().child_path(&step.key))),
        _ => None,
    })
}

fn node_state<'a>(dag: &Dag, index: usize, place: &Path, state: &'a RunState) -> Option<&'a StepState> {
    state.find_step(&place.child_path(&dag.nodes[index].step.key))
}

/// The node indexes ordered by level, skipped nodes first, then by file order.
pub fn log_order(dag: &Dag, is_skipped: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut levels = vec![0usize; dag.nodes.len()];
    let mut open: Vec<usize> = dag.nodes.iter().map(|node| node.needs.len()).collect();
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); dag.nodes.len()];
    for (index, node) in dag.nodes.iter().enumerate() {
        node.needs.iter().for_each(|need| dependants[*need].push(index));
    }
    let mut ready: Vec<usize> = (0..dag.nodes.len()).filter(|index| open[*index] == 0).collect();
    while let Some(done) = ready.pop() {
        for index in &dependants[done] {
            levels[*index] = levels[*index].max(levels[done] + 1);
            open[*index] -= 1;
            if open[*index] == 0 {
                ready.push(*index);
            }
        }
    }
    let mut order: Vec<usize> = (0..dag.nodes.len()).collect();
    order.sort_by_key(|index| (levels[*index], !is_skipped(*index), *index));
    order
}

/// The result of a node; `None` if it has not run.
fn node_output(node: &Step, step: Option<&StepState>) -> Option<Value> {
    // A trigger has its output without running, unless a node before it failed.
    if let StepKind::Composite(Composite::Assign(rows)) = &node.kind
        && step.is_none_or(|step| step.phase != Phase::Skipped)
    {
        return rows.first()?.value.resolve(&Map::new(), super::TEXT_RULES).ok();
    }
    let step = step?;
    let error = |message: &str| Value::map([("error", Value::from(message))]);
    match step.phase {
        Phase::Finished => step.output.clone(),
        // The output of a block that reported its own failure is preserved.
        Phase::Failed => Some(match (&step.output, &step.error) {
            (Some(output), _) if output.get("error").is_some() => output.clone(),
            (_, Some(failed)) => error(&failed.message),
            (_, None) => error("failed"),
        }),
        Phase::Skipped => Some(error(&format!("Skipped: {}", step.reason.as_deref().unwrap_or_default()))),
        Phase::Running | Phase::Aborted | Phase::Waiting | Phase::Uncertain | Phase::Reset => None,
    }
}

fn node_block(node: &Step) -> Value {
    match &node.kind {
        StepKind::Leaf(Leaf::Block(block)) => (*block.id).into(),
        // The block of a trigger is its type.
        StepKind::Composite(Composite::Assign(rows)) => match rows.first().map(|row| &row.value) {
            Some(Data::Constant(value)) => value.get("trigger_type").cloned().unwrap_or_default(),
            _ => Value::Null,
        },
        _ => Value::Null,
    }
}
