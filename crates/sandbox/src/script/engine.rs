//! One evaluation in a fresh QuickJS engine: no host objects, limited memory and stack, and a time limit.
//!
//! The engine's own limits give good error messages and spare the worker. Loops inside its built-in functions do not
//! check the clock (reference: quickjs-ng 1672), so the reliable limit is a timer of the kernel (`worker`).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Object, Persistent, Runtime, Value as JsValue};

use super::error::ExceededLimit;
use super::wire::{ReceivedExpression, ScriptAnswer, ScriptSetup};

/// Globals in addition to the bare language.
type EngineGlobals = (
    intrinsic::Eval,
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    // Async functions have no prototype without it.
    intrinsic::Promise,
);

const BASE_PRELUDE: &str = include_str!("prelude/base.js");
const DATE_PRELUDE: &str = include_str!("prelude/date.js");
const RANDOM_PRELUDE: &str = include_str!("prelude/random.js");
const DEDENT_PRELUDE: &str = include_str!("prelude/dedent.js");
const MAX_STACK_BYTES: usize = 1 << 20;
const MAX_MESSAGE_CHARS: usize = 2000;

/// An engine that has not evaluated anything yet.
pub(super) struct ScriptEngine {
    date: Persistent<JsValue<'static>>,
    context: Context,
    runtime: Runtime,
    until: Rc<Cell<Option<Duration>>>,
    interrupted: Rc<Cell<bool>>,
    memory_bytes: usize,
    output_bytes: usize,
}

impl ScriptEngine {
    pub(super) fn new(setup: &ScriptSetup) -> Result<ScriptEngine, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        runtime.set_memory_limit(setup.memory_bytes);
        runtime.set_max_stack_size(MAX_STACK_BYTES);
        let until: Rc<Cell<Option<Duration>>> = Rc::default();
        let interrupted: Rc<Cell<bool>> = Rc::default();
        let (clock, note) = (until.clone(), interrupted.clone());
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let late = clock.get().is_some_and(|until| thread_cpu_time() >= until);
            note.set(note.get() || late);
            late
        })));
        let context = Context::custom::<EngineGlobals>(&runtime).map_err(|error| error.to_string())?;
        let date = context.with(|ctx| {
            let globals = ctx.globals();
            let date = globals.get("Date").and_then(|date: JsValue<'_>| {
                globals.remove("Date")?;
                ctx.eval::<(), _>(BASE_PRELUDE)?;
                Ok(Persistent::save(&ctx, date))
            });
            date.catch(&ctx).map_err(|error| error.to_string())
        })?;
        let (memory_bytes, output_bytes) = (setup.memory_bytes, setup.output_bytes);
        Ok(ScriptEngine { date, context, runtime, until, interrupted, memory_bytes, output_bytes })
    }

    /// Evaluates one expression. Consumes the engine, so that no state remains for another expression.
    pub(super) fn evaluate_expression(self, expression: &ReceivedExpression<'_>, bound: Duration) -> ScriptAnswer {
        let ScriptEngine { date, context, runtime, until, interrupted, memory_bytes, output_bytes } = self;
        until.set(Some(thread_cpu_time() + bound));
        let answer = context.with(|ctx| match evaluate_value(&ctx, date, expression).catch(&ctx) {
            Ok(None) => ScriptAnswer::Undefined,
            Ok(Some(text)) if text.len() > output_bytes => {
                ScriptAnswer::Limit(ExceededLimit::Output { limit_mebibytes: output_bytes >> 20 })
            }
            Ok(Some(text)) => ScriptAnswer::Value(text),
            Err(_) if interrupted.get() => ScriptAnswer::Limit(ExceededLimit::from_timeout(bound)),
            Err(error) => error_answer(&error, memory_bytes),
        });
        drop((context, runtime));
        answer
    }
}

/// CPU time of this thread, which other load on the machine does not affect.
fn thread_cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or_default(), u32::try_from(used.tv_nsec).unwrap_or_default())
}

