//! Turns a plan into nodes and arrows.

use flowloom_app::definitions::conditions::render_condition;
use flowloom_app::definitions::outline::{asks_person, describe_loop, name_step};
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Expr;
use flowloom_core::plan::{Agent, Composite, Dag, Leaf, Loop, Machine, Plan, Step, StepKind};

use super::labels::{MAX_TOOL_LINES, describe_step, list_names};
use super::{Arrow, Drawing, DrawnNode, NodeShape};

/// The name of the end of a run.
const END_NAME: &str = "END";

/// A part of the drawing: the nodes where arrows enter it, and the arrows that leave it.
#[derive(Default)]
struct GraphFragment {
    entries: Vec<usize>,
    exits: Vec<Exit>,
}

/// An arrow without a target.
#[derive(Clone)]
struct Exit {
    from: usize,
    label: String,
}

/// The drawing of a plan.
pub(super) fn build_drawing(plan: &Plan) -> Drawing {
    let mut drawing = Drawing { title: plan.name.clone(), format: plan.format.name().to_owned(), ..Drawing::default() };
    let whole = drawing.draw_step(&plan.root);
    drawing.end_arrows(whole.exits);
    if drawing.nodes.is_empty() {
        // A definition without steps ends immediately.
        drawing.add_node(END_NAME, Vec::new(), NodeShape::End);
    }
    drawing.merge_arrows();
    drawing
}

impl Drawing {
    fn add_node(&mut self, title: &str, details: Vec<String>, shape: NodeShape) -> usize {
        self.nodes.push(DrawnNode { title: title.to_owned(), details, shape });
        self.nodes.len() - 1
    }

    fn draw_node(&mut self, step: &Step) -> GraphFragment {
        let (title, mut details) = (name_step(step), describe_step(step));
        if title != step.title && !step.title.is_empty() {
            details.insert(0, step.title.clone());
        }
        let shape = match &step.kind {
            StepKind::Leaf(Leaf::Ask { .. }) => NodeShape::Person,
            StepKind::Composite(Composite::Tools(_)) => NodeShape::Tools,
            _ => NodeShape::Step,
        };
        let at = self.add_node(title, details, shape);
        GraphFragment { entries: vec![at], exits: vec![Exit { from: at, label: String::new() }] }
    }

    /// Draws a step, after the choice whether it runs if it has a condition.
    fn draw_step(&mut self, step: &Step) -> GraphFragment {
        let Some(condition) = &step.condition else { return self.draw_kind(step) };
        let choice = self.add_node(&render_condition(condition), Vec::new(), NodeShape::Choice);
        let mut whole = self.draw_kind(step);
        self.connect_all(&[Exit { from: choice, label: "yes".to_owned() }], &whole.entries);
        whole.entries = vec![choice];
        whole.exits.push(Exit { from: choice, label: "no".to_owned() });
        whole
    }

    fn draw_kind(&mut self, step: &Step) -> GraphFragment {
        match &step.kind {
            StepKind::Composite(Composite::Sequence(_)) if asks_person(step) => self.draw_person(step),
            StepKind::Composite(Composite::Sequence(steps)) => self.draw_chain(steps),
            StepKind::Composite(Composite::Scoped(scoped)) => self.draw_chain(&scoped.body),
            StepKind::Composite(Composite::Subflow(subflow)) => self.draw_step(&subflow.plan.root),
            StepKind::Composite(Composite::Parallel(members)) => {
                let parts = members.iter().map(|member| self.draw_step(member)).collect();
                join_parallel(parts)
            }
            StepKind::Composite(Composite::Dag(dag)) => self.draw_dag(dag),
            StepKind::Composite(Composite::Machine(machine)) => self.draw_machine(machine),
            StepKind::Composite(Composite::Loop(looped)) => self.draw_loop(looped),
            StepKind::Composite(Composite::Branch { arms, otherwise }) => self.draw_branch(arms, otherwise.as_deref()),
            StepKind::Composite(Composite::Return(inner)) => {
                let part = self.draw_step(inner);
                self.end_arrows(part.exits);
                GraphFragment { entries: part.entries, exits: Vec::new() }
            }
            StepKind::Composite(Composite::Agent(agent)) => self.draw_agent(step, agent),
            // Appended messages are part of the model call that follows.
            StepKind::Composite(Composite::AppendMessage(_)) => GraphFragment::default(),
            // What formats add by themselves has no place in the definition.
            StepKind::Leaf(Leaf::Memory(_)) | StepKind::Composite(Composite::Assign(_))
                if step.span == Span::default() =>
            {
                GraphFragment::default()
            }
            StepKind::Leaf(_)
            | StepKind::Composite(Composite::Turn(_) | Composite::Tools(_) | Composite::Assign(_)) => {
                self.draw_node(step)
            }
        }
    }

    fn draw_chain(&mut self, steps: &[Step]) -> GraphFragment {
        let mut whole = GraphFragment::default();
        for step in steps {
            let part = self.draw_step(step);
            if part.entries.is_empty() {
                continue;
            }
            if whole.entries.is_empty() {
                whole.entries.clone_from(&part.entries);
            }
            self.connect_all(&whole.exits, &part.entries);
            whole.exits = part.exits;
        }
        whole
    }

