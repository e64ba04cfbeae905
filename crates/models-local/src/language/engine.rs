//! A GGUF model in memory: takes a prompt and generates tokens on the calling thread. Independent of async code and of
//! providers.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::quantized::gguf_file::Content;
use flowloom_core::Value;
use flowloom_core::chat::{Message, MessagePart, Messages, ToolDeclaration};

use super::error::{GenerationError, LoadError};
use super::grammar::{self, Grammars};
use super::llama::{self, AttentionCache, Llama};
use super::sampler::Sampler;
use super::template::ChatTemplate;
use super::text::AnswerText;
use super::vocabulary::{Vocabulary, get_text};

/// Number of prompt tokens computed at once: large enough for the matrix kernels, small enough to stop soon and to
/// bound the attention scores of a long prompt.
const PROMPT_CHUNK_TOKENS: usize = 256;

/// A loaded model.
pub(crate) struct LanguageModel {
    weights: Llama,
    vocabulary: Vocabulary,
    template: ChatTemplate,
    /// Built for the first answer that needs them; most runs never do.
    grammars: OnceLock<Option<Grammars>>,
}

/// Generation parameters of one answer.
pub(crate) struct GenerationParams {
    /// Maximum length of the answer, in tokens.
    pub(crate) max_tokens: usize,
    /// Stop sequences.
    pub(crate) stops: Vec<String>,
    /// Chooses among the likely tokens.
    pub(crate) sampler: Sampler,
    /// JSON Schema that the answer must match.
    pub(crate) schema: Option<Value>,
    /// Tools that the answer may call.
    pub(crate) tools: Vec<ToolDeclaration>,
    /// Whether the answer must be a tool call.
    pub(crate) must_call: bool,
}

/// A finished answer.
#[derive(Debug)]
pub(crate) struct GeneratedText {
    /// The text.
    pub(crate) text: String,
    /// Number of prompt tokens.
    pub(crate) input_tokens: usize,
    /// Number of answer tokens.
    pub(crate) output_tokens: usize,
}

impl LanguageModel {
    /// Reads a GGUF file.
    pub(crate) fn load_model(path: &Path) -> Result<LanguageModel, LoadError> {
        let file = File::open(path).map_err(LoadError::Open)?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let content = Content::read(&mut reader).map_err(LoadError::NotGguf)?;
        let architecture = get_text(&content, "general.architecture").unwrap_or_default();
        if architecture != "llama" {
            return Err(LoadError::UnsupportedArchitecture { architecture });
        }
        let vocabulary = Vocabulary::new(&content)?;
        let source = get_text(&content, "tokenizer.chat_template");
        let template =
            ChatTemplate::new(source.as_deref(), &vocabulary.bos, &vocabulary.eos).map_err(LoadError::ChatTemplate)?;
        let weights = Llama::new(&content, &mut reader).map_err(LoadError::Weights)?;
        Ok(LanguageModel { weights, vocabulary, template, grammars: OnceLock::new() })
    }

