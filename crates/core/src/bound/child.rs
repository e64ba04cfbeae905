//! The bound of calls of functions, with the workflows that they run.

use std::collections::HashMap;
use std::sync::Arc;

use super::prompt::Sizes;
use super::walk::{StepLocation, Walk};
use super::{Bound, Count, FunctionReach};
use crate::path::Path;
use crate::plan::{Plan, Step, find_flow_id};

/// The bounds of the workflows that functions run, so that each is computed once.
#[derive(Default)]
pub(super) struct ChildBounds {
    known: HashMap<String, ChildBound>,
    /// The functions whose workflows are being bounded.
    open: Vec<String>,
}

/// The bound of a workflow that a function runs.
#[derive(Clone)]
struct ChildBound {
    bound: Bound,
    /// The figures without a bound, and whether only a budget ends each.
    reasons: Vec<OpenReason>,
}

#[derive(Clone)]
struct OpenReason {
    text: String,
    needs_budget: bool,
}

impl Walk<'_> {
    /// One call of a function. Whatever it does may change something elsewhere.
    pub(super) fn bound_function(&mut self, step: &Step, place: &StepLocation, function: &str) -> Bound {
        let mut bound = Bound { writes: Count::ONE, ..Bound::default() };
        bound.functions.insert(function.to_owned(), Count::ONE);
        let reach = match function {
            "workflow::run" => FunctionReach::Unknown("the workflow that it runs".to_owned()),
            function => self.figures.find_reach(function),
        };
        match reach {
            // The definition of this tool is not available.
            FunctionReach::Nothing if find_flow_id(function).is_some() => {
                self.bound_unknown(step, place, bound, &describe_workflow(function))
            }
            FunctionReach::Nothing => bound,
            FunctionReach::Request { method, host } => {
                let request = Bound::of_requests(method, host, Count::ONE);
                bound.then(Bound { writes: Count::ZERO, ..request })
            }
            FunctionReach::Workflow(plan) => bound.then(self.bound_child_run(step, place, function, &plan)),
            FunctionReach::Unknown(what) => self.bound_unknown(step, place, bound, &what),
        }
    }

    fn bound_unknown(&mut self, step: &Step, place: &StepLocation, mut bound: Bound, what: &str) -> Bound {
        self.add_unknown_effects(&mut bound);
        self.report(step, place, format!("everything that {what} does; plan it by itself"));
        bound
    }

    /// The bound of the workflow that a function runs. What has no bound in it is reported at the step that calls the
    /// function.
    fn bound_child_run(&mut self, step: &Step, place: &StepLocation, function: &str, plan: &Arc<Plan>) -> Bound {
        if self.children.open.iter().any(|open| open == function) {
            let mut bound = Bound::default();
            self.add_unknown_effects(&mut bound);
            let reason = format!("everything: {} runs itself", describe_workflow(function));
            self.report_unbounded(step, place, reason, true);
            return bound;
        }
        let child = match self.children.known.get(function) {
            Some(known) => known.clone(),
            None => self.compute_child_bound(function, plan),
        };
        for OpenReason { text, needs_budget } in child.reasons {
            self.report_unbounded(step, place, text, needs_budget);
        }
        child.bound
    }

    fn compute_child_bound(&mut self, function: &str, plan: &Arc<Plan>) -> ChildBound {
        let outer_sizes = std::mem::replace(&mut self.sizes, Sizes::of_inputs(plan, None));
        let outer_reports = std::mem::take(&mut self.unbounded);
        self.children.open.push(function.to_owned());
        let root = StepLocation { path: Path::root(), is_included: true };
        let bound = self.bound_step(&plan.root, &root);
        self.children.open.pop();
        self.sizes = outer_sizes;
        let reports = std::mem::replace(&mut self.unbounded, outer_reports);
        let reasons = reports.into_iter().map(|open| OpenReason {
            text: format!("in {}, {}: {}", describe_workflow(function), open.path, open.reason),
            needs_budget: open.needs_budget,
        });
        let child = ChildBound { bound, reasons: reasons.collect() };
        self.children.known.insert(function.to_owned(), child.clone());
        child
    }
}

fn describe_workflow(function: &str) -> String {
    match find_flow_id(function) {
        Some(workflow) => format!("the workflow {workflow}"),
        None => format!("the workflow of the function {function}"),
    }
}
