//! The outline of a plan: its steps as nodes, and which can follow which, in any format. The terminal and the studio draw
//! it.

use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Expr;
use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Dag, Leaf, Loop, Machine, Plan, Step, StepKind};

use crate::definitions::conditions::render_condition;

/// Nodes and arrows.
#[derive(Debug, Default)]
pub struct Outline {
    /// The steps, in the order of the plan.
    pub nodes: Vec<OutlineNode>,
    /// Which node can follow which.
    pub arrows: Vec<OutlineArrow>,
}

/// A step of the outline.
#[derive(Debug)]
pub struct OutlineNode {
    /// The path of the step in a run, without iterations and visits.
    pub path: Path,
    /// The name that people see.
    pub title: String,
    /// The kind of the step.
    pub kind: &'static str,
    /// Its place in the source; `None` for a step of another definition that this one includes.
    pub span: Option<Span>,
}

/// An arrow between two nodes.
#[derive(Debug)]
pub struct OutlineArrow {
    /// Index of the node that it leaves.
    pub from: usize,
    /// Index of the node that it enters; `None` is the end of the run.
    pub to: Option<usize>,
    /// The condition, or an empty text.
    pub label: String,
}

/// A part of the outline: the nodes where arrows enter it, and the nodes they leave from with their labels.
#[derive(Default)]
struct GraphFragment {
    entries: Vec<usize>,
    exits: Vec<(usize, String)>,
}

/// Where a step is.
#[derive(Clone)]
struct OutlinePosition {
    path: Path,
    /// Whether an included definition contains it.
    is_included: bool,
}

impl OutlinePosition {
    fn child_place(&self, step: &Step) -> OutlinePosition {
        OutlinePosition { path: self.path.child_path(&step.key), is_included: self.is_included }
    }
}

/// Whether a step is a question to a person and the message that the answer becomes, as a format adds them for one node.
pub fn asks_person(step: &Step) -> bool {
    let StepKind::Composite(Composite::Sequence(steps)) = &step.kind else { return false };
    matches!(steps.as_slice(), [ask, append] if matches!(ask.kind, StepKind::Leaf(Leaf::Ask { .. }))
        && matches!(append.kind, StepKind::Composite(Composite::AppendMessage(_))) && ask.span == Span::default())
}

/// The name of a step in drawings. A block has a name of its own, while its node often has only a number.
pub fn name_step(step: &Step) -> &str {
    match &step.kind {
        StepKind::Leaf(Leaf::Block(block)) => &block.id,
        _ if step.title.is_empty() => step.key.as_str(),
        _ => &step.title,
    }
}

/// When the steps of a loop are repeated.
pub fn describe_loop(looped: &Loop) -> String {
    let until = looped.until.as_ref().map(|until| format!("until {}, ", render_condition(until)));
    format!("{}at most {} times", until.unwrap_or_default(), looped.max)
}

/// Outlines a plan.
pub fn outline_plan(plan: &Plan) -> Outline {
    let mut outline = Outline::default();
    let whole = outline.add_step(&plan.root, OutlinePosition { path: Path::root(), is_included: false });
    for (from, label) in whole.exits {
        outline.arrows.push(OutlineArrow { from, to: None, label });
    }
    outline
}

impl Outline {
    fn add_node(&mut self, step: &Step, place: OutlinePosition) -> GraphFragment {
        let kind = if asks_person(step) { "ask" } else { step.kind.name() };
        let title = name_step(step).to_owned();
        let span = (!place.is_included && step.span.length > 0).then_some(step.span);
        self.nodes.push(OutlineNode { path: place.path, title, kind, span });
        let at = self.nodes.len() - 1;
        GraphFragment { entries: vec![at], exits: vec![(at, String::new())] }
    }

    fn add_step(&mut self, step: &Step, place: OutlinePosition) -> GraphFragment {
        match &step.kind {
            StepKind::Composite(Composite::Sequence(steps)) => self.add_chain(steps, &place),
            StepKind::Composite(Composite::Scoped(scoped)) => self.add_chain(&scoped.body, &place),
            StepKind::Composite(Composite::Subflow(subflow)) => {
                let inner = OutlinePosition { is_included: true, ..place.child_place(&subflow.plan.root) };
                self.add_step(&subflow.plan.root, inner)
            }
            StepKind::Composite(Composite::Parallel(members)) => {
                let parts: Vec<GraphFragment> = members.iter().map(|member| self.add_child(member, &place)).collect();
                join_parallel(parts)
            }
            StepKind::Composite(Composite::Dag(dag)) => self.add_dag(dag, &place),
            StepKind::Composite(Composite::Machine(machine)) => self.add_machine(machine, &place),
            StepKind::Composite(Composite::Loop(looped)) => {
                let (body, again) = (self.add_step(&looped.body, place), describe_loop(looped));
                for (from, _) in &body.exits {
                    self.connect_one(*from, &body.entries, &again);
                }
                body
            }
            StepKind::Composite(Composite::Branch { arms, otherwise }) => {
                self.add_branch(step, arms, otherwise.as_deref(), place)
            }
            StepKind::Composite(Composite::Return(inner)) => {
                let part = self.add_step(inner, place);
                for (from, label) in part.exits {
                    self.arrows.push(OutlineArrow { from, to: None, label });
                }
                GraphFragment { entries: part.entries, exits: Vec::new() }
            }
            // Appended messages are part of the model call that follows.
            StepKind::Composite(Composite::AppendMessage(_)) => GraphFragment::default(),
            StepKind::Leaf(_)
            | StepKind::Composite(
                Composite::Agent(_) | Composite::Turn(_) | Composite::Tools(_) | Composite::Assign(_),
            ) => self.add_node(step, place),
        }
    }

