//! Chooses one of the blocks that a search found.

use flowloom_core::block::{BlockCard, Fit, Thresholds, compare_block};
use flowloom_core::value::Value;

use crate::model::Candidate;
use crate::required::RequiredBlock;

/// The best candidate that matches the required block, as its index and its score. A block requested by its id is
/// chosen whatever its score; a trigger never is.
pub fn choose_candidate(
    wanted: &RequiredBlock,
    candidates: &[Candidate],
    thresholds: &Thresholds,
) -> Option<(usize, f32)> {
    if wanted.is_only_named() {
        let called = |found: &Candidate| block_id(&found.block) == Some(wanted.suggested_id.as_str());
        if let Some(place) = candidates.iter().position(called) {
            return Some((place, 1.0));
        }
    }
    let card = BlockCard::from_definition(&wanted.to_definition());
    let mut best: Option<(usize, f32)> = None;
    for (place, candidate) in candidates.iter().enumerate() {
        let Some(similarity) = similarity_score(&card, candidate, thresholds) else { continue };
        if best.is_none_or(|(_, least)| similarity > least) {
            best = Some((place, similarity));
        }
    }
    best
}

/// The score of a candidate; `None` if it does not match.
fn similarity_score(wanted: &BlockCard, candidate: &Candidate, thresholds: &Thresholds) -> Option<f32> {
    let block = &candidate.block;
    if block_id(block).is_none() || block.get("category").and_then(Value::as_str) == Some("trigger") {
        return None;
    }
    match compare_block(wanted, &BlockCard::from_definition(block), candidate.similarity, thresholds) {
        Fit::Fits(similarity) => Some(similarity),
        _ => None,
    }
}

fn block_id(block: &Value) -> Option<&str> {
    block.get("id").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    const TEST_THRESHOLDS: Thresholds = Thresholds { similarity_threshold: 0.5, words: 0.5 };

    fn required_block() -> RequiredBlock {
        let execution_type = "python".to_owned();
        RequiredBlock { suggested_id: "count words".into(), execution_type, ..RequiredBlock::default() }
    }

    fn make_candidate(kind: &str, similarity: f32) -> Candidate {
        let block = parse_value(&format!(r#"{{"id":"b","execution_type":"{kind}"}}"#)).expect("JSON");
        Candidate { block, similarity: Some(similarity) }
    }

    #[test]
    fn the_likest_that_fits_is_taken() {
        let list = [
            make_candidate("llm", 0.9),
            make_candidate("python", 0.5),
            make_candidate("python", 0.7),
            make_candidate("function", 0.7),
        ];
        assert_eq!(choose_candidate(&required_block(), &list, &TEST_THRESHOLDS), Some((2, 0.7)));
        assert_eq!(
            choose_candidate(&required_block(), &list, &Thresholds { similarity_threshold: 0.8, ..TEST_THRESHOLDS }),
            None
        );
        assert_eq!(choose_candidate(&required_block(), &[make_candidate("python", f32::NAN)], &TEST_THRESHOLDS), None);
        assert_eq!(choose_candidate(&required_block(), &[], &TEST_THRESHOLDS), None);
    }

    #[test]
    fn without_embeddings_words_decide() {
        let words = |text: &str| Candidate { block: parse_value(text).expect("JSON"), similarity: None };
        assert!(choose_candidate(&required_block(), &[words(r#"{"id":"count_words"}"#)], &TEST_THRESHOLDS).is_some());
        assert_eq!(choose_candidate(&required_block(), &[words(r#"{"id":"send_mail"}"#)], &TEST_THRESHOLDS), None);
    }

    #[test]
    fn nothing_starts_a_pipeline_in_the_middle_and_nothing_is_nameless() {
        let odd = |text: &str| Candidate { block: parse_value(text).expect("JSON"), similarity: Some(1.0) };
        assert_eq!(
            choose_candidate(
                &required_block(),
                &[odd(r#"{"id":"t","category":"trigger"}"#), odd("{}")],
                &TEST_THRESHOLDS
            ),
            None
        );
    }

    #[test]
    fn a_block_called_by_its_id_needs_no_similarity() {
        let called = |id: &str| RequiredBlock::from_id(id.to_owned());
        let list = [make_candidate("llm", 0.1)];
        assert_eq!(choose_candidate(&called("b"), &list, &TEST_THRESHOLDS).map(|(place, _)| place), Some(0));
        assert_eq!(choose_candidate(&called("c"), &list, &TEST_THRESHOLDS), None);
    }
}
