//! A block as the registry sees it: its purpose, inputs and outputs, and the text that searches compare. How a block
//! runs is defined in `plan`; the search itself is in the store.

mod fit;
mod words;

pub use fit::{Fit, Thresholds, compare_block};
pub use words::significant_words;

use crate::value::{Map, Value};

/// The description of a block, or of a block that is searched for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockCard {
    /// The name in words.
    pub name: String,
    /// The purpose of the block.
    pub description: String,
    /// When to use the block.
    pub use_when: String,
    /// Keywords.
    pub tags: Vec<String>,
    /// `python`, `llm` or `function`; empty in a request that accepts any.
    pub execution_type: String,
    /// JSON Schema of the inputs; null if unknown.
    pub inputs: Value,
    /// JSON Schema of the output; null if unknown.
    pub outputs: Value,
}

impl BlockCard {
    /// The card of a block definition, or of a block that a plan requests (`suggested_id`).
    pub fn from_definition(definition: &Value) -> BlockCard {
        let text = |key: &str| definition.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        let named = ["name", "suggested_id", "id"].into_iter().map(text).find(|name| !name.is_empty());
        let tags = definition.get("tags").and_then(Value::as_list).unwrap_or_default();
        let schema = |key: &str| definition.get(key).cloned().unwrap_or_default();
        BlockCard {
            name: identifier_to_words(named.unwrap_or_default()),
            description: text("description").to_owned(),
            use_when: text("use_when").to_owned(),
            tags: tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            execution_type: text("execution_type").to_owned(),
            inputs: schema("input_schema"),
            outputs: schema("output_schema"),
        }
    }

    /// The text that is embedded. Blocks and requests have the same form, so that two with the same meaning are close.
    pub fn embedding_text(&self) -> String {
        let mut text = String::new();
        for (label, part) in [("", &self.name), ("", &self.description), ("Use when: ", &self.use_when)] {
            if !part.is_empty() {
                let end = if part.ends_with(['.', '!', '?']) { "\n" } else { ".\n" };
                text.extend([label, part, end]);
            }
        }
        for (label, schema) in [("Inputs: ", &self.inputs), ("Outputs: ", &self.outputs)] {
            let fields: Vec<String> = schema_properties(schema).map(|(name, _)| identifier_to_words(name)).collect();
            if !fields.is_empty() {
                text.extend([label, &fields.join(", "), ".\n"]);
            }
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// The text for full-text search: purpose and use, without the names of the fields, which differ between equivalent
    /// blocks.
    pub fn search_text(&self) -> String {
        [&self.name, &self.description, &self.use_when, &self.tags.join(" ")].map(String::as_str).join(" ")
    }
}

/// An identifier as words.
fn identifier_to_words(name: &str) -> String {
    name.replace(['_', '-'], " ")
}

/// The fields of an object schema.
fn schema_properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let all = schema.get("properties").and_then(Value::as_map);
    all.into_iter().flat_map(Map::iter).map(|(name, schema)| (&**name, schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;

    #[test]
    fn a_block_and_a_goal_for_it_have_texts_of_one_form() {
        let card = |text: &str| BlockCard::from_definition(&parse_value(text).unwrap());
        let block = card(
            r#"{"id": "x", "name": "Fetch page", "description": "Reads a page.", "use_when": "a page is needed",
                "tags": ["web"], "output_schema": {"type": "object", "properties": {"page_text": {"type": "string"}}}}"#,
        );
        assert_eq!(
            block.embedding_text(),
            "Fetch page.\nReads a page.\nUse when: a page is needed.\nOutputs: page text."
        );
        assert_eq!(block.search_text(), "Fetch page Reads a page. a page is needed web");
        let required = card(r#"{"suggested_id": "fetch_page", "description": "Reads a page", "input_schema": {}}"#);
        assert_eq!(required.embedding_text(), "fetch page.\nReads a page.");
        assert_eq!(card("[1]"), BlockCard::default());
        assert_eq!(BlockCard::default().embedding_text(), "");
    }
}
