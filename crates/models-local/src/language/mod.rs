//! The local language model: from a request to an answer. `engine` computes tokens.

mod engine;
pub(crate) mod error;
mod grammar;
mod llama;
mod matrix;
mod sampler;
mod template;
mod text;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::chat::{ToolCall, Usage};
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::json;
use flowloom_models::LOCAL_MAX_ANSWER_TOKENS;
use flowloom_runtime::effects::EffectContext;
use flowloom_runtime::fair::FairSemaphore;

use engine::{GeneratedText, GenerationParams, LanguageModel};
use error::GenerationError;
use sampler::Sampler;

use crate::error::LocalModelError;
use crate::stop::StopOnDrop;

/// Default of `top_p` for requests with a temperature.
const DEFAULT_TOP_P: f64 = 0.95;

/// A file's place.
pub(crate) struct EngineSlot {
    /// One permit, which is held for a whole answer: two at once would only share the cores.
    turns: FairSemaphore,
    /// Loaded on first use.
    model: Mutex<Option<LanguageModel>>,
}

impl Default for EngineSlot {
    fn default() -> EngineSlot {
        EngineSlot { turns: FairSemaphore::new("local_model", 1, 1), model: Mutex::default() }
    }
}

/// The window that a model file states, in tokens; `None` if the file cannot be read.
pub(crate) fn read_window(file: &Path) -> Option<u64> {
    LanguageModel::read_window(file)
}

/// Loads the file if the slot is empty, and generates an answer on a blocking thread.
pub(crate) async fn generate(
    slot: Arc<EngineSlot>,
    file: PathBuf,
    request: &GenerateRequest,
    context: &EffectContext,
) -> Result<GenerateReply, LocalModelError> {
    // Waiting here, not on a thread, lets a dropped call leave the queue.
    let turn = slot.turns.acquire_permit(&context.user).await;
    let stop = StopOnDrop(Arc::default());
    let flag = stop.0.clone();
    let (request, context) = (request.clone(), context.clone());
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut model = slot.model.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = match &mut *model {
            Some(engine) => engine,
            empty => empty.insert(
                LanguageModel::load_model(&file)
                    .map_err(|source| LocalModelError::NotLoaded { file, source: Box::new(source) })?,
            ),
        };
        Ok(generate_answer(engine, &request, &context, &flag)?)
    });
    work.await.map_err(LocalModelError::Crashed)?
}

fn generate_answer(
    engine: &LanguageModel,
    request: &GenerateRequest,
    context: &EffectContext,
    stop: &AtomicBool,
) -> Result<GenerateReply, GenerationError> {
    let options = &request.options;
    // Without a seed, each attempt of each step has its own random numbers, and the same ones after a crash.
    let seed = options.seed.unwrap_or_else(|| hash_text(&context.idempotency_key()));
    let params = GenerationParams {
        max_tokens: options.max_tokens.map_or(LOCAL_MAX_ANSWER_TOKENS as usize, |most| most as usize),
        stops: options.stop.clone(),
        sampler: Sampler::new(options.temperature.unwrap_or(0.0), options.top_p.unwrap_or(DEFAULT_TOP_P), seed),
        schema: request.schema.clone().filter(|_| request.tools.is_empty()),
        tools: request.tools.clone(),
        must_call: options.must_call && !request.tools.is_empty(),
    };
    let mut show = |text: &str| {
        if !stop.load(Ordering::Relaxed) {
            context.deltas.push(&context.path, context.attempt, text);
        }
    };
    let prompt = engine.encode_prompt(&request.messages, &request.tools)?;
    let generated = engine.generate_text(&prompt, params, stop, &mut show)?;
    Ok(to_generated(generated, !request.tools.is_empty()))
}

fn to_generated(generated: GeneratedText, tools: bool) -> GenerateReply {
    let usage = Usage {
        input_tokens: generated.input_tokens as u64,
        output_tokens: generated.output_tokens as u64,
        micro_usd: Some(0),
    };
    let tool_calls = if tools { parse_tool_calls(&generated.text) } else { Vec::new() };
    let text = match tool_calls.is_empty() {
        true => generated.text,
        false => generated.text.split("<tool_call>").next().unwrap_or_default().trim().to_owned(),
    };
    GenerateReply { text: (!text.is_empty()).then_some(text), tool_calls, usage }
}

/// Tool calls that a model wrote as `<tool_call>{…}</tool_call>`. Unreadable ones stay text.
fn parse_tool_calls(text: &str) -> Vec<ToolCall> {
    let written = text.split("<tool_call>").skip(1).map(|part| part.split("</tool_call>").next().unwrap_or_default());
    written
        .filter_map(|part| {
            let call = json::read_lenient(part)?;
            let name = call.get("name")?.as_str()?.to_owned();
            Some((name, call.get("arguments").cloned().unwrap_or_default()))
        })
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall { id: format!("call_{index}"), name, arguments })
        .collect()
}

/// The 64-bit FNV-1a hash.
fn hash_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Speed of one call, for `examples/speed.rs`.
#[derive(Clone, Copy, Debug)]
pub struct SpeedReport {
    /// Time to load the model, in milliseconds.
    pub load_ms: f64,
    /// Number of prompt tokens.
    pub prompt_tokens: usize,
    /// Prompt tokens per second.
    pub prompt_rate: f64,
    /// Number of answer tokens.
    pub answer_tokens: usize,
    /// Answer tokens per second.
    pub answer_rate: f64,
}

/// Loads `file`, processes a prompt of about `words` words and generates up to `max_tokens` tokens.
pub fn measure_speed(file: &Path, words: usize, max_tokens: usize) -> Result<SpeedReport, LocalModelError> {
    let start = std::time::Instant::now();
    let engine = LanguageModel::load_model(file)
        .map_err(|source| LocalModelError::NotLoaded { file: file.to_owned(), source: Box::new(source) })?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let text = "The weaver sets up the loom before the first thread runs. ".repeat(words.div_ceil(11));
    let question = format!("{text}\nTell a long story about the weaver.");
    let messages = vec![flowloom_core::chat::Message::new(flowloom_core::chat::Role::User, question)].into();
    let prompt = engine.encode_prompt(&messages, &[])?;
    let stop = AtomicBool::new(false);
    let sampler = Sampler::new(0.0, 1.0, 0);
    let params =
        GenerationParams { max_tokens, stops: Vec::new(), sampler, schema: None, tools: Vec::new(), must_call: false };
    let start = std::time::Instant::now();
    let mut first = None;
    let mut show = |_: &str| {
        first.get_or_insert_with(|| start.elapsed().as_secs_f64());
    };
    let generated = engine.generate_text(&prompt, params, &stop, &mut show)?;
    let whole = start.elapsed().as_secs_f64();
    let reading = first.unwrap_or(whole);
    let answering = (whole - reading).max(1e-9);
    Ok(SpeedReport {
        load_ms,
        prompt_tokens: prompt.len(),
        prompt_rate: prompt.len() as f64 / reading,
        answer_tokens: generated.output_tokens,
        answer_rate: generated.output_tokens.saturating_sub(1) as f64 / answering,
    })
}

#[cfg(test)]
mod tests;
