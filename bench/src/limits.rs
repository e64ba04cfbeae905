//! Measures how a server is protected from the code and the texts of its users: the time until an endless expression ends, and
//! until authoring with a model that writes endless blocks ends; and the cost of redacting secrets.

use std::process::{Command, Stdio};
use std::time::Instant;

use flowloom_core::effect::ScriptRequest;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_runtime::redact::Redactor as _;
use flowloom_sandbox::Sandbox;
use flowloom_tools::{HiddenSecret, SecretRedactor};

use crate::measure::{ReportRow, SampleStats};
use crate::sandbox::{context_of, sandbox_config};
use crate::{BenchError, build_folder};

const REPETITIONS: usize = 11;

/// Twice the default of `sandbox.script_timeout_ms`.
const EXPRESSION_BOUND_MS: f64 = 200.0;

/// A loop of the regular expression engine, which calls no JavaScript.
const NATIVE_LOOP: &str = "/^(a+)+$/.test('a'.repeat(64) + 'b')";

const AUTHORING_BOUND_S: f64 = 30.0;

/// The answers of a model that splits a goal into three blocks and writes endless loops.
const ENDLESS_ANSWERS: &str = include_str!("../data/endless-blocks.script.json");

const SECRET_COUNT: usize = 10;
const REDACTED_KB: usize = 1024;

/// Measures each protection.
pub(crate) async fn measure_limits() -> Result<Vec<ReportRow>, BenchError> {
    Ok(vec![measure_expression().await?, measure_authoring()?, measure_redaction()])
}

async fn measure_expression() -> Result<ReportRow, BenchError> {
    let sandbox = Sandbox::new(sandbox_config());
    sandbox.check_availability().await.script?;
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let request = ScriptRequest { source: NATIVE_LOOP.into(), names: Vec::new(), now_ms: 0, seed: 0 };
        let since = Instant::now();
        if sandbox.evaluate_script(&request, &context_of("ann")).await.is_ok() {
            return Err("the endless expression has ended by itself".into());
        }
        seconds.push(since.elapsed().as_secs_f64());
    }
    let sample = SampleStats::from_seconds(seconds);
    let row = ReportRow::new("limits", "end of an endless regular expression", 1).with_samples(sample, None, 1);
    Ok(row.with_maximum(sample.median * 1e3, EXPRESSION_BOUND_MS, "ms"))
}

/// The time that `flowloom new` takes with a model that writes three endless blocks. The limits are the defaults.
fn measure_authoring() -> Result<ReportRow, BenchError> {
    let program = build_folder().join("release/flowloom");
    let what = "end of authoring with endless blocks";
    if !program.exists() {
        return Ok(ReportRow::new("limits", &format!("{what}: target/release/flowloom is not built"), 1));
    }
    let folder = tempfile::tempdir()?;
    let settings = "default_model = \"scripted:answers.json\"\n[embeddings]\nmodel = \"none\"\n";
    std::fs::write(folder.path().join("flowloom.toml"), settings)?;
    std::fs::write(folder.path().join("answers.json"), ENDLESS_ANSWERS)?;
    let mut command = Command::new(&program);
    command.args(["new", "Loop for ever", "--yes", "--json"]).current_dir(folder.path());
    let since = Instant::now();
    let output = command.stderr(Stdio::null()).output()?;
    let seconds = since.elapsed().as_secs_f64();
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() || !printed.contains("it ran longer than") {
        return Err(format!("authoring did not fail because of the endless blocks: {printed}").into());
    }
    let row = ReportRow::new("limits", what, 1).with_samples(SampleStats::from_seconds(vec![seconds]), None, 1);
    Ok(row.with_maximum(seconds, AUTHORING_BOUND_S, "s"))
}

fn measure_redaction() -> ReportRow {
    let secrets: Vec<HiddenSecret> = (0..SECRET_COUNT)
        .map(|n| HiddenSecret {
            name: Some(format!("KEY_{n}")),
            value: format!("sk-{n}-s3cr3t+value/of=a key-{n:032}"),
        })
        .collect();
    let words = "The quick brown fox reads sk-lists and base64 like c2stMC1z, 736b2d30, and sk%2D0. ";
    let mut text = words.repeat(REDACTED_KB * 1024 / words.len());
    text.push_str(&secrets[0].value);
    let redactor = SecretRedactor::new(secrets);
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let since = Instant::now();
        let redacted = redactor.redact_text(&text);
        seconds.push(since.elapsed().as_secs_f64());
        assert!(redacted.len() < text.len(), "the secret is redacted");
    }
    let sample = SampleStats::from_seconds(seconds);
    let units = REDACTED_KB * SECRET_COUNT;
    let row = ReportRow::new("limits", "redaction, per KB and secret", units).with_samples(sample, None, units);
    let per_unit = row.per_unit();
    row.with_maximum(per_unit, 1.0, "µs")
}
