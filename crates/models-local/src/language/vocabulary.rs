//! Text to tokens and tokens to bytes, built from the metadata of a GGUF file.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::{Content, Value};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, PreTokenizerWrapper, Tokenizer};

use super::error::LoadError;

/// `tokenizer.ggml.token_type` of control tokens, such as `<|im_start|>`.
const CONTROL_TOKEN_TYPE: u32 = 3;
/// `tokenizer.ggml.token_type` of tokens added after training.
const USER_DEFINED_TOKEN_TYPE: u32 = 4;

/// Patterns with which Llama 3 and Qwen 2 split text into words; they differ in how many digits stay together.
const WORDS_LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const WORDS_QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A model's tokens.
pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    bytes: Vec<Option<Vec<u8>>>,
    control: Vec<String>,
    /// Tokens that end an answer.
    pub(crate) ends: Vec<u32>,
    /// Text of the token that begins a prompt.
    pub(crate) bos: String,
    /// Text of the token that ends an answer.
    pub(crate) eos: String,
}

impl Vocabulary {
    /// Reads the vocabulary of a file.
    pub(crate) fn new(file: &Content) -> Result<Vocabulary, LoadError> {
        let tokenizer = get_text(file, "tokenizer.ggml.model").unwrap_or_default();
        if tokenizer != "gpt2" {
            return Err(LoadError::UnsupportedTokenizer { tokenizer });
        }
        let tokens = get_texts(file, "tokenizer.ggml.tokens")?;
        let merges = get_texts(file, "tokenizer.ggml.merges")?
            .iter()
            .map(|merge| merge.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())))
            .collect::<Option<Vec<_>>>()
            .ok_or(LoadError::InvalidMerges)?;
        let vocabulary: Vocab = tokens.iter().cloned().zip(0..).collect();
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).build().map_err(LoadError::Tokenizer)?;
        let mut tokenizer = Tokenizer::new(bpe);
        tokenizer.with_pre_tokenizer(Some(word_splitter(&get_text(file, "tokenizer.ggml.pre").unwrap_or_default())?));
        let control = control_tokens(file, &tokens);
        tokenizer
            .add_special_tokens(control.iter().map(|token| AddedToken::from(token.clone(), true)))
            .map_err(LoadError::SpecialTokens)?;
        let named = |key: &str| {
            let id = get_number(file, key)?;
            Some((id, tokens.get(id as usize)?.clone()))
        };
        let bos = named("tokenizer.ggml.bos_token_id").map_or_else(String::new, |(_, token)| token);
        let eos = named("tokenizer.ggml.eos_token_id");
        let mut ends: Vec<u32> = eos.iter().map(|(id, _)| *id).collect();
        // Chats end with these, also in files whose `eos` is only the end of a document.
        for end in ["<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>"] {
            ends.extend(control.contains(&end.to_owned()).then(|| tokenizer.token_to_id(end)).flatten());
        }
        let bytes = build_byte_table(&tokens, &control);
        Ok(Vocabulary { tokenizer, bytes, control, ends, bos, eos: eos.map_or_else(String::new, |(_, token)| token) })
    }

    /// The tokens of a prompt; special tokens in it become single tokens.
    pub(crate) fn encode_text(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let encoding = self.tokenizer.encode_fast(text, false)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The bytes of a token; empty for special tokens.
    pub(crate) fn token_bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// The bytes of every token, for grammars; special tokens are marked as not being text.
    pub(crate) fn all_token_bytes(&self) -> Vec<Vec<u8>> {
        let marked = |id: usize| {
            let name = self.tokenizer.id_to_token(u32::try_from(id).unwrap_or(u32::MAX)).unwrap_or_default();
            [&[0xff], name.as_bytes()].concat()
        };
        self.bytes.iter().enumerate().map(|(id, bytes)| bytes.clone().unwrap_or_else(|| marked(id))).collect()
    }

    /// Breaks every special token in `text` with a space, so that data cannot start a message of another role.
    pub(crate) fn escape_special_tokens(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for token in self.control.iter().filter(|token| token.starts_with('<')) {
            if text.contains(token.as_str()) {
                text = text.replace(token.as_str(), &format!("< {}", &token[1..]));
            }
        }
        text
    }
}

fn word_splitter(kind: &str) -> Result<PreTokenizerWrapper, LoadError> {
    let split = |pattern: &str| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map(PreTokenizerWrapper::from)
            .map_err(LoadError::WordPattern)
    };
    Ok(match kind {
        "smollm" => to_sequence([Digits::new(true).into(), ByteLevel::new(false, true, true).into()]),
        "llama-bpe" | "llama3" | "smaug-bpe" => {
            to_sequence([split(WORDS_LLAMA3)?, ByteLevel::new(false, true, false).into()])
        }
        "qwen2" => to_sequence([split(WORDS_QWEN2)?, ByteLevel::new(false, true, false).into()]),
        _ => ByteLevel::new(false, true, true).into(),
    })
}

fn to_sequence(parts: [PreTokenizerWrapper; 2]) -> PreTokenizerWrapper {
    Sequence::new(parts.to_vec()).into()
}

fn control_tokens(file: &Content, tokens: &[String]) -> Vec<String> {
    let Some(Value::Array(kinds)) = file.metadata.get("tokenizer.ggml.token_type") else { return Vec::new() };
    kinds
        .iter()
        .zip(tokens)
        .filter(|(kind, _)| matches!(to_integer(kind), Some(CONTROL_TOKEN_TYPE | USER_DEFINED_TOKEN_TYPE)))
        .map(|(_, token)| token.clone())
        .collect()
}

/// Reverses GPT-2's byte alphabet, which writes every byte as a printable character.
fn build_byte_table(tokens: &[String], control: &[String]) -> Vec<Option<Vec<u8>>> {
    let mut alphabet: HashMap<char, u8> = HashMap::with_capacity(256);
    let mut next = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let code = if printable {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        alphabet.extend(char::from_u32(code).map(|character| (character, byte)));
    }
    let control: std::collections::HashSet<&str> = control.iter().map(String::as_str).collect();
    tokens
        .iter()
        .map(|token| {
            let whole = || token.chars().map(|character| alphabet.get(&character).copied()).collect();
            if control.contains(token.as_str()) { None } else { whole() }
        })
        .collect()
}

/// A text value of the metadata.
pub(super) fn get_text(file: &Content, key: &str) -> Option<String> {
    file.metadata.get(key).and_then(|value| value.to_string().ok()).cloned()
}

/// An integer of the metadata, of any width.
pub(super) fn get_number(file: &Content, key: &str) -> Option<u32> {
    file.metadata.get(key).and_then(to_integer)
}

fn to_integer(value: &Value) -> Option<u32> {
    match value {
        Value::U8(number) => Some(u32::from(*number)),
        Value::U16(number) => Some(u32::from(*number)),
        Value::U32(number) => Some(*number),
        Value::I32(number) => u32::try_from(*number).ok(),
        Value::U64(number) => u32::try_from(*number).ok(),
        Value::I64(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}

fn get_texts(file: &Content, key: &'static str) -> Result<Vec<String>, LoadError> {
    let list =
        file.metadata.get(key).and_then(|value| value.to_vec().ok()).ok_or(LoadError::MetadataMissing { key })?;
    list.iter()
        .map(|value| value.to_string().cloned())
        .collect::<Result<_, _>>()
        .map_err(|_| LoadError::MetadataNotTexts { key })
}
