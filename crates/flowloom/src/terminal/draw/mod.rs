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

use flowloom_core::code::Code;
use flowloom_core::plan::Plan;

use crate::failure::CommandError;

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
    /// A description of the node in a few lines.
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

/// Maximum number of steps in an SVG image. The time and the size of a layout grow with the square of the number of steps, and
/// a larger drawing is not readable.
const MAX_SVG_NODES: usize = 500;

/// Draws `plan`. An image of too many steps is refused.
pub(crate) fn draw_plan(plan: &Plan, format: DrawingFormat) -> Result<String, CommandError> {
    let drawing = build::build_drawing(plan);
    Ok(match format {
        DrawingFormat::Text => text::render_text(&drawing),
        DrawingFormat::Mermaid => text::render_mermaid(&drawing),
        DrawingFormat::Dot => text::render_dot(&drawing),
        DrawingFormat::Svg if drawing.nodes.len() > MAX_SVG_NODES => {
            let message = format!(
                "the drawing has {} steps, and an SVG image has at most {MAX_SVG_NODES}; use --format dot or --format \
                 mermaid, whose programs draw larger ones, or --format text",
                drawing.nodes.len()
            );
            return Err(CommandError::new(Code::UsageInvalid, message));
        }
        DrawingFormat::Svg => svg::render_svg(&drawing),
    })
}
