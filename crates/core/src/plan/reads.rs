//! The variables that a step reads and that it does not write itself before.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::agent::AgentTool;
use super::fields::Field;
use super::input::Inputs;
use super::leaf::{Block, BlockCode, Leaf};
use super::step::{Composite, Loop, Plan, ScopedSteps, Step, StepKind};
use crate::chat::Content;
use crate::expr::{Data, Expr, Template};
use crate::path::Path;

/// The names that a step reads and that must therefore have a value before it, in the order in which it reads them. What a
/// function receives besides its prompt is not among them: it receives all variables.
pub fn list_read_names(step: &Step) -> Vec<Arc<str>> {
    let mut reads = Reads::default();
    reads.read_step(step);
    reads.found
}

impl Plan {
    /// Whether the workflow takes one value without a name as its input, and a step reads it. A run without it starts, but
    /// models see the placeholder.
    pub fn reads_whole_input(&self) -> bool {
        matches!(&self.inputs, Inputs::Whole(name) if list_read_names(&self.root).contains(name))
    }
}

/// The names of all variables that a step and the steps in it read or write; `None` if some are computed during the run.
/// Steps with variables of their own count with what they read from outside.
pub fn list_variable_names(step: &Step) -> Option<BTreeSet<Arc<str>>> {
    let mut names: BTreeSet<Arc<str>> = list_read_names(step).into_iter().collect();
    add_written_names(step, &mut names).then_some(names)
}

/// Adds the names that a step and the steps in the same scope write. Returns whether all are known.
fn add_written_names(step: &Step, names: &mut BTreeSet<Arc<str>>) -> bool {
    let assigned = match &step.kind {
        StepKind::Composite(Composite::Assign(rows)) => rows.iter().map(|row| &row.name).collect(),
        _ => Vec::new(),
    };
    let mut is_known = true;
    for name in step.writes.iter().flat_map(|write| &write.names).chain(assigned) {
        match name.as_literal() {
            Some(name) => drop(names.insert(name.into())),
            None => is_known = false,
        }
    }
    let has_own_variables = matches!(&step.kind, StepKind::Composite(Composite::Scoped(_) | Composite::Subflow(_)));
    let children = if has_own_variables { Vec::new() } else { step.kind.child_steps() };
    children.into_iter().fold(is_known, |is_known, child| add_written_names(child, names) && is_known)
}

/// The names of all variables that the content of a block of steps has: those that are provided to it, and those that
/// its steps read or write. `None` if some are computed during the run.
pub fn list_scoped_names(scoped: &ScopedSteps) -> Option<BTreeSet<Arc<str>>> {
    let mut names: BTreeSet<Arc<str>> = scoped.provide.iter().map(|(name, _)| name.clone()).collect();
    for step in &scoped.body {
        names.extend(list_variable_names(step)?);
    }
    // The helpers of loops are no variables.
    names.retain(|name| !scoped.sees.contains(name));
    Some(names)
}

/// The innermost steps with variables of their own in which the step at `path` is. `path` has no numbers of iterations and
/// visits. The block itself is in the scope around it.
pub fn find_scoped<'p>(root: &'p Step, path: &Path) -> Option<&'p ScopedSteps> {
    find_scoped_below(root, &Path::root(), path)
}

fn find_scoped_below<'p>(step: &'p Step, place: &Path, wanted: &Path) -> Option<&'p ScopedSteps> {
    let StepKind::Composite(composite) = &step.kind else { return None };
    match composite {
        Composite::Loop(looped) => find_scoped_below(&looped.body, place, wanted),
        Composite::Return(inner) => find_scoped_below(inner, place, wanted),
        _ => {
            let below = composite.children().into_iter().find_map(|child| {
                let inner = place.child_path(&child.key);
                if wanted.is_within(&inner) { find_scoped_below(child, &inner, wanted) } else { None }
            });
            let own = match composite {
                Composite::Scoped(scoped) if place != wanted => Some(scoped),
                _ => None,
            };
            below.or(own)
        }
    }
}

#[derive(Default)]
struct Reads {
    found: Vec<Arc<str>>,
    /// Names that have a value at this place.
    known: HashSet<Arc<str>>,
}

impl Reads {
    fn read_name(&mut self, name: &Arc<str>) {
        if !self.known.contains(name) && !self.found.contains(name) {
            self.found.push(name.clone());
        }
    }

    fn read_text(&mut self, template: &Template) {
        template.visit_names(&mut |name| self.read_name(name));
    }

    fn read_data(&mut self, data: &Data) {
        data.visit_names(&mut |name| self.read_name(name));
    }

    fn read_expr(&mut self, expr: &Expr) {
        expr.visit_names(&mut |name| self.read_name(name));
    }

