//! Whether two texts consist of the same blocks, apart from the layout of tags and the white space between blocks.

use markdown::mdast::{AttributeContent, AttributeValue, Node};

use super::super::frontmatter::parse_yaml;
use super::super::nodes::read_element;
use super::{block_range, is_action, may_hold_else};

/// Blocks of a text.
#[derive(Clone, Copy)]
pub(super) struct BlockList<'a> {
    pub(super) blocks: &'a [Node],
    pub(super) text: &'a str,
    /// Whether they are in a `<Cond>`.
    has_else: bool,
}

impl<'a> BlockList<'a> {
    /// The blocks of a text that are in no action.
    pub(super) fn new(blocks: &'a [Node], text: &'a str) -> BlockList<'a> {
        BlockList { blocks, text, has_else: false }
    }

    /// The source text of a block.
    fn source_of(self, block: &Node) -> Option<&'a str> {
        self.text.get(block_range(block, self.text))
    }
}

/// Whether two texts hold the same blocks.
pub(super) fn have_same_blocks(one: BlockList<'_>, other: BlockList<'_>) -> bool {
    let pairs = one.blocks.iter().zip(other.blocks);
    one.blocks.len() == other.blocks.len() && pairs.into_iter().all(|(a, b)| is_same_block(a, one, b, other))
}

/// Whether the block `a` of a text is the block `b` of another one.
fn is_same_block(a: &Node, one: BlockList<'_>, b: &Node, other: BlockList<'_>) -> bool {
    match (a, b) {
        (Node::Yaml(a), Node::Yaml(b)) => parse_yaml(&a.value).ok() == parse_yaml(&b.value).ok(),
        (Node::MdxJsxFlowElement(x), Node::MdxJsxFlowElement(y))
            if is_action(a, one.has_else) && is_action(b, other.has_else) =>
        {
            let attributes = |list: &[AttributeContent]| list.iter().map(describe_attribute).collect::<Vec<_>>();
            let (Some((name_a, inner_a)), Some((name_b, inner_b))) = (read_element(a), read_element(b)) else {
                return false;
            };
            let has_else = may_hold_else(a);
            let inner_a = BlockList { blocks: inner_a, has_else, ..one };
            let inner_b = BlockList { blocks: inner_b, has_else, ..other };
            name_a == name_b
                && attributes(&x.attributes) == attributes(&y.attributes)
                && have_same_blocks(inner_a, inner_b)
        }
        (Node::Blockquote(_), Node::Blockquote(_)) => {
            let lines = |source: Option<&str>| {
                source.map(|source| source.lines().map(write_comment_line).collect::<Vec<String>>())
            };
            lines(one.source_of(a)) == lines(other.source_of(b))
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b) && one.source_of(a) == other.source_of(b),
    }
}

/// A line of a block quote. The white space before the sign is not sent, unlike that before a line without one.
fn write_comment_line(line: &str) -> String {
    let comment = line.trim_start();
    if comment.starts_with('>') { comment.to_owned() } else { line.to_owned() }
}

/// The name of an attribute, its kind and its value.
fn describe_attribute(attribute: &AttributeContent) -> (String, u8, String) {
    match attribute {
        AttributeContent::Expression(spread) => (String::new(), 0, spread.value.clone()),
        AttributeContent::Property(property) => {
            let (kind, value) = match &property.value {
                None => (1, String::new()),
                Some(AttributeValue::Literal(literal)) => (2, literal.clone()),
                Some(AttributeValue::Expression(expression)) => (3, expression.value.clone()),
            };
            (property.name.clone(), kind, value)
        }
    }
}
