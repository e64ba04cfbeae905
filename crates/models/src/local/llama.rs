//! The forward pass of models of the Llama kind on quantised weights. Numbers in, numbers out: tokens, text and sampling
//! are its neighbours'.
//!
//! Our own instead of `candle-transformers`' because that one copies the whole attention cache for every token (twice
//! as slow at 500 tokens, four times at 2,000) and multiplies long prompts row by row.

use std::io::{Read, Seek};

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope_i;

use super::vocabulary::number;

/// From this many rows on, weights are unpacked once and multiplied as floats, which pays for itself.
const FLOAT_ROWS: usize = 24;
/// Longest context that positions are prepared for.
const MOST_POSITIONS: usize = 8192;

/// A quantised weight matrix.
struct Linear {
    packed: QMatMul,
    source: std::sync::Arc<QTensor>,
}

impl Linear {
    fn new(weights: QTensor) -> Result<Linear> {
        let source = std::sync::Arc::new(fast(weights)?);
        Ok(Linear { packed: QMatMul::from_arc(source.clone())?, source })
    }

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        if input.dim(0)? < FLOAT_ROWS {
            return self.packed.forward(input);
        }
        input.matmul(&self.source.dequantize(&Device::Cpu)?.t()?)
    }
}

/// The same weights in a packing that candle has vector code for. Eight bits hold what four held, so nothing is lost but
/// a rounding error far below the one the file was made with.
fn fast(weights: QTensor) -> Result<QTensor> {
    match weights.dtype() {
        GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 => {
            QTensor::quantize(&weights.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)
        }
        _ => Ok(weights),
    }
}

struct Layer {
    attention_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    mlp_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// The weights of a model.
pub(crate) struct Llama {
    embeddings: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: QMatMul,
    cos: Tensor,
    sin: Tensor,
    heads: usize,
    key_heads: usize,
    epsilon: f32,
    window: usize,
}

/// What a model has read so far: keys and values of every layer, in place.
pub(crate) struct Session {
    cache: Vec<(Tensor, Tensor)>,
    length: usize,
}

impl Llama {
    /// Reads the weights behind the header `file`.
    pub(crate) fn new<R: Read + Seek>(file: &Content, reader: &mut R) -> Result<Llama> {
        let cpu = Device::Cpu;
        let need = |key: &str| match number(file, key) {
            Some(number) => Ok(number as usize),
            None => candle_core::bail!("it has no `{key}`"),
        };
        let heads = need("llama.attention.head_count")?;
        let width = need("llama.embedding_length")?;
        if heads == 0 || !width.is_multiple_of(heads) {
            candle_core::bail!("{width} numbers cannot be shared by {heads} attention heads");
        }
        let key_heads = number(file, "llama.attention.head_count_kv").map_or(heads, |heads| heads as usize);
        if key_heads == 0 || !heads.is_multiple_of(key_heads) {
            candle_core::bail!("{heads} attention heads cannot share {key_heads} keys");
        }
        let float = |key: &str| file.metadata.get(key).and_then(|value| value.to_f32().ok());
        let mut take = |name: &str| file.tensor(reader, name, &cpu);
        let embedding = take("token_embd.weight")?;
        let embeddings = embedding.dequantize(&cpu)?;
        let norm = take("output_norm.weight")?.dequantize(&cpu)?;
        let head = match take("output.weight") {
            Ok(weights) => weights,
            Err(_) => embedding,
        };
        let mut layers = Vec::new();
        for index in 0..need("llama.block_count")? {
            let mut part = |name: &str| take(&format!("blk.{index}.{name}.weight"));
            layers.push(Layer {
                attention_norm: part("attn_norm")?.dequantize(&cpu)?,
                query: Linear::new(part("attn_q")?)?,
                key: Linear::new(part("attn_k")?)?,
                value: Linear::new(part("attn_v")?)?,
                output: Linear::new(part("attn_output")?)?,
                mlp_norm: part("ffn_norm")?.dequantize(&cpu)?,
                gate: Linear::new(part("ffn_gate")?)?,
                up: Linear::new(part("ffn_up")?)?,
                down: Linear::new(part("ffn_down")?)?,
            });
        }
        let window = number(file, "llama.context_length").map_or(2048, |length| length as usize).min(MOST_POSITIONS);
        let turned = number(file, "llama.rope.dimension_count").map_or(width / heads, |count| count as usize);
        if turned != width / heads {
            candle_core::bail!("positions for only a part of each head are not supported");
        }
        let base = float("llama.rope.freq_base").unwrap_or(10_000.0);
        let (cos, sin) = positions(turned, base, window)?;
        let epsilon = float("llama.attention.layer_norm_rms_epsilon").unwrap_or(1e-5);
        let head = QMatMul::from_qtensor(fast(head)?)?;
        Ok(Llama { embeddings, layers, norm, head, cos, sin, heads, key_heads, epsilon, window })
    }

