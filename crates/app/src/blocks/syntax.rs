//! Whether the source of a Python block is Python. The sandbox's interpreter parses it; nothing of it is run.

use std::sync::Arc;

use flowloom_core::chat::Message;
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, HttpReply, HttpRequest, PythonRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{CodeRunner, Deltas, EffectContext, EffectFuture, SandboxHost};
use flowloom_sandbox::Sandbox;
use flowloom_store::SHARED_USER;

use crate::config::Config;
use crate::wiring::build_sandbox;

/// Parses each source. The flag is `ast.PyCF_ONLY_AST`.
const PARSER_SOURCE: &str = r#"
async def execute(inputs, context):
    problems = []
    for source in inputs["sources"]:
        problem = None
        try:
            compile(source, "block", "exec", 1024, True)
        except SyntaxError as error:
            problem = f"line {error.lineno}: {error.msg}"
        except Exception as error:
            problem = str(error)
        problems.append(problem)
    return {"problems": problems}
"#;

/// The parser of Python sources.
pub struct PythonSyntax {
    sandbox: Arc<Sandbox>,
}

impl PythonSyntax {
    /// A parser in this sandbox.
    pub fn new(sandbox: Arc<Sandbox>) -> PythonSyntax {
        PythonSyntax { sandbox }
    }

    /// A parser in a sandbox of its own, without a store.
    pub fn from_config(config: &Config) -> PythonSyntax {
        PythonSyntax::new(Arc::new(build_sandbox(config, None)))
    }

    /// What is wrong with each source; `None` for a correct one, and for all where there is no sandbox.
    pub async fn find_problems(&self, sources: &[&str]) -> Vec<Option<String>> {
        let list = Value::list(sources.iter().map(|source| Value::from(*source)).collect());
        let request = PythonRequest {
            source: PARSER_SOURCE.into(),
            inputs: Value::map([("sources", list)]),
            user: Value::Null,
            memory: Map::new().into(),
            class: EffectClass::AtLeastOnce,
        };
        let reply = self.sandbox.run_python(&request, &NoEffects, &parser_context()).await;
        let output = reply.map(|reply| reply.output).unwrap_or_default();
        let problems = output.get("problems").and_then(Value::as_list).unwrap_or_default();
        let problem = |at: usize| problems.get(at).and_then(Value::as_str).map(str::to_owned);
        (0..sources.len()).map(problem).collect()
    }
}

/// The context of the parser, which performs no effects.
fn parser_context() -> EffectContext {
    EffectContext {
        run: RunId::new(0, [0; 10]),
        path: Path::root(),
        attempt: 1,
        retried_attempt: 0,
        user: SHARED_USER.into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: Arc::new(NoEffects),
    }
}

/// Refuses every effect.
struct NoEffects;

impl NoEffects {
    fn refuse_effect<T>() -> Result<T, StepFailure> {
        Err(StepFailure::new(Code::BlockFailed, "the parser of Python performs no effects"))
    }
}

impl Deltas for NoEffects {
    fn push(&self, _path: &Path, _attempt: u32, _text: &str) {}
}

impl SandboxHost for NoEffects {
    fn send_http<'a>(&'a self, _request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(async { NoEffects::refuse_effect() })
    }

    fn generate_reply<'a>(&'a self, _messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async { NoEffects::refuse_effect() })
    }
}
