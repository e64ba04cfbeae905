//! Detects the format of a definition from its name and shape.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node};
use flowloom_core::plan::Format;

use crate::Problems;
use crate::reader::read_json;

/// A detected format, with the parsed tree if the detection needed one.
pub(crate) struct Detected {
    pub(crate) format: Format,
    pub(crate) tree: Option<Node>,
}

/// The format of `text` from the file `file`; `None`, with an error, if it has none.
pub(crate) fn detect(file: &str, text: &str, problems: &mut Problems) -> Option<Detected> {
    let name = file.to_ascii_lowercase();
    if name.ends_with(".mdx") || name.ends_with(".md") {
        return Some(Detected { format: Format::Markdown, tree: None });
    }
    if crate::graph::is_table(file) {
        return Some(Detected { format: Format::Graph, tree: None });
    }
    if crate::steps::literal_start(text).is_some() {
        return Some(Detected { format: Format::Steps, tree: None });
    }
    let tree = read_json(text, parse_node(text), problems)?;
    let Some(format) = by_shape(&tree) else {
        let span = Span { start: tree.span.start, length: 1 };
        let message = "this is JSON, but not in any known format";
        problems.error(Code::UnknownFormat, span, message).help = Some(
            "a flow has \"steps\" with \"type\"; a step list has \"steps\" with \"functionId\"; a pipeline has \
             \"nodes\" with \"block_id\"; a graph has \"nodes\" with \"nodeType\"; an agent has a \"systemPrompt\"; Markdown workflows end in .mdx or \
             .md; or name the format with --as"
                .into(),
        );
        return None;
    };
    Some(Detected { format, tree: Some(tree) })
}

fn by_shape(node: &Node) -> Option<Format> {
    if crate::flow::wrapped(node).is_some() {
        return Some(Format::Flow);
    }
    let inner = ["workflow", "pipeline", "pipeline_json", "definition", "config"];
    let node = inner.iter().find_map(|key| node.get(key)).filter(|inner| !inner.entries().is_empty()).unwrap_or(node);
    let has = |list: &str, keys: &[&str]| {
        let items = node.get(list).and_then(Node::items).unwrap_or_default();
        items.iter().any(|item| keys.iter().any(|key| item.get(key).is_some()))
    };
    if node.get("nodes").is_some() {
        let is_graph = has("nodes", &["nodeType", "node_type"]) || node.get("entrypointNodeId").is_some();
        return Some(if is_graph { Format::Graph } else { Format::Pipeline });
    }
    if has("steps", &["functionId", "promptTemplate", "errorMode", "mode"]) {
        return Some(Format::Steps);
    }
    if has("steps", &["type", "config"]) || node.get("active").is_some() {
        return Some(Format::Flow);
    }
    if node.get("steps").is_none() && (node.get("systemPrompt").is_some() || node.get("system_prompt").is_some()) {
        return Some(Format::Agent);
    }
    // The only required key of a flow is `steps`; an empty list of steps is a flow that does nothing.
    node.get("steps").map(|_| Format::Flow)
}
