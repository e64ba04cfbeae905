//! The forward pass of all-MiniLM-L6-v2: a small BERT with mean pooling over its tokens. Written on candle's tensors
//! like the local language model; candle-transformers would bring a hundred architectures for this one.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{D, Device, Result, Tensor, safetensors};
use tokenizers::{Tokenizer, TruncationParams};

use super::error::EmbeddingError;

/// Maximum number of tokens of a text; the model was trained for no more.
const WINDOW_TOKENS: usize = 256;
const HEAD_COUNT: usize = 12;
const NORM_EPSILON: f64 = 1e-12;

/// The loaded model.
pub(super) struct MiniLm {
    tokenizer: Tokenizer,
    words: Tensor,
    places: Tensor,
    norm: Affine,
    layers: Vec<BertLayer>,
}

/// Weights and a bias.
struct Affine {
    weights: Tensor,
    bias: Tensor,
}

struct BertLayer {
    query: Affine,
    key: Affine,
    value: Affine,
    mixed: Affine,
    attention_norm: Affine,
    wide: Affine,
    narrow: Affine,
    norm: Affine,
}

impl MiniLm {
    /// Reads the tokenizer and the weights.
    pub(super) fn load_files(tokenizer: &Path, weights: &Path) -> std::result::Result<MiniLm, EmbeddingError> {
        let mut tokens = Tokenizer::from_file(tokenizer).map_err(EmbeddingError::LoadTokenizer)?;
        let truncation = TruncationParams { max_length: WINDOW_TOKENS, ..TruncationParams::default() };
        tokens.with_truncation(Some(truncation)).map_err(EmbeddingError::Tokenizer)?;
        tokens.with_padding(None);
        MiniLm::read_weights(tokens, weights).map_err(EmbeddingError::Weights)
    }

    fn read_weights(tokenizer: Tokenizer, weights: &Path) -> Result<MiniLm> {
        let file = TensorFile(safetensors::load(weights, &Device::Cpu)?);
        // All text is of one type, so the type embedding is the same at every position.
        let kind = file.get_tensor("embeddings.token_type_embeddings.weight")?.get(0)?;
        let places = file.get_tensor("embeddings.position_embeddings.weight")?.narrow(0, 0, WINDOW_TOKENS)?;
        let count =
            (0..).take_while(|index| file.0.contains_key(&format!("{}.output.dense.bias", layer_name(*index)))).count();
        Ok(MiniLm {
            tokenizer,
            words: file.get_tensor("embeddings.word_embeddings.weight")?,
            places: places.broadcast_add(&kind)?,
            norm: file.read_affine("embeddings.LayerNorm")?,
            layers: (0..count).map(|index| file.read_layer(&layer_name(index))).collect::<Result<_>>()?,
        })
    }

    /// The embedding of a text. Text beyond the maximum number of tokens is ignored.
    pub(super) fn embed_text(&self, text: &str) -> std::result::Result<Vec<f32>, EmbeddingError> {
        let encoding = self.tokenizer.encode(text, true).map_err(EmbeddingError::Tokenizer)?;
        Ok(self.forward_pass(encoding.get_ids())?)
    }

    fn forward_pass(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?;
        let places = self.places.narrow(0, 0, tokens.dim(0)?)?;
        let hidden = self.norm.normalise(&self.words.index_select(&tokens, 0)?.add(&places)?)?;
        let hidden = self.layers.iter().try_fold(hidden, |hidden, layer| layer.apply(&hidden))?;
        hidden.mean(0)?.to_vec1()
    }
}

fn layer_name(layer: usize) -> String {
    format!("encoder.layer.{layer}")
}

/// The tensors of a file, by name.
struct TensorFile(HashMap<String, Tensor>);

impl TensorFile {
    fn get_tensor(&self, name: &str) -> Result<Tensor> {
        match self.0.get(name) {
            Some(tensor) => Ok(tensor.clone()),
            None => candle_core::bail!("there is no tensor {name}"),
        }
    }

    fn read_affine(&self, name: &str) -> Result<Affine> {
        Ok(Affine {
            weights: self.get_tensor(&format!("{name}.weight"))?,
            bias: self.get_tensor(&format!("{name}.bias"))?,
        })
    }

    fn read_layer(&self, name: &str) -> Result<BertLayer> {
        let part = |part: &str| self.read_affine(&format!("{name}.{part}"));
        Ok(BertLayer {
            query: part("attention.self.query")?,
            key: part("attention.self.key")?,
            value: part("attention.self.value")?,
            mixed: part("attention.output.dense")?,
            attention_norm: part("attention.output.LayerNorm")?,
            wide: part("intermediate.dense")?,
            narrow: part("output.dense")?,
            norm: part("output.LayerNorm")?,
        })
    }
}

impl Affine {
    fn apply(&self, rows: &Tensor) -> Result<Tensor> {
        rows.matmul(&self.weights.t()?)?.broadcast_add(&self.bias)
    }

    /// Layer normalisation: scales each row to mean zero and variance one, then applies weights and bias.
    fn normalise(&self, rows: &Tensor) -> Result<Tensor> {
        let rows = rows.broadcast_sub(&rows.mean_keepdim(D::Minus1)?)?;
        let variance = rows.sqr()?.mean_keepdim(D::Minus1)?;
        let rows = rows.broadcast_div(&(variance + NORM_EPSILON)?.sqrt()?)?;
        rows.broadcast_mul(&self.weights)?.broadcast_add(&self.bias)
    }
}

impl BertLayer {
    fn apply(&self, hidden: &Tensor) -> Result<Tensor> {
        let hidden = self.attention_norm.normalise(&hidden.add(&self.compute_attention(hidden)?)?)?;
        let wide = self.wide.apply(&hidden)?.gelu_erf()?;
        self.norm.normalise(&hidden.add(&self.narrow.apply(&wide)?)?)
    }

    fn compute_attention(&self, hidden: &Tensor) -> Result<Tensor> {
        let (count, width) = hidden.dims2()?;
        let size = width / HEAD_COUNT;
        let heads =
            |part: &Affine| part.apply(hidden)?.reshape((count, HEAD_COUNT, size))?.transpose(0, 1)?.contiguous();
        let (query, key, value) = (heads(&self.query)?, heads(&self.key)?, heads(&self.value)?);
        let scores = (query.matmul(&key.t()?)? / (size as f64).sqrt())?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let shares = scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?;
        let mixed = shares.matmul(&value)?.transpose(0, 1)?.contiguous()?.reshape((count, width))?;
        self.mixed.apply(&mixed)
    }
}