    /// Context window of a file, without loading it.
    pub(crate) fn read_window(path: &Path) -> Option<u64> {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).ok()?);
        Some(llama::read_window(&Content::read(&mut reader).ok()?) as u64)
    }

    /// Context window: maximum number of tokens of prompt and answer together.
    pub(crate) fn window(&self) -> usize {
        self.weights.window()
    }

    /// The prompt of a conversation, in tokens. Fails if it contains images or exceeds the context window.
    pub(crate) fn encode_prompt(
        &self,
        messages: &Messages,
        tools: &[ToolDeclaration],
    ) -> Result<Vec<u32>, GenerationError> {
        if messages.iter().any(|message| !message.parts.iter().all(|part| matches!(part, MessagePart::Text { .. }))) {
            return Err(GenerationError::ImagesUnsupported);
        }
        let messages: Vec<Message> = messages
            .iter()
            .map(|message| Message {
                content: self.vocabulary.escape_special_tokens(&message.content),
                ..message.clone()
            })
            .collect();
        let prompt = self.template.render_prompt(&messages, tools).map_err(GenerationError::ChatTemplate)?;
        let tokens = self.vocabulary.encode_text(&prompt).map_err(GenerationError::Tokenizer)?;
        if tokens.len() >= self.window() {
            return Err(GenerationError::PromptTooLong { prompt_tokens: tokens.len(), window_tokens: self.window() });
        }
        Ok(tokens)
    }

    /// Generates an answer to a prompt. Checks `stop` before every token.
    pub(crate) fn generate_text(
        &self,
        prompt: &[u32],
        params: GenerationParams,
        stop: &AtomicBool,
        show: &mut (dyn FnMut(&str) + Send),
    ) -> Result<GeneratedText, GenerationError> {
        // Runs on one of rayon's threads; otherwise each of the many products would enter the pool and wake a thread by
        // itself.
        rayon::scope(|_| self.generate_here(prompt, params, stop, show))
    }

    fn generate_here(
        &self,
        prompt: &[u32],
        mut params: GenerationParams,
        stop: &AtomicBool,
        show: &mut dyn FnMut(&str),
    ) -> Result<GeneratedText, GenerationError> {
        let mut prompt = Cow::Borrowed(prompt);
        let mut answer = AnswerText::new(&params.stops);
        let mut held = params.schema.as_ref().and_then(|schema| self.get_grammars()?.for_schema(schema));
        if params.must_call {
            // Prefill the start of a call and constrain the rest to the grammar of a call.
            prompt
                .to_mut()
                .extend(self.vocabulary.encode_text(grammar::CALL_START).map_err(GenerationError::Tokenizer)?);
            answer.push_bytes(grammar::CALL_START.as_bytes(), show);
            held = self.get_grammars().and_then(|grammars| grammars.for_call(&params.tools));
        }
        let room = params.max_tokens.min(self.window().saturating_sub(prompt.len()));
        let mut session = self.weights.new_cache(prompt.len() + room);
        let mut scores = self.read_prompt(&mut session, &prompt, stop)?;
        let mut stopped = false;
        let mut count = 0;
        while count < room {
            if let Some(held) = &mut held {
                held.mask_scores(&mut scores);
            }
            let token = params.sampler.next_token(&mut scores);
            if self.vocabulary.ends.contains(&token) {
                break;
            }
            count += 1;
            if stop.load(Ordering::Relaxed) {
                return Err(GenerationError::Cancelled);
            }
            stopped = answer.push_bytes(self.vocabulary.token_bytes(token), show);
            let is_complete = held.as_mut().is_some_and(|held| held.accept_token(token));
            if is_complete && !params.tools.is_empty() {
                stopped = answer.push_bytes(grammar::CALL_END.as_bytes(), show);
            }
            if stopped || is_complete || count == room {
                break;
            }
            if held.is_none() && !params.tools.is_empty() && answer.ends_with(grammar::CALL_START) {
                held = self.get_grammars().and_then(|grammars| grammars.for_call(&params.tools));
            }
            scores = self.weights.forward_pass(&mut session, &[token])?;
        }
        let text = answer.finish_text(stopped, show);
        Ok(GeneratedText { text, input_tokens: prompt.len(), output_tokens: count })
    }

    fn get_grammars(&self) -> Option<&Grammars> {
        let make = || Grammars::new(&self.vocabulary.all_token_bytes(), *self.vocabulary.ends.first()?);
        self.grammars.get_or_init(make).as_ref()
    }

    /// Processes the prompt and returns the scores of the next token.
    fn read_prompt(
        &self,
        session: &mut AttentionCache,
        prompt: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<f32>, GenerationError> {
        let mut scores = Vec::new();
        for chunk in prompt.chunks(PROMPT_CHUNK_TOKENS) {
            if stop.load(Ordering::Relaxed) {
                return Err(GenerationError::Cancelled);
            }
            scores = self.weights.forward_pass(session, chunk)?;
        }
        Ok(scores)
    }
}

#[cfg(test)]
impl LanguageModel {
    pub(crate) fn call_grammar(&self, tools: &[ToolDeclaration]) -> Option<grammar::Constraint> {
        self.get_grammars()?.for_call(tools)
    }

    pub(crate) fn vocabulary_size(&self) -> usize {
        self.vocabulary.all_token_bytes().len()
    }

    pub(crate) fn token_bytes(&self, token: u32) -> &[u8] {
        self.vocabulary.token_bytes(token)
    }
}