    /// Tokens that prompt and answer may have together.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// Room for `capacity` tokens.
    pub(crate) fn session(&self, capacity: usize) -> Result<Session> {
        let width = self.embeddings.dim(1)? / self.heads;
        let empty = || Tensor::zeros((self.key_heads, capacity, width), DType::F32, &Device::Cpu);
        let cache = self.layers.iter().map(|_| Ok((empty()?, empty()?))).collect::<Result<_>>()?;
        Ok(Session { cache, length: 0 })
    }

    /// Reads `tokens` and gives the scores of the token after them.
    pub(crate) fn forward(&self, session: &mut Session, tokens: &[u32]) -> Result<Vec<f32>> {
        let start = session.length;
        let mask = causal_mask(start, tokens.len())?;
        let tokens = Tensor::new(tokens, &Device::Cpu)?;
        let mut hidden = self.embeddings.index_select(&tokens, 0)?;
        for (layer, (keys, values)) in self.layers.iter().zip(&session.cache) {
            let normed = rms_norm(&hidden, &layer.attention_norm, self.epsilon)?;
            hidden = (self.attend(layer, &normed, (keys, values), start, mask.as_ref())? + hidden)?;
            let normed = rms_norm(&hidden, &layer.mlp_norm, self.epsilon)?;
            let gated = (silu(&layer.gate.forward(&normed)?)? * layer.up.forward(&normed)?)?;
            hidden = (layer.down.forward(&gated)? + hidden)?;
        }
        let count = tokens.dim(0)?;
        session.length += count;
        let last = rms_norm(&hidden.narrow(0, count - 1, 1)?.contiguous()?, &self.norm, self.epsilon)?;
        self.head.forward(&last)?.squeeze(0)?.to_vec1()
    }

    fn attend(
        &self,
        layer: &Layer,
        input: &Tensor,
        (keys, values): (&Tensor, &Tensor),
        start: usize,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (count, width) = input.dims2()?;
        let size = width / self.heads;
        let split = |all: Tensor, heads: usize| all.reshape((1, count, heads, size))?.transpose(1, 2)?.contiguous();
        let (cos, sin) = (self.cos.narrow(0, start, count)?, self.sin.narrow(0, start, count)?);
        let query = rope_i(&split(layer.query.forward(input)?, self.heads)?, &cos, &sin)?;
        let key = rope_i(&split(layer.key.forward(input)?, self.key_heads)?, &cos, &sin)?;
        let value = split(layer.value.forward(input)?, self.key_heads)?;
        keys.slice_set(&key.squeeze(0)?, 1, start)?;
        values.slice_set(&value.squeeze(0)?, 1, start)?;
        // Heads that share a key stand in its rows, so that no key is copied for them.
        let shared = self.heads / self.key_heads;
        let query = (query.reshape((self.key_heads, shared * count, size))? / (size as f64).sqrt())?;
        let (seen, length) = (start + count, (self.heads, count, start + count));
        let mut scores = query.matmul(&keys.narrow(1, 0, seen)?.t()?)?;
        if let Some(mask) = mask {
            scores = scores.reshape(length)?.broadcast_add(mask)?.reshape((self.key_heads, shared * count, seen))?;
        }
        let mixed = softmax_last_dim(&scores)?.matmul(&values.narrow(1, 0, seen)?)?;
        let joined = mixed.reshape((self.heads, count, size))?.transpose(0, 1)?.reshape((count, width))?;
        layer.output.forward(&joined)
    }
}

/// Keeps a token from looking at the ones after it; one token alone has none after it.
fn causal_mask(start: usize, count: usize) -> Result<Option<Tensor>> {
    if count == 1 {
        return Ok(None);
    }
    let seen = start + count;
    let hidden = |at: usize| if at % seen > start + at / seen { f32::NEG_INFINITY } else { 0.0 };
    let mask: Vec<f32> = (0..count * seen).map(hidden).collect();
    Tensor::from_vec(mask, (1, count, seen), &Device::Cpu).map(Some)
}

fn positions(size: usize, base: f32, count: usize) -> Result<(Tensor, Tensor)> {
    let turns: Vec<f32> = (0..size).step_by(2).map(|index| base.powf(-(index as f32) / size as f32)).collect();
    let turns = Tensor::from_vec(turns, (1, size / 2), &Device::Cpu)?;
    let places = Tensor::arange(0, count as u32, &Device::Cpu)?.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
    let angles = places.matmul(&turns)?;
    Ok((angles.cos()?, angles.sin()?))
}
