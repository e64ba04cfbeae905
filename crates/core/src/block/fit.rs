//! Checks whether a block found by a search meets the request. Similarity is judged by thresholds; execution type,
//! inputs and outputs must match.

use super::words::{matching_share, significant_words};
use super::{BlockCard, schema_properties};
use crate::value::Value;

/// The minimum scores at which a block matches a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Minimum similarity (0–1), if both texts have an embedding of the same model.
    pub similarity_threshold: f32,
    /// Minimum share (0–1) of the requested words that the block also has, if an embedding is missing.
    pub words: f32,
}

impl Default for Thresholds {
    /// Measured with the local model (`make bench`, row `search`); other models need other values.
    fn default() -> Thresholds {
        Thresholds { similarity_threshold: 0.6, words: 0.6 }
    }
}

/// How a block compares with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// The block matches, with this score from 0 to 1.
    Fits(f32),
    /// The score, from 0 to 1, is too low.
    Unlike(f32),
    /// The block has another execution type than the requested one.
    OtherExecution,
    /// The block does the inverse: its outputs are the requested inputs.
    Backwards,
    /// The block requires this input, and the request has no input of its type.
    Needs(String),
    /// The block has no input for this one.
    TakesNo(String),
    /// The block has neither this output nor another one of its type.
    GivesNo(String),
}

impl Fit {
    /// Whether the block can be used.
    pub fn is_usable(&self) -> bool {
        matches!(self, Fit::Fits(_))
    }
}

/// Compares `block` with the request `wanted`. `similarity` is the cosine similarity of the embeddings of the two texts
/// ([`BlockCard::embedding_text`]); `None` if an embedding is missing.
pub fn compare_block(wanted: &BlockCard, block: &BlockCard, similarity: Option<f32>, thresholds: &Thresholds) -> Fit {
    if !runs_as(&wanted.execution_type, &block.execution_type) {
        return Fit::OtherExecution;
    }
    if is_backwards(wanted, block) {
        return Fit::Backwards;
    }
    if let Some(name) = find_unpaired(required_fields(&block.inputs), schema_properties(&wanted.inputs), &wanted.inputs)
    {
        return Fit::Needs(name.to_owned());
    }
    if let Some(name) = find_unpaired(required_fields(&wanted.inputs), schema_properties(&block.inputs), &block.inputs)
    {
        return Fit::TakesNo(name.to_owned());
    }
    // Every block has an output: a block that declares none has an unknown one.
    let says_outputs = schema_properties(&block.outputs).next().is_some();
    if says_outputs
        && let Some(name) =
            find_unpaired(schema_properties(&wanted.outputs), schema_properties(&block.outputs), &block.outputs)
    {
        return Fit::GivesNo(name.to_owned());
    }
    let shared = matching_share(&significant_words(&wanted.search_text()), &significant_words(&block.search_text()));
    let (similarity, least) = match similarity {
        Some(similarity) => (similarity, thresholds.similarity_threshold),
        None => (shared, thresholds.words),
    };
    if similarity >= least { Fit::Fits(similarity) } else { Fit::Unlike(similarity) }
}

/// Functions count as code, like Python. Prompts are a type of their own, because their cost and reliability differ.
fn runs_as(wanted: &str, block: &str) -> bool {
    let is_prompt = |kind: &str| kind == "llm";
    wanted.is_empty() || is_prompt(wanted) == is_prompt(block)
}

/// Whether more field names match crosswise than straight. Embeddings cannot distinguish a conversion from its inverse:
/// PDF to text is as close as can be to text to PDF. Optional inputs do not count, because nothing is converted from
/// them.
fn is_backwards(wanted: &BlockCard, block: &BlockCard) -> bool {
    let is_in = |name: &str, schema: &Value| schema_properties(schema).any(|(other, _)| other == name);
    let common = |a: &Value, b: &Value| schema_properties(a).filter(|(name, _)| is_in(name, b)).count();
    let made_of =
        |inputs: &Value, outputs: &Value| required_fields(inputs).filter(|(name, _)| is_in(name, outputs)).count();
    let straight = common(&wanted.inputs, &block.inputs) + common(&wanted.outputs, &block.outputs);
    made_of(&wanted.inputs, &block.outputs) + made_of(&block.inputs, &wanted.outputs) > straight
}

