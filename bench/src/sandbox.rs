//! Untrusted code: the cost of a locked-down process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_core::chat::Message;
use flowloom_core::effect::{Generated, HttpReply, HttpRequest, PythonRequest, ScriptRequest};
use flowloom_core::id::RunId;
use flowloom_core::json;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::effects::{Code, Context, Deltas, Host, Reply};
use flowloom_sandbox::{Sandbox, SandboxConfig};

use crate::Failure;
use crate::measure::{Row, Sample};

/// Evaluations per repetition.
const EVALUATIONS: usize = 200;
const REPETITIONS: usize = 21;

/// An expression in an idle worker, a block in a new interpreter, and one in an idle interpreter.
pub(crate) async fn sandbox() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let warm = Sandbox::new(config());
    let available = warm.available().await;
    available.script?;
    let script = Sample::of(scripts(&warm).await?);
    let row = Row::new("sandbox", "expression, per evaluation", EVALUATIONS).measured(script, None, EVALUATIONS);
    let value = row.per_unit();
    rows.push(row.at_most(value, 200.0, "µs"));
    if available.python.is_err() {
        return Ok(rows);
    }
    let mut config = config();
    config.python.warm = 0;
    let cold = Sandbox::new(config);
    cold.available().await.python?;
    // The first interpreter is idle, because it was started to check that Python works.
    block(&cold).await?;
    for (what, sandbox, pause, bound) in [
        ("block in a new interpreter", &cold, Duration::ZERO, 60.0),
        ("block in an idle interpreter", &warm, Duration::from_millis(200), 10.0),
    ] {
        let mut times = Vec::new();
        for _ in 0..REPETITIONS {
            times.push(block(sandbox).await?);
            tokio::time::sleep(pause).await;
        }
        let sample = Sample::of(times);
        let row = Row::new("sandbox", what, 1).measured(sample, None, 1);
        rows.push(row.at_most(sample.median * 1e3, bound, "ms"));
    }
    Ok(rows)
}

fn config() -> SandboxConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let interpreters = std::env::split_paths(&path).map(|folder| folder.join("python3")).filter(|path| path.exists());
    SandboxConfig::new("/proc/self/exe", interpreters.collect::<Vec<PathBuf>>())
}

async fn scripts(sandbox: &Sandbox) -> Result<Vec<f64>, Failure> {
    let items = json::parse_value(r#"[{"name":"a"},{"name":"b"},{"name":"c"}]"#).map_err(|error| error.message)?;
    let request = ScriptRequest {
        source: "items.map((item) => item.name).join(', ')".into(),
        names: vec![("items".into(), Some(items))],
        now_ms: 0,
        seed: 0,
    };
    let mut times = Vec::new();
    for _ in 0..REPETITIONS {
        let since = Instant::now();
        for _ in 0..EVALUATIONS {
            sandbox.script(&request, &context()).await?;
        }
        times.push(since.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Duration of one block, in seconds.
async fn block(sandbox: &Sandbox) -> Result<f64, Failure> {
    let request = PythonRequest {
        source: "async def execute(inputs, context):\n    return {'n': math.floor(2.5)}\n".into(),
        inputs: json::parse_value("{}").map_err(|error| error.message)?,
        user: Default::default(),
        memory: Default::default(),
        class: EffectClass::AtLeastOnce,
    };
    let since = Instant::now();
    sandbox.python(&request, &Nobody, &context()).await?;
    Ok(since.elapsed().as_secs_f64())
}

fn context() -> Context {
    Context {
        run: RunId::new(0, [0; 10]),
        path: Path::root(),
        attempt: 1,
        owner: "local".into(),
        agent: None,
        depth: 0,
        purse: None,
        deltas: Arc::new(Nobody),
    }
}

/// No effects: these blocks make no requests.
struct Nobody;

impl Deltas for Nobody {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

impl Host for Nobody {
    fn http<'a>(&'a self, _request: HttpRequest) -> Reply<'a, HttpReply> {
        Box::pin(std::future::pending())
    }

    fn generate<'a>(&'a self, _messages: Vec<Message>) -> Reply<'a, Generated> {
        Box::pin(std::future::pending())
    }
}
