//! The expressions and the Python attempts of `tests/attacks` in every environment of `support/attack.rs`, as root and
//! as an ordinary user. The server runs them in the strongest one.

mod support;

use std::time::Duration;

use flowloom_sandbox::{SandboxConfig, ScriptLimits};
use serde_json::Value;
use support::attack::{GuardedSandbox, again_as_an_ordinary_user, guarded_sandboxes};
use support::evaluate_source;

const EXPRESSIONS: &str = include_str!("../../../tests/attacks/expressions.json");
const ATTEMPTS: &str = include_str!("../../../tests/attacks/python.json");
const PRELUDE: &str = include_str!("../../../tests/attacks/prelude.py");

/// Number of attempts in one block.
const ATTEMPTS_PER_BLOCK: usize = 25;

/// The inputs of a row, and the expectation.
struct Row {
    inputs: Vec<String>,
    /// Whether the input must not have a value.
    must_fail: bool,
    /// The permitted outcomes of an attempt; empty if only the canaries count.
    outcomes: Vec<String>,
}

/// The rows of a file whose inputs enter at a point.
fn rows_at(file: &str, point: &str) -> Vec<Row> {
    let file: Value = serde_json::from_str(file).expect("JSON");
    let texts = |value: &Value| {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<String>>()
    };
    let rows =
        file["rows"].as_array().expect("rows").iter().filter(|row| texts(&row["points"]).contains(&point.into()));
    let row = |row: &Value| {
        let runs = texts(&row["expect"]["run"]);
        let must_fail = !runs.is_empty() && !runs.contains(&"succeeded".to_owned());
        Row { inputs: texts(&row["inputs"]), must_fail, outcomes: texts(&row["expect"]["output"]) }
    };
    rows.map(row).collect()
}

#[test]
fn as_an_ordinary_user() {
    again_as_an_ordinary_user();
}

#[tokio::test]
async fn expressions_have_no_more_than_their_names() {
    let rows = rows_at(EXPRESSIONS, "markdown-expression");
    assert!(rows.iter().map(|row| row.inputs.len()).sum::<usize>() > 300);
    let limited = |config: &mut SandboxConfig| config.script = ScriptLimits::default();
    let mut unexpected = Vec::new();
    for guarded in guarded_sandboxes(limited).await {
        for row in &rows {
            for source in &row.inputs {
                let outcome = evaluate_source(&guarded.sandbox, source).await;
                let printed = outcome.clone().unwrap_or_else(|error| error.message);
                for (key, value) in std::env::vars().filter(|(_, value)| value.len() > 8) {
                    assert!(!printed.contains(&value), "${key} was read: {source}\n{printed}");
                }
                let has_value = outcome.as_ref().is_ok_and(|value| value != "undefined" && value != "{}");
                if row.must_fail && has_value {
                    unexpected.push(format!("{source}: {printed}"));
                }
            }
        }
        assert_eq!(evaluate_source(&guarded.sandbox, "1 + 1").await.as_deref(), Ok("2"));
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// A block that makes several attempts, and returns what became of each.
fn attempt_block(attempts: &[String]) -> String {
    let prelude: String = PRELUDE.lines().map(|line| format!("    {line}\n")).collect();
    let attempts: String =
        attempts.iter().map(|attempt| format!("    out.append(tried(lambda: {attempt}))\n")).collect();
    format!("async def execute(inputs, context):\n{prelude}    out = []\n{attempts}    return {{'out': out}}\n")
}

async fn run_attempts(guarded: &GuardedSandbox, row: &Row, attempts: &[String]) -> Vec<String> {
    let outcome = guarded.run_attack(&attempt_block(attempts)).await;
    if row.outcomes.is_empty() {
        return Vec::new();
    }
    let output = outcome.unwrap_or_else(|error| panic!("{attempts:?}: {}", error.message));
    let output: Value = serde_json::from_str(&output).expect("JSON");
    let became = output["out"].as_array().expect("a list").iter().map(|it| it.as_str().unwrap_or_default());
    let unexpected = attempts.iter().zip(became).filter(|(_, became)| row.outcomes.iter().all(|one| one != became));
    unexpected.map(|(attempt, became)| format!("{}: {attempt}: {became}", guarded.name)).collect()
}

#[tokio::test]
async fn blocks_reach_no_file_connection_or_process() {
    let mut rows = rows_at(ATTEMPTS, "python-expression");
    rows.extend(rows_at(ATTEMPTS, "python-look"));
    assert!(rows.iter().map(|row| row.inputs.len()).sum::<usize>() > 250);
    let mut unexpected = Vec::new();
    for guarded in guarded_sandboxes(|_| ()).await {
        for row in &rows {
            for attempts in row.inputs.chunks(ATTEMPTS_PER_BLOCK) {
                unexpected.extend(run_attempts(&guarded, row, attempts).await);
            }
        }
        guarded.check_next_block().await;
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// Time limit of a block that may run for ever.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn whole_blocks_fail_alone() {
    let rows = rows_at(ATTEMPTS, "python-block");
    assert!(rows.iter().map(|row| row.inputs.len()).sum::<usize>() > 40);
    let mut unexpected = Vec::new();
    for guarded in guarded_sandboxes(|config| config.python.timeout = BLOCK_TIMEOUT).await {
        for row in &rows {
            for source in &row.inputs {
                let outcome = guarded.run_attack(source).await;
                // An output with an error fails the node of a pipeline, not the block.
                let is_error = outcome.as_ref().is_ok_and(|output| output.starts_with("{\"error\":"));
                if row.must_fail && outcome.is_ok() && !is_error {
                    unexpected.push(format!("{}: {source}: {outcome:?}", guarded.name));
                }
            }
        }
        guarded.check_next_block().await;
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}
