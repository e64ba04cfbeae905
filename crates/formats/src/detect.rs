//! Recognises the format of a definition by its name and shape.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node};

use crate::front_end::FrontEnd;
use crate::problems::Problems;
use crate::reader::read_json;
use crate::registry::Registry;

/// A recognised format, with the tree that was read to recognise it.
pub(crate) struct Detected<'r> {
    pub(crate) front_end: &'r dyn FrontEnd,
    pub(crate) tree: Option<Node>,
}

/// A JSON document whose format is not known yet.
pub struct Shape<'a> {
    /// The whole document.
    pub whole: &'a Node,
    /// The definition in it: what stands under `workflow`, `pipeline` and the like, or the whole document.
    pub definition: &'a Node,
}

impl<'a> Shape<'a> {
    fn of(whole: &'a Node) -> Shape<'a> {
        let inner = ["workflow", "pipeline", "pipeline_json", "definition", "config"];
        let inner = inner.iter().find_map(|key| whole.get(key)).filter(|inner| !inner.entries().is_empty());
        Shape { whole, definition: inner.unwrap_or(whole) }
    }

    /// Whether the definition has one of these keys.
    pub fn has(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.definition.get(key).is_some())
    }

    /// Whether an item of the definition's list `list` has one of these keys.
    pub fn has_item_with(&self, list: &str, keys: &[&str]) -> bool {
        let items = self.definition.get(list).and_then(Node::items).unwrap_or_default();
        items.iter().any(|item| keys.iter().any(|key| item.get(key).is_some()))
    }
}

/// The format of `text`, which was read from `file`; `None`, with an error, if it has none.
pub(crate) fn detect<'r>(
    registry: &'r Registry,
    file: &str,
    text: &str,
    problems: &mut Problems,
) -> Option<Detected<'r>> {
    if let Some(front_end) = registry.front_ends().find(|front_end| front_end.recognises(file, text)) {
        return Some(Detected { front_end, tree: None });
    }
    let tree = read_json(text, parse_node(text), problems)?;
    let shape = Shape::of(&tree);
    let likely = registry.front_ends().map(|front_end| (front_end.likeness(&shape), front_end));
    let Some((_, front_end)) = likely.filter(|(likeness, _)| *likeness > 0).max_by_key(|(likeness, _)| *likeness)
    else {
        let span = Span { start: tree.span.start, length: 1 };
        let message = "this is JSON, but none of the formats that are known";
        problems.error(Code::UnknownFormat, span, message).help = Some(
            "a flow has \"steps\" with \"type\"; a step list has \"steps\" with \"functionId\"; a pipeline has \
             \"nodes\" with \"block_id\"; a graph has \"nodes\" with \"nodeType\"; an agent has a \"systemPrompt\"; Markdown workflows end in .mdx or \
             .md; or name the format with --as"
                .into(),
        );
        return None;
    };
    Some(Detected { front_end, tree: Some(tree) })
}
