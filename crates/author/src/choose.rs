//! Which of the blocks that were found is taken.

use flowloom_core::value::{Map, Value};

use crate::wanted::{Wanted, required};
use crate::world::Candidate;

/// The best candidate that can do what is wanted, as its place in the list: the one of the greatest score that reaches
/// `threshold` and is [compatible](is_compatible). A block that is called by its id is taken whatever its score.
pub fn choose(wanted: &Wanted, candidates: &[Candidate], threshold: f64) -> Option<usize> {
    if wanted.is_only_named() {
        let called = |found: &Candidate| id(&found.block) == Some(wanted.suggested_id.as_str());
        if let Some(place) = candidates.iter().position(called) {
            return Some(place);
        }
    }
    let mut best: Option<usize> = None;
    for (place, candidate) in candidates.iter().enumerate() {
        let is_good = candidate.score >= threshold && is_compatible(wanted, &candidate.block);
        if is_good && best.is_none_or(|best| candidate.score > candidates[best].score) {
            best = Some(place);
        }
    }
    best
}

/// Whether a block could stand where another is wanted: it runs in the same way or is a function; no field that both
/// have is of another type; and something that goes in, and something that comes out, has its counterpart by name or by
/// type. A side that says nothing of its fields stands in nobody's way.
pub fn is_compatible(wanted: &Wanted, block: &Value) -> bool {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    if id(block).is_none() || text("category") == Some("trigger") {
        return false;
    }
    let runs = text("execution_type").unwrap_or("python");
    if !wanted.is_only_named() && runs != "function" && runs != wanted.execution_type {
        return false;
    }
    let fits = |wanted: &Option<Value>, key: &str, is_input: bool| match (wanted, block.get(key)) {
        (Some(wanted), Some(has)) => sides_fit(wanted, has, is_input),
        _ => true,
    };
    fits(&wanted.input_schema, "input_schema", true) && fits(&wanted.output_schema, "output_schema", false)
}

fn id(block: &Value) -> Option<&str> {
    block.get("id").and_then(Value::as_str)
}

fn sides_fit(wanted: &Value, has: &Value, is_input: bool) -> bool {
    let (Some(wanted), Some(fields)) = (properties(wanted), properties(has)) else { return true };
    let clash = wanted.iter().any(|(name, kind)| fields.get(name).is_some_and(|other| !same_type(kind, other)));
    if clash {
        return false;
    }
    // What a block can do without needs no counterpart.
    let mut needed = fields.iter().filter(|(name, _)| !is_input || required(has).any(|needs| needs == &***name));
    let nothing_is_needed = is_input && needed.clone().next().is_none();
    nothing_is_needed || needed.any(|(_, kind)| wanted.values().any(|other| same_type(kind, other)))
}

/// The fields of a schema; `None` if it names none.
fn properties(schema: &Value) -> Option<&Map> {
    schema.get("properties").and_then(Value::as_map).filter(|map| !map.is_empty())
}

/// Whether a value can be of both kinds. What is not said in one or more words is open.
fn same_type(one: &Value, other: &Value) -> bool {
    let (one, other) = (types(one), types(other));
    let is_open = one.is_empty() || other.is_empty();
    is_open || one.iter().any(|kind| other.contains(kind))
}

fn types(property: &Value) -> Vec<&str> {
    let found = match property.get("type") {
        Some(Value::String(kind)) => vec![&**kind],
        Some(Value::List(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    // "null" says that there may be nothing, not of which kind it is.
    let as_one = |kind| if kind == "integer" { "number" } else { kind };
    found.into_iter().filter(|kind| *kind != "null").map(as_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn schema(fields: &str, required: &str) -> String {
        format!(r#"{{"type":"object","properties":{{{fields}}},"required":[{required}]}}"#)
    }

    fn wanted(input: &str, output: &str) -> Wanted {
        let read = |fields: &str| parse_value(&schema(fields, "")).ok();
        let (execution_type, suggested_id) = ("python".to_owned(), "w".to_owned());
        Wanted {
            suggested_id,
            execution_type,
            input_schema: read(input),
            output_schema: read(output),
            ..Wanted::default()
        }
    }

    fn block(kind: &str, input: &str, required: &str, output: &str) -> Value {
        let (input, output) = (schema(input, required), schema(output, ""));
        let text = format!(r#"{{"id":"b","execution_type":"{kind}","input_schema":{input},"output_schema":{output}}}"#);
        parse_value(&text).expect("JSON")
    }

    const TEXT: &str = r#""text":{"type":"string"}"#;
    const QUERY: &str = r#""query":{"type":"string"}"#;
    const COUNT: &str = r#""count":{"type":"integer"}"#;
    const NUMBER: &str = r#""count":{"type":["number","null"]}"#;
    const LIST: &str = r#""text":{"type":"array"}"#;

    #[test]
    fn it_must_run_in_the_same_way() {
        let wanted = wanted(TEXT, COUNT);
        assert!(is_compatible(&wanted, &block("python", TEXT, "", COUNT)));
        assert!(is_compatible(&wanted, &block("function", TEXT, "", COUNT)));
        assert!(!is_compatible(&wanted, &block("llm", TEXT, "", COUNT)));
        let trigger = parse_value(r#"{"id":"t","category":"trigger"}"#).unwrap();
        assert!(!is_compatible(&wanted, &trigger));
        assert!(!is_compatible(&wanted, &parse_value("{}").unwrap()), "without an id nothing can name it");
    }

    #[test]
    fn fields_have_counterparts_and_do_not_clash() {
        let wanted = wanted(TEXT, COUNT);
        let fits = |input: &str, required: &str, output: &str| {
            is_compatible(&wanted, &block("python", input, required, output))
        };
        assert!(fits(QUERY, r#""query""#, NUMBER), "another name, the same type");
        assert!(!fits(LIST, r#""text""#, COUNT), "the same name, another type");
        assert!(!fits(r#""all":{"type":"array"}"#, r#""all""#, COUNT), "nothing goes in");
        assert!(fits(r#""all":{"type":"array"}"#, "", COUNT), "what is not required need not be fed");
        assert!(!fits(TEXT, "", QUERY), "nothing comes out");
        assert!(fits("", "", ""), "who says nothing is in nobody's way");
        assert!(fits(r#""any":{"description":"anything"}"#, r#""any""#, COUNT), "an open type takes all");
    }

    #[test]
    fn the_greatest_score_above_the_threshold_is_taken() {
        let wanted = wanted(TEXT, COUNT);
        let found = |score: f64, kind: &str| Candidate { block: block(kind, TEXT, "", COUNT), score };
        let list = [found(0.9, "llm"), found(0.5, "python"), found(0.7, "python"), found(0.7, "function")];
        assert_eq!(choose(&wanted, &list, 0.4), Some(2));
        assert_eq!(choose(&wanted, &list, 0.8), None);
        assert_eq!(choose(&wanted, &[found(f64::NAN, "python")], 0.0), None);
        assert_eq!(choose(&wanted, &[], 0.0), None);
    }

    #[test]
    fn a_block_called_by_its_id_needs_no_score() {
        let called = |id: &str| Wanted { suggested_id: id.to_owned(), ..Wanted::default() };
        let list = [Candidate { block: block("llm", TEXT, "", COUNT), score: 0.1 }];
        assert_eq!(choose(&called("b"), &list, 0.5), Some(0));
        assert_eq!(choose(&called("c"), &list, 0.5), None);
        assert_eq!(choose(&called("c"), &list, 0.05), Some(0), "else how well it fits counts");
    }
}
