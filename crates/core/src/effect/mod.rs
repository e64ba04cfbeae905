//! The requests of effects, their results, and the hash by which replay recognises a request.
//!
//! HTTP requests and how they are built from a plan are in `http`; the payload of a function call is in `args`.

mod args;
mod http;
mod marks;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chat::{GenerateOptions, Messages, ToolCall, ToolDeclaration, Usage};
use crate::hash::{Hash, Hasher};
use crate::plan::{Capture, EffectClass};
use crate::value::Value;

pub use args::{Arguments, Payload, PromptArgument};
pub use http::{
    HTTP_METHODS, HttpReply, HttpRequest, check_header_name, encode_form_text, failed_status, is_retryable_status,
    normalize_url, parse_reply,
};
pub use marks::{MarkedArguments, SecretMarks};

/// One effect to perform.
// Most requests are model calls, and each is built once.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Request {
    /// Calls a model.
    Generate(Box<GenerateRequest>),
    /// Sends an HTTP request.
    Http(HttpRequest),
    /// Sends an HTTP request for a code block; the output is the whole reply, whatever its status.
    HttpExchange(HttpRequest),
    /// Reads a web page.
    Scrape(ScrapeRequest),
    /// Calls a tool or function.
    Call(CallRequest),
    /// Runs a Python block.
    Python(PythonRequest),
    /// Reads one key of the user's memory.
    MemoryGet {
        /// The key.
        key: String,
    },
    /// Reads all of the user's memory.
    Memories,
    /// Reads the user's profile.
    Profile,
    /// Writes one key of the user's memory.
    MemorySet {
        /// The key.
        key: String,
        /// The new value.
        value: Value,
    },
    /// Asks a person.
    Ask(AskRequest),
    /// Waits for a fixed time.
    Wait {
        /// The duration, in milliseconds.
        duration_ms: u64,
    },
}

/// A model call.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// The model as `provider:model`, with aliases resolved.
    pub model: String,
    /// Instructions, conversation and new messages.
    pub messages: Messages,
    /// Tools available to the model.
    pub tools: Vec<ToolDeclaration>,
    /// JSON Schema that the answer must match; the answer is then parsed as JSON.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// The purpose of the call.
    pub purpose: Purpose,
}

/// The purpose of a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The step itself.
    Step,
    /// An answer that the caller validates: it is requested in the shape of the schema and returned unparsed.
    Judged,
    /// An answer that need not match anything: the JSON object in it, or else an object with the text under this field.
    /// An object is asked for, but no answer is refused.
    ObjectOr(Arc<str>),
    /// A summary of one part of a long text.
    Summary {
        /// Length of the whole text, in characters.
        characters: usize,
        /// Index of this part, from 0.
        part: usize,
        /// Number of parts.
        parts: usize,
    },
}

impl Purpose {
    /// Whether an answer that does not match the schema is refused.
    pub fn is_strict(&self) -> bool {
        match self {
            Purpose::Step | Purpose::Summary { .. } => true,
            Purpose::Judged | Purpose::ObjectOr(_) => false,
        }
    }
}

/// A model's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateReply {
    /// The text; `None` if the model returned none.
    pub text: Option<String>,
    /// The requested tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Facts about the answer.
    pub response: ResponseFacts,
}

impl GenerateReply {
    /// The text of a reply. An empty text is an answer; only calls can come without a text.
    pub fn keep_text(text: String, calls: &[ToolCall]) -> Option<String> {
        (!text.is_empty() || calls.is_empty()).then_some(text)
    }
}

/// Facts about a response besides the output: the reply of the other side, and how long it took. Nothing that runs
/// depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseFacts {
    /// The model that answered, if its provider calls it by another name than the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the answer ended; `None`: the model had finished, or called tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// The status of an HTTP response, unless it is 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the effect waited for its turn in its process, in milliseconds; `None` if it hardly waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// When the first text of a streamed answer arrived, in milliseconds after the step had started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
}

/// Why the answer of a model ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer reached its maximum length.
    Length,
    /// Another reason of the provider.
    Other,
}

impl FinishReason {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Length => "length",
            FinishReason::Other => "other",
        }
    }

    /// The warning of a step whose answer ended for this reason.
    pub fn describe_warning(self) -> Option<&'static str> {
        match self {
            FinishReason::Length => Some("the answer was cut off at its maximum number of tokens"),
            FinishReason::Other => None,
        }
    }
}

impl ResponseFacts {
    /// The facts of an HTTP response.
    pub fn of_status(status: u16) -> ResponseFacts {
        ResponseFacts { status: (status != 200).then_some(status), ..ResponseFacts::default() }
    }

    /// The facts to record; `None` if there are none.
    pub fn into_box(self) -> Option<Box<ResponseFacts>> {
        (self != ResponseFacts::default()).then(|| Box::new(self))
    }
}

/// A web page to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeRequest {
    /// The URL as written.
    pub url: String,
    /// The form of the result.
    pub capture: Capture,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The function's id.
    pub function: Arc<str>,
    /// The arguments.
    pub payload: Payload,
}

/// A Python block to run.
#[derive(Clone, Debug)]
pub struct PythonRequest {
    /// Source that defines `execute(inputs, context)`.
    pub source: Arc<str>,
    /// The inputs.
    pub inputs: Value,
    /// The user's profile, which the block sees in its context together with the memory.
    pub user: Value,
    /// The user's memory at the start of the block: an object.
    pub memory: Value,
    /// The effect class: whether the block may run again after a crash.
    pub class: EffectClass,
}

