//! Fairness between users: how long the code of one user takes while another user has a thousand pieces of code queued.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_core::effect::{PythonRequest, ScriptRequest};
use flowloom_core::json;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_sandbox::Sandbox;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::{ReportRow, SampleStats};
use crate::sandbox::{NoEffects, context_of, sandbox_config};

const REPETITIONS: usize = 11;

/// Number of blocks, and of expressions, that the busy user queues.
const QUEUED: usize = 1000;

/// How long the pool may serve the other user first.
const SLICE: Duration = Duration::from_millis(200);

const TRIVIAL_BLOCK: &str = "async def execute(inputs, context):\n    return {'done': True}\n";
const SLEEPING_BLOCK: &str = "import time\nasync def execute(inputs, context):\n    time.sleep(50)\n    return {}\n";
const TRIVIAL_EXPRESSION: &str = "1 + 1";
const ENDLESS_EXPRESSION: &str = "(() => { while (true) {} })()";

/// The latency of a trivial block and a trivial expression, idle and during the queue of another user.
pub(crate) async fn measure_fairness() -> Result<Vec<ReportRow>, BenchError> {
    let mut config = sandbox_config();
    config.python.warm = 0;
    let sandbox = Arc::new(Sandbox::new(config));
    let available = sandbox.check_availability().await;
    available.script?;
    if available.python.is_err() {
        return Ok(Vec::new());
    }
    let block = async || run_block(&sandbox, TRIVIAL_BLOCK, "bob").await;
    let expression = async || evaluate_expression(&sandbox, TRIVIAL_EXPRESSION, "bob").await;
    let (idle_block, idle_expression) = (time_calls(block).await?, time_calls(expression).await?);
    let mut queue = JoinSet::new();
    for _ in 0..QUEUED {
        let (first, second) = (sandbox.clone(), sandbox.clone());
        queue.spawn(async move {
            let _ = run_block(&first, SLEEPING_BLOCK, "ann").await;
        });
        queue.spawn(async move {
            let _ = evaluate_expression(&second, ENDLESS_EXPRESSION, "ann").await;
        });
    }
    tokio::time::sleep(SLICE).await;
    let (busy_block, busy_expression) = (time_calls(block).await?, time_calls(expression).await?);
    queue.shutdown().await;
    let row = |what: &str, idle: SampleStats, busy: SampleStats| {
        let bound_ms = (2.0 * idle.median + SLICE.as_secs_f64()) * 1e3;
        let row = ReportRow::new("fairness", what, 1).with_samples(busy, None, 1);
        row.with_maximum(busy.median * 1e3, bound_ms.round(), "ms")
    };
    Ok(vec![
        row("block beside 1,000 sleeping ones of another user", idle_block, busy_block),
        row("expression beside 1,000 endless ones of another user", idle_expression, busy_expression),
    ])
}

async fn time_calls(call: impl AsyncFn() -> Result<(), BenchError>) -> Result<SampleStats, BenchError> {
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let since = Instant::now();
        call().await?;
        seconds.push(since.elapsed().as_secs_f64());
    }
    Ok(SampleStats::from_seconds(seconds))
}

async fn run_block(sandbox: &Sandbox, source: &str, user: &str) -> Result<(), BenchError> {
    let request = PythonRequest {
        source: source.into(),
        inputs: json::parse_value("{}").map_err(|error| error.message)?,
        user: Default::default(),
        memory: Default::default(),
        class: EffectClass::AtLeastOnce,
    };
    sandbox.run_python(&request, &NoEffects, &context_of(user)).await?;
    Ok(())
}

async fn evaluate_expression(sandbox: &Sandbox, source: &str, user: &str) -> Result<(), BenchError> {
    let request = ScriptRequest { source: source.into(), names: Vec::new(), now_ms: 0, seed: 0 };
    sandbox.evaluate_script(&request, &context_of(user)).await?;
    Ok(())
}
