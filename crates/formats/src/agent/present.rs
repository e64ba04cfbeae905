//! An agent's own result: `{messages, final_text, tool_calls}` (docs/formats/agent.md).

use flowloom_core::plan::Env;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::Value;

use super::THREAD;
use crate::conversation::{messages, said};
use crate::front_end::Presented;

/// The result of a run of an agent.
pub(super) fn present(state: &RunState, env: &Env) -> Presented {
    let thread = env.thread(THREAD);
    let text = said(&thread);
    let called = |step: &&StepState| step.path.as_str().contains("/tool~1[") && step.kind.as_deref() == Some("call");
    let call = |step: &StepState| {
        let error = step.error.as_ref().map_or(Value::Null, |error| error.message.as_str().into());
        Value::map([
            ("function", step.target.as_deref().map_or(Value::Null, Value::from)),
            ("ok", (step.phase == Phase::Finished).into()),
            ("error", error),
        ])
    };
    let calls = state.steps().iter().filter(called).map(call).collect();
    let result =
        Value::map([("messages", messages(&thread)), ("final_text", text.clone()), ("tool_calls", Value::list(calls))]);
    Presented { result, output: text }
}
