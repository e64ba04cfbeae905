//! Composites: the order in which children run, and how often.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::Event;
use flowloom_core::expr::Expr;
use flowloom_core::path::Key;
use flowloom_core::plan::bind;
use flowloom_core::plan::{Assignment, Dag, Env, Exhausted, Loop, LoopOutput, LoopTest, Machine, Step, Subflow};
use flowloom_core::render;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use super::scoped::{self, Iterations, OpenIteration, ScopedEnv};
use super::turn::UNKNOWN_DESTINATION;
use super::{Interpreter, Interrupt, StepContext, StepFlow, StepResult};
use crate::effects::BoxFuture;
use crate::scope::{self, ChildScope};

/// Number of iterations of all loops and graphs of a run after which commands and time limits take effect.
const ITERATIONS_PER_YIELD: u64 = 256;

/// The result of a member, with the names it writes.
type MemberResult = (Result<StepFlow, Interrupt>, Vec<Arc<str>>);

impl Interpreter {
    pub(super) async fn run_sequence(&self, steps: &[Step], env: &mut Env, place: &StepContext) -> StepResult {
        let mut last = None;
        for (index, step) in steps.iter().enumerate() {
            self.set_fork_variables_early(&steps[index..], env, &place.path);
            if let Some(following) = env.helper_state.clone() {
                scoped::update_helper(&following, env);
            }
            last = self.run_child(step, env, place).await?;
        }
        Ok(last)
    }

    /// All members see the variables as they were at the start. A failing member does not stop its siblings; the first
    /// failure in list order is the result.
    pub(super) async fn run_parallel(&self, members: &[Step], env: &mut Env, place: &StepContext) -> StepResult {
        let before = env.clone();
        let ended = scope::join_all(members.iter().map(|step| self.run_member(step, before.clone(), place))).await;
        let mut outputs = Vec::with_capacity(members.len());
        let mut writes = Vec::with_capacity(members.len());
        for (step, (result, names)) in members.iter().zip(ended) {
            let output = match result? {
                StepFlow::Ran(output) => {
                    writes.push((step, names, output.clone()));
                    output
                }
                StepFlow::Skipped(_) => None,
            };
            outputs.push(output.unwrap_or_default());
        }
        self.keep_member_variables(members, env, place);
        for (step, names, output) in writes {
            bind::write_output(step, names, output.as_ref(), env);
        }
        self.emit_finished(place, None)?;
        Ok(Some(Value::list(outputs)))
    }

