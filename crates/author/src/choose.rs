//! Chooses one of the blocks that a search found.

use flowloom_core::block::{Card, Fit, Thresholds, fit};
use flowloom_core::value::Value;

use crate::wanted::Wanted;
use crate::world::Candidate;

/// The best candidate that matches the required block, as its index and its score. A block requested by its id is
/// chosen whatever its score; a trigger never is.
pub fn choose(wanted: &Wanted, candidates: &[Candidate], thresholds: &Thresholds) -> Option<(usize, f32)> {
    if wanted.is_only_named() {
        let called = |found: &Candidate| id(&found.block) == Some(wanted.suggested_id.as_str());
        if let Some(place) = candidates.iter().position(called) {
            return Some((place, 1.0));
        }
    }
    let card = Card::of(&wanted.in_full());
    let mut best: Option<(usize, f32)> = None;
    for (place, candidate) in candidates.iter().enumerate() {
        let Some(likeness) = likeness(&card, candidate, thresholds) else { continue };
        if best.is_none_or(|(_, least)| likeness > least) {
            best = Some((place, likeness));
        }
    }
    best
}

/// The score of a candidate; `None` if it does not match.
fn likeness(wanted: &Card, candidate: &Candidate, thresholds: &Thresholds) -> Option<f32> {
    let block = &candidate.block;
    if id(block).is_none() || block.get("category").and_then(Value::as_str) == Some("trigger") {
        return None;
    }
    match fit(wanted, &Card::of(block), candidate.similarity, thresholds) {
        Fit::Fits(likeness) => Some(likeness),
        _ => None,
    }
}

fn id(block: &Value) -> Option<&str> {
    block.get("id").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    const USUAL: Thresholds = Thresholds { likeness: 0.5, words: 0.5 };

    fn wanted() -> Wanted {
        let execution_type = "python".to_owned();
        Wanted { suggested_id: "count words".into(), execution_type, ..Wanted::default() }
    }

    fn found(kind: &str, similarity: f32) -> Candidate {
        let block = parse_value(&format!(r#"{{"id":"b","execution_type":"{kind}"}}"#)).expect("JSON");
        Candidate { block, similarity: Some(similarity) }
    }

    #[test]
    fn the_likest_that_fits_is_taken() {
        let list = [found("llm", 0.9), found("python", 0.5), found("python", 0.7), found("function", 0.7)];
        assert_eq!(choose(&wanted(), &list, &USUAL), Some((2, 0.7)));
        assert_eq!(choose(&wanted(), &list, &Thresholds { likeness: 0.8, ..USUAL }), None);
        assert_eq!(choose(&wanted(), &[found("python", f32::NAN)], &USUAL), None);
        assert_eq!(choose(&wanted(), &[], &USUAL), None);
    }

    #[test]
    fn without_embeddings_words_decide() {
        let words = |text: &str| Candidate { block: parse_value(text).expect("JSON"), similarity: None };
        assert!(choose(&wanted(), &[words(r#"{"id":"count_words"}"#)], &USUAL).is_some());
        assert_eq!(choose(&wanted(), &[words(r#"{"id":"send_mail"}"#)], &USUAL), None);
    }

    #[test]
    fn nothing_starts_a_pipeline_in_the_middle_and_nothing_is_nameless() {
        let odd = |text: &str| Candidate { block: parse_value(text).expect("JSON"), similarity: Some(1.0) };
        assert_eq!(choose(&wanted(), &[odd(r#"{"id":"t","category":"trigger"}"#), odd("{}")], &USUAL), None);
    }

    #[test]
    fn a_block_called_by_its_id_needs_no_likeness() {
        let called = |id: &str| Wanted::named(id.to_owned());
        let list = [found("llm", 0.1)];
        assert_eq!(choose(&called("b"), &list, &USUAL).map(|(place, _)| place), Some(0));
        assert_eq!(choose(&called("c"), &list, &USUAL), None);
    }
}
