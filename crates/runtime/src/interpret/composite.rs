//! Composites: the order in which children run, and how often.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::Event;
use flowloom_core::expr::Expr;
use flowloom_core::path::Key;
use flowloom_core::plan::bind;
use flowloom_core::plan::{Assignment, Dag, Env, Exhausted, Loop, LoopOutput, LoopTest, Machine, Step, Subflow};
use flowloom_core::value::Value;

use super::scoped::{self, Iterations};
use super::{Halt, Interpreter, Place, Walk, Walked};
use crate::effects::Boxed;
use crate::scope::{self, Scope};

/// The result of a member, with the names it writes.
type Member = (Result<Walk, Halt>, Vec<Arc<str>>);

impl Interpreter {
    pub(super) async fn sequence(&self, steps: &[Step], env: &mut Env, place: &Place) -> Walked {
        let mut last = None;
        for step in steps {
            if let Some(following) = env.following.clone() {
                scoped::follow(&following, env);
            }
            last = self.child(step, env, place).await?;
        }
        Ok(last)
    }

    /// All members see the variables as they were at the start. A failing member does not stop its siblings; the first
    /// failure in list order is the result.
    pub(super) async fn parallel(&self, members: &[Step], env: &mut Env, place: &Place) -> Walked {
        let before = env.clone();
        let ended = scope::all(members.iter().map(|step| self.member(step, before.clone(), place))).await;
        let mut outputs = Vec::with_capacity(members.len());
        let mut writes = Vec::with_capacity(members.len());
        for (step, (walked, names)) in members.iter().zip(ended) {
            let output = match walked? {
                Walk::Ran(output) => {
                    writes.push((step, names, output.clone()));
                    output
                }
                Walk::Skipped => None,
            };
            outputs.push(output.unwrap_or_default());
        }
        for (step, names, output) in writes {
            bind::write(step, names, output.as_ref(), env);
        }
        self.finished(place, None)?;
        Ok(Some(Value::list(outputs)))
    }

