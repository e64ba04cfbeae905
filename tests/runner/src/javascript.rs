//! JavaScript for cases: a fresh context for every expression, its names as plain data.

use flowloom_core::code::Code as Why;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::request::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Code, Context, Host, Reply};

/// `dedent`, as a tag and as a function.
const DEDENT: &str = r"function dedent(strings, ...values) {
  const raw = Array.from(typeof strings === 'string' ? [strings] : strings.raw.map((_, i) => strings[i]));
  raw[raw.length - 1] = raw[raw.length - 1].replace(/\r?\n([\t ]*)$/, '');
  const widths = raw.flatMap(s => (s.match(/\n([\t ]+|(?!\s).)/g) || []).map(m => (m.match(/[\t ]/g) || []).length));
  if (widths.length) {
    const indent = new RegExp('\n[\t ]{' + Math.min(...widths) + '}', 'g');
    raw.forEach((s, i) => { raw[i] = s.replace(indent, '\n'); });
  }
  raw[0] = raw[0].replace(/^\r?\n/, '');
  return raw.reduce((text, part, i) => text + String(values[i - 1]) + part);
}";

/// Evaluates expressions in this process.
pub(crate) struct JavaScript;

impl Code for JavaScript {
    fn python<'a>(&'a self, _: &'a PythonRequest, _: &'a dyn Host, _: &'a Context) -> Reply<'a, PythonReply> {
        Box::pin(async { Err(StepError::new(Why::NoSandbox, "cases run no Python")) })
    }

    fn script<'a>(&'a self, request: &'a ScriptRequest, _: &'a Context) -> Reply<'a, Option<Value>> {
        Box::pin(async move {
            let failed = |message: String| StepError::new(Why::ExpressionFailed, message);
            let text = evaluate(&program(request)).map_err(failed)?;
            match text.strip_prefix('=') {
                Some(json) => parse_value(json).map(Some).map_err(|error| failed(error.to_string())),
                None => Ok(None),
            }
        })
    }
}

fn program(request: &ScriptRequest) -> String {
    let names: Vec<&str> = request.names.iter().map(|(name, _)| &**name).collect();
    let values: Vec<String> =
        request.names.iter().map(|(_, value)| value.as_ref().map_or("undefined".into(), render::json)).collect();
    format!(
        "{DEDENT};(v=>v===undefined?'':'='+JSON.stringify(typeof v==='number'&&!Number.isFinite(v)?String(v):v))\
         ((({})=>(\n{}\n))({}))",
        names.join(","),
        request.source,
        values.join(",")
    )
}

fn evaluate(program: &str) -> Result<String, String> {
    let runtime = rquickjs::Runtime::new().map_err(|error| error.to_string())?;
    runtime.set_memory_limit(32 << 20);
    let context = rquickjs::Context::full(&runtime).map_err(|error| error.to_string())?;
    context.with(|ctx| {
        let evaluated: Result<String, _> = ctx.eval(program);
        evaluated.map_err(|error| match error {
            rquickjs::Error::Exception => {
                let caught = ctx.catch();
                let message = caught.as_exception().and_then(|exception| exception.message());
                message.unwrap_or_else(|| "it threw".to_owned())
            }
            other => other.to_string(),
        })
    })
}
