//! Estimates how many tokens a text has, where no tokenizer is available.

/// Approximate number of tokens of a text: four ASCII characters count as one token, any other character as one. It is
/// the same for every model and on every machine, because a restarted run must split a long text at the same places.
pub(crate) fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().count() - ascii;
    (ascii.div_ceil(4) + others) as u64
}
