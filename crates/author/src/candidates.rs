//! Describes existing blocks for the model that decomposes a goal, so that it can name them instead of describing them
//! again.

use flowloom_core::render;
use flowloom_core::value::{Map, Value};

use crate::required::required_names;

/// Maximum number of candidates.
pub const MAX_CANDIDATE_BLOCKS: usize = 30;

/// A candidate as the model sees it: its id, what it does, when to use it, and the types of its inputs and outputs. The name
/// of an input that may be left out ends with a question mark.
///
/// # Examples
///
/// ```
/// use flowloom_author::candidates::describe_block;
/// use flowloom_core::json::parse_value;
///
/// let block = r#"{"id": "upper", "description": "Upper case", "input_schema": {"properties": {"text": {"type": "string"}}}}"#;
/// let described = describe_block(&parse_value(block).expect("JSON"));
/// assert_eq!(described.get("inputs"), parse_value(r#"{"text?": "string"}"#).ok().as_ref());
/// ```
pub fn describe_block(block: &Value) -> Value {
    let field = |key: &str| block.get(key).cloned().unwrap_or_default();
    Value::map([
        ("id", field("id")),
        ("description", field("description")),
        ("use_when", field("use_when")),
        ("inputs", describe_fields(&field("input_schema"), true)),
        ("outputs", describe_fields(&field("output_schema"), false)),
    ])
}

/// The types of the fields of a schema, by name.
fn describe_fields(schema: &Value, marks_optional: bool) -> Value {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_map).unwrap_or(&none);
    let describe = |(name, property): (&std::sync::Arc<str>, &Value)| {
        let is_optional = marks_optional && !required_names(schema).any(|required| *required == **name);
        let name = if is_optional { format!("{name}?") } else { name.to_string() };
        let kind = property.get("type").cloned().unwrap_or_else(|| "any".into());
        (name.into(), kind)
    };
    properties.iter().map(describe).collect::<Map>().into()
}

/// The candidates as a text with one line for each.
pub(crate) fn list_blocks(candidates: &[Value]) -> String {
    candidates.iter().map(render::to_json).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    #[test]
    fn a_block_is_described_by_its_types() {
        let block = r#"{"id": "b", "description": "Does it", "source_code": "x", "input_schema": {"type": "object",
            "properties": {"url": {"type": "string", "description": "long"}, "max": {"type": ["integer", "null"]}, "any": {}},
            "required": ["url"]}, "output_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}"#;
        let described = render::to_json(&describe_block(&parse_value(block).expect("JSON")));
        assert_eq!(
            described,
            r#"{"id":"b","description":"Does it","use_when":null,"inputs":{"url":"string","max?":["integer","null"],"any?":"any"},"outputs":{"text":"string"}}"#
        );
    }
}
