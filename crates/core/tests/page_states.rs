//! Fixtures of the studio, which folds events in the browser: the state after every event of the kept journals.
//!
//! `tests/page-states/` has a file for each file of `tests/journals/v1/`, with a line for each event.
//! `make page-states` writes them; `web/src/run/fold.test.ts` compares them with the fold in TypeScript.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use flowloom_core::event::Record;
use flowloom_core::state::{RunState, StepState};
use serde_json::{Map, Value, json};

/// Set to write the files instead of comparing them.
const UPDATE_VARIABLE: &str = "FLOWLOOM_UPDATE_STATES";

fn journals_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/journals")
}

/// The states after each record of a journal, a line each. A line has the steps that changed.
fn render_states(journal: &str) -> String {
    let mut state = RunState::default();
    let mut before: Vec<Value> = Vec::new();
    let mut lines = String::new();
    // The first line describes the journal.
    for line in journal.lines().skip(1) {
        let record: Record = serde_json::from_str(line).expect("a record");
        state.apply(&record).expect("legal");
        let steps: Vec<Value> = state.steps().iter().map(step_to_json).collect();
        let changed = steps.iter().enumerate().filter(|(at, step)| before.get(*at) != Some(step));
        let changed: Vec<Value> = changed.map(|(_, step)| step.clone()).collect();
        lines.push_str(&state_to_json(&state, changed).to_string());
        lines.push('\n');
        before = steps;
    }
    lines
}

fn state_to_json(state: &RunState, steps: Vec<Value>) -> Value {
    without_null(json!({
        "seq": state.seq,
        "status": state.status.name(),
        "input_tokens": state.usage.input_tokens,
        "output_tokens": state.usage.output_tokens,
        "micro_usd": state.usage.micro_usd,
        "error": state.error.as_ref().map(|error| error.code.to_string()),
        "failed": state.failed,
        "finished_at": state.finished_at,
        "steps": steps,
    }))
}

fn step_to_json(step: &StepState) -> Value {
    let mut json = without_null(json!({
        "path": step.path,
        "phase": step.phase.name(),
        "kind": step.kind,
        "target": step.target,
        "attempts": step.attempts,
        "started_at": step.started_at,
        "finished_at": step.finished_at,
        "first_seq": step.first_seq,
        "error": step.error.as_ref().map(|error| error.code.to_string()),
        "reason": step.reason,
        "warnings": step.warnings,
        "question": step.question.as_ref().map(|question| &question.question),
        "is_failure_ignored": step.is_failure_ignored,
    }));
    // An output of null is one.
    if let (Some(output), Value::Object(fields)) = (&step.output, &mut json) {
        fields.insert("output".to_owned(), serde_json::to_value(output).expect("JSON"));
    }
    json
}

fn without_null(object: Value) -> Value {
    let Value::Object(fields) = object else { return object };
    Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

#[test]
fn the_page_compares_its_states_with_these() {
    let mut count = 0;
    for entry in std::fs::read_dir(journals_folder().join("v1")).expect("readable").flatten() {
        let states = render_states(&std::fs::read_to_string(entry.path()).expect("UTF-8"));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/page-states").join(entry.file_name());
        if std::env::var_os(UPDATE_VARIABLE).is_some() {
            std::fs::write(&file, &states).expect("writable");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == states, "{} is not what the journal folds to; run `make page-states`", file.display());
        count += 1;
    }
    assert!(count > 40, "{count} journals");
}
