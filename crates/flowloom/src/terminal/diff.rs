//! Draws differences: between runs, between definitions, and between two texts.

use std::fmt::Write as _;

use flowloom_app::diff::FieldChange;
use flowloom_app::diff::called::WorkflowChange;
use flowloom_app::diff::definitions::{DefinitionDiff, StepChange as DefinitionChange};
use flowloom_app::diff::runs::{RunDiff, RunFacts, StepChange, StepDiff};
use flowloom_app::listing::count_noun;
use flowloom_core::render;
use flowloom_core::value::Value;
use similar::{Change, ChangeTag};

use super::line_window::{cut_changed_lines, cut_line};
use super::report::{clean_line, format_duration};
use crate::line_diff::compare_lines;
use crate::style::{Style, paint_text};

/// Lines of a text that are shown around a difference.
const CONTEXT_LINES: usize = 2;

/// Maximum number of lines that are shown of a text that differs.
const MAX_SHOWN_LINES: usize = 200;

/// Renders the differences between two runs. `is_verbose`: with the steps that are the same.
pub(crate) fn render_run_diff(diff: &RunDiff, is_verbose: bool) -> String {
    let mut out = String::new();
    for (mark, run) in [("a", &diff.a), ("b", &diff.b)] {
        let _ =
            writeln!(out, "{mark}  {}  {}  {}  {}", run.run_id, run.status, clean_line(&run.name), describe_usage(run));
    }
    if diff.same {
        out += "the runs are the same\n";
    }
    if let Some(path) = &diff.first_divergence {
        let _ = writeln!(out, "first difference: {path}");
    }
    out.push('\n');
    for step in diff.steps.iter().filter(|step| is_verbose || step.change != StepChange::Same) {
        render_run_step(step, &mut out);
    }
    let same = diff.steps.iter().filter(|step| step.change == StepChange::Same).count();
    if same > 0 && !is_verbose {
        let noun = if same == 1 { "step is" } else { "steps are" };
        let _ = writeln!(out, "{}", paint_text(Style::Dim, &format!("{same} {noun} the same")));
    }
    for field in &diff.fields {
        render_field(field, "", &mut out);
    }
    if let Some(definition) = &diff.definition {
        render_run_definitions(definition, is_verbose, &mut out);
    }
    out
}

/// The differences between the definitions that two runs have read: all of them, or their names.
fn render_run_definitions(definition: &DefinitionDiff, is_verbose: bool, out: &mut String) {
    *out += "\nthe definitions of the runs differ:\n";
    if is_verbose {
        render_definition_parts(definition, out);
        definition.workflows.iter().for_each(|workflow| render_workflow(workflow, out));
        return;
    }
    definition.fields.iter().for_each(|field| write_change(field.name, out));
    definition.inputs.iter().for_each(|input| write_change(&format!("input {}", input.name), out));
    definition.steps.iter().for_each(|step| render_step_head(step, out));
    for workflow in &definition.workflows {
        write_change(&describe_workflow(workflow), out);
        workflow.diff.iter().flat_map(|diff| &diff.steps).for_each(|step| render_step_head(step, out));
    }
}

fn describe_usage(run: &RunFacts) -> String {
    let time = run.duration_ms.map_or_else(|| "…".to_owned(), format_duration);
    let count = |name: &str| run.usage.get(name).and_then(Value::as_i64).unwrap_or_default();
    let tokens = format!("{} + {} tokens", count("input_tokens"), count("output_tokens"));
    match run.usage.get("cost_usd") {
        Some(cost @ Value::Number(_)) => format!("{time}  {tokens}  ${}", render::to_json(cost)),
        _ => format!("{time}  {tokens}"),
    }
}

