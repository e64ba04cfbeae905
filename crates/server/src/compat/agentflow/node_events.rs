//! Converts the events of a pipeline run into AgentFlow's node events. The result depends only on the run's events.

use std::collections::HashMap;

use flowloom_app::authoring::agentflow_event::{AgentFlowEvent, build_fields};
use flowloom_core::event::{AfterFailure, Event, Record};
use flowloom_core::path::Path;
use flowloom_core::plan::{Block, Leaf, Plan, StepKind};
use flowloom_core::value::Value;
use flowloom_formats::pipeline::{PlanNode, plan_nodes};
use flowloom_runtime::schema::validation_errors;

/// Converts the events of a run in their order.
pub(crate) struct NodeEvents {
    nodes: Vec<NodeState>,
    by_path: HashMap<Path, usize>,
}

/// A node and its state so far.
struct NodeState {
    id: String,
    block: Value,
    /// The output, if it is known without running the node.
    static_output: Option<Value>,
    /// The block whose output schema the output must satisfy.
    block_spec: Option<Block>,
    is_started: bool,
    /// The output of the last attempt.
    output: Option<Value>,
}

impl NodeEvents {
    /// For runs of the given plan.
    pub(crate) fn from_plan(plan: &Plan) -> NodeEvents {
        let (mut all, mut by_path) = (Vec::new(), HashMap::new());
        for PlanNode { id, block, path, step, fixed_output } in plan_nodes(plan) {
            by_path.insert(path, all.len());
            let held = match &step.kind {
                StepKind::Leaf(Leaf::Block(block)) => Some(block.clone()),
                _ => None,
            };
            all.push(NodeState {
                id: id.to_owned(),
                block,
                static_output: fixed_output,
                block_spec: held,
                is_started: false,
                output: None,
            });
        }
        NodeEvents { nodes: all, by_path }
    }

    /// Converts an event; most events produce `None`.
    pub(crate) fn convert(&mut self, record: &Record) -> Option<AgentFlowEvent> {
        if let Event::RunCreated(created) = &record.event {
            let workflow = created.workflow.as_deref().map_or(Value::Null, Value::from);
            return Some(self.start_event(record, workflow, &created.user));
        }
        let node = self.by_path.get(&record.path).map(|at| &mut self.nodes[*at])?;
        let happened = match &record.event {
            // Only the first attempt is a start.
            Event::StepStarted { .. } if !node.is_started => {
                node.is_started = true;
                Some(("node_started", Vec::new()))
            }
            Event::StepFinished { output, .. } => {
                let output = output.clone().or_else(|| node.static_output.clone()).unwrap_or_default();
                node.output = Some(output.clone());
                // If the output violates the block's schema, the following failure event is reported instead.
                (!node.is_failing(&output)).then(|| ("node_completed", vec![("output", output)]))
            }
            Event::StepFailed { error, then, .. } if !matches!(then, AfterFailure::Retry(_)) => {
                let mut fields = vec![("error", Value::from(error.message.as_str()))];
                fields.push(("code", error.code.to_string().into()));
                fields.extend(node.output.clone().map(|output| ("output", output)));
                Some(("node_failed", fields))
            }
            Event::StepSkipped { reason } => Some(("node_skipped", vec![("reason", reason.as_str().into())])),
            Event::StepAborted { reason } => Some(("node_failed", vec![("error", reason.as_str().into())])),
            _ => None,
        };
        happened.map(|(name, fields)| node.node_event(name, record, fields))
    }

    fn start_event(&self, record: &Record, workflow: Value, user: &str) -> AgentFlowEvent {
        let node = |node: &NodeState| Value::map([("node", node.id.as_str().into()), ("block", node.block.clone())]);
        let start = [
            ("run_id", record.run.to_string().into()),
            ("pipeline_id", workflow),
            ("user_id", user.into()),
            ("nodes", Value::list(self.nodes.iter().map(node).collect())),
        ];
        AgentFlowEvent::new("start", record.at, build_fields(start))
    }
}

impl NodeState {
    fn node_event(&self, name: &'static str, record: &Record, more: Vec<(&'static str, Value)>) -> AgentFlowEvent {
        let mut all = vec![("node", Value::from(self.id.as_str())), ("block", self.block.clone())];
        all.extend(more);
        AgentFlowEvent::new(name, record.at, build_fields(all))
    }

    /// Whether the run will reject this output as a failure.
    fn is_failing(&self, output: &Value) -> bool {
        let Some(block) = &self.block_spec else { return false };
        let says_so = block.failure.as_ref().is_some_and(|field| output.get(field).is_some());
        says_so || block.output_schema.as_ref().is_some_and(|schema| validation_errors(schema, output).is_some())
    }
}
