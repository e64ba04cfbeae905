//! Draws a plan as text, Mermaid, Graphviz or SVG. The drawing shows which steps can follow which, in any format.

use std::fmt::Write as _;

use flowloom_core::expr::Expr;
use flowloom_core::plan::{Composite, Dag, Machine, Plan, Step, StepKind};
use flowloom_core::render;
use flowloom_core::value::Value;

/// Output format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DrawingFormat {
    /// Plain text
    Text,
    /// Mermaid flowchart
    Mermaid,
    /// Graphviz DOT
    Dot,
    /// SVG image
    Svg,
}

/// Nodes and arrows of a drawing.
#[derive(Default)]
struct Drawing {
    nodes: Vec<DrawnNode>,
    arrows: Vec<Arrow>,
}

struct DrawnNode {
    title: String,
    kind: &'static str,
}

struct Arrow {
    from: usize,
    /// Index of the target node; `None` is the end of the run.
    to: Option<usize>,
    label: String,
}

/// A part of the drawing: the nodes where arrows enter it, and the nodes they leave from with their labels.
#[derive(Default)]
struct GraphFragment {
    entries: Vec<usize>,
    exits: Vec<(usize, String)>,
}

/// Draws `plan`. Fails if the SVG layout fails.
pub(crate) fn draw_plan(plan: &Plan, style: DrawingFormat) -> Result<String, String> {
    let mut picture = Drawing::default();
    let whole = picture.draw_step(&plan.root);
    for (from, label) in whole.exits {
        picture.arrows.push(Arrow { from, to: None, label });
    }
    match style {
        DrawingFormat::Text => Ok(picture.render_text(plan)),
        DrawingFormat::Mermaid => Ok(picture.render_mermaid()),
        DrawingFormat::Dot => Ok(picture.render_dot(&plan.name)),
        DrawingFormat::Svg => picture.render_svg(&plan.name),
    }
}

impl Drawing {
    fn add_node(&mut self, step: &Step) -> GraphFragment {
        let kind = step.kind.name();
        let title = if step.title.is_empty() { step.key.as_str().to_owned() } else { step.title.clone() };
        self.nodes.push(DrawnNode { title, kind });
        let at = self.nodes.len() - 1;
        GraphFragment { entries: vec![at], exits: vec![(at, String::new())] }
    }

    fn draw_step(&mut self, step: &Step) -> GraphFragment {
        match &step.kind {
            StepKind::Composite(Composite::Sequence(steps)) => self.draw_chain(steps),
            StepKind::Composite(Composite::Scoped(scoped)) => self.draw_chain(&scoped.body),
            StepKind::Composite(Composite::Subflow(subflow)) => self.draw_step(&subflow.plan.root),
            StepKind::Composite(Composite::Parallel(members)) => {
                let parts: Vec<GraphFragment> = members.iter().map(|member| self.draw_step(member)).collect();
                join_parallel(parts)
            }
            StepKind::Composite(Composite::Dag(dag)) => self.draw_dag(dag),
            StepKind::Composite(Composite::Machine(machine)) => self.draw_machine(machine),
            StepKind::Composite(Composite::Loop(looped)) => {
                let body = self.draw_step(&looped.body);
                for (from, _) in &body.exits {
                    self.connect_one(*from, &body.entries, "again");
                }
                body
            }
            StepKind::Composite(Composite::Branch { arms, otherwise }) => {
                self.draw_branch(step, arms, otherwise.as_deref())
            }
            StepKind::Composite(Composite::Return(inner)) => {
                let part = self.draw_step(inner);
                for (from, label) in part.exits {
                    self.arrows.push(Arrow { from, to: None, label });
                }
                GraphFragment { entries: part.entries, exits: Vec::new() }
            }
            // Appended messages are part of the model call that follows.
            StepKind::Composite(Composite::Say(_)) => GraphFragment::default(),
            StepKind::Leaf(_)
            | StepKind::Composite(
                Composite::Agent(_) | Composite::Turn(_) | Composite::Tools(_) | Composite::Assign(_),
            ) => self.add_node(step),
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
            // A step with a condition can be skipped.
            if step.condition.is_some() {
                whole.exits.extend(part.entries.iter().map(|at| (*at, "skipped".to_owned())));
            }
        }
        whole
    }

