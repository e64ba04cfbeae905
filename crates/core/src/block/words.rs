//! The significant words of a text.

/// Maximum number of distinct words taken from a text.
const MAX_WORDS: usize = 64;

/// Stop words: they say nothing about what a block does, and full-text search would scan every block for them.
const STOP_WORDS: [&str; 58] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "each", "for", "from",
    "given", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "not", "of", "on", "one",
    "or", "our", "out", "so", "some", "such", "that", "the", "their", "them", "then", "there", "these", "this", "to",
    "use", "using", "want", "was", "we", "when", "which", "with", "you",
];

/// The significant words of a text, without duplicates.
pub fn significant_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if STOP_WORDS.binary_search(&word.as_str()).is_err() && !words.contains(&word) {
            words.push(word);
        }
        if words.len() == MAX_WORDS {
            break;
        }
    }
    words
}

/// The share (0–1) of the words `of` that are in `among`. Endings are ignored: `summarize` matches `summary`.
pub(super) fn matching_share(of: &[String], among: &[String]) -> f32 {
    let there = of.iter().filter(|word| among.iter().any(|other| is_same(word, other))).count();
    there as f32 / of.len().max(1) as f32
}

fn is_same(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    a == b || common >= 4 && a.len().max(b.len()) - common <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_words_without_the_empty_ones() {
        assert!(STOP_WORDS.is_sorted());
        let found = significant_words("Fetch the URL, then fetch \"it\" OR near(a b)* — Straße'); drop");
        assert_eq!(found, ["fetch", "url", "near", "b", "straße", "drop"]);
        assert_eq!(significant_words(&"x1 x2 ".repeat(500)).len(), 2);
        assert_eq!(significant_words(&(0..500).map(|n| format!("x{n} ")).collect::<String>()).len(), MAX_WORDS);
    }

    #[test]
    fn words_are_the_same_however_they_end() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(matching_share(&list("summarize pages"), &list("summary page text")), 1.0);
        assert_eq!(matching_share(&list("sum"), &list("summary")), 0.0);
        assert_eq!(matching_share(&list("send mail"), &list("mail")), 0.5);
        assert_eq!(matching_share(&[], &list("mail")), 0.0);
    }
}
