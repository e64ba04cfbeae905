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
    if shape.is_test() {
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
        if let Some((key, span, meant)) = shape.find_misspelt_list() {
            let message = format!("this looks like a workflow, but has no {meant:?}");
            let problem = problems.add_error(Code::MissingKey, span, message);
            problem.help = Some(format!("did you mean {meant:?}?"));
            problem.fix =
                Some(Fix::new_safe(format!("rename {key:?} to {meant:?}"), vec![(span, format!("{meant:?}"))]));
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