    fn member<'a>(&'a self, step: &'a Step, mut env: Env, place: &'a Place) -> Boxed<'a, Member> {
        let place = place.at(place.path.child(&step.key));
        Box::pin(async move { self.unwritten(step, &mut env, place).await })
    }

    /// Runs each node as soon as its dependencies have finished. A node with a failed dependency is skipped, and so are
    /// its dependants.
    pub(super) async fn dag(&self, dag: &Dag, env: &mut Env, place: &Place) -> Walked {
        let nodes = &dag.nodes;
        let mut open: Vec<usize> = nodes.iter().map(|node| node.needs.len()).collect();
        let mut broken = vec![false; nodes.len()];
        let mut failed = Vec::new();
        let mut outputs: Vec<Option<Value>> = vec![None; nodes.len()];
        let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            node.needs.iter().for_each(|need| dependants[*need].push(index));
        }
        let mut scope = Scope::new();
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|index| open[*index] == 0).collect();
        loop {
            let mut settled = Vec::new();
            for index in std::mem::take(&mut ready) {
                if broken[index] {
                    let reason = broken_needs(dag, index, &broken);
                    let path = place.path.child(&nodes[index].step.key);
                    self.emit(&place.at(path), 0, Event::StepSkipped { reason })?;
                    settled.push(index);
                } else {
                    scope.start(index, self.member(&nodes[index].step, env.clone(), place));
                }
            }
            if settled.is_empty() {
                let Some((index, (walked, names))) = scope.next().await else { break };
                match walked? {
                    Walk::Ran(output) => {
                        bind::write(&nodes[index].step, names, output.as_ref(), env);
                        self.take_in_memory(&place.path.child(&nodes[index].step.key), env);
                        outputs[index] = output;
                    }
                    Walk::Skipped => {
                        broken[index] = true;
                        failed.push(nodes[index].step.key.as_str());
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
            // In alphabetical order, so that the message does not depend on timing.
            failed.sort_unstable();
            let message = format!("{} of {} nodes failed: {}", failed.len(), nodes.len(), failed.join(", "));
            return Err(Halt::Failed(StepError::new(Code::NodesFailed, message), place.path.clone()));
        }
        self.finished(place, None)?;
        let named = nodes.iter().zip(outputs);
        Ok(Some(Value::map(named.map(|(node, output)| (node.step.key.as_str(), output.unwrap_or_default())))))
    }

    pub(super) async fn machine(&self, machine: &Machine, env: &mut Env, place: &Place) -> Walked {
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
            let at = place.at(place.path.child(&node.key).visit(visits[current]));
            let output = self.step_at(node, env, at.clone()).await?;
            let failed = |error| Halt::Failed(error, at.path.clone());
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
                let message = format!("no edge from {} matches this answer", node.title);
                return Err(failed(StepError::new(Code::MachineStuck, message)));
            };
            let key = to.map(|index| machine.nodes[index].key.as_str().to_owned());
            self.emit(&at, 0, Event::EdgeTaken { to: key })?;
            match to {
                Some(index) => current = index,
                None => {
                    self.finished(place, None)?;
                    return Ok(output);
                }
            }
        }
        let message = format!("the graph ran {} nodes without reaching its end", machine.max_visits);
        Err(Halt::Failed(StepError::new(Code::LimitIterations, message), place.path.clone()))
    }

    pub(super) async fn repeat(&self, looped: &Loop, env: &mut Env, place: &Place) -> Walked {
        let locals = env.locals.clone();
        let walked = self.iterations(looped, env, place).await;
        env.locals = locals;
        walked
    }

    async fn iterations(&self, looped: &Loop, env: &mut Env, place: &Place) -> Walked {
        let mut outputs = Vec::new();
        let mut iterations = Iterations::new();
        let mut last: Option<Value> = None;
        let mut index = 0;
        loop {
            if let Some(helper) = &looped.helper {
                scoped::show(helper, &iterations.helper(helper, index), env);
            }
            if looped.test == LoopTest::Before && self.is_done(looped, index, last.as_ref(), env, place).await? {
                break;
            }
            if index >= looped.max {
                if looped.exhausted == Exhausted::Succeed {
                    break;
                }
                let message = format!("the loop did not finish within {} iterations", looped.max);
                return Err(Halt::Failed(StepError::new(Code::LimitIterations, message), place.path.clone()));
            }
            if index >= self.limits.iterations {
                let message = format!("the loop reached the limit of {} iterations", self.limits.iterations);
                return Err(Halt::Fatal(StepError::new(Code::LimitIterations, message), place.path.clone()));
            }
            last = self.iteration(looped, index, env, place).await?;
            if looped.output == LoopOutput::All {
                outputs.push(last.clone().unwrap_or_default());
            }
            if looped.helper.is_some() {
                iterations.push(last.clone().unwrap_or_default());
            }
            index += 1;
            if looped.test == LoopTest::After && self.is_done(looped, index, last.as_ref(), env, place).await? {
                break;
            }
        }
        self.finished(place, None)?;
        Ok(match looped.output {
            LoopOutput::Last => last,
            LoopOutput::All => Some(Value::list(outputs)),
        })
    }

    async fn is_done(
        &self,
        looped: &Loop,
        index: u64,
        last: Option<&Value>,
        env: &mut Env,
        place: &Place,
    ) -> Result<bool, Halt> {
        let Some(until) = &looped.until else { return Ok(false) };
        if !looped.scripts.is_empty() {
            let at = place.at(place.path.child(&Key::nth("until", 1)).iteration(index));
            Box::pin(self.evaluate(&looped.scripts, env, &at)).await?;
        }
        until.is_true(env, last).map_err(|error| Halt::Failed(error, place.path.clone()))
    }

    async fn iteration(&self, looped: &Loop, index: u64, env: &mut Env, place: &Place) -> Walked {
        let locals = env.locals.len();
        if let Some(counter) = &looped.counter {
            env.locals.push((counter.clone(), (index as i64).into()));
        }
        let walked = self.step_at(&looped.body, env, place.at(place.path.iteration(index))).await;
        env.locals.truncate(locals);
        walked
    }

    pub(super) async fn branch(
        &self,
        arms: &[(Expr, Step)],
        otherwise: Option<&Step>,
        env: &mut Env,
        place: &Place,
    ) -> Walked {
        for (condition, step) in arms {
            let holds = condition.is_true(env, None);
            if holds.map_err(|error| Halt::Failed(error, place.path.clone()))? {
                return self.child(step, env, place).await;
            }
        }
        match otherwise {
            Some(step) => self.child(step, env, place).await,
            None => Ok(None),
        }
    }

    pub(super) async fn subflow(&self, subflow: &Subflow, env: &mut Env, place: &Place) -> Walked {
        if place.depth >= self.limits.subflow_depth {
            let message = format!("workflows call each other more than {} levels deep", self.limits.subflow_depth);
            return Err(Halt::Fatal(StepError::new(Code::LimitSubflow, message), place.path.clone()));
        }
        let inputs = subflow.inputs.resolve(env, place.text);
        let inputs = inputs.map_err(|error| Halt::Failed(error, place.path.clone()))?;
        let mut inner = Env::of(subflow.plan.initial(&inputs));
        let place = Place { text: subflow.plan.text, depth: place.depth + 1, ..place.clone() };
        let output = match self.child(&subflow.plan.root, &mut inner, &place).await {
            // The end of the inner run does not end this one.
            Err(Halt::Return(output)) => output,
            walked => walked?,
        };
        self.finished(&place, None)?;
        Ok(output)
    }

    pub(super) fn assign(&self, rows: &[Assignment], env: &mut Env, place: &Place) -> Walked {
        bind::assign(rows, env, place.text).map_err(|error| Halt::Failed(error, place.path.clone()))?;
        self.finished(place, None)?;
        Ok(Some(Value::Map(env.vars.shared())))
    }
}

/// The reason why a node is skipped: its failed dependencies.
fn broken_needs(dag: &Dag, index: usize, broken: &[bool]) -> String {
    let needs = dag.nodes[index].needs.iter().filter(|need| broken[**need]);
    let mut names: Vec<_> = needs.map(|need| dag.nodes[*need].step.key.as_str()).collect();
    names.sort_unstable();
    dag.skip_reason.replace("{}", &names.join(", "))
}