    fn draw_branch(&mut self, step: &Step, arms: &[(Expr, Step)], otherwise: Option<&Step>) -> GraphFragment {
        let mut whole = self.add_node(step);
        let choice = whole.entries[0];
        whole.exits.clear();
        for (condition, arm) in arms {
            let part = self.draw_step(arm);
            self.connect_one(choice, &part.entries, &render_condition(condition));
            whole.exits.extend(part.exits);
        }
        match otherwise {
            Some(otherwise) => {
                let part = self.draw_step(otherwise);
                self.connect_one(choice, &part.entries, "else");
                whole.exits.extend(part.exits);
            }
            None => whole.exits.push((choice, "else".to_owned())),
        }
        whole
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
        let parts: Vec<GraphFragment> = machine.nodes.iter().map(|node| self.add_node(node)).collect();
        let mut whole = GraphFragment { entries: parts[machine.entry].entries.clone(), exits: Vec::new() };
        for edge in &machine.edges {
            let label = edge.condition.as_ref().map(render_condition).unwrap_or_default();
            let from = parts[edge.from].entries[0];
            match edge.to {
                Some(to) => self.connect_one(from, &parts[to].entries, &label),
                None => whole.exits.push((from, label)),
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
            self.arrows.push(Arrow { from, to: Some(*to), label: label.to_owned() });
        }
    }

    fn has_end(&self) -> bool {
        self.arrows.iter().any(|arrow| arrow.to.is_none())
    }

    fn render_text(&self, plan: &Plan) -> String {
        let mut out = format!("{} ({})\n", plan.name, plan.format.name());
        for (index, each) in self.nodes.iter().enumerate() {
            let _ = writeln!(out, "\n{}  {}", each.title, each.kind);
            for arrow in self.arrows.iter().filter(|arrow| arrow.from == index) {
                let to = arrow.to.map_or("END", |to| self.nodes[to].title.as_str());
                let label = if arrow.label.is_empty() { String::new() } else { format!("  [{}]", arrow.label) };
                let _ = writeln!(out, "  → {to}{label}");
            }
        }
        out
    }

    fn render_mermaid(&self) -> String {
        let clean = |text: &str| text.replace('"', "'").replace(['\n', '\r'], " ");
        let mut out = "flowchart TD\n".to_owned();
        for (index, each) in self.nodes.iter().enumerate() {
            let shape = if each.kind == "branch" { ("{", "}") } else { ("[", "]") };
            let _ = writeln!(out, "  n{index}{}\"{}\"{}", shape.0, clean(&each.title), shape.1);
        }
        if self.has_end() {
            out.push_str("  END([\"END\"])\n");
        }
        for arrow in &self.arrows {
            let to = arrow.to.map_or_else(|| "END".to_owned(), |to| format!("n{to}"));
            let label = if arrow.label.is_empty() { String::new() } else { format!("|\"{}\"|", clean(&arrow.label)) };
            let _ = writeln!(out, "  n{} -->{label} {to}", arrow.from);
        }
        out
    }

    fn render_dot(&self, name: &str) -> String {
        let quoted = |text: &str| render::to_json(&Value::from(text.replace(['\n', '\r'], " ")));
        let mut out = format!("digraph {} {{\n", quoted(name));
        for (index, each) in self.nodes.iter().enumerate() {
            let shape = if each.kind == "branch" { "diamond" } else { "box" };
            let _ = writeln!(out, "  n{index} [label={} shape={shape}];", quoted(&each.title));
        }
        if self.has_end() {
            out.push_str("  END [label=\"END\" shape=circle];\n");
        }
        for arrow in &self.arrows {
            let to = arrow.to.map_or_else(|| "END".to_owned(), |to| format!("n{to}"));
            let _ = writeln!(out, "  n{} -> {to} [label={}];", arrow.from, quoted(&arrow.label));
        }
        out.push_str("}\n");
        out
    }

    fn render_svg(&self, name: &str) -> Result<String, String> {
        let dot = self.render_dot(name);
        let graph = layout::gv::DotParser::new(&dot).process()?;
        let mut builder = layout::gv::GraphBuilder::new();
        builder.visit_graph(&graph);
        let mut picture = builder.get();
        let mut writer = layout::backends::svg::SVGWriter::new();
        picture.do_it(false, false, false, &mut writer);
        Ok(writer.finalize())
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

/// A short label for a condition.
fn render_condition(condition: &Expr) -> String {
    match condition {
        Expr::Constant(Value::Bool(true)) => "always".to_owned(),
        Expr::Constant(value) => render::to_json(value),
        Expr::Ref(reference) => reference.source.to_string(),
        Expr::Output => "output".to_owned(),
        Expr::Field(inner, field) => match &**inner {
            Expr::Output => field.to_string(),
            inner => format!("{}.{field}", render_condition(inner)),
        },
        Expr::Contains(inner, needle) => format!("{} has {needle:?}", render_condition(inner)),
        Expr::Equals(left, right) => match &**right {
            Expr::Constant(Value::String(text)) => format!("{} = {text}", render_condition(left)),
            right => format!("{} = {}", render_condition(left), render_condition(right)),
        },
        // `x != []` reads as "x".
        Expr::Not(inner) => match &**inner {
            Expr::Equals(left, right) if **right == Expr::Constant(Value::list(Vec::new())) => render_condition(left),
            inner => format!("not {}", render_condition(inner)),
        },
        Expr::All(items) => items.iter().map(render_condition).collect::<Vec<_>>().join(" and "),
        Expr::Any(items) => items.iter().map(render_condition).collect::<Vec<_>>().join(" or "),
        Expr::Js(_) => "expression".to_owned(),
        Expr::Script(script) => script.source.to_string(),
    }
}
