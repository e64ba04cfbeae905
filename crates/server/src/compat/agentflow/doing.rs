//! Converts the events of a pipeline run into AgentFlow's node events. The result depends only on the run's events.

use std::collections::HashMap;

use flowloom_app::authoring::happened::{Happened, fields};
use flowloom_core::event::{AfterFailure, Event, Record};
use flowloom_core::path::Path;
use flowloom_core::plan::{Block, Kind, Leaf, Plan};
use flowloom_core::value::Value;
use flowloom_formats::pipeline::{PlanNode, nodes};
use flowloom_runtime::schema::complaints;

/// Converts the events of a run in their order.
pub(crate) struct Doing {
    nodes: Vec<Shown>,
    by_path: HashMap<Path, usize>,
}

/// A node and its state so far.
struct Shown {
    id: String,
    block: Value,
    /// The output, if it is known without running the node.
    gives: Option<Value>,
    /// The block whose output schema the output must satisfy.
    held: Option<Block>,
    is_begun: bool,
    /// The output of the last attempt.
    output: Option<Value>,
}

impl Doing {
    /// For runs of the given plan.
    pub(crate) fn of(plan: &Plan) -> Doing {
        let (mut all, mut by_path) = (Vec::new(), HashMap::new());
        for PlanNode { id, block, path, step, gives } in nodes(plan) {
            by_path.insert(path, all.len());
            let held = match &step.kind {
                Kind::Leaf(Leaf::Block(block)) => Some(block.clone()),
                _ => None,
            };
            all.push(Shown { id: id.to_owned(), block, gives, held, is_begun: false, output: None });
        }
        Doing { nodes: all, by_path }
    }

    /// Converts an event; most events produce `None`.
    pub(crate) fn hear(&mut self, record: &Record) -> Option<Happened> {
        if let Event::RunCreated(created) = &record.event {
            let workflow = created.workflow.as_deref().map_or(Value::Null, Value::from);
            return Some(self.begin(record, workflow, &created.owner));
        }
        let node = self.by_path.get(&record.path).map(|at| &mut self.nodes[*at])?;
        let happened = match &record.event {
            // Only the first attempt is a start.
            Event::StepStarted { .. } if !node.is_begun => {
                node.is_begun = true;
                Some(("node_started", Vec::new()))
            }
            Event::StepFinished { output, .. } => {
                let output = output.clone().or_else(|| node.gives.clone()).unwrap_or_default();
                node.output = Some(output.clone());
                // If the output violates the block's schema, the following failure event is reported instead.
                (!node.is_failing(&output)).then(|| ("node_completed", vec![("output", output)]))
            }
            Event::StepFailed { error, then } if !matches!(then, AfterFailure::Retry(_)) => {
                let mut fields = vec![("error", Value::from(error.message.as_str()))];
                fields.push(("code", error.code.to_string().into()));
                fields.extend(node.output.clone().map(|output| ("output", output)));
                Some(("node_failed", fields))
            }
            Event::StepSkipped { reason } => Some(("node_skipped", vec![("reason", reason.as_str().into())])),
            Event::StepAborted { reason } => Some(("node_failed", vec![("error", reason.as_str().into())])),
            _ => None,
        };
        happened.map(|(name, fields)| node.told(name, record, fields))
    }

    fn begin(&self, record: &Record, workflow: Value, owner: &str) -> Happened {
        let node = |node: &Shown| Value::map([("node", node.id.as_str().into()), ("block", node.block.clone())]);
        let start = [
            ("run_id", record.run.to_string().into()),
            ("pipeline_id", workflow),
            ("user_id", owner.into()),
            ("nodes", Value::list(self.nodes.iter().map(node).collect())),
        ];
        Happened::new("start", record.at, fields(start))
    }
}

impl Shown {
    fn told(&self, name: &'static str, record: &Record, more: Vec<(&'static str, Value)>) -> Happened {
        let mut all = vec![("node", Value::from(self.id.as_str())), ("block", self.block.clone())];
        all.extend(more);
        Happened::new(name, record.at, fields(all))
    }

    /// Whether the run will reject this output as a failure.
    fn is_failing(&self, output: &Value) -> bool {
        let Some(block) = &self.held else { return false };
        let says_so = block.failure.as_ref().is_some_and(|field| output.get(field).is_some());
        says_so || block.output_schema.as_ref().is_some_and(|schema| complaints(schema, output).is_some())
    }
}