    fn read_step(&mut self, step: &Step) {
        step.condition.iter().for_each(|condition| self.read_expr(condition));
        step.scripts.iter().for_each(|script| script.names.iter().for_each(|name| self.read_name(name)));
        match &step.kind {
            StepKind::Leaf(leaf) => self.read_fields(leaf.list_fields()),
            StepKind::Composite(composite) => self.read_composite(composite),
        }
        for name in step.writes.iter().flat_map(|write| &write.names) {
            self.read_text(name);
            self.known.extend(name.as_literal().map(Arc::from));
        }
    }

    fn read_fields(&mut self, fields: Vec<Field<'_>>) {
        for field in fields.iter().filter(|field| field.reads_variables) {
            field.content.visit_names(&mut |name| self.read_name(name));
        }
    }

    fn read_composite(&mut self, composite: &Composite) {
        match composite {
            Composite::Sequence(_) | Composite::Parallel(_) | Composite::Dag(_) | Composite::Return(_) => {
                composite.children().into_iter().for_each(|child| self.read_step(child));
            }
            Composite::Machine(machine) => {
                machine.nodes.iter().for_each(|node| self.read_step(node));
                machine.edges.iter().filter_map(|edge| edge.condition.as_ref()).for_each(|one| self.read_expr(one));
            }
            Composite::Loop(looped) => self.read_loop(looped),
            Composite::Branch { arms, otherwise } => {
                for (condition, arm) in arms {
                    self.read_expr(condition);
                    self.read_step(arm);
                }
                otherwise.iter().for_each(|step| self.read_step(step));
            }
            // The plan of another definition has variables of its own.
            Composite::Subflow(subflow) => self.read_data(&subflow.inputs),
            Composite::Scoped(scoped) => {
                scoped.provide.iter().for_each(|(_, value)| self.read_expr(value));
                let helpers = scoped.helper.iter().flat_map(|helper| helper.names.clone());
                let own: Vec<Arc<str>> = scoped.provide.iter().map(|(name, _)| name.clone()).chain(helpers).collect();
                self.read_within(own, |reads| scoped.body.iter().for_each(|step| reads.read_step(step)));
            }
            Composite::Agent(agent) => {
                self.read_fields(agent.generate.list_fields());
                agent.available.iter().for_each(|names| self.read_expr(names));
            }
            Composite::Turn(turn) => self.read_fields(turn.generate.list_fields()),
            Composite::Tools(_) => {}
            Composite::AppendMessage(message) => match &message.content {
                Content::Blocks(blocks) => blocks.iter().for_each(|block| self.read_text(block)),
                Content::Value(value) | Content::Json(value) => self.read_expr(value),
            },
            Composite::Assign(rows) => {
                for row in rows {
                    self.read_text(&row.name);
                    self.read_data(&row.value);
                    self.known.extend(row.name.as_literal().map(Arc::from));
                }
            }
        }
    }

    fn read_loop(&mut self, looped: &Loop) {
        let helpers = looped.helper.iter().flat_map(|helper| helper.names.clone());
        let own: Vec<Arc<str>> = looped.counter.iter().cloned().chain(helpers).collect();
        self.read_within(own, |reads| {
            reads.read_step(&looped.body);
            looped.until.iter().for_each(|until| reads.read_expr(until));
            looped.scripts.iter().for_each(|script| script.names.iter().for_each(|name| reads.read_name(name)));
        });
    }

    /// Reads steps in which further names have a value.
    fn read_within(&mut self, own: Vec<Arc<str>>, read: impl FnOnce(&mut Reads)) {
        let outside = self.known.clone();
        self.known.extend(own);
        read(self);
        self.known = outside;
    }
}

/// The functions that a step and the steps in it can call.
pub fn list_called_functions(step: &Step) -> HashSet<Arc<str>> {
    let mut called = HashSet::new();
    step.visit(&mut |step| match &step.kind {
        StepKind::Composite(Composite::Agent(agent)) => called.extend(list_tool_functions(&agent.tools)),
        StepKind::Composite(Composite::Turn(turn)) => called.extend(list_tool_functions(&turn.tools)),
        StepKind::Composite(Composite::Tools(calls)) => called.extend(list_tool_functions(&calls.tools)),
        _ => called.extend(find_called_function(step).cloned()),
    });
    called
}

/// The function that a step calls itself: not the steps in it, and not a model with tools.
pub fn find_called_function(step: &Step) -> Option<&Arc<str>> {
    match &step.kind {
        StepKind::Leaf(Leaf::Call(call)) => Some(&call.function),
        StepKind::Leaf(Leaf::Block(Block { code: BlockCode::Function(function), .. })) => Some(function),
        _ => None,
    }
}

fn list_tool_functions(tools: &[AgentTool]) -> impl Iterator<Item = Arc<str>> {
    tools.iter().filter_map(|tool| tool.effect.function_id())
}
