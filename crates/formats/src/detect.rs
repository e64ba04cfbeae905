//! Detects the format of a definition from its name and shape.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
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
    if shape.is_test() || shape.is_n8n() || shape.is_foreign_graph() {
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
    let shape = DocumentShape::from_node(&tree);
    let Some(front_end) = find_likely(front_ends, &shape) else {
        report_unrecognised(front_ends, &shape, problems);
        return None;
    };
    Some(Detected { front_end, tree: Some(tree) })
}

/// Reports that a document has no known format, with what it may be instead.
fn report_unrecognised(front_ends: &[FrontEnd], shape: &DocumentShape<'_>, problems: &mut Problems) {
    let span = Span { start: shape.whole.span.start, length: 1 };
    if let Some((key, span, meant)) = shape.find_misspelt_list() {
        let message = format!("this looks like a workflow, but has no {meant:?}");
        let problem = problems.add_error(Code::MissingKey, span, message);
        problem.help = Some(format!("did you mean {meant:?}?"));
        problem.fix = Some(Fix::new_safe(format!("rename {key:?} to {meant:?}"), vec![(span, format!("{meant:?}"))]));
        return;
    }
    let near_miss = || front_ends.iter().find_map(|front_end| (front_end.near_miss)(shape)).map(str::to_owned);
    let (message, help) = if shape.is_test() {
        ("this is a test of a workflow, not a workflow", "run it with flowloom test".to_owned())
    } else if shape.is_n8n() {
        (
            "this is a workflow of n8n, which cannot be imported",
            "build it again from its steps, or describe it to flowloom new".to_owned(),
        )
    } else if shape.is_foreign_graph() {
        let hints = front_ends.iter().map(|front_end| front_end.hint).filter(|hint| !hint.is_empty());
        (
            "this looks like a workflow of another node editor, which cannot be imported: no node has \"block_id\" or \"nodeType\"",
            format!("build it again in one of the formats: {}", hints.collect::<Vec<_>>().join("; ")),
        )
    } else {
        let hints = || front_ends.iter().map(|front_end| front_end.hint).filter(|hint| !hint.is_empty());
        let help = near_miss().unwrap_or_else(|| hints().collect::<Vec<_>>().join("; "));
        ("this is JSON, but not in any known format", help)
    };
    problems.add_error(Code::UnknownFormat, span, message).help = Some(help);
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_node;

    use super::*;

    #[test]
    fn a_graph_of_another_editor_is_no_pipeline() {
        let is_foreign = |text: &str| {
            let (tree, _) = parse_node(text).expect("JSON");
            DocumentShape::from_node(&tree).is_foreign_graph()
        };
        for text in [
            r#"{"nodes": [{"id": "1", "type": "flowInfo", "data": {}}, {"id": "2", "position": {}}], "edges": []}"#,
            r#"{"graph": {"nodes": [{"id": "start", "data": {"type": "start"}}], "edges": []}}"#,
            r#"{"data": {"nodes": [{"id": "ChatInput-1", "type": "genericNode"}]}}"#,
        ] {
            assert!(is_foreign(text), "{text}");
        }
        for text in [
            r#"{"nodes": [{"id": "1"}]}"#,
            r#"{"nodes": []}"#,
            r#"{"nodes": [{"id": "1", "type": "x", "blok_id": "filter"}]}"#,
            r#"{"nodes": [{"id": "1", "type": "AGENT", "agentId": "a"}]}"#,
            r#"{"nodes": [{"id": "1", "data": {}}], "entrypointNodeId": "1"}"#,
        ] {
            assert!(!is_foreign(text), "{text}");
        }
    }

    #[test]
    fn a_workflow_of_n8n_is_no_pipeline() {
        let text = r#"{"name": "N", "nodes": [{"id": "1", "name": "Start", "type": "n8n-nodes-base.manualTrigger",
            "parameters": {}}], "connections": {}}"#;
        let (tree, _) = parse_node(text).expect("JSON");
        assert!(DocumentShape::from_node(&tree).is_n8n());
        let (other, _) = parse_node(r#"{"nodes": [{"id": "1", "type": "AGENT"}]}"#).expect("JSON");
        assert!(!DocumentShape::from_node(&other).is_n8n());
    }
}
