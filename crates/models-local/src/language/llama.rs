//! The forward pass of Llama models, from tokens to scores. Text, tokenization and sampling are in neighbouring
//! modules.
//!
//! Replaces `candle-transformers`, which copies the whole attention cache for every token: at 500 tokens it generates
//! 38 tokens/s instead of 59, at 1,800 tokens 19.

use std::io::{Read, Seek};
use std::sync::Arc;

use candle_core::quantized::QTensor;
use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::matrix::{Matrix, dot_floats};
use super::vocabulary::get_number;

/// Maximum context length that positions are computed for.
const MAX_POSITIONS: usize = 8192;

struct LlamaLayer {
    attention_norm: Vec<f32>,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    output: Matrix,
    mlp_norm: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

/// The weights of a model.
pub(crate) struct Llama {
    embeddings: Arc<Matrix>,
    layers: Vec<LlamaLayer>,
    norm: Vec<f32>,
    head: Arc<Matrix>,
    turns: Vec<f32>,
    width: usize,
    heads: usize,
    key_heads: usize,
    epsilon: f32,
    window: usize,
}

/// The attention cache: keys and values of every layer, by head, with room for `capacity` tokens each.
pub(crate) struct AttentionCache {
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    capacity: usize,
    length: usize,
}

impl Llama {
    /// Reads the weights that follow the header `file`.
    pub(crate) fn new<R: Read + Seek>(file: &Content, reader: &mut R) -> Result<Llama> {
        let need = |key: &str| match get_number(file, key) {
            Some(number) => Ok(number as usize),
            None => candle_core::bail!("its metadata has no `{key}`"),
        };
        let heads = need("llama.attention.head_count")?;
        let width = need("llama.embedding_length")?;
        let key_heads = get_number(file, "llama.attention.head_count_kv").map_or(heads, |heads| heads as usize);
        if heads == 0 || key_heads == 0 || !width.is_multiple_of(2 * heads) || !heads.is_multiple_of(key_heads) {
            candle_core::bail!("a width of {width}, {heads} attention heads and {key_heads} key heads do not match");
        }
        let turned = get_number(file, "llama.rope.dimension_count").map_or(width / heads, |count| count as usize);
        if turned != width / heads {
            candle_core::bail!("rotary embeddings for a part of each head are not supported");
        }
        let mut take = |name: &str| file.tensor(reader, name, &Device::Cpu);
        let embeddings = Arc::new(Matrix::new(&take("token_embd.weight")?)?);
        let head = match take("output.weight") {
            Ok(weights) => Arc::new(Matrix::new(&weights)?),
            // Input and output embeddings are shared.
            Err(_) => embeddings.clone(),
        };
        let norm = read_floats(&take("output_norm.weight")?, width)?;
        let layers = (0..need("llama.block_count")?)
            .map(|index| read_layer(index, width, key_heads * turned, &mut take))
            .collect::<Result<_>>()?;
        let window = read_window(file);
        let float = |key: &str| file.metadata.get(key).and_then(|value| value.to_f32().ok());
        let turns = rotation_table(turned, float("llama.rope.freq_base").unwrap_or(10_000.0), window);
        let epsilon = float("llama.attention.layer_norm_rms_epsilon").unwrap_or(1e-5);
        Ok(Llama { embeddings, layers, norm, head, turns, width, heads, key_heads, epsilon, window })
    }

    /// Context window: maximum number of tokens of prompt and answer together.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// An empty attention cache for `capacity` tokens.
    pub(crate) fn new_cache(&self, capacity: usize) -> AttentionCache {
        let size = self.key_heads * capacity * self.head_size();
        let empty = || self.layers.iter().map(|_| vec![0.0; size]).collect();
        AttentionCache { keys: empty(), values: empty(), capacity, length: 0 }
    }

    /// Processes `tokens` and returns the scores of the next token.
    pub(crate) fn forward_pass(&self, session: &mut AttentionCache, tokens: &[u32]) -> Result<Vec<f32>> {
        let count = tokens.len();
        if count == 0 || session.length + count > session.capacity {
            candle_core::bail!("{count} tokens after {} exceed the capacity of {}", session.length, session.capacity);
        }
        let mut hidden = vec![0.0; count * self.width];
        for (token, row) in tokens.iter().zip(hidden.chunks_mut(self.width)) {
            if !self.embeddings.unpack_row(*token as usize, row) {
                candle_core::bail!("there is no token {token}");
            }
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = rms_norm(&hidden, &layer.attention_norm, self.epsilon);
            add_to(&mut hidden, &self.compute_attention(layer, index, session, &normed, count)?);
            let normed = rms_norm(&hidden, &layer.mlp_norm, self.epsilon);
            let mut gated = layer.gate.apply(&normed, count)?;
            apply_swiglu(&mut gated, &layer.up.apply(&normed, count)?);
            add_to(&mut hidden, &layer.down.apply(&gated, count)?);
        }
        session.length += count;
        let last = rms_norm(&hidden[(count - 1) * self.width..], &self.norm, self.epsilon);
        self.head.apply(&last, 1)
    }

