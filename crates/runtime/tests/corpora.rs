//! Public collections of test cases, which are copied into `tests/corpora`: JSON texts, JSON Schemas, and texts that
//! programs change by accident.

use flowloom_core::json::{parse_value, write_json};
use flowloom_core::render::{TextStyle, render_text};
use flowloom_core::value::Value;
use flowloom_runtime::schema::validation_errors;

/// Addresses in schemas that would have to be fetched, which never happens.
const FETCHED: &str = "localhost:1234";

fn read_corpus(file: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpora").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_value(&text).expect("JSON").as_list().expect("a list").to_vec()
}

fn text_of<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The bytes of a JSON text: as text, or as numbers if it is not UTF-8. Long ones repeat a piece.
fn bytes_of(case: &Value) -> Vec<u8> {
    let number = |value: &Value| value.as_i64().and_then(|number| usize::try_from(number).ok()).expect("a number");
    if let Some(bytes) = case.get("bytes").and_then(Value::as_list) {
        return bytes.iter().map(|byte| u8::try_from(number(byte)).expect("a byte")).collect();
    }
    let repeated = case.get("repeat").and_then(Value::as_list).map(|repeat| match repeat {
        [piece, count] => piece.as_str().expect("a text").repeat(number(count)),
        _ => panic!("{case:?}"),
    });
    (repeated.unwrap_or_default() + text_of(case, "text")).into_bytes()
}

#[test]
fn json_is_read_as_the_standard_says() {
    let mut counts = [0; 3];
    for case in read_corpus("json/parsing.json") {
        let (name, bytes) = (text_of(&case, "name"), bytes_of(&case));
        let read = std::str::from_utf8(&bytes).ok().and_then(|text| parse_value(text).ok());
        match name.as_bytes()[0] {
            b'y' => {
                counts[0] += 1;
                let value = read.unwrap_or_else(|| panic!("{name} is JSON"));
                assert_eq!(parse_value(&write_json(&value)).as_ref(), Ok(&value), "{name}");
            }
            b'n' => {
                counts[1] += 1;
                assert_eq!(read, None, "{name} is not JSON");
            }
            // Either is right.
            _ => counts[2] += 1,
        }
    }
    assert_eq!(counts, [95, 188, 35]);
}

#[test]
fn values_are_held_to_json_schemas() {
    let mut counts = Vec::new();
    for draft in ["draft7", "draft2020-12"] {
        let mut count = 0;
        for group in read_corpus(&format!("json-schema/{draft}.json")) {
            let schema = group.get("schema").expect("a schema");
            if write_json(schema).contains(FETCHED) {
                continue;
            }
            let schema = declare_draft(schema, draft);
            for test in group.get("tests").and_then(Value::as_list).expect("tests") {
                let [description, data, is_valid] = test.as_list().expect("a test") else { panic!("{test:?}") };
                let found = validation_errors(&schema, data);
                let (file, about) = (text_of(&group, "file"), text_of(&group, "description"));
                assert_eq!(
                    Some(found.is_none()),
                    is_valid.as_bool(),
                    "{draft}/{file}: {about}: {description:?} {found:?}"
                );
                count += 1;
            }
        }
        counts.push(count);
    }
    assert_eq!(counts, [898, 1242]);
}

/// The schema with its draft, which the collection leaves out for the older ones.
fn declare_draft(schema: &Value, draft: &str) -> Value {
    match schema.as_map() {
        Some(map) if draft == "draft7" && !map.contains_key("$schema") => {
            let mut map = map.clone();
            map.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
            map.into()
        }
        _ => schema.clone(),
    }
}

#[test]
fn naughty_texts_stay_as_they_are() {
    let texts = read_corpus("naughty-strings/blns.json");
    for text in &texts {
        assert_eq!(parse_value(&write_json(text)).as_ref(), Ok(text));
        let plain = text.as_str().expect("a text");
        for style in [TextStyle::Json, TextStyle::JavaScript, TextStyle::Python, TextStyle::PythonJson] {
            assert_eq!(render_text(text, style), plain);
        }
        let map = Value::map([(plain, text.clone())]);
        assert_eq!(parse_value(&write_json(&map)).as_ref(), Ok(&map));
    }
    assert_eq!(texts.len(), 515);
}
