//! A GGUF model in memory: takes a conversation and generates an answer on the calling thread.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom_core::chat::{Message, MessagePart, ToolDeclaration};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llguidance::Matcher;

use super::error::GenerationError;
use super::grammar::{CALL_END, CALL_START, Grammars};
use super::sampler::build_sampler;
use super::template::ChatTemplate;
use super::text::AnswerText;
use super::vocabulary::Vocabulary;
use super::{AnswerJob, GeneratedText, threads};

/// Number of prompt tokens computed together: large enough for the matrix kernels, small enough to stop soon.
const PROMPT_BATCH_TOKENS: usize = 512;

/// A loaded model.
pub(crate) struct LanguageModel {
    backend: LlamaBackend,
    model: LlamaModel,
    vocabulary: Vocabulary,
    template: ChatTemplate,
    /// Built for the first answer that needs them; most runs never do.
    grammars: OnceLock<Option<Grammars>>,
}

impl LanguageModel {
    /// Loads a file. The message of an error continues "cannot load the model file".
    pub(crate) fn load_model(file: &Path) -> Result<LanguageModel, String> {
        let backend = LlamaBackend::init().map_err(|error| error.to_string())?;
        let model = LlamaModel::load_from_file(&backend, file, &LlamaModelParams::default())
            .map_err(|error| error.to_string())?;
        let vocabulary = Vocabulary::new(&model);
        let source = model.meta_val_str("tokenizer.chat_template").ok();
        let template = ChatTemplate::new(source.as_deref(), &vocabulary.bos, &vocabulary.eos)
            .map_err(|error| format!("cannot parse its chat template: {error}"))?;
        Ok(LanguageModel { backend, model, vocabulary, template, grammars: OnceLock::new() })
    }

    /// Maximum number of tokens of prompt and answer together.
    pub(crate) fn window_tokens(&self) -> usize {
        self.model.n_ctx_train() as usize
    }

    /// The prompt of a conversation, in tokens. Fails if it contains images or exceeds the context window.
    pub(crate) fn encode_prompt(
        &self,
        messages: &[Message],
        tools: &[ToolDeclaration],
    ) -> Result<Vec<LlamaToken>, GenerationError> {
        if messages.iter().any(|message| !message.parts.iter().all(|part| matches!(part, MessagePart::Text { .. }))) {
            return Err(GenerationError::ImagesUnsupported);
        }
        let escape = |message: &Message| Message {
            content: self.vocabulary.escape_special_tokens(&message.content),
            ..message.clone()
        };
        let messages: Vec<Message> = messages.iter().map(escape).collect();
        let prompt = self
            .template
            .render_prompt(&messages, tools)
            .map_err(|error| GenerationError::ChatTemplate(format!("{error:#}")))?;
        let tokens = self.vocabulary.encode_text(&self.model, &prompt);
        if tokens.len() >= self.window_tokens() {
            return Err(GenerationError::PromptTooLong {
                prompt_tokens: tokens.len(),
                window_tokens: self.window_tokens(),
            });
        }
        Ok(tokens)
    }

