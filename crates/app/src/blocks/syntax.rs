//! Whether the source of a Python block is Python and defines the function of a block. The sandbox's interpreter parses it;
//! nothing of it is run.

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

use crate::config::{Config, SandboxSettings};
use crate::wiring::build_sandbox;

/// Parses each source, and looks for what may define `execute`: a function, a class, an assignment, an import, or code that
/// can define anything. The flag is `ast.PyCF_ONLY_AST`.
const PARSER_SOURCE: &str = r#"
FUNCTIONS = ("FunctionDef", "AsyncFunctionDef", "ClassDef")

def may_define(node):
    kind = type(node).__name__
    if kind in FUNCTIONS and node.name == "execute":
        return True
    if kind == "Name" and (node.id in ("exec", "globals") or node.id == "execute" and type(node.ctx).__name__ == "Store"):
        return True
    if kind == "alias" and (node.asname or node.name) in ("execute", "*"):
        return True
    return kind == "Global" and "execute" in node.names

def defines_execute(tree):
    open = [(tree, True)]
    while open:
        node, is_top = open.pop()
        kind = type(node).__name__
        if may_define(node) and (is_top or kind == "Global" or kind == "Name" and node.id != "execute"):
            return True
        is_top = is_top and kind not in FUNCTIONS and kind != "Lambda"
        for field in node._fields:
            value = getattr(node, field, None)
            parts = value if isinstance(value, list) else [value]
            open += [(part, is_top) for part in parts if hasattr(part, "_fields")]
    return False

async def execute(inputs, context):
    problems = []
    for source in inputs["sources"]:
        problem = None
        try:
            tree = compile(source, "block", "exec", 1024, True)
            if not defines_execute(tree):
                problem = "has no function execute(inputs, context)"
        except SyntaxError as error:
            problem = f"is not Python: line {error.lineno}: {error.msg}"
        except Exception as error:
            problem = f"is not Python: {error}"
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

    /// A parser in a sandbox of its own, without a store. Its interpreter is one of the system, also if the project has one
    /// of its own: to check a project runs nothing of it.
    pub fn with_system_python(config: &Config) -> PythonSyntax {
        let settings = SandboxSettings { python: None, env: Vec::new(), cgroup: None, ..config.sandbox.clone() };
        let config = Config { sandbox: settings, ..config.clone() };
        PythonSyntax::new(Arc::new(build_sandbox(&config, None)))
    }

    /// The problem of each source, as a predicate such as `is not Python`; `None` if it is valid, and for all without a
    /// sandbox.
    pub async fn find_problems(&self, sources: &[&str]) -> Vec<Option<String>> {
        let list = Value::list(sources.iter().map(|source| Value::from(*source)).collect());
        let request = PythonRequest {
            source: PARSER_SOURCE.into(),
            inputs: Value::map([("sources", list)]),
            user: Value::Null,
            memory: Map::new().into(),
            class: EffectClass::AtLeastOnce,
        };
        let reply = self.sandbox.run_python(&request, &NoEffects, &effectless_context(SHARED_USER)).await;
        let output = reply.map(|reply| reply.output).unwrap_or_default();
        let problems = output.get("problems").and_then(Value::as_list).unwrap_or_default();
        let problem = |at: usize| problems.get(at).and_then(Value::as_str).map(str::to_owned);
        (0..sources.len()).map(problem).collect()
    }
}

/// The context of code that performs no effects and belongs to no run.
pub(crate) fn effectless_context(user: &str) -> EffectContext {
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
