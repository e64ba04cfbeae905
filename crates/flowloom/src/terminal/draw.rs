//! Draws a plan as text, Mermaid, Graphviz or SVG. The drawing shows which steps can follow which, in any format.

use std::fmt::Write as _;

use flowloom_app::definitions::outline::{Outline, outline_plan};
use flowloom_core::plan::Plan;
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

/// A drawing of an outline.
struct Drawing(Outline);

/// Draws `plan`. Fails if the SVG layout fails.
pub(crate) fn draw_plan(plan: &Plan, style: DrawingFormat) -> Result<String, String> {
    let picture = Drawing(outline_plan(plan));
    match style {
        DrawingFormat::Text => Ok(picture.render_text(plan)),
        DrawingFormat::Mermaid => Ok(picture.render_mermaid()),
        DrawingFormat::Dot => Ok(picture.render_dot(&plan.name)),
        DrawingFormat::Svg => picture.render_svg(&plan.name),
    }
}

impl Drawing {
    fn has_end(&self) -> bool {
        self.0.arrows.iter().any(|arrow| arrow.to.is_none())
    }

    fn render_text(&self, plan: &Plan) -> String {
        let mut out = format!("{} ({})\n", plan.name, plan.format.name());
        for (index, each) in self.0.nodes.iter().enumerate() {
            let _ = writeln!(out, "\n{}  {}", each.title, each.kind);
            for arrow in self.0.arrows.iter().filter(|arrow| arrow.from == index) {
                let to = arrow.to.map_or("END", |to| self.0.nodes[to].title.as_str());
                let label = if arrow.label.is_empty() { String::new() } else { format!("  [{}]", arrow.label) };
                let _ = writeln!(out, "  → {to}{label}");
            }
        }
        out
    }

    fn render_mermaid(&self) -> String {
        let clean = |text: &str| text.replace('"', "'").replace(['\n', '\r'], " ");
        let mut out = "flowchart TD\n".to_owned();
        for (index, each) in self.0.nodes.iter().enumerate() {
            let shape = if each.kind == "branch" { ("{", "}") } else { ("[", "]") };
            let _ = writeln!(out, "  n{index}{}\"{}\"{}", shape.0, clean(&each.title), shape.1);
        }
        if self.has_end() {
            out.push_str("  END([\"END\"])\n");
        }
        for arrow in &self.0.arrows {
            let to = arrow.to.map_or_else(|| "END".to_owned(), |to| format!("n{to}"));
            let label = if arrow.label.is_empty() { String::new() } else { format!("|\"{}\"|", clean(&arrow.label)) };
            let _ = writeln!(out, "  n{} -->{label} {to}", arrow.from);
        }
        out
    }

    fn render_dot(&self, name: &str) -> String {
        let quoted = |text: &str| render::to_json(&Value::from(text.replace(['\n', '\r'], " ")));
        let mut out = format!("digraph {} {{\n", quoted(name));
        for (index, each) in self.0.nodes.iter().enumerate() {
            let shape = if each.kind == "branch" { "diamond" } else { "box" };
            let _ = writeln!(out, "  n{index} [label={} shape={shape}];", quoted(&each.title));
        }
        if self.has_end() {
            out.push_str("  END [label=\"END\" shape=circle];\n");
        }
        for arrow in &self.0.arrows {
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
