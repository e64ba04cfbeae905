//! Tool calls: the only place that checks a model's arguments, requests approval, runs a tool, and reports invalid
//! calls to the model. A tool that is not available is never called.

use flowloom_core::chat::{ToolCall, ToolDeclaration};
use flowloom_core::code::Code;
use flowloom_core::effect::{AskRequest, CallRequest, HttpRequest, Payload, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::expr::Wording;
use flowloom_core::hash::{Hash, Hasher};
use flowloom_core::json;
use flowloom_core::path::Key;
use flowloom_core::plan::{AgentTool, Env, Policy, ToolEffect};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::Value;

use super::{Interpreter, Interrupt, StepContext};
use crate::effects::BoxFuture;
use crate::schema::find_mismatches;

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
    fn not_found(call: &ToolCall) -> ToolOutcome {
        ToolOutcome::Error(format!("Tool \"{}\" not found.", call.name))
    }

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
    /// Runs the tool that a model requests; `tool` is `None` if it was not offered. A failure of the tool is an outcome as
    /// well.
    pub(super) fn run_tool<'a>(
        &'a self,
        policy: &'a Policy,
        tool: Option<&'a AgentTool>,
        call: &'a ToolCall,
        place: StepContext,
    ) -> BoxFuture<'a, Result<ToolOutcome, Interrupt>> {
        Box::pin(async move {
            let Some(tool) = tool else {
                return Ok(ToolOutcome::not_found(call));
            };
            let arguments = match check_arguments(tool, &call.arguments) {
                Ok(arguments) => arguments,
                Err(problem) => return Ok(ToolOutcome::Error(problem)),
            };
            if tool.needs_approval && !self.request_approval(policy, tool, &arguments, &place).await? {
                return Ok(ToolOutcome::Result("The user did not allow this call.".into()));
            }
            if let (Some(agent), Some(granted)) = (&self.agent, tool.grant_id())
                && let Err(error) = self.effects.functions.check_permission(agent, &granted)
            {
                return Ok(ToolOutcome::Error(error.to_string()));
            }
            let request = || self.tool_request(tool, &arguments, &place);
            let client_policy = matches!(tool.effect, ToolEffect::Client).then(|| without_time_limit(policy));
            match self.run_attempts(client_policy.as_ref().unwrap_or(policy), &place, request).await {
                Ok(output) => Ok(read_tool_output(tool, output.unwrap_or_default())),
                // Its text names functions that the model is not offered.
                Err(Interrupt::Failed(error, _)) if error.code == Code::FunctionUnknown => {
                    Ok(ToolOutcome::not_found(call))
                }
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
                Ok(Request::Ask(AskRequest { question, schema: None, subject: None, expires_at: None }))
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
        let subject = Some(approval_subject(tool, arguments));
        let question = AskRequest { question, schema, subject, expires_at: None };
        let ask = || Ok(Request::Ask(question.clone()));
        let answer = self.run_attempts(&without_time_limit(policy), &at, ask).await?;
        Ok(answer.and_then(|answer| answer.as_bool()).unwrap_or(false))
    }
}

/// The policy for what people and clients do: the time limit of a step is for its model and its tools.
fn without_time_limit(policy: &Policy) -> Policy {
    Policy { timeout_ms: None, ..policy.clone() }
}

/// The tool that a call names.
pub(super) fn find_tool<'a>(tools: impl IntoIterator<Item = &'a AgentTool>, call: &ToolCall) -> Option<&'a AgentTool> {
    let is_called =
        |tool: &AgentTool| tool.declaration.name == call.name || tool.alias.as_deref() == Some(call.name.as_str());
    tools.into_iter().find(|tool| is_called(tool))
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

/// The hash of an approved call; the approval is valid for nothing else.
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

/// The arguments as an object that the tool's schema accepts; otherwise a message for the model. Arguments that are not
/// JSON are not repaired, because a missing end would be guessed. Only flows read them leniently and accept
/// any type, as their original does.
fn check_arguments(tool: &AgentTool, arguments: &Value) -> Result<Value, String> {
    let is_flow = matches!(tool.effect, ToolEffect::Flow(_));
    let read = match arguments {
        Value::String(text) if is_flow => json::read_lenient(text).unwrap_or_else(|| arguments.clone()),
        Value::String(text) => match json::parse_value(text) {
            Ok(value) => value,
            Err(error) => return Err(format!("The arguments are not valid JSON: {}.", error.message)),
        },
        Value::Null => Value::map::<&str>([]),
        other => other.clone(),
    };
    let Some(given) = read.as_map() else {
        return Err(format!("The arguments must be an object, not {}.", read.kind_name()));
    };
    let parameters = &tool.declaration.parameters;
    let required = parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
    if let Some(name) = required.iter().find(|name| !given.contains_key(**name)) {
        return Err(format!("The argument {name} is missing."));
    }
    if !is_flow {
        // Models write null for what they leave out.
        let is_given = |name: &str, value: &Value| *value != Value::Null || required.contains(&name);
        let given = given.iter().filter(|(name, value)| is_given(name, value));
        let given = Value::map(given.map(|(name, value)| (name.clone(), value.clone())));
        if let Some(why) = find_mismatches(parameters, &given) {
            return Err(format!("The arguments do not fit the schema of {}: {why}.", tool.declaration.name));
        }
    }
    Ok(read)
}
