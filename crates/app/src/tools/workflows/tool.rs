//! Workflows as tools of agents.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::CallRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::{flow, render_result};
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture};
use flowloom_tools::{FunctionConfig, NativeFunction};

use super::WorkflowHost;
use super::child::{CallingStep, ChildRun};
use crate::definitions::bundle::compile_bundle;
use crate::tools::descriptor::ToolDescriptor;

/// A workflow as a tool of an agent.
struct FlowFunction {
    host: Arc<WorkflowHost>,
    id: String,
}

/// Builds the function that runs a workflow available to the bundle's agent.
pub(crate) fn tool_function(host: &Arc<WorkflowHost>, id: &str) -> FunctionConfig {
    FunctionConfig::Native(Arc::new(FlowFunction { host: host.clone(), id: id.to_owned() }))
}

impl NativeFunction for FlowFunction {
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    /// Returns `{text, is_final}`: the text for the agent, and whether that is the agent's final answer.
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        effects: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async move {
            let found = self.host.bundle.flows.as_ref().and_then(|flows| flows.get(&self.id));
            let Some(flow) = found else {
                return Err(StepFailure::new(Code::WorkflowNotFound, format!("there is no workflow {}", self.id)));
            };
            let new_child = || {
                let arguments = request.payload.to_value();
                let inputs = match flow.bundle.format {
                    // The types of flow variables are not declared.
                    flow::FORMAT => arguments,
                    _ => ToolDescriptor::new(&self.id, compile_bundle(&flow.bundle)?).to_inputs(&arguments)?,
                };
                let agent = context.agent.as_deref().map(str::to_owned);
                Ok(ChildRun { bundle: flow.bundle.clone(), workflow: Some(self.id.clone()), inputs, agent })
            };
            let ended = self.host.run_child_to_end(new_child, &CallingStep { context, effects }).await?;
            let (text, is_final) = match (&ended.state.error, ended.state.status) {
                _ if flow.bundle.format == flow::FORMAT => {
                    let reply = flow::tool_reply(&ended.plan, &ended.state);
                    (reply.text, reply.is_final)
                }
                (Some(error), _) => return Err(error.clone()),
                (None, _) => {
                    let output = render_result(&ended.plan, &ended.state, &ended.env).output;
                    (render::render_text(&output, render::TextStyle::Json), false)
                }
            };
            Ok(Value::map([("text", Value::from(text)), ("is_final", is_final.into())]))
        })
    }
}
