//! Text to tokens and tokens to bytes, as llama.cpp reads them from a model file.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;

/// Tables of the tokenizer that llama.cpp does not provide.
pub(crate) struct Vocabulary {
    /// Texts of the tokens that have a meaning of their own, such as `<|im_start|>`.
    special: Vec<String>,
    /// Text of the token that begins a prompt.
    pub(crate) bos: String,
    /// Text of the token that ends an answer.
    pub(crate) eos: String,
}

impl Vocabulary {
    /// Reads the vocabulary of a model.
    pub(crate) fn new(model: &LlamaModel) -> Vocabulary {
        let vocabulary = model.vocab();
        let is_special = |token: LlamaToken| {
            vocabulary.attr(token).intersects(LlamaTokenAttr::Control | LlamaTokenAttr::UserDefined)
        };
        let text = |token: LlamaToken| match token.0 {
            ..0 => String::new(),
            _ => String::from_utf8_lossy(&vocabulary.token_to_piece(token, true, None)).into_owned(),
        };
        let special = vocabulary.tokens().filter(|token| is_special(*token)).map(text);
        Vocabulary {
            special: special.filter(|text| text.starts_with('<')).collect(),
            bos: text(vocabulary.bos()),
            eos: text(vocabulary.eos()),
        }
    }

    /// Breaks every special token in `text` with a space, so that data cannot start a message of another role.
    pub(crate) fn escape_special_tokens(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains('<') {
            for token in &self.special {
                if text.contains(token.as_str()) {
                    text = text.replace(token.as_str(), &format!("< {}", &token[1..]));
                }
            }
        }
        text
    }

    /// The tokens of a rendered conversation; special tokens in it become single tokens.
    pub(crate) fn encode_text(&self, model: &LlamaModel, text: &str) -> Vec<LlamaToken> {
        let vocabulary = model.vocab();
        let adds_bos = vocabulary.should_add_bos() && !text.starts_with(&self.bos);
        vocabulary.tokenize(text.as_bytes(), adds_bos, true)
    }
}