    fn add_child(&mut self, step: &Step, place: &OutlinePosition) -> GraphFragment {
        self.add_step(step, place.child_place(step))
    }

    fn add_chain(&mut self, steps: &[Step], place: &OutlinePosition) -> GraphFragment {
        let mut whole = GraphFragment::default();
        // Whether the steps so far all have a condition, so that the next one can be the first that runs.
        let mut can_begin = true;
        for step in steps {
            let part = self.add_child(step, place);
            if part.entries.is_empty() {
                continue;
            }
            if can_begin {
                whole.entries.extend(&part.entries);
                can_begin = step.condition.is_some();
            }
            match &step.condition {
                None => {
                    self.connect_all(&whole.exits, &part.entries);
                    whole.exits = part.exits;
                }
                // What follows is also reached around a step with a condition.
                Some(condition) => {
                    let condition = render_condition(condition);
                    self.connect_all(&add_condition(&whole.exits, &condition), &part.entries);
                    let around = add_condition(&whole.exits, "else");
                    whole.exits = [part.exits, around].concat();
                }
            }
        }
        whole
    }

    fn add_branch(
        &mut self,
        step: &Step,
        arms: &[(Expr, Step)],
        otherwise: Option<&Step>,
        place: OutlinePosition,
    ) -> GraphFragment {
        let mut whole = self.add_node(step, place.clone());
        let choice = whole.entries[0];
        whole.exits.clear();
        for (condition, arm) in arms {
            let part = self.add_child(arm, &place);
            self.connect_one(choice, &part.entries, &render_condition(condition));
            whole.exits.extend(part.exits);
        }
        match otherwise {
            Some(otherwise) => {
                let part = self.add_child(otherwise, &place);
                self.connect_one(choice, &part.entries, "else");
                whole.exits.extend(part.exits);
            }
            None => whole.exits.push((choice, "else".to_owned())),
        }
        whole
    }

    fn add_dag(&mut self, dag: &Dag, place: &OutlinePosition) -> GraphFragment {
        let parts: Vec<GraphFragment> = dag.nodes.iter().map(|node| self.add_child(&node.step, place)).collect();
        let mut whole = GraphFragment::default();
        let mut is_needed = vec![false; parts.len()];
        for (index, node) in dag.nodes.iter().enumerate() {
            if node.needs.is_empty() {
                whole.entries.extend(&parts[index].entries);
            }
            for need in &node.needs {
                is_needed[*need] = true;
                self.connect_all(&parts[*need].exits, &parts[index].entries);
            }
        }
        let last = parts.into_iter().zip(is_needed).filter(|(_, is_needed)| !is_needed);
        whole.exits = last.flat_map(|(part, _)| part.exits).collect();
        whole
    }

    fn add_machine(&mut self, machine: &Machine, place: &OutlinePosition) -> GraphFragment {
        let parts: Vec<GraphFragment> =
            machine.nodes.iter().map(|node| self.add_node(node, place.child_place(node))).collect();
        let mut whole = GraphFragment { entries: parts[machine.entry].entries.clone(), exits: Vec::new() };
        for edge in &machine.edges {
            // Edges without a label are not in the definition.
            let Some(label) = &edge.label else { continue };
            let from = parts[edge.from].entries[0];
            match edge.to {
                Some(to) => self.connect_one(from, &parts[to].entries, label),
                None => whole.exits.push((from, label.to_string())),
            }
        }
        whole
    }

    fn connect_all(&mut self, exits: &[(usize, String)], entries: &[usize]) {
        for (from, label) in exits {
            self.connect_one(*from, entries, label);
        }
    }

    fn connect_one(&mut self, from: usize, entries: &[usize], label: &str) {
        for to in entries {
            self.arrows.push(OutlineArrow { from, to: Some(*to), label: label.to_owned() });
        }
    }
}

/// Arrows that are followed only if a further condition holds.
fn add_condition(exits: &[(usize, String)], condition: &str) -> Vec<(usize, String)> {
    let with_condition = |label: &str| match label {
        "" => condition.to_owned(),
        label => format!("{label}, {condition}"),
    };
    exits.iter().map(|(from, label)| (*from, with_condition(label))).collect()
}

fn join_parallel(parts: Vec<GraphFragment>) -> GraphFragment {
    let mut whole = GraphFragment::default();
    for part in parts {
        whole.entries.extend(part.entries);
        whole.exits.extend(part.exits);
    }
    whole
}
