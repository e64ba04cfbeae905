//! The workflows that functions of a bundle run: `flow::ID` for an agent, and files that the configuration declares. The same
//! functions run them in a run and in a test.

use flowloom_core::code::Code;
use flowloom_core::effect::{Arguments, CallRequest, Payload};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::find_flow_id;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::{compile, flow, render_result};
use flowloom_runtime::child_run::ChildOutcome;

use crate::definitions::bundle::{Bundle, WorkflowTool, compile_bundle};
use crate::tools::descriptor::ToolDescriptor;

/// The workflow that a call runs.
pub(crate) enum CalledWorkflow<'b> {
    /// A file next to the calling definition.
    File(&'b str),
    /// A tool of an agent.
    Tool { id: &'b str, tool: &'b WorkflowTool },
}

impl<'b> CalledWorkflow<'b> {
    /// The workflow that a function of a bundle runs; `None` if the function runs none.
    pub(crate) fn find_called(bundle: &'b Bundle, function: &str) -> Option<CalledWorkflow<'b>> {
        if let Some(settings) = bundle.functions.get(function) {
            return settings.workflow.as_deref().map(CalledWorkflow::File);
        }
        let (id, tool) = bundle.flows.as_ref()?.get_key_value(find_flow_id(function)?)?;
        Some(CalledWorkflow::Tool { id, tool })
    }

    /// The bundle of the child run. `caller` is the bundle of the calling run. Fails if its definition has errors.
    pub(crate) fn build_bundle(&self, caller: &Bundle) -> Result<Bundle, StepFailure> {
        match self {
            CalledWorkflow::File(file) => build_file_bundle(caller, file),
            CalledWorkflow::Tool { tool, .. } => Ok(tool.bundle.clone()),
        }
    }

    /// The inputs of its run. Fails if the arguments do not fit the tool.
    pub(crate) fn build_inputs(&self, request: &CallRequest) -> Result<Value, StepFailure> {
        match self {
            CalledWorkflow::File(_) => Ok(read_workflow_input(&request.payload)),
            // The types of flow variables are not declared.
            CalledWorkflow::Tool { tool, .. } if tool.bundle.format == flow::FORMAT => Ok(request.payload.to_value()),
            CalledWorkflow::Tool { id, tool } => {
                let plan = compile_bundle(&tool.bundle)?;
                Ok(ToolDescriptor::new(id, plan).to_inputs(&request.payload.to_value())?)
            }
        }
    }

    /// The return value of the function once its run has ended. Fails with the error of the run, if it did not succeed;
    /// the reply of a flow describes the error instead.
    pub(crate) fn render_reply(&self, ended: ChildOutcome) -> Result<Value, StepFailure> {
        match self {
            CalledWorkflow::File(_) => {
                let ended = ended.require_success()?;
                Ok(render_result(&ended.plan, &ended.state, &ended.env).output)
            }
            CalledWorkflow::Tool { tool, .. } => render_tool_reply(tool, &ended),
        }
    }
}

/// `{text, is_final}`: the text for the agent, and whether that is the agent's final answer.
fn render_tool_reply(tool: &WorkflowTool, ended: &ChildOutcome) -> Result<Value, StepFailure> {
    let (text, is_final) = match &ended.state.error {
        _ if tool.bundle.format == flow::FORMAT => {
            let reply = flow::tool_reply(&ended.plan, &ended.state);
            (reply.text, reply.is_final)
        }
        Some(error) => return Err(error.clone()),
        None => {
            let output = render_result(&ended.plan, &ended.state, &ended.env).output;
            (render::render_text(&output, render::TextStyle::Json), false)
        }
    };
    Ok(Value::map([("text", Value::from(text)), ("is_final", is_final.into())]))
}

/// The bundle of a file next to the calling definition. Both have the same owner, who may have added files.
fn build_file_bundle(caller: &Bundle, file: &str) -> Result<Bundle, StepFailure> {
    detect_format(Bundle { entry: file.to_owned(), step: None, flows: None, ..caller.clone() })
}

/// The bundle with the format of its definition. Fails if that has errors.
pub(super) fn detect_format(bundle: Bundle) -> Result<Bundle, StepFailure> {
    let compiled = compile(&bundle.entry, &bundle.to_sources(), None);
    match (compiled.format, compiled.plan) {
        (Some(format), Some(_)) => Ok(Bundle { format, ..bundle }),
        _ => {
            let problems: Vec<_> = compiled.diagnostics.iter().filter(|problem| problem.is_error()).collect();
            let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
            let code = problems.first().map_or(Code::StepRefused, |problem| problem.code);
            Err(StepFailure::new(code, format!("invalid workflow definition: {}", messages.join("; "))))
        }
    }
}

/// The input of a workflow: the arguments as an object, or else the prompt.
fn read_workflow_input(payload: &Payload) -> Value {
    match payload.read_arguments("input") {
        Arguments::Prompt(prompt) => prompt.text.to_redacted_text().into(),
        arguments => arguments.to_redacted_map().into(),
    }
}
