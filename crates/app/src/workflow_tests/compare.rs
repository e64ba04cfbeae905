//! Compares the requests of a run with those that a test has.

use std::collections::{HashMap, HashSet};

use flowloom_core::effect::Request;
use flowloom_core::hash::Hash;
use flowloom_runtime::requests::SentRequest;
use serde_json::Value;

use super::file::{TestFile, TestStep};
use super::outcome::TestProblem;
use super::request_secrets::RequestSecrets;
use crate::runs::details::{describe_request, request_to_json};
use crate::runs::masking::MASK;

/// A request with everything that decides about its response. Secrets are names or masked.
pub(super) fn request_to_test_json(request: &Request) -> Value {
    let mut all = request_to_json(request);
    if let Request::Python(python) = request {
        all["code"] = (*python.source).into();
    }
    all
}

/// The requests that are not those of the test. `is_live`: a changed request was asked anew, so it is no problem.
pub(super) fn compare_requests(
    test: &TestFile,
    all: &[SentRequest],
    secrets: &RequestSecrets,
    is_live: bool,
) -> Vec<TestProblem> {
    let sent = index_sent(all);
    let new = index_new(test, all);
    let mut problems = Vec::new();
    for step in &test.steps {
        let moved = step.request_hash.and_then(|hash| new.get(&(hash, step.attempt)));
        let problem = match (sent.get(&(step.path.as_str(), step.attempt)), moved) {
            (None, Some(moved)) => {
                Some(TestProblem::new(&step.path, format!("the step has another path now: {}", moved.path)))
            }
            (None, None) if step.request.is_some() => {
                Some(TestProblem::new(&step.path, "the step no longer sends a request"))
            }
            (None, None) => Some(find_unused(step, all)),
            (Some(_), Some(twin)) if !is_live => {
                let message = format!("the step is new, and sends the same request as {}", step.path);
                Some(TestProblem::new(twin.path.as_str(), message))
            }
            (Some(_), _) if is_live => None,
            (Some(sent), _) => find_difference(step, sent, secrets),
        };
        problems.extend(problem);
    }
    problems
}

/// The steps of a test that have another path now, with that path: they send the same request.
pub(super) fn list_moved(test: &TestFile, all: &[SentRequest]) -> Vec<(String, String)> {
    let (sent, new) = (index_sent(all), index_new(test, all));
    let gone = test.steps.iter().filter(|step| !sent.contains_key(&(step.path.as_str(), step.attempt)));
    let moved = gone.filter_map(|step| {
        let now = new.get(&(step.request_hash?, step.attempt))?;
        Some((step.path.clone(), now.path.to_string()))
    });
    moved.collect()
}

fn index_sent(all: &[SentRequest]) -> HashMap<(&str, u32), &SentRequest> {
    all.iter().map(|sent| ((sent.path.as_str(), sent.attempt), sent)).collect()
}

/// The requests at paths that the test does not have.
fn index_new<'s>(test: &TestFile, all: &'s [SentRequest]) -> HashMap<(Hash, u32), &'s SentRequest> {
    let known: HashSet<(&str, u32)> = test.steps.iter().map(|step| (step.path.as_str(), step.attempt)).collect();
    let mut new = HashMap::new();
    for sent in all.iter().filter(|sent| !known.contains(&(sent.path.as_str(), sent.attempt))) {
        new.entry((sent.request.hash(), sent.attempt)).or_insert(sent);
    }
    new
}

/// That a response which was written by hand was not needed.
fn find_unused(step: &TestStep, sent: &[SentRequest]) -> TestProblem {
    let message = match sent.iter().any(|sent| sent.path.as_str() == step.path) {
        true => format!("the step has no attempt {}, so the response is not used", step.attempt),
        false => "there is no step at this path that needs a response".to_owned(),
    };
    TestProblem::new(&step.path, message)
}

/// How a request differs from that of the test; `None` if it does not.
pub(super) fn find_difference(step: &TestStep, sent: &SentRequest, secrets: &RequestSecrets) -> Option<TestProblem> {
    let expected = &secrets.mask_request(step.request.clone()?);
    let mut found = secrets.mask_request(request_to_test_json(&sent.request));
    if let (Some(found), Some(expected)) = (found.as_object_mut(), expected.as_object())
        && !expected.contains_key("code")
    {
        found.remove("code");
    }
    // The other requests are in the test as a whole.
    let has_masked_parts = matches!(sent.request, Request::Http(_) | Request::HttpExchange(_));
    let is_same_hash = !has_masked_parts || step.request_hash.is_none_or(|hash| hash == sent.request.hash());
    let is_same = is_same_but_masked(expected, &found);
    if is_same && is_same_hash {
        return None;
    }
    if is_same {
        let message = "the step sends another request; the difference is in a part that the test masks";
        return Some(TestProblem::new(&step.path, message));
    }
    let problem = TestProblem::new(&step.path, "the step sends another request");
    let kind = sent.request.kind_name();
    let (before, after) = (describe_request(kind, expected), describe_request(kind, &found));
    let (before, after) = match before == after {
        false => (before.unwrap_or_default(), after.unwrap_or_default()),
        true => (describe_fields(expected, &found), describe_fields(&found, expected)),
    };
    Some(problem.with_texts(before, after))
}

/// Whether a request is the one that is expected. What the test masks may be anything: a run of the test receives masked values,
/// so it need not know them.
fn is_same_but_masked(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(expected), Value::String(found)) => is_same_text(expected, found),
        (Value::Array(expected), Value::Array(found)) => {
            let mut pairs = expected.iter().zip(found);
            expected.len() == found.len() && pairs.all(|(expected, found)| is_same_but_masked(expected, found))
        }
        (Value::Object(expected), Value::Object(found)) => {
            let is_there = |(name, expected): (&String, &Value)| {
                found.get(name).is_some_and(|found| is_same_but_masked(expected, found))
            };
            expected.len() == found.len() && expected.iter().all(is_there)
        }
        _ => expected == found,
    }
}

fn is_same_text(expected: &str, found: &str) -> bool {
    let mut parts = expected.split(MASK);
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The fields of a request that differ from those of another one, as text.
fn describe_fields(request: &Value, other: &Value) -> String {
    let fields = request.as_object().into_iter().flatten();
    let field = |(name, value): (&String, &Value)| match value {
        _ if other.get(name) == Some(value) => None,
        Value::String(text) => Some(format!("{name}:\n{text}")),
        value => Some(format!("{name}: {value:#}")),
    };
    fields.filter_map(field).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masked_parts_may_be_anything() {
        let expected = json!({"url": "http://a/(masked)?x=(masked)&y=1", "list": ["(masked)"]});
        let same = |url: &str, list: &str| is_same_but_masked(&expected, &json!({"url": url, "list": [list]}));
        assert!(same("http://a/key?x=2&y=1", "key") && same("http://a/(masked)?x=(masked)&y=1", "(masked)"));
        assert!(!same("http://b/key?x=2&y=1", "key") && !same("http://a/key?x=2&y=2", "key"));
        assert!(!is_same_text("a", "ab") && is_same_text("a", "a"));
    }
}
