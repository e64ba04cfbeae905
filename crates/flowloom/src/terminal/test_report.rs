//! The results of tests of workflows: for people, as JUnit XML, and as TAP.

use std::fmt::Write as _;

use flowloom_app::diff::FieldChange;
use flowloom_app::workflow_tests::{SkippedQuestion, TestOutcome, TestProblem};
use serde_json::{Value, json};

use super::diff::render_lines;
use super::report::format_duration;
use crate::cli::TestArgs;
use crate::print::{show_name, show_path};
use crate::style::{Style, paint_text};

/// One test: a line, and its problems.
pub(crate) fn render_outcome(outcome: &TestOutcome) -> String {
    let (mark, style, note) = match outcome.has_passed() {
        _ if outcome.is_updated && outcome.still_fails => ("✗", Style::Bad, "  updated, and still fails"),
        _ if outcome.is_updated => ("↻", Style::Attention, "  updated"),
        true if outcome.why_skipped().is_some() => ("○", Style::Attention, "  skipped"),
        true => ("✓", Style::Good, ""),
        false => ("✗", Style::Bad, ""),
    };
    let mut out = format!(
        "{} {}  {}{note}\n",
        paint_text(style, mark),
        show_name(&outcome.name),
        paint_text(Style::Dim, &format!("{}  {}", show_path(&outcome.file), format_duration(outcome.duration_ms)))
    );
    for problem in &outcome.problems {
        let _ = writeln!(out, "  {}: {}", paint_text(Style::Heading, &problem.place), problem.message);
        if problem.expected.is_some() || problem.found.is_some() {
            let change = FieldChange { name: "text", before: problem.expected.clone(), after: problem.found.clone() };
            render_lines(&change, "    ", &mut out);
        }
    }
    for skipped in &outcome.skipped {
        let text = format!("skipped, a model must judge: {}", skipped.question);
        let _ = writeln!(out, "  {}: {}", paint_text(Style::Heading, &skipped.place), paint_text(Style::Dim, &text));
    }
    out
}

/// The last lines for people, with the options that could help and were not given.
pub(crate) fn render_summary(outcomes: &[TestOutcome], given: &TestArgs) -> String {
    let count = |is: fn(&&TestOutcome) -> bool| outcomes.iter().filter(is).count();
    let updated = count(|outcome| outcome.is_updated && !outcome.still_fails);
    let failed = count(|outcome| !outcome.is_accepted());
    let skipped = count(|outcome| outcome.why_skipped().is_some() && !outcome.is_updated);
    let mut out = format!("{} passed, {failed} failed", outcomes.len() - failed - skipped - updated);
    if updated > 0 {
        let _ = write!(out, ", {updated} updated");
    }
    if skipped > 0 {
        let _ = write!(out, ", {skipped} skipped");
    }
    out.push('\n');
    if outcomes.iter().any(|outcome| !outcome.skipped.is_empty()) {
        let advice = "ask a model the questions that were skipped: flowloom test --live";
        let _ = writeln!(out, "{}", paint_text(Style::Dim, advice));
    }
    if outcomes.iter().any(|outcome| !outcome.is_accepted() && outcome.invalid.is_none()) {
        let can_update = !given.update && outcomes.iter().any(TestOutcome::can_update);
        let update = can_update.then_some("accept what happens now: flowloom test --update");
        let live = (!given.live).then_some("ask the models again: flowloom test --live");
        let advice: Vec<&str> = [update, live].into_iter().flatten().collect();
        if !advice.is_empty() {
            let _ = writeln!(out, "{}", paint_text(Style::Dim, &advice.join("; ")));
        }
    }
    out
}

/// A test as JSON.
pub(crate) fn describe_outcome(outcome: &TestOutcome) -> Value {
    let problem = |problem: &TestProblem| {
        let TestProblem { place, message, expected, found } = problem;
        let mut described = json!({"place": place, "message": message, "expected": expected, "found": found});
        if let Some(code) = outcome.invalid {
            described["code"] = code.to_string().into();
        }
        described
    };
    json!({
        "file": outcome.file,
        "name": outcome.name,
        "passed": outcome.has_passed(),
        "updated": outcome.is_updated,
        "duration_ms": outcome.duration_ms,
        "problems": outcome.problems.iter().map(problem).collect::<Vec<_>>(),
        "skipped": outcome.skipped.iter().map(describe_question).collect::<Vec<_>>(),
    })
}

fn describe_question(skipped: &SkippedQuestion) -> Value {
    json!({"place": skipped.place, "judge": skipped.question})
}

/// The tests as JUnit XML, as CI systems read it.
pub(crate) fn render_junit(outcomes: &[TestOutcome]) -> String {
    let invalid = outcomes.iter().filter(|outcome| outcome.invalid.is_some()).count();
    let failed = outcomes.iter().filter(|outcome| !outcome.has_passed()).count() - invalid;
    let skipped = outcomes.iter().filter(|outcome| outcome.why_skipped().is_some()).count();
    let total_ms: u64 = outcomes.iter().map(|outcome| outcome.duration_ms).sum();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"flowloom\" tests=\"{}\" errors=\"{invalid}\" failures=\"{failed}\" skipped=\"{skipped}\" time=\"{}\">\n",
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
        if outcome.has_passed() && outcome.skipped.is_empty() {
            out += "/>\n";
            continue;
        }
        out += ">\n";
        if let Some(why) = outcome.why_skipped() {
            let _ = writeln!(out, "    <skipped message=\"{}\"/>", escape_xml(why));
        }
        let kind = if outcome.invalid.is_some() { "error" } else { "failure" };
        // Readers of this form keep one failure of a test.
        if let Some(first) = outcome.problems.first() {
            let describe = |problem: &TestProblem| format!("{}: {}", problem.place, problem.message);
            let more = outcome.problems.len() - 1;
            let title = if more > 0 { format!("{} (and {more} more)", describe(first)) } else { describe(first) };
            let texts: Vec<String> = match more {
                0 => vec![describe_texts(first)],
                _ => outcome.problems.iter().map(|one| format!("{}\n{}", describe(one), describe_texts(one))).collect(),
            };
            let _ = writeln!(
                out,
                "    <{kind} message=\"{}\">{}</{kind}>",
                escape_xml(&title),
                escape_xml(&texts.join("\n\n"))
            );
        }
        if !outcome.skipped.is_empty() {
            let line = |skipped: &SkippedQuestion| {
                format!("skipped: {}: a model must judge: {}", skipped.place, skipped.question)
            };
            let lines: Vec<String> = outcome.skipped.iter().map(line).collect();
            let _ = writeln!(out, "    <system-out>{}</system-out>", escape_xml(&lines.join("\n")));
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
        let skip = outcome.why_skipped().map(|why| format!(" # SKIP {why}")).unwrap_or_default();
        let _ = writeln!(out, "{word} {} - {name} ({}){skip}", number + 1, show_path(&outcome.file));
        if outcome.has_passed() && outcome.skipped.is_empty() {
            continue;
        }
        out += "  ---\n";
        for (index, skipped) in outcome.skipped.iter().enumerate() {
            out += if index == 0 { "  skipped:\n" } else { "" };
            let _ = writeln!(out, "    - {}", describe_question(skipped));
        }
        out += if outcome.has_passed() { "" } else { "  problems:\n" };
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