    fn run_member<'a>(&'a self, step: &'a Step, mut env: Env, place: &'a StepContext) -> BoxFuture<'a, MemberResult> {
        let place = place.with_path(place.path.child_path(&step.key));
        Box::pin(async move { self.run_without_writing(step, &mut env, &place).await })
    }

    /// Runs each node as soon as its dependencies have finished. A node with a failed dependency is skipped, and so are
    /// its dependants.
    pub(super) async fn run_dag(&self, dag: &Dag, env: &mut Env, place: &StepContext) -> StepResult {
        let nodes = &dag.nodes;
        let mut open: Vec<usize> = nodes.iter().map(|node| node.needs.len()).collect();
        let mut broken = vec![false; nodes.len()];
        let mut failed = Vec::new();
        let mut outputs: Vec<Option<Value>> = vec![None; nodes.len()];
        let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            node.needs.iter().for_each(|need| dependants[*need].push(index));
        }
        let mut scope = ChildScope::new();
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|index| open[*index] == 0).collect();
        loop {
            let mut settled = Vec::new();
            for index in std::mem::take(&mut ready) {
                if broken[index] {
                    let reason = describe_failed_needs(dag, index, &broken);
                    let path = place.path.child_path(&nodes[index].step.key);
                    self.emit_event(&place.with_path(path), 0, Event::StepSkipped { reason })?;
                    settled.push(index);
                } else {
                    let mut env = env.clone();
                    self.set_node_variables(dag, Some(index), &mut env, place);
                    scope.start_child(index, self.run_member(&nodes[index].step, env, place));
                }
            }
            if settled.is_empty() {
                let Some((index, (result, names))) = scope.next().await else { break };
                let ended = result?;
                // Also those of a block whose output is refused: they are stored with its end.
                self.apply_memory_writes(&place.path.child_path(&nodes[index].step.key), env);
                match ended {
                    StepFlow::Ran(output) => {
                        bind::write_output(&nodes[index].step, names, output.as_ref(), env);
                        outputs[index] = output;
                    }
                    StepFlow::Skipped(cause) => {
                        broken[index] = true;
                        failed.push(FailedNode { key: nodes[index].step.key.as_str(), cause });
                    }
                }
                settled.push(index);
            }
            for index in settled {
                for dependant in &dependants[index] {
                    broken[*dependant] |= broken[index];
                    open[*dependant] -= 1;
                    if open[*dependant] == 0 {
                        ready.push(*dependant);
                    }
                }
            }
        }
        if dag.fails && !failed.is_empty() {
            let message = describe_failed_nodes(failed, nodes.len());
            return Err(Interrupt::Failed(StepFailure::new(Code::NodesFailed, message), place.path.clone()));
        }
        self.set_node_variables(dag, None, env, place);
        self.emit_finished(place, None)?;
        let named = nodes.iter().zip(outputs);
        Ok(Some(Value::map(named.map(|(node, output)| (node.step.key.as_str(), output.unwrap_or_default())))))
    }

    pub(super) async fn run_machine(&self, machine: &Machine, env: &mut Env, place: &StepContext) -> StepResult {
        let mut visits = vec![0u64; machine.nodes.len()];
        let mut current = machine.entry;
        let mut count = 0;
        loop {
            if count >= machine.max_visits {
                // If the machine has a person, a conversation that makes no progress is handed to them.
                match machine.resets.first() {
                    Some(person) => (current, count) = (*person, 0),
                    None => break,
                }
            }
            count += 1;
            let node = &machine.nodes[current];
            visits[current] += 1;
            let at = place.with_path(place.path.child_path(&node.key).visit_path(visits[current]));
            let output = self.run_step_at(node, env, at.clone()).await?;
            let failed = |error| Interrupt::Failed(error, at.path.clone());
            let mut taken = None;
            for edge in machine.edges.iter().filter(|edge| edge.from == current) {
                let holds = match &edge.condition {
                    Some(condition) => condition.is_true(env, output.as_ref()).map_err(failed)?,
                    None => true,
                };
                if holds {
                    taken = Some(edge.to);
                    break;
                }
            }
            if machine.resets.contains(&current) {
                count = 0;
            }
            let Some(to) = taken else {
                let message = describe_stuck(machine, current, env, output.as_ref());
                return Err(failed(StepFailure::new(Code::MachineStuck, message)));
            };
            let key = to.map(|index| machine.nodes[index].key.as_str().to_owned());
            self.emit_event(&at, 0, Event::EdgeTaken { to: key })?;
            self.count_iteration(place).await;
            match to {
                Some(index) => current = index,
                None => {
                    self.emit_finished(place, None)?;
                    return Ok(output);
                }
            }
        }
        let message = format!("the graph ran {} nodes without reaching its end", machine.max_visits);
        Err(Interrupt::Failed(StepFailure::new(Code::LimitIterations, message), place.path.clone()))
    }

    pub(super) async fn run_loop(&self, looped: &Loop, env: &mut Env, place: &StepContext) -> StepResult {
        let locals = env.locals.clone();
        let result = self.run_iterations(looped, env, place).await;
        env.locals = locals;
        result
    }

    async fn run_iterations(&self, looped: &Loop, env: &mut Env, place: &StepContext) -> StepResult {
        let mut outputs = Vec::new();
        let mut iterations = Iterations::new();
        let mut last: Option<Value> = None;
        let mut index = 0;
        loop {
            if let Some(helper) = &looped.helper {
                scoped::set_helper(helper, &iterations.helper_value(helper, index), env);
            }
            if looped.test == LoopTest::Before && self.is_done(looped, index, last.as_ref(), env, place).await? {
                break;
            }
            if index >= looped.max {
                if looped.exhausted == Exhausted::Succeed {
                    break;
                }
                let message = format!("the loop did not finish within {} iterations", looped.max);
                return Err(Interrupt::Failed(StepFailure::new(Code::LimitIterations, message), place.path.clone()));
            }
            if index >= self.limits.iterations {
                let message = format!("the loop reached the limit of {} iterations", self.limits.iterations);
                return Err(Interrupt::Limit(
                    Status::Failed,
                    StepFailure::new(Code::LimitIterations, message),
                    place.path.clone(),
                ));
            }
            last = self.run_iteration(looped, index, env, place).await?;
            if looped.output == LoopOutput::All {
                outputs.extend(last.clone());
            }
            if let Some(helper) = &looped.helper {
                // Its value shares the list of iterations, which would be copied.
                scoped::set_helper(helper, &Value::Null, env);
                iterations.add_output(last.clone());
            }
            index += 1;
            self.count_iteration(place).await;
            if looped.test == LoopTest::After && self.is_done(looped, index, last.as_ref(), env, place).await? {
                break;
            }
        }
        self.emit_finished(place, None)?;
        Ok(match looped.output {
            LoopOutput::Last => last,
            LoopOutput::All => Some(Value::list(outputs)),
        })
    }

    /// Now and then lets commands and time limits take effect, which happens between polls of the run, when new events are
    /// stored, too. A loop may have no effects, and neither may those inside of it.
    async fn count_iteration(&self, place: &StepContext) {
        let count = self.iterations.fetch_add(1, Ordering::Relaxed) + 1;
        if !count.is_multiple_of(ITERATIONS_PER_YIELD) {
            return;
        }
        let _activity = self.log.start_activity(place.enclosing.as_ref());
        scope::yield_once().await;
    }

    async fn is_done(
        &self,
        looped: &Loop,
        index: u64,
        last: Option<&Value>,
        env: &mut Env,
        place: &StepContext,
    ) -> Result<bool, Interrupt> {
        let Some(until) = &looped.until else { return Ok(false) };
        if !looped.scripts.is_empty() {
            let at = place.with_path(place.path.child_path(&Key::numbered_key("until", 1)).iteration_path(index));
            Box::pin(self.evaluate_scripts(&looped.scripts, env, &at)).await?;
        }
        until.is_true(env, last).map_err(|error| Interrupt::Failed(error, place.path.clone()))
    }

    async fn run_iteration(&self, looped: &Loop, index: u64, env: &mut Env, place: &StepContext) -> StepResult {
        let locals = env.locals.len();
        if let Some(counter) = &looped.counter {
            env.locals.push((counter.clone(), (index as i64).into()));
        }
        let at = place.with_path(place.path.iteration_path(index));
        let requests = self.requests.as_ref();
        let mut iteration = requests.map(|requests| OpenIteration::new(at.path.clone(), looped, env, requests));
        let result = self.run_step_at(&looped.body, env, at).await;
        // If the record ends inside the iteration, the result is an error, and the iteration stays open.
        if let Some(iteration) = iteration.as_mut().filter(|_| result.is_ok()) {
            iteration.close();
        }
        env.locals.truncate(locals);
        result
    }

    pub(super) async fn run_branch(
        &self,
        arms: &[(Expr, Step)],
        otherwise: Option<&Step>,
        env: &mut Env,
        place: &StepContext,
    ) -> StepResult {
        for (condition, step) in arms {
            let holds = condition.is_true(env, None);
            if holds.map_err(|error| Interrupt::Failed(error, place.path.clone()))? {
                return self.run_child(step, env, place).await;
            }
        }
        match otherwise {
            Some(step) => self.run_child(step, env, place).await,
            None => Ok(None),
        }
    }

    pub(super) async fn run_subflow(&self, subflow: &Subflow, env: &mut Env, place: &StepContext) -> StepResult {
        if place.depth >= self.limits.subflow_depth {
            let message = format!("workflows call each other more than {} levels deep", self.limits.subflow_depth);
            return Err(Interrupt::Limit(
                Status::Failed,
                StepFailure::new(Code::LimitSubflow, message),
                place.path.clone(),
            ));
        }
        let inputs = subflow.inputs.resolve(env, place.text);
        let inputs = inputs.map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
        let place = StepContext { text: subflow.plan.text, depth: place.depth + 1, ..place.clone() };
        let inner = Env::from_vars(subflow.plan.initial_vars(&inputs));
        let mut scope = ScopedEnv::new(inner, &place.path, self.requests.as_ref());
        let output = match self.run_child(&subflow.plan.root, &mut scope.env, &place).await {
            // The end of the inner run does not end this one.
            Err(Interrupt::Return(output)) => output,
            result => result?,
        };
        scope.close();
        self.emit_finished(&place, None)?;
        Ok(output)
    }

    pub(super) fn run_assign(&self, rows: &[Assignment], env: &mut Env, place: &StepContext) -> StepResult {
        let assigned = bind::assign_vars(rows, env, place.text);
        let bytes = assigned.map_err(|error| Interrupt::Failed(error, place.path.clone()))?;
        self.count_computed(bytes, place)?;
        self.emit_finished(place, None)?;
        Ok(Some(Value::Map(env.vars.shared_map())))
    }
}

