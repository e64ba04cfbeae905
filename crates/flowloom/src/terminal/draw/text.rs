//! Drawings as text: for the terminal, for Mermaid and for Graphviz.

use std::collections::HashMap;
use std::fmt::Write as _;

use flowloom_core::render;
use flowloom_core::value::Value;

use super::{Arrow, Drawing, DrawnNode, NodeShape};

/// A list of the nodes with the arrows that leave them.
pub(super) fn render_text(drawing: &Drawing) -> String {
    let mut leaving: Vec<Vec<&Arrow>> = vec![Vec::new(); drawing.nodes.len()];
    drawing.arrows.iter().for_each(|arrow| leaving[arrow.from].push(arrow));
    let names = name_nodes(drawing);
    let mut out = format!("{} ({})\n", drawing.title, drawing.format);
    for (node, arrows) in drawing.nodes.iter().zip(leaving) {
        if node.shape == NodeShape::End {
            continue;
        }
        let title = if node.shape == NodeShape::Choice { format!("{}?", node.title) } else { node.title.clone() };
        let _ = writeln!(out, "\n{}", [vec![title], vec![node.details.join(", ")]].concat().join("  ").trim_end());
        for arrow in arrows {
            let label = if arrow.label.is_empty() { String::new() } else { format!("  [{}]", arrow.label) };
            let _ = writeln!(out, "  → {}{label}", names[arrow.to]);
        }
    }
    out
}

/// The titles of the nodes, with the first detail where it distinguishes nodes with the same title: nodes of a pipeline may
/// share a block.
fn name_nodes(drawing: &Drawing) -> Vec<String> {
    let detail_of = |node: &DrawnNode| node.details.first().cloned().unwrap_or_default();
    let (mut titles, mut pairs) = (HashMap::new(), HashMap::new());
    for node in &drawing.nodes {
        *titles.entry(node.title.as_str()).or_insert(0) += 1;
        *pairs.entry((node.title.as_str(), detail_of(node))).or_insert(0) += 1;
    }
    let name = |node: &DrawnNode| {
        let detail = detail_of(node);
        let helps = titles[node.title.as_str()] > 1 && !detail.is_empty();
        match helps && pairs[&(node.title.as_str(), detail.clone())] == 1 {
            true => format!("{} ({detail})", node.title),
            false => node.title.clone(),
        }
    };
    drawing.nodes.iter().map(name).collect()
}

/// A Mermaid flowchart.
pub(super) fn render_mermaid(drawing: &Drawing) -> String {
    let clean = |text: &str| {
        let text = text.replace(['\n', '\r'], " ");
        text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let mut out = "flowchart TD\n".to_owned();
    for (index, node) in drawing.nodes.iter().enumerate() {
        let (open, close) = match node.shape {
            NodeShape::Step => ("[", "]"),
            NodeShape::Choice => ("{", "}"),
            NodeShape::Person => ("[/", "/]"),
            NodeShape::Tools => ("[[", "]]"),
            NodeShape::Start | NodeShape::End => ("([", "])"),
        };
        let lines: Vec<String> = list_lines(node).map(clean).collect();
        let _ = writeln!(out, "  n{index}{open}\"{}\"{close}", lines.join("<br/>"));
    }
    for arrow in &drawing.arrows {
        let line = if arrow.is_dashed { "-.->" } else { "-->" };
        let label = if arrow.label.is_empty() { String::new() } else { format!("|\"{}\"|", clean(&arrow.label)) };
        let _ = writeln!(out, "  n{} {line}{label} n{}", arrow.from, arrow.to);
    }
    out
}

/// A Graphviz graph.
pub(super) fn render_dot(drawing: &Drawing) -> String {
    let quote = |text: &str| render::to_json(&Value::from(text));
    let mut out = format!("digraph {} {{\n", quote(&drawing.title));
    for (index, node) in drawing.nodes.iter().enumerate() {
        let shape = match node.shape {
            NodeShape::Step => "box",
            NodeShape::Choice => "diamond",
            NodeShape::Person => "house",
            NodeShape::Tools => "component",
            NodeShape::Start | NodeShape::End => "oval",
        };
        let lines: Vec<String> = list_lines(node).map(|line| line.replace(['\n', '\r'], " ")).collect();
        let _ = writeln!(out, "  n{index} [label={} shape={shape}];", quote(&lines.join("\n")));
    }
    for arrow in &drawing.arrows {
        let style = if arrow.is_dashed { " style=dashed" } else { "" };
        let label = quote(&arrow.label.replace(['\n', '\r'], " "));
        let _ = writeln!(out, "  n{} -> n{} [label={label}{style}];", arrow.from, arrow.to);
    }
    out.push_str("}\n");
    out
}

fn list_lines(node: &DrawnNode) -> impl Iterator<Item = &str> {
    std::iter::once(node.title.as_str()).chain(node.details.iter().map(String::as_str))
}