/// The result of a Python block.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonReply {
    /// The return value of `execute`.
    pub output: Value,
    /// Keys of the memory that the block set or deleted (`None`), sorted.
    pub memory: Vec<(String, Option<Value>)>,
    /// How long the block waited for its turn, in milliseconds; `None` if it hardly waited.
    pub queued_ms: Option<u64>,
}

/// A JavaScript expression to evaluate in the sandbox.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// One expression.
    pub source: Arc<str>,
    /// The free names that the expression reads, with their values; a name without a value is `undefined`.
    pub names: Vec<(Arc<str>, Option<Value>)>,
    /// The result of `Date.now()`, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The seed of `Math.random()`.
    pub seed: u64,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskRequest {
    /// The question.
    pub question: String,
    /// JSON Schema of the answer, if it is not just text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// For an approval: the hash of the approved call (the tool, its effect and its arguments).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Hash>,
    /// When the question expires, in milliseconds since the Unix epoch. Known once it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl Request {
    /// The kind of effect, in one word.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Request::Generate(_) => "generate",
            Request::Http(_) | Request::HttpExchange(_) => "http",
            Request::Scrape(_) => "scrape",
            Request::Call(_) => "call",
            Request::Python(_) => "python",
            Request::MemoryGet { .. } => "memory_get",
            Request::Memories => "memories",
            Request::Profile => "profile",
            Request::MemorySet { .. } => "memory_set",
            Request::Ask(_) => "ask",
            Request::Wait { .. } => "wait",
        }
    }

    /// The target for people: the model, the URL, the function. Secrets are names.
    pub fn describe_target(&self) -> Arc<str> {
        match self {
            Request::Generate(request) => request.model.as_str().into(),
            Request::Http(request) | Request::HttpExchange(request) => {
                format!("{} {}", request.method, request.url.to_redacted_text()).into()
            }
            Request::Scrape(request) => request.url.as_str().into(),
            Request::Call(request) => request.function.clone(),
            Request::Python(_) => "python".into(),
            Request::MemoryGet { key } | Request::MemorySet { key, .. } => key.as_str().into(),
            Request::Memories | Request::Profile => self.kind_name().into(),
            Request::Ask(request) => request.question.as_str().into(),
            Request::Wait { duration_ms } => format!("{duration_ms} ms").into(),
        }
    }

    /// The hash that the request would have if it asked this model; `None` if it asks none.
    pub fn hash_for_model(&self, model: &str) -> Option<Hash> {
        let Request::Generate(request) = self else { return None };
        let request = GenerateRequest { model: model.to_owned(), ..(**request).clone() };
        Some(Request::Generate(Box::new(request)).hash())
    }

    /// The hash of everything that can change the result. Two requests with equal hashes are the same request.
    pub fn hash(&self) -> Hash {
        let mut hasher = Hasher::new();
        hasher.add_text(self.kind_name());
        match self {
            Request::Generate(request) => request.hash_into(&mut hasher),
            Request::Http(request) | Request::HttpExchange(request) => hash_http(&mut hasher, request),
            Request::Scrape(request) => {
                hasher.add_text(&request.url).add_number(u64::from(request.capture == Capture::Html));
            }
            Request::Call(request) => {
                hasher.add_text(&request.function);
                request.payload.hash_into(&mut hasher);
            }
            Request::Python(request) => {
                hasher
                    .add_text(&request.source)
                    .add_value(&request.inputs)
                    .add_value(&request.user)
                    .add_value(&request.memory);
            }
            Request::Memories | Request::Profile => {}
            Request::MemoryGet { key } => {
                hasher.add_text(key);
            }
            Request::MemorySet { key, value } => {
                hasher.add_text(key).add_value(value);
            }
            Request::Ask(request) => {
                hasher.add_text(&request.question).add_value(&request.schema.clone().unwrap_or_default());
                request.subject.iter().for_each(|subject| {
                    hasher.add_hash(subject);
                });
            }
            Request::Wait { duration_ms } => {
                hasher.add_number(*duration_ms);
            }
        }
        hasher.finish()
    }
}

impl GenerateRequest {
    fn hash_into(&self, hasher: &mut Hasher) {
        hasher.add_text(&self.model);
        self.messages.hash_into(hasher);
        hasher.add_number(self.tools.len() as u64);
        for tool in &self.tools {
            hasher.add_text(&tool.name).add_text(&tool.description).add_value(&tool.parameters);
        }
        hasher.add_value(&self.schema.clone().unwrap_or_default());
        // Options are few and small, and their serialised form contains no secrets.
        hasher.add_text(&serde_json::to_string(&self.options).unwrap_or_default());
        if let Purpose::Summary { characters, part, parts } = &self.purpose {
            hasher.add_number(*characters as u64).add_number(*part as u64).add_number(*parts as u64);
        }
    }
}

fn hash_http(hasher: &mut Hasher, request: &HttpRequest) {
    hasher.add_text(&request.method);
    request.url.hash_into(hasher);
    hasher.add_number(request.headers.len() as u64);
    for (name, value) in &request.headers {
        hasher.add_text(name);
        value.hash_into(hasher);
    }
    hasher.add_number(u64::from(request.body.is_some()));
    if let Some(body) = &request.body {
        body.hash_into(hasher);
    }
}
