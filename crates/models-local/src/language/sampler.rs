//! How the next token is chosen. The same options, seed and scores yield the same token.

use flowloom_core::chat::GenerateOptions;
use llama_cpp_2::sampling::LlamaSampler;
use llguidance::Matcher;

/// Default of `top_p` for requests with a temperature.
const DEFAULT_TOP_P: f64 = 0.95;
/// Number of recent answer tokens that the repetition penalty applies to.
const REPEAT_WINDOW_TOKENS: i32 = 64;
/// Mild: enough to get a small model out of a loop, too little to forbid a word that has to be repeated.
const REPEAT_PENALTY: f32 = 1.1;

/// Sampler of an answer, which is held to a grammar if there is one. A temperature of 0 always selects the most likely
/// token.
pub(crate) fn build_sampler(
    options: &GenerateOptions,
    seed: u32,
    token_count: i32,
    grammar: Option<Matcher>,
) -> LlamaSampler {
    let as_penalty = |penalty: Option<f64>| penalty.filter(|penalty| penalty.is_finite()).unwrap_or(0.0) as f32;
    let (frequency, presence) = (as_penalty(options.frequency_penalty), as_penalty(options.presence_penalty));
    let mut chain: Vec<LlamaSampler> = grammar.map(LlamaSampler::from).into_iter().collect();
    chain.push(LlamaSampler::penalties(token_count, REPEAT_WINDOW_TOKENS, REPEAT_PENALTY, frequency, presence));
    match options.temperature.filter(|temperature| *temperature > 0.0) {
        None => chain.push(LlamaSampler::greedy()),
        Some(temperature) => {
            let top_k = options.top_k.filter(|count| *count >= 1.0).map(|count| LlamaSampler::top_k(count as i32));
            chain.extend(top_k);
            chain.push(LlamaSampler::top_p(options.top_p.unwrap_or(DEFAULT_TOP_P) as f32, 1));
            chain.push(LlamaSampler::temp(temperature as f32));
            chain.push(LlamaSampler::dist(seed));
        }
    }
    LlamaSampler::chain_simple(chain)
}
