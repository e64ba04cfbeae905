//! all-MiniLM-L6-v2 with eight-bit weights, on rten: one text in, one embedding out.

use std::path::Path;

use rten::{Model, NodeId, ValueOrView};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};
use rten_text::Tokenizer;

use super::error::EmbeddingError;

/// Maximum number of tokens of a text; the model was trained for no more.
const WINDOW_TOKENS: usize = 256;

/// The loaded model.
pub(super) struct MiniLm {
    tokenizer: Tokenizer,
    model: Model,
    inputs: Inputs,
    output: NodeId,
}

/// The inputs of the model, all with one number for each token.
struct Inputs {
    tokens: NodeId,
    /// 1 for each token that counts.
    mask: NodeId,
    /// Which of two texts a token belongs to: always the first one. Some exports of the model leave this input out.
    text: Option<NodeId>,
}

impl MiniLm {
    /// Reads the tokenizer and the weights.
    pub(super) fn load_files(tokenizer: &Path, weights: &Path) -> Result<MiniLm, EmbeddingError> {
        let tokenizer = Tokenizer::from_file(tokenizer).map_err(EmbeddingError::LoadTokenizer)?;
        let model = Model::load_file(weights).map_err(EmbeddingError::Weights)?;
        let inputs = Inputs {
            tokens: model.node_id("input_ids")?,
            mask: model.node_id("attention_mask")?,
            text: model.find_node("token_type_ids"),
        };
        let output = model.output_ids().first().copied().ok_or(EmbeddingError::NoOutput)?;
        Ok(MiniLm { tokenizer, model, inputs, output })
    }

    /// The embedding of a text: the mean over its tokens. Text beyond the maximum number of tokens is ignored.
    pub(super) fn embed_text(&self, text: &str) -> Result<Vec<f32>, EmbeddingError> {
        let mut tokens = self.tokenizer.encode(text, None).map_err(EmbeddingError::Tokenizer)?.into_token_ids();
        if let (true, Some(end)) = (tokens.len() > WINDOW_TOKENS, tokens.last().copied()) {
            tokens.truncate(WINDOW_TOKENS - 1);
            tokens.push(end);
        }
        let row = |values: Vec<i32>| NdTensor::from_data([1, values.len()], values);
        let count = tokens.len();
        let ids = row(tokens.iter().map(|token| *token as i32).collect());
        let (ones, zeros) = (row(vec![1; count]), row(vec![0; count]));
        let mut inputs: Vec<(NodeId, ValueOrView)> =
            vec![(self.inputs.tokens, ids.view().into()), (self.inputs.mask, ones.view().into())];
        inputs.extend(self.inputs.text.map(|input| (input, zeros.view().into())));
        let [hidden] = self.model.run_n(inputs, [self.output], None)?;
        let hidden: NdTensor<f32, 3> = hidden.try_into().map_err(|_| EmbeddingError::NoOutput)?;
        Ok(mean_of_rows(hidden.slice(0)))
    }
}

fn mean_of_rows(rows: NdTensorView<'_, f32, 2>) -> Vec<f32> {
    let [count, width] = rows.shape();
    let mut mean = vec![0.0; width];
    for row in 0..count {
        for (sum, value) in mean.iter_mut().zip(rows.slice(row).iter()) {
            *sum += value / count as f32;
        }
    }
    mean
}