/// The required fields of a schema.
fn required_fields(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let names = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    schema_properties(schema)
        .filter(|(name, field)| names.iter().any(|one| one.as_str() == Some(name)) && field.get("default").is_none())
}

/// The first of `fields` without a partner of its type among `others`, if each field is paired with a different one.
/// Names may differ, because each side chose its own. If `other` declares no fields, it is assumed to have all of them.
fn find_unpaired<'a>(
    fields: impl Iterator<Item = (&'a str, &'a Value)>,
    others: impl Iterator<Item = (&'a str, &'a Value)>,
    other: &Value,
) -> Option<&'a str> {
    other.get("properties")?;
    let fields: Vec<_> = fields.collect();
    let others: Vec<_> = others.collect();
    let mut taken: Vec<Option<usize>> = vec![None; others.len()];
    let lonely = (0..fields.len())
        .find(|field| !find_partner(*field, &fields, &others, &mut taken, &mut vec![false; others.len()]));
    lonely.map(|field| fields[field].0)
}

/// Finds a partner for a field; reassigns other fields where that makes room.
fn find_partner(
    field: usize,
    fields: &[(&str, &Value)],
    others: &[(&str, &Value)],
    taken: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for other in 0..others.len() {
        if tried[other] || !is_of_kind(fields[field].1, others[other].1) {
            continue;
        }
        tried[other] = true;
        let is_free = match taken[other] {
            None => true,
            Some(user) => find_partner(user, fields, others, taken, tried),
        };
        if is_free {
            taken[other] = Some(field);
            return true;
        }
    }
    false
}

/// Whether some value satisfies both schemas, judged by their types and the types of their items.
fn is_of_kind(a: &Value, b: &Value) -> bool {
    let (of_a, of_b) = (declared_types(a), declared_types(b));
    if of_a.is_empty() || of_b.is_empty() {
        return true;
    }
    of_a.iter().any(|kind| {
        let both = of_b.contains(kind) || is_number(kind) && of_b.iter().any(|kind| is_number(kind));
        let items = |schema: &Value| schema.get("items").cloned().unwrap_or_default();
        both && (*kind != "array" || is_of_kind(&items(a), &items(b)))
    })
}

fn is_number(kind: &str) -> bool {
    matches!(kind, "number" | "integer")
}

