//! Collects the comparisons of one case, and compares error texts by their facts.

use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::value::{Map, Value};

use crate::compare::collect_differences;

/// The judgement of one case.
pub(crate) struct CaseJudge {
    failures: Vec<String>,
    compared: usize,
    /// Error texts that the case's own script raises; they must occur wherever they are expected.
    scripted: Vec<String>,
}

impl CaseJudge {
    pub(crate) fn new(case: &Value) -> CaseJudge {
        let mut scripted = Vec::new();
        collect_scripted_errors(case, &mut scripted);
        CaseJudge { failures: Vec::new(), compared: 0, scripted }
    }

    pub(crate) fn add_failure(&mut self, why: impl Into<String>) {
        self.failures.push(why.into());
    }

    /// Compares one key of the expectation.
    pub(crate) fn compare_key(&mut self, key: &str, expected: &Value, actual: Option<&Value>) {
        self.compared += 1;
        let scripted = &self.scripted;
        let text = |path: &str, expected: &str, actual: &str| {
            if is_error_text(path, expected) { has_facts(expected, actual, scripted) } else { expected == actual }
        };
        collect_differences(expected, actual, key, &text, &mut self.failures);
    }

    /// Compares the diagnostics of a definition. Returns `true` if the definition is rejected and nothing else can be
    /// compared.
    pub(crate) fn check_diagnostics(&mut self, expectation: &Map, diagnostics: &[Diagnostic]) -> bool {
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        if let Some(expected) = expectation.get("refused") {
            self.compare_key("refused", expected, Some(&refused.into()));
        } else if refused {
            let errors: Vec<_> = diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str()).collect();
            self.add_failure(format!("refused: {}", errors.join("; ")));
        }
        for name in expectation.get("names").and_then(Value::as_list).into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            let named = diagnostics.iter().any(|d| d.message.contains(name) || d.help.iter().any(|h| h.contains(name)));
            self.compare_key("names", &true.into(), Some(&named.into()));
            if !named {
                self.add_failure(format!("no diagnostic contains {name:?}"));
            }
        }
        if let Some(expected) = expectation.get("warns") {
            let warns = diagnostics.iter().any(|diagnostic| !diagnostic.is_error());
            self.compare_key("warns", expected, Some(&warns.into()));
        }
        refused || expectation.contains_key("refused")
    }

    /// Compares which events occurred.
    pub(crate) fn compare_events(&mut self, expectation: &Map, names: &[&str]) {
        for (key, wanted) in [("includes", true), ("excludes", false)] {
            for name in expectation.get(key).and_then(Value::as_list).into_iter().flatten() {
                let occurred = names.contains(&name.as_str().unwrap_or_default());
                self.compare_key(key, &wanted.into(), Some(&occurred.into()));
            }
        }
    }

    /// The reasons why the case fails; empty if it passes.
    pub(crate) fn finish_case(mut self) -> Vec<String> {
        if self.compared == 0 && self.failures.is_empty() {
            self.add_failure("nothing was compared");
        }
        self.failures
    }
}

fn collect_scripted_errors(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Map(map) => {
            for (key, inner) in &**map {
                match (&**key, inner) {
                    ("throw" | "error", Value::String(text)) => out.push(text.to_string()),
                    ("expect" | "expected" | "ours", _) => {}
                    _ => collect_scripted_errors(inner, out),
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| collect_scripted_errors(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Blob(_) => {}
    }
}

/// Whether a text of the expectation is an error: its facts are compared, not its wording.
fn is_error_text(path: &str, expected: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or(path);
    matches!(last, "error" | "throws" | "tool_throws" | "save_error")
        || (path == "tool_result" && expected.starts_with("Flow execution failed"))
}

/// Whether `actual` contains every number, name and quoted word of an error text, and every error that the script
/// raised.
fn has_facts(expected: &str, actual: &str, scripted: &[String]) -> bool {
    let raised = scripted.iter().filter(|text| !text.is_empty() && expected.contains(text.as_str()));
    !actual.is_empty() && raised.into_iter().all(|text| actual.contains(text.as_str())) && {
        extract_facts(expected).into_iter().all(|fact| actual.contains(&fact))
    }
}

/// Numbers, quoted words, and names: words with a capital after the first letter, a digit, `_` or `::`.
fn extract_facts(text: &str) -> Vec<String> {
    let mut facts = Vec::new();
    let mut quoted = text.split(['\'', '"', '`']);
    quoted.next();
    while let (Some(inside), Some(_)) = (quoted.next(), quoted.next()) {
        facts.push(inside.to_owned());
    }
    for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':'))) {
        let word = word.trim_matches(':');
        let is_name = word.chars().skip(1).any(char::is_uppercase)
            || word.chars().any(|c| c.is_ascii_digit() || c == '_')
            || word.contains("::");
        if is_name {
            facts.push(word.to_owned());
        }
    }
    facts
}