fn render_run_step(step: &StepDiff, out: &mut String) {
    let (mark, style) = match step.change {
        StepChange::Same => (" ", Style::Dim),
        StepChange::Changed => ("~", Style::Attention),
        StepChange::OnlyInA => ("-", Style::Bad),
        StepChange::OnlyInB => ("+", Style::Good),
    };
    let sides: Vec<String> = [&step.a, &step.b]
        .into_iter()
        .flatten()
        .map(|facts| {
            let time = facts.duration_ms.map(format_duration).unwrap_or_default();
            let tokens = facts.usage.map(|usage| format!("{} tok", usage.input_tokens + usage.output_tokens));
            let reused = if facts.reused { "reused" } else { "" };
            let words = [time, tokens.unwrap_or_default(), reused.to_owned()];
            words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let head = format!("{mark} {}", step.path);
    let _ = writeln!(out, "{}  {}", paint_text(style, &head), paint_text(Style::Dim, &sides.join(" → ")));
    if step.change == StepChange::Changed {
        step.fields.iter().for_each(|field| render_field(field, "  ", out));
    }
}

/// Renders the differences between two definitions.
pub(crate) fn render_definition_diff(diff: &DefinitionDiff) -> String {
    let mut out = String::new();
    render_definition_parts(diff, &mut out);
    for workflow in &diff.workflows {
        render_workflow(workflow, &mut out);
    }
    if diff.same {
        out += "the definitions mean the same\n";
    }
    out
}

fn render_definition_parts(diff: &DefinitionDiff, out: &mut String) {
    diff.fields.iter().for_each(|field| render_field(field, "", out));
    for input in &diff.inputs {
        let _ = writeln!(out, "{} input {}", paint_text(Style::Attention, "~"), input.name);
        input.fields.iter().for_each(|field| render_lines(field, "    ", out));
    }
    diff.steps.iter().for_each(|step| render_definition_step(step, out));
}

/// The differences in the workflow that a function runs.
fn render_workflow(workflow: &WorkflowChange, out: &mut String) {
    write_change(&describe_workflow(workflow), out);
    if let Some(diff) = &workflow.diff {
        render_definition_parts(diff, out);
        diff.workflows.iter().for_each(|workflow| render_workflow(workflow, out));
    }
}

fn write_change(name: &str, out: &mut String) {
    let _ = writeln!(out, "{} {name}", paint_text(Style::Attention, "~"));
}

fn describe_workflow(workflow: &WorkflowChange) -> String {
    let file = |file: &Option<String>| clean_line(file.as_deref().unwrap_or("no workflow"));
    let (a, b) = (file(&workflow.a), file(&workflow.b));
    let files = if a == b { a } else { format!("{a} → {b}") };
    format!("{files}, which {} runs", workflow.function)
}

fn render_definition_step(step: &DefinitionChange, out: &mut String) {
    render_step_head(step, out);
    step.fields.iter().for_each(|field| render_field(field, "  ", out));
}

fn render_step_head(step: &DefinitionChange, out: &mut String) {
    let (mark, style) = match step.changes.first() {
        Some(&"added") => ("+", Style::Good),
        Some(&"removed") => ("-", Style::Bad),
        _ => ("~", Style::Attention),
    };
    let path = match (&step.a, &step.b) {
        (Some(a), Some(b)) if a != b => format!("{a} → {b}"),
        (Some(path), _) | (None, Some(path)) => path.to_string(),
        (None, None) => String::new(),
    };
    let note = format!("{} {}", step.kind, step.changes.join(" and "));
    let _ = writeln!(out, "{}  {}", paint_text(style, &format!("{mark} {path}")), paint_text(Style::Dim, &note));
}

fn render_field(field: &FieldChange, indent: &str, out: &mut String) {
    let _ = writeln!(out, "{indent}  {}", paint_text(Style::Heading, field.name));
    render_lines(field, &format!("{indent}    "), out);
}

/// The lines that differ, with a few around them.
pub(super) fn render_lines(field: &FieldChange, indent: &str, out: &mut String) {
    let (before, after) = (field.before.as_deref().unwrap_or_default(), field.after.as_deref().unwrap_or_default());
    let diff = compare_lines(before, after);
    let mut shown = 0;
    for (number, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if number > 0 && shown < MAX_SHOWN_LINES {
            let _ = writeln!(out, "{indent}{}", paint_text(Style::Dim, "…"));
        }
        for (tag, line) in
            group.iter().flat_map(|operation| cut_changes(&diff.iter_changes(operation).collect::<Vec<_>>()))
        {
            shown += 1;
            if shown <= MAX_SHOWN_LINES {
                render_line(tag, &line, indent, out);
            }
        }
    }
    if shown > MAX_SHOWN_LINES {
        let rest = count_noun(shown - MAX_SHOWN_LINES, "more line");
        let _ = writeln!(out, "{indent}{}", paint_text(Style::Dim, &format!("… and {rest}")));
    }
}

/// The lines of an operation. The first removed line and the first added one are cut to what differs between them, and so
/// are the next ones.
fn cut_changes(changes: &[Change<&str>]) -> Vec<(ChangeTag, String)> {
    let lines = changes.iter().map(|change| (change.tag(), change.value().trim_end_matches('\n')));
    let lines_of = |tag| lines.clone().filter(move |line| line.0 == tag).map(|line| line.1);
    let pairs = lines_of(ChangeTag::Delete).zip(lines_of(ChangeTag::Insert));
    let (removed, added): (Vec<_>, Vec<_>) = pairs.map(|(removed, added)| cut_changed_lines(removed, added)).unzip();
    let (mut removed, mut added) = (removed.into_iter(), added.into_iter());
    let cut = |(tag, line): (ChangeTag, &str)| {
        let paired = match tag {
            ChangeTag::Delete => removed.next(),
            ChangeTag::Insert => added.next(),
            ChangeTag::Equal => None,
        };
        (tag, paired.unwrap_or_else(|| cut_line(line)))
    };
    lines.clone().map(cut).collect()
}

fn render_line(tag: ChangeTag, line: &str, indent: &str, out: &mut String) {
    let _ = match tag {
        ChangeTag::Equal => writeln!(out, "{indent}  {}", paint_text(Style::Dim, line)),
        ChangeTag::Delete => writeln!(out, "{indent}{}", paint_text(Style::Bad, &format!("- {line}"))),
        ChangeTag::Insert => writeln!(out, "{indent}{}", paint_text(Style::Good, &format!("+ {line}"))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_in_a_long_line_is_shown_with_its_surroundings() {
        let text = |word: &str| format!("{}{word}{}\n", "b".repeat(5_000), "e".repeat(5_000));
        let field = FieldChange { name: "prompt", before: Some(text("rain")), after: Some(text("snow")) };
        let mut out = String::new();
        render_lines(&field, "", &mut out);
        assert!(out.contains("brain") && out.contains("bsnowe") && out.len() < 400, "{out}");
    }

    #[test]
    fn a_long_difference_is_cut_with_its_number_of_lines() {
        let text = |mark: &str| (0..20_000).map(|number| format!("{mark}{number}\n")).collect::<String>();
        let field = FieldChange { name: "prompt", before: Some(text("a")), after: Some(text("b")) };
        let mut out = String::new();
        render_lines(&field, "", &mut out);
        assert_eq!(out.lines().count(), MAX_SHOWN_LINES + 1);
        assert!(out.contains("- a199") && !out.contains("- a200") && out.contains("… and 39800 more lines"), "{out}");
    }
}
