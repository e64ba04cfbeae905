//! Workflows as tools of agents.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::CallRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::child_run::CallingStep;
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture};
use flowloom_tools::{FunctionConfig, NativeFunction};

use super::WorkflowHost;
use super::called::CalledWorkflow;
use super::child::NewChildRun;

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
            let called = CalledWorkflow::Tool { id: &self.id, tool: flow };
            let new_child = || {
                let agent = context.agent.as_deref().map(str::to_owned);
                let (bundle, inputs) = (called.build_bundle(&self.host.bundle)?, called.build_inputs(request)?);
                Ok(NewChildRun { bundle, workflow: Some(self.id.clone()), inputs, agent })
            };
            called.render_reply(self.host.run_child_to_end(new_child, &CallingStep { context, effects }).await?)
        })
    }
}