/// The types that a schema declares, apart from null; empty if it declares none.
fn declared_types(schema: &Value) -> Vec<&str> {
    let named = schema.get("type");
    let all = match named.and_then(Value::as_list) {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None => named.and_then(Value::as_str).into_iter().collect::<Vec<_>>(),
    };
    all.into_iter().filter(|kind| *kind != "null").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_value;

    fn make_card(kind: &str, inputs: &str, outputs: &str) -> BlockCard {
        let schema = |fields: &str| {
            let all = parse_value(fields).unwrap();
            let names = all.as_map().unwrap().keys().filter(|name| !name.starts_with("may_"));
            let required = Value::list(names.map(|name| (&**name).into()).collect());
            Value::map([("type", "object".into()), ("properties", all.clone()), ("required", required)])
        };
        let text = "Sends a message to the team.".to_owned();
        BlockCard {
            description: text,
            execution_type: kind.into(),
            inputs: schema(inputs),
            outputs: schema(outputs),
            ..BlockCard::default()
        }
    }

    const TEXT_FIELD: &str = r#"{"text": {"type": "string"}}"#;
    const SENT_FIELD: &str = r#"{"sent": {"type": "boolean"}}"#;

    fn compare_cards(wanted: &BlockCard, block: &BlockCard) -> Fit {
        compare_block(wanted, block, Some(0.9), &Thresholds::default())
    }

    #[test]
    fn names_may_differ_and_kinds_may_not() {
        let block = make_card("python", r#"{"message": {"type": "string"}, "may_to": {"type": "string"}}"#, SENT_FIELD);
        let fits = |wanted: BlockCard| compare_cards(&wanted, &block);
        assert_eq!(fits(make_card("python", TEXT_FIELD, r#"{"ok": {"type": ["boolean", "null"]}}"#)), Fit::Fits(0.9));
        assert_eq!(fits(make_card("function", TEXT_FIELD, "{}")), Fit::Fits(0.9));
        assert_eq!(fits(BlockCard::default()), Fit::Fits(0.9));
        assert_eq!(fits(make_card("llm", TEXT_FIELD, SENT_FIELD)), Fit::OtherExecution);
        assert_eq!(fits(make_card("", r#"{"list": {"type": "array"}}"#, SENT_FIELD)), Fit::Needs("message".into()));
        let three = r#"{"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}}"#;
        assert_eq!(fits(make_card("", three, SENT_FIELD)), Fit::TakesNo("c".into()));
        assert_eq!(fits(make_card("", TEXT_FIELD, r#"{"id": {"type": "string"}}"#)), Fit::GivesNo("id".into()));
        assert!(
            compare_cards(&make_card("", TEXT_FIELD, SENT_FIELD), &make_card("python", TEXT_FIELD, "{}")).is_usable(),
            "it says nothing of what it gives"
        );
    }

    #[test]
    fn each_field_has_a_partner_of_its_own() {
        // The first field could take either partner, and must leave the second field the one that it needs.
        let wanted = make_card("", "{}", r#"{"any": {}, "count": {"type": "integer"}}"#);
        let gives = |outputs| compare_cards(&wanted, &make_card("python", "{}", outputs));
        assert_eq!(gives(r#"{"total": {"type": "number"}, "name": {"type": "string"}}"#), Fit::Fits(0.9));
        assert_eq!(gives(r#"{"total": {"type": "number"}}"#), Fit::GivesNo("count".into()));
        let list = |kind: &str| {
            make_card("", "{}", &format!(r#"{{"all": {{"type": "array", "items": {{"type": "{kind}"}}}}}}"#))
        };
        assert_eq!(compare_cards(&list("string"), &list("object")), Fit::GivesNo("all".into()));
        assert_eq!(compare_cards(&list("integer"), &list("number")), Fit::Fits(0.9));
    }

    #[test]
    fn the_way_back_is_another_way() {
        let (text, pdf) = (TEXT_FIELD, r#"{"pdf": {"type": "string"}}"#);
        let block = make_card("python", pdf, text);
        assert_eq!(compare_cards(&make_card("python", text, pdf), &block), Fit::Backwards);
        assert_eq!(compare_cards(&make_card("python", pdf, text), &block), Fit::Fits(0.9));
        assert_eq!(compare_cards(&make_card("python", text, text), &block), Fit::Fits(0.9));
    }

    #[test]
    fn similarity_decides_the_rest_and_words_where_there_is_no_vector() {
        let (wanted, block) = (make_card("", TEXT_FIELD, SENT_FIELD), make_card("python", TEXT_FIELD, SENT_FIELD));
        let thresholds = Thresholds { similarity_threshold: 0.5, words: 0.7 };
        assert_eq!(compare_block(&wanted, &block, Some(0.4), &thresholds), Fit::Unlike(0.4));
        assert!(compare_block(&wanted, &block, None, &thresholds).is_usable());
        let other = BlockCard { description: "Sends a picture.".into(), ..block };
        assert!(!compare_block(&wanted, &other, None, &thresholds).is_usable());
    }
}
