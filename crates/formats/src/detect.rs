//! Recognises the format of a definition by its name and shape.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::json::{Node, parse_node};
use flowloom_core::plan::Format;

/// Why a format was not recognised.
#[derive(Debug)]
pub struct Unknown {
    code: Code,
    span: Span,
    message: String,
}

impl Unknown {
    /// The problem as a diagnostic of `file`.
    pub fn into_diagnostic(self, file: &str) -> Diagnostic {
        Diagnostic::error(self.code, file, self.span, self.message).help(
            "a flow has \"steps\" with \"type\"; a step list has \"steps\" with \"functionId\"; a pipeline has \
             \"nodes\" with \"block_id\"; a graph has \"nodes\" with \"nodeType\"; Markdown workflows end in .mdx or \
             .md; or name the format with --as",
        )
    }
}

/// The format of `text`, which was read from `file`.
pub fn detect(file: &str, text: &str) -> Result<Format, Unknown> {
    let name = file.to_ascii_lowercase();
    if name.ends_with(".mdx") || name.ends_with(".md") {
        return Ok(Format::Markdown);
    }
    if crate::steps::literal_start(text).is_some() {
        return Ok(Format::Steps);
    }
    let (node, _) = parse_node(text).map_err(|error| Unknown {
        code: crate::reader::json_code(error.kind),
        span: error.span,
        message: error.message,
    })?;
    by_shape(&node).ok_or_else(|| Unknown {
        code: Code::UnknownFormat,
        span: Span { start: node.span.start, length: 1 },
        message: "this is JSON, but none of the formats that are known".to_owned(),
    })
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
    // A flow's only required key is `steps`; an empty list of steps is a flow that does nothing.
    node.get("steps").map(|_| Format::Flow)
}
