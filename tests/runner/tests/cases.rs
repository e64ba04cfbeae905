//! Every recorded case passes, and the judge notices every change of what it compares.

use std::path::PathBuf;

use conformance::load_cases;

fn recorded_cases() -> Vec<conformance::TestCase> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    load_cases(&[folder]).expect("readable")
}

#[test]
fn recorded_cases_pass() {
    let failed: Vec<String> = recorded_cases()
        .iter()
        .filter_map(|case| {
            let why = case.judge_case();
            (!why.is_empty()).then(|| format!("{}: {}", case.id, why.join("; ")))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_judge_notices_every_change() {
    for case in recorded_cases() {
        let (count, unnoticed) = case.check_judge();
        assert!(count > 0, "{}: nothing is compared", case.id);
        assert!(unnoticed.is_empty(), "{}: {unnoticed:?}", case.id);
    }
}

#[test]
fn a_kind_or_key_that_is_not_known_fails() {
    let read = |text: &str| conformance::TestCase {
        id: "x".into(),
        content: flowloom_core::json::parse_value(text).expect("valid"),
    };
    assert!(!read(r#"{"system":"agentos-workflow","kind":"other","expected":{}}"#).judge_case().is_empty());
    let flow = r#"{"flow":{"name":"n","steps":[]},"args":{},"expect":{"success":true}}"#;
    assert!(!read(flow).judge_case().is_empty());
    let nothing = r#"{"flow":{"name":"n","steps":[]},"args":{},"expect":{}}"#;
    assert_eq!(read(nothing).judge_case(), ["nothing was compared"]);
}
