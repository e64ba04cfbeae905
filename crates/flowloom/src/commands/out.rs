//! `--out DIR`: writes the result of a run to files.

use std::path::Path;

use flowloom_app::runs::summary;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_runtime::Outcome as RunOutcome;
use jiff::Timestamp;

use crate::failure::Failure;

/// Creates the folder before the run, so that an unwritable path is reported early.
pub(crate) fn prepare(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))
}

/// Writes `result.json`, the object printed by `--json`, and `output.md`: the output as text, with a frontmatter that
/// describes the run.
pub(crate) fn write(folder: &Path, plan: &Plan, outcome: &RunOutcome) -> Result<(), Failure> {
    let summary = summary::summary(outcome.id, plan, &outcome.state, &outcome.env);
    let document = document(plan, outcome, &summary.output);
    for (name, text) in [("result.json", summary::indented(&summary)), ("output.md", document)] {
        let file = folder.join(name);
        std::fs::write(&file, text + "\n").map_err(|error| unwritable(&file, &error))?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()))
}

fn document(plan: &Plan, outcome: &RunOutcome, output: &Value) -> String {
    let state = &outcome.state;
    let created = i64::try_from(state.created_at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    let text = match output {
        Value::String(text) => text.to_string(),
        other => format!("```json\n{}\n```", summary::indented(other)),
    };
    // JSON strings are valid YAML, whatever characters the title contains.
    let title = summary::indented(&plan.name);
    let created = created.map_or_else(String::new, |at| format!("created: {at}\n"));
    format!(
        "---\ntitle: {title}\n{created}run: {}\nstatus: {}\nusage:\n  inputTokens: {}\n  outputTokens: {}\n---\n\n{text}",
        outcome.id,
        state.status.name(),
        state.usage.input_tokens,
        state.usage.output_tokens,
    )
}
