//! Constrains a model to a JSON Schema: at every token, only tokens that can lead to a valid answer are allowed.

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::{Value, json};
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value as Json, json};

/// Marks the start of a tool call in the text of a local model.
pub(crate) const CALL_START: &str = "<tool_call>";
/// Marks the end of a tool call.
pub(crate) const CALL_END: &str = "</tool_call>";

/// Builds grammars for the tokens of one model.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    /// Reads every token of a model, which takes longer than most answers to a schema: keep it.
    pub(crate) fn new(model: &LlamaModel) -> Option<Grammars> {
        Some(Grammars { factory: ParserFactory::new_simple(&LlamaSampler::llguidance_tok_env(model)).ok()? })
    }

    /// A constraint for answers that match `schema`; `None` if the schema has an unsupported keyword. The answer is
    /// validated afterwards anyway.
    pub(crate) fn for_schema(&self, schema: &Value) -> Option<Matcher> {
        self.build_matcher(serde_json::from_str(&json::write_json(schema)).ok()?)
    }

    /// A constraint for one call of one of these tools.
    pub(crate) fn for_call(&self, tools: &[ToolDeclaration]) -> Option<Matcher> {
        let call = |tool: &ToolDeclaration| {
            let parameters: Json = serde_json::from_str(&json::write_json(&tool.parameters)).unwrap_or_default();
            let parameters = if parameters.is_object() { parameters } else { json!({ "type": "object" }) };
            json!({
                "type": "object",
                "properties": { "name": { "const": tool.name }, "arguments": parameters },
                "required": ["name", "arguments"],
                "additionalProperties": false,
            })
        };
        self.build_matcher(json!({ "anyOf": tools.iter().map(call).collect::<Vec<_>>() }))
    }

    fn build_matcher(&self, mut schema: Json) -> Option<Matcher> {
        // A small model that may write whitespace between tokens writes it until its answer is used up.
        schema.as_object_mut()?.insert("x-guidance".into(), json!({ "whitespace_flexible": false }));
        let matcher = Matcher::new(self.factory.create_parser(TopLevelGrammar::from_json_schema(schema)));
        (!matcher.is_error()).then_some(matcher)
    }
}
