//! Constrains a local model to a JSON Schema: at every token, only tokens that can lead to a valid answer are allowed.

use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::{Value, json};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
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

/// The model's tokens for the grammar library: bytes, tokenized by the longest match.
struct GrammarTokens {
    trie: TokTrie,
}

impl TokenizerEnv for GrammarTokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }
}

impl Grammars {
    /// `words` are the bytes of each token, empty for tokens without text; `end` is the token that ends an answer.
    pub(crate) fn new(words: &[Vec<u8>], end: TokenId) -> Option<Grammars> {
        let info = TokRxInfo::new(u32::try_from(words.len()).ok()?, end);
        let tokens: TokEnv = Arc::new(GrammarTokens { trie: TokTrie::from(&info, words) });
        Some(Grammars { factory: ParserFactory::new_simple(&tokens).ok()? })
    }

    /// A constraint for answers that match `schema`; `None` if the schema has an unsupported keyword. The answer is
    /// validated afterwards anyway.
    pub(crate) fn for_schema(&self, schema: &Value) -> Option<Constraint> {
        self.build_constraint(serde_json::from_str(&json::write_json(schema)).ok()?)
    }

    /// A constraint for one call of one of these tools.
    pub(crate) fn for_call(&self, tools: &[ToolDeclaration]) -> Option<Constraint> {
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
        self.build_constraint(json!({ "anyOf": tools.iter().map(call).collect::<Vec<_>>() }))
    }

    fn build_constraint(&self, mut schema: Json) -> Option<Constraint> {
        // A small model that may write whitespace between tokens writes it until its answer is used up.
        schema.as_object_mut()?.insert("x-guidance".into(), json!({ "whitespace_flexible": false }));
        let parser = self.factory.create_parser(TopLevelGrammar::from_json_schema(schema));
        let matcher = Matcher::new(parser);
        (!matcher.is_error()).then_some(Constraint { matcher })
    }
}

/// The state of an answer that is constrained to a grammar.
pub(crate) struct Constraint {
    matcher: Matcher,
}

impl Constraint {
    /// Excludes tokens that cannot follow, by setting their scores to negative infinity.
    pub(crate) fn mask_scores(&mut self, scores: &mut [f32]) {
        let Ok(allowed) = self.matcher.compute_mask_or_eos() else { return };
        let is_allowed = |allowed: &SimpleVob, token: usize| u32::try_from(token).is_ok_and(|t| allowed.is_allowed(t));
        for (token, score) in scores.iter_mut().enumerate() {
            if !is_allowed(&allowed, token) {
                *score = f32::NEG_INFINITY;
            }
        }
    }

    /// Accepts a token; returns whether the answer is complete.
    pub(crate) fn accept_token(&mut self, token: u32) -> bool {
        self.matcher.consume_token(token).is_err() || self.matcher.is_stopped()
    }
}
