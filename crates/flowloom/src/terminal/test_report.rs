//! The results of tests of workflows: for people, as JUnit XML, and as TAP.

use std::fmt::Write as _;

use flowloom_app::diff::FieldChange;
use flowloom_app::workflow_tests::{TestOutcome, TestProblem};
use serde_json::{Value, json};

use super::diff::render_lines;
use super::report::format_duration;
use crate::style::{Style, paint_text};

/// One test: a line, and what is wrong. `is_updated`: the test was written anew.
pub(crate) fn render_outcome(outcome: &TestOutcome, is_updated: bool) -> String {
    let (mark, style, note) = match outcome.has_passed() {
        true => ("✓", Style::Good, ""),
        false if is_updated && outcome.is_complete => ("↻", Style::Attention, "  updated"),
        false => ("✗", Style::Bad, ""),
    };
    let mut out = format!(
        "{} {}  {}{note}\n",
        paint_text(style, mark),
        outcome.name,
        paint_text(Style::Dim, &format!("{}  {}", outcome.file.display(), format_duration(outcome.duration_ms)))
    );
    for problem in &outcome.problems {
        let _ = writeln!(out, "  {}: {}", paint_text(Style::Heading, &problem.place), problem.message);
        if problem.expected.is_some() || problem.found.is_some() {
            let change = FieldChange { name: "text", before: problem.expected.clone(), after: problem.found.clone() };
            render_lines(&change, "    ", &mut out);
        }
    }
    out
}

/// The last lines for people.
pub(crate) fn render_summary(outcomes: &[TestOutcome]) -> String {
    let passed = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
    let failed = outcomes.len() - passed;
    let mut out = format!("{passed} passed, {failed} failed\n");
    if failed > 0 {
        let advice = "accept what happens now: flowloom test --update; ask the models again: flowloom test --live";
        let _ = writeln!(out, "{}", paint_text(Style::Dim, advice));
    }
    out
}

/// A test as JSON.
pub(crate) fn describe_outcome(outcome: &TestOutcome) -> Value {
    let problem = |problem: &TestProblem| {
        let TestProblem { place, message, expected, found } = problem;
        json!({"place": place, "message": message, "expected": expected, "found": found})
    };
    json!({
        "file": outcome.file,
        "name": outcome.name,
        "passed": outcome.has_passed(),
        "duration_ms": outcome.duration_ms,
        "problems": outcome.problems.iter().map(problem).collect::<Vec<_>>(),
    })
}

/// The tests as JUnit XML, as CI systems read it.
pub(crate) fn render_junit(outcomes: &[TestOutcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| !outcome.has_passed()).count();
    let total_ms: u64 = outcomes.iter().map(|outcome| outcome.duration_ms).sum();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"flowloom\" tests=\"{}\" failures=\"{failed}\" time=\"{}\">\n",
        outcomes.len(),
        to_seconds(total_ms)
    );
    for outcome in outcomes {
        let file = outcome.file.display().to_string();
        let _ = write!(
            out,
            "  <testcase name=\"{}\" classname=\"{}\" file=\"{}\" time=\"{}\"",
            escape_xml(&outcome.name),
            escape_xml(&file),
            escape_xml(&file),
            to_seconds(outcome.duration_ms)
        );
        if outcome.has_passed() {
            out += "/>\n";
            continue;
        }
        out += ">\n";
        for problem in &outcome.problems {
            let _ = writeln!(
                out,
                "    <failure message=\"{}\">{}</failure>",
                escape_xml(&format!("{}: {}", problem.place, problem.message)),
                escape_xml(&describe_texts(problem))
            );
        }
        out += "  </testcase>\n";
    }
    out + "</testsuite>\n"
}

/// The tests in the Test Anything Protocol, version 14.
pub(crate) fn render_tap(outcomes: &[TestOutcome]) -> String {
    let mut out = format!("TAP version 14\n1..{}\n", outcomes.len());
    for (number, outcome) in outcomes.iter().enumerate() {
        let word = if outcome.has_passed() { "ok" } else { "not ok" };
        let name = outcome.name.replace(['#', '\n'], " ");
        let _ = writeln!(out, "{word} {} - {name} ({})", number + 1, outcome.file.display());
        if outcome.has_passed() {
            continue;
        }
        out += "  ---\n  problems:\n";
        for problem in &outcome.problems {
            // JSON text is YAML text.
            let texts = json!({"place": problem.place, "message": problem.message,
                "expected": problem.expected, "found": problem.found});
            let _ = writeln!(out, "    - {texts}");
        }
        out += "  ...\n";
    }
    out
}

fn describe_texts(problem: &TestProblem) -> String {
    match (&problem.expected, &problem.found) {
        (None, None) => String::new(),
        (expected, found) => format!(
            "expected:\n{}\n\nfound:\n{}",
            expected.as_deref().unwrap_or_default(),
            found.as_deref().unwrap_or_default()
        ),
    }
}

fn to_seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Text as XML 1.0 can hold it.
fn escape_xml(text: &str) -> String {
    let is_allowed = |c: &char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().filter(is_allowed) {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped += "&#10;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_xml() {
        assert_eq!(escape_xml("a<b>&\"\u{1}\u{1b}[31m"), "a&lt;b&gt;&amp;&quot;[31m");
        assert_eq!(to_seconds(1_234), "1.234");
    }
}
