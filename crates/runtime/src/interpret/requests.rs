//! The requests of leaves: templates and data resolved to values, and the reports about them.

use std::sync::Arc;

use flowloom_core::chat::GenerateOptions;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, MarkedArguments, Payload, Request, SecretMarks};
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, WARNING_PROGRESS};
use flowloom_core::expr::{Lookup, PastedJson, Template, TemplatePart};
use flowloom_core::path::Path;
use flowloom_core::plan::{Block, Env, FunctionCall, Generate, MemoryOperation, MemoryStep};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::rich::Rich;
use flowloom_core::value::Value;

use super::block::coerce_inputs;
use super::{Interpreter, StepContext};

impl Interpreter {
    /// Records which references of the request had no value. The record of a step that was started before has it already.
    pub(super) fn report_missing_references(&self, path: &Path, attempt: u32, was_started: bool) {
        let messages = self.missing.take_messages();
        if !was_started && !messages.is_empty() {
            let data = build_warning(&messages);
            self.log.append_event(path, attempt, Event::Progress { name: WARNING_PROGRESS.into(), data });
        }
    }

    /// Reports messages that were held for the next request, at the end of a run that makes no further request.
    pub(super) fn report_held_messages(&self) {
        let messages = self.missing.take_messages();
        if !messages.is_empty() {
            self.log.report_progress(&Path::root(), WARNING_PROGRESS, build_warning(&messages));
        }
    }
}

fn build_warning(messages: &[String]) -> Value {
    Value::map([("messages", Value::list(messages.iter().map(|message| message.as_str().into()).collect()))])
}

pub(super) fn call_request(call: &FunctionCall, env: &Env, place: &StepContext) -> Result<CallRequest, StepFailure> {
    if let Some(arguments) = &call.arguments {
        let mut map = flowloom_core::value::Map::new();
        for (name, value) in arguments {
            if let Some(value) = value.evaluate(env, None)? {
                map.insert(name.clone(), value);
            }
        }
        return Ok(CallRequest { function: call.function.clone(), payload: Payload::from_arguments(map) });
    }
    let payload = build_payload(&call.prompt, &call.extra, env, place)?;
    let payload = Payload { has_default_prompt: call.has_default_prompt, ..payload };
    Ok(CallRequest { function: call.function.clone(), payload })
}

fn build_payload(
    prompt: &Template,
    extra: &[(Arc<str>, Arc<str>)],
    env: &Env,
    place: &StepContext,
) -> Result<Payload, StepFailure> {
    let mut entries = env.locals.clone();
    let named = extra.iter().filter_map(|(name, variable)| Some((name.clone(), env.lookup_name(variable)?.clone())));
    entries.extend(named);
    let (prompt, escaped_prompt) = match prompt.is_json_object() {
        true => {
            let PastedJson { raw, escaped } = prompt.resolve_json(env, place.text)?;
            let changes = escaped != raw;
            (raw, changes.then_some(escaped))
        }
        false => (prompt.resolve(env, place.text)?, None),
    };
    Ok(Payload {
        vars: env.vars.shared_map(),
        digest: env.vars.digest(),
        extra: entries,
        prompt: Some(prompt),
        escaped_prompt,
        has_default_prompt: false,
        marked: None,
    })
}

/// The payload of a block's function: its inputs, in which secrets are marked.
pub(super) fn block_payload(
    block: &Block,
    inputs: Value,
    env: &Env,
    place: &StepContext,
) -> Result<Payload, StepFailure> {
    let payload = Payload::from_arguments(inputs.as_map().cloned().unwrap_or_default());
    if block.inputs.first_secret().is_none() {
        return Ok(payload);
    }
    let mut marks = SecretMarks::absent_from(&[&render::to_json(&inputs)]);
    let with_marks = block.inputs.mark_secrets(&mut |name| marks.mark_name(name));
    let with_marks = coerce_inputs(block, with_marks.resolve(env, place.text)?)?;
    let map = with_marks.as_map().cloned().unwrap_or_default();
    Ok(payload.with_marks(MarkedArguments { map, marks }))
}

/// The name of a model in a definition. Fails if it is the value of an expression, and no text.
pub(super) fn resolve_model(model: &Template, env: &Env, place: &StepContext) -> Result<String, StepFailure> {
    let [TemplatePart::Expr(expression)] = model.parts.as_slice() else {
        return Ok(model.resolve(env, place.text)?.to_redacted_text());
    };
    match expression.evaluate_or_null(env, None)? {
        Value::String(name) => Ok(name.to_string()),
        other => {
            let message = format!("the model must be a text such as openai:gpt-4o, not {}", other.kind_name());
            Err(StepFailure::new(Code::StepRefused, message))
        }
    }
}

/// The options of a call; computed options override fixed ones.
pub(super) fn merge_options(generate: &Generate, env: &Env) -> Result<GenerateOptions, StepFailure> {
    let Some(computed) = &generate.computed else { return Ok(generate.options.clone()) };
    let overridden = generate.options.override_with(&computed.evaluate_or_null(env, None)?);
    overridden.map_err(|problem| StepFailure::new(Code::StepRefused, format!("the model call: {problem}")))
}

pub(super) fn memory_request(step: &MemoryStep, env: &Env, place: &StepContext) -> Result<Request, StepFailure> {
    match step.operation {
        MemoryOperation::All => return Ok(Request::Memories),
        MemoryOperation::Profile => return Ok(Request::Profile),
        MemoryOperation::Get | MemoryOperation::Set => {}
    }
    let payload = build_payload(&step.prompt, &[], env, place)?;
    let payload = Payload { has_default_prompt: step.has_default_prompt, ..payload };
    let arguments = payload.read_arguments("key").to_redacted_map();
    let argument = |name: &str| {
        arguments.get(name).cloned().ok_or_else(|| {
            StepFailure::new(Code::ArgumentMissing, format!("the argument {name} is missing; give it in the input"))
        })
    };
    let key = render::render_text(&argument("key")?, TextStyle::Json);
    Ok(match step.operation {
        MemoryOperation::Set => Request::MemorySet { key, value: argument("value")? },
        MemoryOperation::Get | MemoryOperation::All | MemoryOperation::Profile => Request::MemoryGet { key },
    })
}

/// The text for a model or a person. Fails with `FL0113` if it contains a secret.
pub(super) fn reject_secrets(rich: Rich) -> Result<String, StepFailure> {
    match rich.first_secret() {
        None => Ok(rich.to_redacted_text()),
        Some(name) => {
            let message = format!("the secret {name} cannot be used here: it would reach a model or a person");
            Err(StepFailure::new(Code::SecretInPrompt, message))
        }
    }
}
