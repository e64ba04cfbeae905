//! Tool calls: the only place that checks a model's arguments, requests approval, runs a tool, and reports invalid
//! calls to the model. A tool that is not available is never called.

use flowloom_core::chat::{ToolCall, ToolDeclaration};
use flowloom_core::effect::{AskRequest, CallRequest, HttpRequest, Payload, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::expr::Wording;
use flowloom_core::hash::{Hash, Hasher};
use flowloom_core::path::Key;
use flowloom_core::plan::{AgentTool, Env, Policy, ToolEffect};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;

use super::{Interpreter, Interrupt, StepContext};
use crate::effects::BoxFuture;

/// The outcome of a tool call.
pub(super) enum ToolOutcome {
    /// The result.
    Result(Value),
    /// The agent's answer: the model is not called again.
    Answer(String),
    /// An error of the model or of the tool, reported to the model.
    Error(String),
}

impl ToolOutcome {
    /// The outcome as the model receives it.
    pub(super) fn to_model_text(&self, wording: Wording) -> String {
        match self {
            ToolOutcome::Result(value) => render::render_text(value, TextStyle::Json),
            ToolOutcome::Answer(text) => text.clone(),
            ToolOutcome::Error(message) => format!("Error: {message}{}", wording.after_tool_error),
        }
    }
}

impl Interpreter {
    /// Runs the tool that a model requests. A failure of the tool is an outcome as well.
    pub(super) fn run_tool<'a>(
        &'a self,
        policy: &'a Policy,
        tools: &'a [AgentTool],
        call: &'a ToolCall,
        place: StepContext,
    ) -> BoxFuture<'a, Result<ToolOutcome, Interrupt>> {
        Box::pin(async move {
            let Some(tool) = tools.iter().find(|tool| is_called(tool, &call.name)) else {
                return Ok(ToolOutcome::Error(format!("Tool \"{}\" not found.", call.name)));
            };
            let arguments = match check_arguments(tool, &call.arguments) {
                Ok(arguments) => arguments,
                Err(problem) => return Ok(ToolOutcome::Error(problem)),
            };
            if tool.needs_approval && !self.request_approval(policy, tool, &arguments, &place).await? {
                return Ok(ToolOutcome::Result("The user did not allow this call.".into()));
            }
            if let (Some(agent), Some(function)) = (&self.agent, tool.effect.function_id())
                && let Err(error) = self.effects.functions.check_permission(agent, &function)
            {
                return Ok(ToolOutcome::Error(error.to_string()));
            }
            let request = || self.tool_request(tool, &arguments, &place);
            match self.run_attempts(policy, &place, request).await {
                Ok(output) => Ok(read_tool_output(tool, output.unwrap_or_default())),
                Err(Interrupt::Failed(error, _)) => Ok(ToolOutcome::Error(error.message)),
                Err(halt) => Err(halt),
            }
        })
    }

    fn tool_request(&self, tool: &AgentTool, arguments: &Value, place: &StepContext) -> Result<Request, StepFailure> {
        match &tool.effect {
            ToolEffect::Function(_) | ToolEffect::Flow(_) => {
                let payload = Payload::from_arguments(arguments.as_map().cloned().unwrap_or_default());
                Ok(Request::Call(CallRequest { function: tool.effect.function_id().unwrap_or_default(), payload }))
            }
            ToolEffect::Http(spec) => {
                let locals = vec![("arguments".into(), arguments.clone()), ("owner".into(), (*self.user).into())];
                Ok(Request::Http(HttpRequest::resolve(spec, &Env { locals, ..Env::default() }, place.text)?))
            }
            ToolEffect::Client => {
                let question = format!("{} {}", tool.declaration.name, render::to_json(arguments));
                Ok(Request::Ask(AskRequest { question, schema: None, subject: None }))
            }
        }
    }

    /// Asks a person to approve one call with exactly these arguments.
    async fn request_approval(
        &self,
        policy: &Policy,
        tool: &AgentTool,
        arguments: &Value,
        place: &StepContext,
    ) -> Result<bool, Interrupt> {
        let question = format!("Allow {} with {}?", tool.declaration.name, render::to_json(arguments));
        let schema = Some(Value::map([("type", Value::from("boolean"))]));
        let at = place.with_path(place.path.child_path(&Key::numbered_key("approval", 1)));
        let question_request = AskRequest { question, schema, subject: Some(approval_subject(tool, arguments)) };
        let ask = || Ok(Request::Ask(question_request.clone()));
        let answer = self.run_attempts(policy, &at, ask).await?;
        Ok(answer.and_then(|answer| answer.as_bool()).unwrap_or(false))
    }
}

fn is_called(tool: &AgentTool, name: &str) -> bool {
    tool.declaration.name == name || tool.alias.as_deref() == Some(name)
}

/// The outcome of a tool from its output.
fn read_tool_output(tool: &AgentTool, output: Value) -> ToolOutcome {
    let ToolEffect::Flow(_) = &tool.effect else { return ToolOutcome::Result(output) };
    let text = output.get("text").map(|text| render::render_text(text, TextStyle::Json)).unwrap_or_default();
    match output.get("is_final").is_some_and(Value::is_truthy) {
        true => ToolOutcome::Answer(text),
        false => ToolOutcome::Result(text.into()),
    }
}

/// The hash of what is approved with a call; the approval is valid for nothing else.
fn approval_subject(tool: &AgentTool, arguments: &Value) -> Hash {
    let ToolDeclaration { name, description, parameters } = &tool.declaration;
    let does = tool.effect.function_id().unwrap_or_default();
    let mut hasher = Hasher::new();
    hasher
        .add_text(name)
        .add_text(description)
        .add_text(&render::to_json(parameters))
        .add_text(&does)
        .add_text(&render::to_json(arguments));
    hasher.finish()
}

/// The arguments as an object with all required entries; otherwise a message for the model.
fn check_arguments(tool: &AgentTool, arguments: &Value) -> Result<Value, String> {
    let read = match arguments {
        Value::String(text) => flowloom_core::json::read_lenient(text).unwrap_or_else(|| arguments.clone()),
        Value::Null => Value::map::<&str>([]),
        other => other.clone(),
    };
    let Some(given) = read.as_map() else {
        return Err(format!("The arguments must be an object, not {}.", read.kind_name()));
    };
    let required = tool.declaration.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    match required.iter().filter_map(Value::as_str).find(|name| !given.contains_key(*name)) {
        Some(name) => Err(format!("The argument {name} is missing.")),
        None => Ok(read.clone()),
    }
}
