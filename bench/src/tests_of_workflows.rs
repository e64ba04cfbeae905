//! Measures `flowloom test`: many tests of a workflow, without models and without the network.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::measure::{ReportRow, SampleStats};
use crate::{BenchError, build_folder};

const REPETITIONS: usize = 7;

const TESTS: usize = 500;

const STEPS: usize = 10;

const BOUND_S: f64 = 2.0;

/// The time of a whole process that runs all tests.
pub(crate) fn measure_tests() -> Result<Vec<ReportRow>, BenchError> {
    let program = build_folder().join("release/flowloom");
    let what = format!("flowloom test: {TESTS} tests of {STEPS} steps");
    if !program.exists() {
        return Ok(vec![ReportRow::new("tests", &format!("{what}: target/release/flowloom is not built"), TESTS)]);
    }
    let folder = tempfile::tempdir()?;
    write_tests(folder.path())?;
    let mut seconds = Vec::new();
    for turn in 0..=REPETITIONS {
        let mut command = Command::new(&program);
        command.args(["test", "tests"]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let since = Instant::now();
        if !command.status()?.success() {
            return Err("a test of the workflow failed".into());
        }
        // The first turn warms up.
        if turn > 0 {
            seconds.push(since.elapsed().as_secs_f64());
        }
    }
    let sample = SampleStats::from_seconds(seconds);
    let row = ReportRow::new("tests", &what, TESTS).with_samples(sample, None, TESTS);
    Ok(vec![row.with_maximum(sample.median, BOUND_S, "s")])
}

fn write_tests(folder: &Path) -> Result<(), BenchError> {
    let step = |n: usize| {
        json!({"name": format!("s{n}"), "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
            "promptTemplate": format!("{n}: {{{{input}}}}"), "outputVar": format!("s{n}")})
    };
    let steps: Vec<Value> = (0..STEPS).map(step).collect();
    let chain = json!({"id": "chain", "name": "Chain", "description": "d", "steps": steps});
    std::fs::write(folder.join("flowloom.toml"), "")?;
    std::fs::write(folder.join("chain.json"), chain.to_string())?;
    std::fs::create_dir(folder.join("tests"))?;
    let answers: Vec<String> = (0..STEPS).map(|n| format!("answer {n}")).collect();
    for n in 0..TESTS {
        let test = json!({"definition": "../chain.json", "inputs": format!("input {n}"), "answers": answers,
            "expect": {"output": [{"equals": format!("answer {}", STEPS - 1)}]}});
        std::fs::write(folder.join(format!("tests/t{n}.json")), test.to_string())?;
    }
    Ok(())
}