    /// Generates an answer. Checks `stop` before every token, and passes text to `show` as it arrives.
    pub(crate) fn generate_text(
        &self,
        job: &AnswerJob,
        stop: &AtomicBool,
        show: &mut dyn FnMut(&str),
    ) -> Result<GeneratedText, GenerationError> {
        let mut prompt = self.encode_prompt(&job.messages, &job.tools)?;
        let must_call = job.options.must_call && !job.tools.is_empty();
        let mut answer = AnswerText::new(&job.options.stop);
        let mut matcher = job.schema.as_ref().and_then(|schema| self.get_grammars()?.for_schema(schema));
        if must_call {
            // Prefill the start of a call and constrain the rest to the grammar of a call.
            prompt.extend(self.model.vocab().tokenize(CALL_START.as_bytes(), false, true));
            answer.push_bytes(CALL_START.as_bytes(), show);
            matcher = self.call_matcher(job);
        }
        let input_tokens = prompt.len();
        let room = job.max_tokens.min(self.window_tokens().saturating_sub(input_tokens));
        let mut in_call = must_call;
        let mut sampler = self.build_job_sampler(job, matcher);
        let mut session = AnswerContext::open(self, input_tokens + room)?;
        session.read_prompt(&prompt, stop)?;
        let (mut stopped, mut output_tokens) = (false, 0);
        while output_tokens < room {
            if stop.load(Ordering::Relaxed) {
                return Err(GenerationError::Cancelled);
            }
            let token = sampler.sample(&session.context, -1);
            if self.model.vocab().is_eog(token) {
                if in_call {
                    stopped = answer.push_bytes(CALL_END.as_bytes(), show);
                }
                break;
            }
            output_tokens += 1;
            stopped = answer.push_bytes(&self.model.vocab().token_to_piece(token, false, None), show);
            if stopped || output_tokens == room {
                break;
            }
            if !in_call && !job.tools.is_empty() && answer.ends_with(CALL_START) {
                in_call = true;
                sampler = self.build_job_sampler(job, self.call_matcher(job));
            }
            session.read_token(token)?;
        }
        let is_cut = output_tokens == room && !stopped;
        Ok(GeneratedText { text: answer.finish_text(stopped, show), input_tokens, output_tokens, is_cut })
    }

    fn build_job_sampler(&self, job: &AnswerJob, matcher: Option<Matcher>) -> LlamaSampler {
        build_sampler(&job.options, job.seed, self.model.n_vocab(), matcher)
    }

    fn call_matcher(&self, job: &AnswerJob) -> Option<Matcher> {
        self.get_grammars()?.for_call(&job.tools)
    }

    fn get_grammars(&self) -> Option<&Grammars> {
        self.grammars.get_or_init(|| Grammars::new(&self.model)).as_ref()
    }
}

/// The attention cache of one answer.
struct AnswerContext<'model> {
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    /// Number of tokens read so far.
    position: i32,
}

impl<'model> AnswerContext<'model> {
    fn open(model: &'model LanguageModel, tokens: usize) -> Result<AnswerContext<'model>, GenerationError> {
        let size = u32::try_from(tokens.max(1)).ok().and_then(NonZeroU32::new);
        let params = LlamaContextParams::default()
            .with_n_ctx(size)
            .with_n_batch(PROMPT_BATCH_TOKENS as u32)
            .with_n_threads(threads::count_for_answer())
            .with_n_threads_batch(threads::count_for_prompt());
        let context = model.model.new_context(&model.backend, params).map_err(compute_error)?;
        Ok(AnswerContext { context, batch: LlamaBatch::new(PROMPT_BATCH_TOKENS, 1), position: 0 })
    }

    /// Reads the prompt, after which the scores of the first token of the answer are known.
    fn read_prompt(&mut self, prompt: &[LlamaToken], stop: &AtomicBool) -> Result<(), GenerationError> {
        let last = prompt.len().saturating_sub(1);
        for (number, part) in prompt.chunks(PROMPT_BATCH_TOKENS).enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err(GenerationError::Cancelled);
            }
            self.batch.clear();
            for (index, token) in part.iter().enumerate() {
                self.push_token(*token, number * PROMPT_BATCH_TOKENS + index == last)?;
            }
            self.context.decode(&mut self.batch).map_err(compute_error)?;
        }
        Ok(())
    }

    fn read_token(&mut self, token: LlamaToken) -> Result<(), GenerationError> {
        self.batch.clear();
        self.push_token(token, true)?;
        self.context.decode(&mut self.batch).map_err(compute_error)
    }

    fn push_token(&mut self, token: LlamaToken, with_scores: bool) -> Result<(), GenerationError> {
        self.batch.add(token, self.position, &[0], with_scores).map_err(compute_error)?;
        self.position += 1;
        Ok(())
    }
}

fn compute_error(error: impl std::fmt::Display) -> GenerationError {
    GenerationError::Compute(error.to_string())
}
