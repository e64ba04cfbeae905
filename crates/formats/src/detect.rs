//! Detects the format of a definition from its name and shape.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node};

use crate::front_end::FrontEnd;
use crate::problems::Problems;
use crate::reader::read_json;
use crate::shape::DocumentShape;

/// A detected format, with the parsed tree if the detection needed one.
pub(crate) struct Detected<'r> {
    pub(crate) front_end: &'r FrontEnd,
    pub(crate) tree: Option<Node>,
}

/// The front end whose definitions a document looks most like.
pub(crate) fn find_likely<'r>(front_ends: &'r [FrontEnd], shape: &DocumentShape<'_>) -> Option<&'r FrontEnd> {
    if shape.is_test() || shape.is_n8n() {
        return None;
    }
    let likely = front_ends.iter().map(|front_end| ((front_end.score_shape)(shape), front_end));
    likely.filter(|(score, _)| *score > 0).max_by_key(|(score, _)| *score).map(|(_, front_end)| front_end)
}

/// The format of `text` from the file `file`; `None`, with an error, if it has none.
pub(crate) fn detect_format<'r>(
    front_ends: &'r [FrontEnd],
    file: &str,
    text: &str,
    problems: &mut Problems,
) -> Option<Detected<'r>> {
    if let Some(front_end) = front_ends.iter().find(|front_end| (front_end.recognises)(file, text)) {
        return Some(Detected { front_end, tree: None });
    }
    let tree = read_json(text, parse_node(text), problems)?;
    let shape = DocumentShape::of(&tree);
    let Some(front_end) = find_likely(front_ends, &shape) else {
        let span = Span { start: tree.span.start, length: 1 };
        if shape.is_test() {
            let problem = problems.add_error(Code::UnknownFormat, span, "this is a test of a workflow, not a workflow");
            problem.help = Some("run it with flowloom test".to_owned());
            return None;
        }
        if shape.is_n8n() {
            let message = "this is a workflow of n8n, which cannot be imported";
            let problem = problems.add_error(Code::UnknownFormat, span, message);
            problem.help = Some("build it again from its steps, or describe it to flowloom new".to_owned());
            return None;
        }
        let message = "this is JSON, but not in any known format";
        if let Some(near_miss) = front_ends.iter().find_map(|front_end| (front_end.near_miss)(&shape)) {
            problems.add_error(Code::UnknownFormat, span, message).help = Some(near_miss.to_owned());
            return None;
        }
        let hints = front_ends.iter().map(|front_end| front_end.hint).filter(|hint| !hint.is_empty());
        let help = hints.collect::<Vec<_>>().join("; ");
        problems.add_error(Code::UnknownFormat, span, message).help = Some(help);
        return None;
    };
    Some(Detected { front_end, tree: Some(tree) })
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_node;

    use super::*;

    #[test]
    fn a_workflow_of_n8n_is_no_pipeline() {
        let text = r#"{"name": "N", "nodes": [{"id": "1", "name": "Start", "type": "n8n-nodes-base.manualTrigger",
            "parameters": {}}], "connections": {}}"#;
        let (tree, _) = parse_node(text).expect("JSON");
        assert!(DocumentShape::of(&tree).is_n8n());
        let (other, _) = parse_node(r#"{"nodes": [{"id": "1", "type": "AGENT"}]}"#).expect("JSON");
        assert!(!DocumentShape::of(&other).is_n8n());
    }
}
