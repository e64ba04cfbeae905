//! Whether two texts consist of the same blocks, apart from the layout of tags and the white space between blocks.

use markdown::mdast::{AttributeContent, AttributeValue, Node};

use super::super::frontmatter::parse_yaml;
use super::super::nodes::read_element;
use super::{block_range, is_action};

/// Whether two texts, each with its blocks, hold the same.
pub(super) fn have_same_blocks(one: (&[Node], &str), other: (&[Node], &str)) -> bool {
    one.0.len() == other.0.len() && one.0.iter().zip(other.0).all(|(a, b)| is_same_block((a, one.1), (b, other.1)))
}

fn is_same_block((a, text_a): (&Node, &str), (b, text_b): (&Node, &str)) -> bool {
    match (a, b) {
        (Node::Yaml(a), Node::Yaml(b)) => parse_yaml(&a.value).ok() == parse_yaml(&b.value).ok(),
        (Node::MdxJsxFlowElement(x), Node::MdxJsxFlowElement(y)) if is_action(a) && is_action(b) => {
            let attributes = |list: &[AttributeContent]| list.iter().map(describe_attribute).collect::<Vec<_>>();
            let (Some((one, inner_a)), Some((other, inner_b))) = (read_element(a), read_element(b)) else {
                return false;
            };
            one == other
                && attributes(&x.attributes) == attributes(&y.attributes)
                && have_same_blocks((inner_a, text_a), (inner_b, text_b))
        }
        _ => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
                && text_a.get(block_range(a, text_a)) == text_b.get(block_range(b, text_b))
        }
    }
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
