//! How many tokens a text has, where no tokenizer says so.

/// Tokens of a text, near enough, and the same for every model and on every machine, since how a long text is cut into
/// parts must come out the same after a restart: four ASCII characters a token, one for any other character.
pub(crate) fn estimate(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().count() - ascii;
    (ascii.div_ceil(4) + others) as u64
}
