//! Draws a plan as text, Mermaid, Graphviz or SVG: which steps can follow which, in the words of the definition.
//!
//! `build` turns the plan into a drawing, `labels` finds its words, `text` writes it as text. For SVG, `layers` puts the
//! nodes into rows, `place` gives them coordinates, and `svg` draws.

mod build;
mod labels;
mod layers;
mod place;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use flowloom_core::plan::Plan;

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

/// Nodes and arrows.
#[derive(Debug, Default)]
struct Drawing {
    /// The name of the workflow.
    title: String,
    /// The format of its definition.
    format: String,
    nodes: Vec<DrawnNode>,
    arrows: Vec<Arrow>,
}

#[derive(Debug)]
struct DrawnNode {
    title: String,
    /// What the node does, in a few lines.
    details: Vec<String>,
    shape: NodeShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeShape {
    /// A step.
    Step,
    /// A choice between arrows.
    Choice,
    /// A person.
    Person,
    /// Tools of agents.
    Tools,
    /// The start of a graph.
    Start,
    /// The end of the run; a drawing has at most one.
    End,
}

#[derive(Debug, PartialEq)]
struct Arrow {
    from: usize,
    to: usize,
    /// When the arrow is followed; empty if always.
    label: String,
    /// Whether the arrow is a call of tools, or their way back.
    is_dashed: bool,
}

/// Draws `plan`.
pub(crate) fn draw_plan(plan: &Plan, format: DrawingFormat) -> String {
    let drawing = build::build_drawing(plan);
    match format {
        DrawingFormat::Text => text::render_text(&drawing),
        DrawingFormat::Mermaid => text::render_mermaid(&drawing),
        DrawingFormat::Dot => text::render_dot(&drawing),
        DrawingFormat::Svg => svg::render_svg(&drawing),
    }
}