    fn head_size(&self) -> usize {
        self.width / self.heads
    }

    fn compute_attention(
        &self,
        layer: &LlamaLayer,
        index: usize,
        session: &mut AttentionCache,
        input: &[f32],
        count: usize,
    ) -> Result<Vec<f32>> {
        let (size, start) = (self.head_size(), session.length);
        let mut query = layer.query.apply(input, count)?;
        let mut key = layer.key.apply(input, count)?;
        let value = layer.value.apply(input, count)?;
        self.rotate_pairs(&mut query, self.heads, start);
        self.rotate_pairs(&mut key, self.key_heads, start);
        let (keys, values) = (&mut session.keys[index], &mut session.values[index]);
        for (fresh, cache) in [(&key, &mut *keys), (&value, &mut *values)] {
            for (at, part) in fresh.chunks(size).enumerate() {
                let (row, head) = (at / self.key_heads, at % self.key_heads);
                let place = (head * session.capacity + start + row) * size;
                cache[place..place + size].copy_from_slice(part);
            }
        }
        let seen = start + count;
        let shared = self.heads / self.key_heads;
        let stride = session.capacity * size;
        let of = |head: usize| head * stride..head * stride + seen * size;
        let mixed = if count == 1 {
            let mut mixed = vec![0.0; self.width];
            let heads: Vec<_> = mixed.chunks_mut(size).zip(query.chunks(size)).enumerate().collect();
            let share = self.heads.div_ceil(rayon::current_num_threads());
            heads.into_par_iter().with_min_len(share).for_each(|(head, (mixed, query))| {
                let place = of(head / shared);
                attend_one(query, &keys[place.clone()], &values[place], mixed);
            });
            mixed
        } else {
            let gather = |cache: &[f32]| {
                let heads: Vec<f32> = (0..self.key_heads).flat_map(|head| &cache[of(head)]).copied().collect();
                Tensor::from_vec(heads, (self.key_heads, seen, size), &Device::Cpu)
            };
            self.attend_many(&query, &gather(keys)?, &gather(values)?, start, count)?
        };
        layer.output.apply(&mixed, count)
    }

    /// Attention of several rows at once, as matrix products.
    fn attend_many(
        &self,
        query: &[f32],
        keys: &Tensor,
        values: &Tensor,
        start: usize,
        count: usize,
    ) -> Result<Vec<f32>> {
        let (size, seen, shared) = (self.head_size(), start + count, self.heads / self.key_heads);
        let query =
            Tensor::from_slice(query, (count, self.heads, size), &Device::Cpu)?.transpose(0, 1)?.contiguous()?;
        // Query heads that share a key head are grouped in its rows, so that no key is copied.
        let query = query.reshape((self.key_heads, shared * count, size))?;
        let mut scores = query.matmul(&keys.t()?)?.flatten_all()?.to_vec1::<f32>()?;
        let scale = 1.0 / (size as f32).sqrt();
        scores.par_chunks_mut(seen).enumerate().for_each(|(row, scores)| {
            // Causal mask: a token does not attend to later ones.
            let (visible, hidden) = scores.split_at_mut(start + row % count + 1);
            apply_softmax(visible, scale);
            hidden.fill(0.0);
        });
        let scores = Tensor::from_vec(scores, (self.key_heads, shared * count, seen), &Device::Cpu)?;
        let mixed = scores.matmul(values)?.reshape((self.heads, count, size))?;
        mixed.transpose(0, 1)?.contiguous()?.flatten_all()?.to_vec1()
    }

