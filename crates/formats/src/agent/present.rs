//! An agent's own result: `{messages, final_text, tool_calls}` (docs/formats/agent.md).

use flowloom_core::plan::Env;
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::value::Value;

use super::THREAD_NAME;
use crate::conversation::{last_answer, messages_value};
use crate::front_end::RenderedResult;

/// The result of a run of an agent.
pub(super) fn render_result(state: &RunState, env: &Env) -> RenderedResult {
    let thread = env.find_thread(THREAD_NAME);
    let text = last_answer(&thread);
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
    let result = Value::map([
        ("messages", messages_value(&thread)),
        ("final_text", text.clone()),
        ("tool_calls", Value::list(calls)),
    ]);
    RenderedResult { result, output: text }
}
