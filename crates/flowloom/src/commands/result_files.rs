//! `--out DIR`: writes the result of a run to files.

use std::path::Path;

use flowloom_app::project_files;
use flowloom_app::runs::summary;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_runtime::RunOutcome;
use jiff::Timestamp;

use crate::failure::CommandError;

/// Creates the folder before the run, so that an unwritable path is reported early.
pub(crate) fn create_folder(folder: &Path) -> Result<(), CommandError> {
    project_files::create_folder(folder).map_err(|error| write_failure(folder, &error))
}

/// Writes `result.json`, the object printed by `--json`, and `output.md`: the output as text, with a frontmatter that
/// describes the run.
pub(crate) fn write_result(folder: &Path, plan: &Plan, outcome: &RunOutcome) -> Result<(), CommandError> {
    let summary = summary::summarize_run(outcome.id, plan, &outcome.state, &outcome.env);
    let document = render_document(plan, outcome, &summary.output);
    for (name, text) in [("result.json", summary::to_indented_json(&summary)), ("output.md", document)] {
        let file = folder.join(name);
        project_files::write_file(&file, text + "\n").map_err(|error| write_failure(&file, &error))?;
    }
    Ok(())
}

fn write_failure(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::usage(format!("{} cannot be written: {error}", path.display()))
}

fn render_document(plan: &Plan, outcome: &RunOutcome, output: &Value) -> String {
    let state = &outcome.state;
    let created = i64::try_from(state.created_at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    let text = match output {
        Value::String(text) => text.to_string(),
        other => format!("```json\n{}\n```", summary::to_indented_json(other)),
    };
    // JSON strings are valid YAML, whatever characters the title contains.
    let title = summary::to_indented_json(&plan.name);
    let created = created.map_or_else(String::new, |at| format!("created: {at}\n"));
    format!(
        "---\ntitle: {title}\n{created}run: {}\nstatus: {}\nusage:\n  inputTokens: {}\n  outputTokens: {}\n---\n\n{text}",
        outcome.id,
        state.status.name(),
        state.usage.input_tokens,
        state.usage.output_tokens,
    )
}