fn evaluate_value<'js>(
    ctx: &Ctx<'js>,
    date: Persistent<JsValue<'static>>,
    expression: &ReceivedExpression<'_>,
) -> Result<Option<String>, rquickjs::Error> {
    let globals = ctx.globals();
    let define: Function<'js> = globals.get::<_, Object<'js>>("Object")?.get("defineProperty")?;
    define_globals(ctx, date, expression)?;
    for (name, value) in &expression.names {
        // JavaScript's own constants are not replaced; a name like `__proto__` is an ordinary name.
        if matches!(name.as_str(), "undefined" | "NaN" | "Infinity") {
            continue;
        }
        let property = Object::new(ctx.clone())?;
        match value.first() {
            Some(text) => property.set("value", ctx.json_parse(text.get())?)?,
            None => property.set("value", JsValue::new_undefined(ctx.clone()))?,
        }
        property.set("configurable", true)?;
        property.set("writable", true)?;
        define.call::<_, ()>((globals.clone(), name.as_str(), property))?;
    }
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some("expression".to_owned());
    // The line break keeps a comment at the end of the expression from hiding the parenthesis.
    let value: JsValue<'js> = ctx.eval_with_options(format!("({}\n)", expression.source), options)?;
    if value.is_function() || value.is_symbol() {
        return Ok(None);
    }
    // JSON has no such number; as in native evaluation, its text is used.
    if let Some(number) = value.as_number().filter(|number| !number.is_finite()) {
        let name = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return Ok(Some(format!("\"{name}\"")));
    }
    let text = ctx.json_stringify(value)?;
    text.map(|text| text.to_string()).transpose()
}

/// Provides globals only to expressions that name them, because each costs as much as an evaluation.
fn define_globals<'js>(
    ctx: &Ctx<'js>,
    date: Persistent<JsValue<'static>>,
    expression: &ReceivedExpression<'_>,
) -> rquickjs::Result<()> {
    let date = date.restore(ctx)?;
    if expression.source.contains("Date") {
        ctx.eval::<Function<'js>, _>(DATE_PRELUDE)?.call::<_, ()>((date, expression.now_ms as f64))?;
    }
    if expression.source.contains("random") {
        let (high, low) = ((expression.seed >> 32) as u32, expression.seed as u32);
        ctx.eval::<Function<'js>, _>(RANDOM_PRELUDE)?.call::<_, ()>((high, low))?;
    }
    if expression.source.contains("dedent") {
        ctx.eval::<Function<'js>, _>(DEDENT_PRELUDE)?.call::<_, ()>(())?;
    }
    Ok(())
}

fn error_answer(error: &CaughtError<'_>, memory_bytes: usize) -> ScriptAnswer {
    let text = match error {
        CaughtError::Exception(exception) => {
            let read = |key: &str| {
                let text = exception.get::<_, rquickjs::Coerced<String>>(key).map(|text| text.0);
                text.ok().filter(|text| text != "undefined").unwrap_or_default()
            };
            let (name, message) = (read("name"), read("message"));
            if name == "InternalError" && message == "out of memory" {
                return memory_limit_answer(memory_bytes);
            }
            if name.is_empty() { message } else { format!("{name}: {message}") }
        }
        // Thrown if there was not even memory for an error.
        CaughtError::Value(value) if value.is_null() => return memory_limit_answer(memory_bytes),
        CaughtError::Value(value) => {
            let text = value.as_string().and_then(|text| text.to_string().ok());
            text.unwrap_or_else(|| format!("a value of type {} was thrown", value.type_name()))
        }
        CaughtError::Error(error) => error.to_string(),
    };
    ScriptAnswer::Threw(text.chars().take(MAX_MESSAGE_CHARS).collect())
}

fn memory_limit_answer(memory_bytes: usize) -> ScriptAnswer {
    ScriptAnswer::Limit(ExceededLimit::Memory { limit_mebibytes: memory_bytes >> 20 })
}
