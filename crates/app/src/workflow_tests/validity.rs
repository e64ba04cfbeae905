//! Whether the expectations of a test can be checked at all, and the places in the file of those that cannot.

use std::fmt;

use flowloom_core::diagnostic::{LineTable, Position, find_similar_name};
use flowloom_core::json::{Node, parse_node};
use flowloom_core::status::{STATUS_TABLE, Status};
use flowloom_formats::json_schema::find_schema_problem;
use serde_json_path::JsonPath;

use super::expectation::Expectation;
use super::file::TestFile;

/// The checks of which an expectation has one.
const CHECKS: [&str; 4] = ["equals", "contains", "schema", "judge"];

/// An expectation that cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExpectation {
    /// Its place in the file.
    pub position: Position,
    /// Why it cannot be checked.
    pub message: String,
}

impl fmt::Display for InvalidExpectation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.position, self.message)
    }
}

/// The expectations of the test in `text` that cannot be checked, in the order of the file.
pub(super) fn list_invalid_expectations(text: &str, test: &TestFile) -> Vec<InvalidExpectation> {
    let Ok((root, _)) = parse_node(text) else { return Vec::new() };
    let Some(expect) = root.get("expect") else { return Vec::new() };
    let mut found: Vec<(usize, String)> = Vec::new();
    let status = test.expect.status.as_deref().and_then(describe_unknown_status);
    found.extend(status.map(|message| (find_start(expect, "status"), message)));
    let output = expect.get("output").map(|node| (node, &test.expect.output));
    let steps = test.expect.steps.iter().filter_map(|(path, all)| Some((expect.get("steps")?.get(path)?, all)));
    for (node, expectations) in output.into_iter().chain(steps) {
        for (node, expectation) in node.items().unwrap_or_default().iter().zip(expectations) {
            found.extend(list_problems(node, expectation));
        }
    }
    found.sort_by_key(|(start, _)| *start);
    let lines = LineTable::new(text);
    let place = |(start, message)| InvalidExpectation { position: lines.find_position(text, start), message };
    found.into_iter().map(place).collect()
}

/// Why an expectation cannot be checked, with the bytes at which its wrong parts start.
fn list_problems(node: &Node, expectation: &Expectation) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let given: Vec<&str> = CHECKS.into_iter().filter(|check| node.get(check).is_some()).collect();
    if let [first, second, ..] = given.as_slice() {
        let message =
            format!("an expectation has one check, not `{first}` and `{second}`; write an expectation for each");
        problems.push((find_start(node, second), message));
    }
    if !expectation.is_checked_offline() && expectation.judge.is_none() {
        let message = match &expectation.model {
            Some(_) => "`model` is the model that answers `judge`, which is missing",
            None => "an expectation needs `equals`, `contains`, `schema` or `judge`",
        };
        problems.push((node.span.start, message.to_owned()));
    } else if expectation.model.is_some() && expectation.judge.is_none() {
        let message = "`model` is the model that answers `judge`, which is missing; leave it out, or add the question";
        problems.push((find_start(node, "model"), message.to_owned()));
    }
    if let Some(path) = &expectation.jsonpath
        && let Err(error) = JsonPath::parse(path)
    {
        problems.push((find_start(node, "jsonpath"), format!("the JSONPath {path:?} is not valid: {error}")));
    }
    if let Some(problem) = expectation.schema.as_ref().and_then(find_schema_problem) {
        let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
        problems.push((find_start(node, "schema"), format!("the schema is not valid: {problem}{help}")));
    }
    problems
}

fn describe_unknown_status(status: &str) -> Option<String> {
    if Status::parse(status).is_some() {
        return None;
    }
    let known = STATUS_TABLE.iter().map(|row| row.name);
    let advice = match find_similar_name(status, known.clone()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("it is one of {}", known.collect::<Vec<_>>().join(", ")),
    };
    Some(format!("there is no status {status:?}; {advice}"))
}

/// The byte at which the value of a key starts.
fn find_start(node: &Node, key: &str) -> usize {
    node.get(key).unwrap_or(node).span.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expect: &str, expected: &[&str]) {
        let text = format!("{{\"definition\": \"x\",\n \"expect\": {expect}}}");
        let test: TestFile = serde_json::from_str(&text).expect("a test");
        let found: Vec<String> =
            list_invalid_expectations(&text, &test).iter().map(InvalidExpectation::to_string).collect();
        assert_eq!(found, expected, "{expect}");
    }

    #[test]
    fn expectations_that_can_be_checked_are_valid() {
        check(r#"{"status": "failed", "output": [{"equals": null}, {"judge": "Is it good?", "model": "m"}]}"#, &[]);
        check(r#"{"steps": {"/a": [{"jsonpath": "$.b", "schema": {"type": "string"}}, {"contains": "x"}]}}"#, &[]);
    }

    #[test]
    fn broken_expectations_are_found_where_they_stand() {
        check(r#"{"status": "suceeded"}"#, &[r#"2:23: there is no status "suceeded"; did you mean "succeeded"?"#]);
        check(
            r#"{"status": "good"}"#,
            &[
                "2:23: there is no status \"good\"; it is one of queued, running, interrupted, waiting, uncertain, succeeded, failed, cancelled, timed_out, budget_exceeded, quarantined",
            ],
        );
        check(
            r#"{"output": [{"contains": "zzz", "equals": "3"}]}"#,
            &["2:37: an expectation has one check, not `equals` and `contains`; write an expectation for each"],
        );
        check(
            r#"{"output": [{"equals": 1}, {}]}"#,
            &["2:39: an expectation needs `equals`, `contains`, `schema` or `judge`"],
        );
        check(
            r#"{"output": [{"schema": {"type": "strng"}}]}"#,
            &[r#"2:35: the schema is not valid: there is no type "strng"; did you mean "string"?"#],
        );
        check(
            r#"{"output": [{"equals": 1, "model": "m"}, {"model": "m"}]}"#,
            &[
                "2:47: `model` is the model that answers `judge`, which is missing; leave it out, or add the question",
                "2:53: `model` is the model that answers `judge`, which is missing",
            ],
        );
        let text = r#"{"definition": "x", "expect": {"steps": {"/a": [{"jsonpath": "$[", "equals": 1}]}}}"#;
        let found = list_invalid_expectations(text, &serde_json::from_str(text).expect("a test"));
        assert_eq!((found[0].position.line, found[0].position.column), (1, 62));
        assert!(found[0].message.starts_with(r#"the JSONPath "$[" is not valid: "#), "{}", found[0].message);
    }
}