/// A node of a graph that has no output.
struct FailedNode<'a> {
    key: &'a str,
    cause: Option<Box<StepFailure>>,
}

/// The message of a graph whose nodes failed, with the cause of the first.
fn describe_failed_nodes(mut failed: Vec<FailedNode<'_>>, count: usize) -> String {
    // In alphabetical order, so that the message does not depend on timing.
    failed.sort_unstable_by_key(|node| node.key);
    let names: Vec<&str> = failed.iter().map(|node| node.key).collect();
    let cause = failed.iter().find_map(|node| Some((node.key, node.cause.as_ref()?)));
    let cause = cause.map(|(key, error)| format!("; {key} failed with {}: {}", error.code, error.message));
    format!("{} of {count} nodes failed: {}{}", failed.len(), names.join(", "), cause.unwrap_or_default())
}

/// The reason why a node is skipped: its failed dependencies.
fn describe_failed_needs(dag: &Dag, index: usize, broken: &[bool]) -> String {
    let needs = dag.nodes[index].needs.iter().filter(|need| broken[**need]);
    let mut names: Vec<_> = needs.map(|need| dag.nodes[*need].step.key.as_str()).collect();
    names.sort_unstable();
    dag.skip_reason.replace("{}", &names.join(", "))
}

/// The message that no edge of a node was taken: the destination that the agent chose, or else the answer that its edges
/// tested, and those that they expect.
fn describe_stuck(machine: &Machine, current: usize, env: &Env, output: Option<&Value>) -> String {
    let (mut answer, mut expected) = (None, Vec::new());
    for edge in machine.edges.iter().filter(|edge| edge.from == current) {
        let Some(Expr::Equals(tested, name)) = &edge.condition else { continue };
        if answer.is_none() {
            answer = tested.evaluate_or_null(env, output).ok().filter(|value| value.as_str().is_some());
        }
        if let Expr::Constant(name) = &**name {
            expected.extend(name.as_str());
        }
    }
    let answer = answer.map_or_else(|| "this answer".to_owned(), |value| render::to_json(&value));
    let title = &machine.nodes[current].title;
    let unknown = output.and_then(|output| output.get(UNKNOWN_DESTINATION)?.as_str());
    let why = match unknown {
        Some("") => format!("{title} called its router without a destination"),
        Some(name) => format!("no edge from {title} leads to {name}"),
        None => format!("no edge from {title} matches {answer}"),
    };
    match expected[..] {
        [] => why,
        _ => format!("{why}; its edges expect {}", expected.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::plan::{Composite, Edge, StepKind};

    use super::*;

    #[test]
    fn destination_that_no_edge_leads_to_is_named() {
        let next = Expr::Field(Box::new(Expr::Output), "next".into());
        let condition = Some(Expr::Equals(Box::new(next), Box::new(Expr::Constant("Worker".into()))));
        let edges = vec![Edge { from: 0, to: None, condition, label: None }];
        let kind = StepKind::Composite(Composite::Sequence(Vec::new()));
        let node = Step { title: "Router".to_owned(), ..Step::new(Key::numbered_key("node", 1), kind) };
        let machine = Machine { nodes: vec![node], entry: 0, edges, max_visits: 3, resets: Vec::new() };
        let env = Env::from_vars(flowloom_core::plan::Vars::default());
        let output = Value::map([("next", Value::Null), (UNKNOWN_DESTINATION, "Nope3".into())]);
        let message = describe_stuck(&machine, 0, &env, Some(&output));
        assert_eq!(message, "no edge from Router leads to Nope3; its edges expect Worker");
        let message = describe_stuck(&machine, 0, &env, Some(&Value::map([("next", Value::from("B"))])));
        assert_eq!(message, "no edge from Router matches \"B\"; its edges expect Worker");
    }
}