    /// Rotary embedding: rotates neighbouring pairs of numbers by an angle that depends on the position.
    fn rotate_pairs(&self, rows: &mut [f32], heads: usize, start: usize) {
        let size = self.head_size();
        for (index, part) in rows.chunks_mut(size).enumerate() {
            let turns = &self.turns[(start + index / heads) * size..][..size];
            for (pair, turn) in part.as_chunks_mut::<2>().0.iter_mut().zip(turns.as_chunks::<2>().0) {
                let ([x, y], [cos, sin]) = (*pair, *turn);
                *pair = [x * cos - y * sin, x * sin + y * cos];
            }
        }
    }
}

/// Context window of a model: maximum number of tokens of prompt and answer together.
pub(super) fn read_window(file: &Content) -> usize {
    get_number(file, "llama.context_length").map_or(2048, |length| length as usize).min(MAX_POSITIONS)
}

/// Reads one layer. Checks here that its matrices fit each other, because later code relies on it.
fn read_layer(
    index: usize,
    width: usize,
    key_width: usize,
    take: &mut impl FnMut(&str) -> Result<QTensor>,
) -> Result<LlamaLayer> {
    let mut part = |name: &str| take(&format!("blk.{index}.{name}.weight"));
    let gate = Matrix::new(&part("ffn_gate")?)?;
    let inner = gate.row_count();
    let mut matrix = |name: &str, rows: usize, columns: usize| {
        let source = part(name)?;
        match source.shape().dims2()? {
            found if found == (rows, columns) => Matrix::new(&source),
            found => candle_core::bail!("`{name}` of layer {index} has the shape {found:?}, not {:?}", (rows, columns)),
        }
    };
    let (query, key) = (matrix("attn_q", width, width)?, matrix("attn_k", key_width, width)?);
    let (value, output) = (matrix("attn_v", key_width, width)?, matrix("attn_output", width, width)?);
    let (up, down) = (matrix("ffn_up", inner, width)?, matrix("ffn_down", width, inner)?);
    let attention_norm = read_floats(&part("attn_norm")?, width)?;
    let mlp_norm = read_floats(&part("ffn_norm")?, width)?;
    Ok(LlamaLayer { attention_norm, query, key, value, output, mlp_norm, gate, up, down })
}

fn read_floats(source: &QTensor, count: usize) -> Result<Vec<f32>> {
    let floats = source.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
    if floats.len() != count {
        candle_core::bail!("a list has {} numbers, expected {count}", floats.len());
    }
    Ok(floats)
}

/// Cosine and sine of every position and pair, interleaved.
fn rotation_table(size: usize, base: f32, count: usize) -> Vec<f32> {
    let turns: Vec<f32> = (0..size).step_by(2).map(|index| base.powf(-(index as f32) / size as f32)).collect();
    let angles = (0..count).flat_map(|position| turns.iter().map(move |turn| position as f32 * turn));
    angles.flat_map(|angle| [angle.cos(), angle.sin()]).collect()
}

fn rms_norm(rows: &[f32], weights: &[f32], epsilon: f32) -> Vec<f32> {
    let mut output = vec![0.0; rows.len()];
    for (row, output) in rows.chunks(weights.len()).zip(output.chunks_mut(weights.len())) {
        let scale = 1.0 / (dot_floats(row, row) / row.len() as f32 + epsilon).sqrt();
        for ((output, value), weight) in output.iter_mut().zip(row).zip(weights) {
            *output = value * scale * weight;
        }
    }
    output
}

fn add_to(sum: &mut [f32], more: &[f32]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// SwiGLU: `gated` becomes `silu(gated) * up`.
fn apply_swiglu(gated: &mut [f32], up: &[f32]) {
    gated.par_chunks_mut(1 << 14).zip(up.par_chunks(1 << 14)).for_each(|(gated, up)| {
        gated.iter_mut().zip(up).for_each(|(value, up)| *value = *value / (1.0 + (-*value).exp()) * up);
    });
}

fn apply_softmax(scores: &mut [f32], scale: f32) {
    let largest = scores.iter().fold(f32::NEG_INFINITY, |largest, score| largest.max(*score));
    let mut total = 0.0;
    for score in scores.iter_mut() {
        *score = ((*score - largest) * scale).exp();
        total += *score;
    }
    scores.iter_mut().for_each(|score| *score /= total);
}

/// Attention of one head of one token.
fn attend_one(query: &[f32], keys: &[f32], values: &[f32], mixed: &mut [f32]) {
    let size = query.len();
    let mut scores: Vec<f32> = keys.chunks_exact(size).map(|key| dot_floats(query, key)).collect();
    apply_softmax(&mut scores, 1.0 / (size as f32).sqrt());
    for (value, score) in values.chunks_exact(size).zip(scores) {
        mixed.iter_mut().zip(value).for_each(|(mixed, value)| *mixed += score * value);
    }
}