    fn draw_branch(&mut self, arms: &[(Expr, Step)], otherwise: Option<&Step>) -> GraphFragment {
        let (title, first) = match arms {
            [(condition, _)] => (render_condition(condition), Some("yes")),
            _ => ("choose".to_owned(), None),
        };
        let choice = self.add_node(&title, Vec::new(), NodeShape::Choice);
        let mut whole = GraphFragment { entries: vec![choice], exits: Vec::new() };
        let labels = arms.iter().map(|(condition, _)| first.map_or_else(|| render_condition(condition), str::to_owned));
        let no = if first.is_some() { "no" } else { "else" };
        let labels: Vec<String> = labels.chain([no.to_owned()]).collect();
        let steps = arms.iter().map(|(_, step)| Some(step)).chain([otherwise]);
        for (step, label) in steps.zip(labels) {
            let exit = Exit { from: choice, label };
            let part = step.map(|step| self.draw_step(step)).unwrap_or_default();
            if part.entries.is_empty() {
                whole.exits.push(exit);
                continue;
            }
            self.connect_all(&[exit], &part.entries);
            whole.exits.extend(part.exits);
        }
        whole
    }

    fn draw_loop(&mut self, looped: &Loop) -> GraphFragment {
        let body = self.draw_step(&looped.body);
        let label = describe_loop(looped);
        let again: Vec<Exit> = body.exits.iter().map(|exit| Exit { from: exit.from, label: label.clone() }).collect();
        self.connect_all(&again, &body.entries);
        body
    }

    fn draw_dag(&mut self, dag: &Dag) -> GraphFragment {
        let parts: Vec<GraphFragment> = dag.nodes.iter().map(|node| self.draw_step(&node.step)).collect();
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

    fn draw_machine(&mut self, machine: &Machine) -> GraphFragment {
        let start = self.add_node("START", Vec::new(), NodeShape::Start);
        let parts: Vec<usize> = machine
            .nodes
            .iter()
            .filter_map(|node| {
                let part = if asks_person(node) { self.draw_person(node) } else { self.draw_node(node) };
                part.entries.first().copied()
            })
            .collect();
        self.connect_all(&[Exit { from: start, label: String::new() }], &parts[machine.entry..=machine.entry]);
        let mut whole = GraphFragment { entries: vec![start], exits: Vec::new() };
        for edge in &machine.edges {
            let Some(label) = &edge.label else { continue };
            let exit = Exit { from: parts[edge.from], label: label.to_string() };
            match edge.to {
                Some(to) => {
                    let runs_tools = |at: usize| self.nodes[at].shape == NodeShape::Tools;
                    let is_dashed = runs_tools(exit.from) || runs_tools(parts[to]);
                    self.arrows.push(Arrow { from: exit.from, to: parts[to], label: exit.label, is_dashed });
                }
                None => whole.exits.push(exit),
            }
        }
        whole
    }

    /// An agent with the tools that it calls until it answers.
    fn draw_agent(&mut self, step: &Step, agent: &Agent) -> GraphFragment {
        let whole = self.draw_node(step);
        if agent.tools.is_empty() {
            return whole;
        }
        let names = list_names(agent.tools.iter().map(|tool| tool.declaration.name.as_str()), MAX_TOOL_LINES);
        let tools = self.add_node("tools", names, NodeShape::Tools);
        let at = whole.entries[0];
        for (from, to) in [(at, tools), (tools, at)] {
            self.arrows.push(Arrow { from, to, label: String::new(), is_dashed: true });
        }
        whole
    }

    fn draw_person(&mut self, step: &Step) -> GraphFragment {
        let at = self.add_node(&step.title, vec!["asks a person".to_owned()], NodeShape::Person);
        GraphFragment { entries: vec![at], exits: vec![Exit { from: at, label: String::new() }] }
    }

    fn connect_all(&mut self, exits: &[Exit], entries: &[usize]) {
        for exit in exits {
            for to in entries {
                self.arrows.push(Arrow { from: exit.from, to: *to, label: exit.label.clone(), is_dashed: false });
            }
        }
    }

    /// Leads arrows to the end of the run.
    fn end_arrows(&mut self, exits: Vec<Exit>) {
        if exits.is_empty() {
            return;
        }
        let known = self.nodes.iter().position(|node| node.shape == NodeShape::End);
        let end = known.unwrap_or_else(|| self.add_node(END_NAME, Vec::new(), NodeShape::End));
        for Exit { from, label } in exits {
            // The target implies it.
            let label = if label == END_NAME { String::new() } else { label };
            self.arrows.push(Arrow { from, to: end, label, is_dashed: false });
        }
    }

    /// Joins arrows with the same ends. One that is always followed needs no label.
    fn merge_arrows(&mut self) {
        let mut merged: Vec<Arrow> = Vec::new();
        for arrow in std::mem::take(&mut self.arrows) {
            match merged.iter_mut().find(|known| (known.from, known.to) == (arrow.from, arrow.to)) {
                Some(known) if known.label.is_empty() || arrow.label.is_empty() => known.label.clear(),
                Some(known) if known.label == arrow.label => {}
                Some(known) => known.label = format!("{} or {}", known.label, arrow.label),
                None => merged.push(arrow),
            }
        }
        self.arrows = merged;
    }
}

fn join_parallel(parts: Vec<GraphFragment>) -> GraphFragment {
    let mut whole = GraphFragment::default();
    for part in parts {
        whole.entries.extend(part.entries);
        whole.exits.extend(part.exits);
    }
    whole
}
