//! Untrusted code: the cost of a locked-down process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_core::chat::Message;
use flowloom_core::effect::{GenerateReply, HttpReply, HttpRequest, PythonRequest, ScriptRequest};
use flowloom_core::id::RunId;
use flowloom_core::json;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::effects::{CodeRunner, Deltas, EffectContext, EffectFuture, SandboxHost};
use flowloom_sandbox::{Sandbox, SandboxConfig};

use crate::BenchError;
use crate::measure::{ReportRow, SampleStats};

/// Evaluations per repetition.
const EVALUATIONS_PER_REPETITION: usize = 200;
const SANDBOX_REPETITIONS: usize = 21;

/// An expression in an idle worker, a block in a new interpreter, and one in an idle interpreter.
pub(crate) async fn measure_sandbox() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    let warm = Sandbox::new(sandbox_config());
    let available = warm.check_availability().await;
    available.script?;
    let script = SampleStats::from_seconds(time_scripts(&warm).await?);
    let row = ReportRow::new("sandbox", "expression, per evaluation", EVALUATIONS_PER_REPETITION).with_samples(
        script,
        None,
        EVALUATIONS_PER_REPETITION,
    );
    let value = row.per_unit();
    rows.push(row.with_maximum(value, 200.0, "µs"));
    if available.python.is_err() {
        return Ok(rows);
    }
    let mut config = sandbox_config();
    config.python.warm = 0;
    let cold = Sandbox::new(config);
    cold.check_availability().await.python?;
    // The first interpreter is idle, because it was started to check that Python works.
    time_block(&cold).await?;
    for (what, sandbox, pause, bound) in [
        ("block in a new interpreter", &cold, Duration::ZERO, 60.0),
        ("block in an idle interpreter", &warm, Duration::from_millis(200), 10.0),
    ] {
        let mut times = Vec::new();
        for _ in 0..SANDBOX_REPETITIONS {
            times.push(time_block(sandbox).await?);
            tokio::time::sleep(pause).await;
        }
        let sample = SampleStats::from_seconds(times);
        let row = ReportRow::new("sandbox", what, 1).with_samples(sample, None, 1);
        rows.push(row.with_maximum(sample.median * 1e3, bound, "ms"));
    }
    Ok(rows)
}

pub(crate) fn sandbox_config() -> SandboxConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let interpreters = std::env::split_paths(&path).map(|folder| folder.join("python3")).filter(|path| path.exists());
    SandboxConfig::new("/proc/self/exe", interpreters.collect::<Vec<PathBuf>>())
}

async fn time_scripts(sandbox: &Sandbox) -> Result<Vec<f64>, BenchError> {
    let items = json::parse_value(r#"[{"name":"a"},{"name":"b"},{"name":"c"}]"#).map_err(|error| error.message)?;
    let request = ScriptRequest {
        source: "items.map((item) => item.name).join(', ')".into(),
        names: vec![("items".into(), Some(items))],
        now_ms: 0,
        seed: 0,
    };
    let mut times = Vec::new();
    for _ in 0..SANDBOX_REPETITIONS {
        let since = Instant::now();
        for _ in 0..EVALUATIONS_PER_REPETITION {
            sandbox.evaluate_script(&request, &context_of("local")).await?;
        }
        times.push(since.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Duration of one block, in seconds.
async fn time_block(sandbox: &Sandbox) -> Result<f64, BenchError> {
    let request = PythonRequest {
        source: "async def execute(inputs, context):\n    return {'n': math.floor(2.5)}\n".into(),
        inputs: json::parse_value("{}").map_err(|error| error.message)?,
        user: Default::default(),
        memory: Default::default(),
        class: EffectClass::AtLeastOnce,
    };
    let since = Instant::now();
    sandbox.run_python(&request, &NoEffects, &context_of("local")).await?;
    Ok(since.elapsed().as_secs_f64())
}

pub(crate) fn context_of(user: &str) -> EffectContext {
    EffectContext {
        run: RunId::new(0, [0; 10]),
        epoch: 1,
        path: Path::root(),
        attempt: 1,
        retried_attempt: 0,
        user: user.into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: Arc::new(NoEffects),
    }
}

/// No effects: these blocks make no requests.
pub(crate) struct NoEffects;

impl Deltas for NoEffects {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

impl SandboxHost for NoEffects {
    fn send_http<'a>(&'a self, _request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(std::future::pending())
    }

    fn generate_reply<'a>(&'a self, _messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(std::future::pending())
    }
}
