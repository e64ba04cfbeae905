//! What a step asks of the world, and the hash by which replay recognises it.
//!
//! HTTP requests and how they are built from a plan are in `http`; the payload of a function call is in `args`.

mod args;
mod http;

use serde::{Deserialize, Serialize};

use crate::chat::{GenerateOptions, Messages, ToolCall, ToolDeclaration, Usage};
use crate::hash::{Hash, Hasher};
use crate::plan::{Capture, EffectClass};
use crate::value::Value;

pub use args::{Arguments, Payload};
pub use http::{HttpReply, HttpRequest, check_header_name, decode, is_passing, normalize_url};

/// One effect to perform.
// Model calls are what requests mostly are, and each is made once.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Request {
    /// Ask a model.
    Generate(Box<GenerateRequest>),
    /// Send an HTTP request.
    Http(HttpRequest),
    /// Send an HTTP request for a code block; the output is the whole reply, whatever its status.
    Exchange(HttpRequest),
    /// Read a web page.
    Scrape(ScrapeRequest),
    /// Call a tool or function.
    Call(CallRequest),
    /// Run a Python block.
    Python(PythonRequest),
    /// Read this user's memory.
    MemoryGet {
        /// The key.
        key: String,
    },
    /// Read all of this user's memory.
    Memories,
    /// Read this user's profile.
    Profile,
    /// Write this user's memory.
    MemorySet {
        /// The key.
        key: String,
        /// What to keep under it.
        value: Value,
    },
    /// Ask a person.
    Ask(AskRequest),
    /// Wait until a time.
    Wait {
        /// How long, in milliseconds.
        duration_ms: u64,
    },
}

/// A call of a model.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// `provider:model`, aliases resolved.
    pub model: String,
    /// The conversation.
    pub messages: Messages,
    /// Tools offered to the model.
    pub tools: Vec<ToolDeclaration>,
    /// JSON Schema that the answer must match; the answer is then read as JSON.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// What the call is for.
    pub purpose: Purpose,
}

/// Why a model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The step itself.
    Step,
    /// An answer that whoever asks judges: it is asked for in the schema's shape, and comes back as it was said.
    Judged,
    /// Shortening a long text, one part at a time.
    Summary {
        /// Characters of the whole text.
        characters: usize,
        /// This part, from 0.
        part: usize,
        /// Number of parts.
        parts: usize,
    },
}

/// A model's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The text; `None` when the model gave none.
    pub text: Option<String>,
    /// Tools it wants called.
    pub tool_calls: Vec<ToolCall>,
    /// What it cost.
    pub usage: Usage,
}

/// A page to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeRequest {
    /// The address as written.
    pub url: String,
    /// What to bring back.
    pub capture: Capture,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The function's id.
    pub function: std::sync::Arc<str>,
    /// What it is called with.
    pub payload: Payload,
}

/// A Python block to run.
#[derive(Clone, Debug)]
pub struct PythonRequest {
    /// Source with `execute(inputs, context)`.
    pub source: std::sync::Arc<str>,
    /// The inputs.
    pub inputs: Value,
    /// What the block sees as its context besides the memory: the user's profile.
    pub user: Value,
    /// The user's memory as it is when the block starts: an object.
    pub memory: Value,
    /// What a crash while it runs means.
    pub class: EffectClass,
}

/// What a Python block gives.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonReply {
    /// What `execute` returned.
    pub output: Value,
    /// Keys of the memory that the block set or took away, in order of the key.
    pub memory: Vec<(String, Option<Value>)>,
}

/// A JavaScript expression to evaluate in the sandbox.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// One expression.
    pub source: std::sync::Arc<str>,
    /// The free names it reads, with their values; a name without a value is `undefined`.
    pub names: Vec<(std::sync::Arc<str>, Option<Value>)>,
    /// What `Date.now()` gives, in milliseconds since 1970.
    pub now_ms: u64,
    /// What `Math.random()` starts from.
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
    /// Hash of what is agreed to, where the question is for someone's agreement: the tool, what it does and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Hash>,
}

impl Request {
    /// What kind of effect, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Request::Generate(_) => "generate",
            Request::Http(_) | Request::Exchange(_) => "http",
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

    /// Whom it goes to, for people: the model, the address, the function. Secrets are names.
    pub fn target(&self) -> std::sync::Arc<str> {
        match self {
            Request::Generate(request) => request.model.as_str().into(),
            Request::Http(request) | Request::Exchange(request) => {
                format!("{} {}", request.method, request.url.names_only()).into()
            }
            Request::Scrape(request) => request.url.as_str().into(),
            Request::Call(request) => request.function.clone(),
            Request::Python(_) => "python".into(),
            Request::MemoryGet { key } | Request::MemorySet { key, .. } => key.as_str().into(),
            Request::Memories | Request::Profile => self.kind().into(),
            Request::Ask(request) => request.question.as_str().into(),
            Request::Wait { duration_ms } => format!("{duration_ms} ms").into(),
        }
    }

    /// The hash of all that can change the answer. Two requests with equal hashes are the same request.
    pub fn hash(&self) -> Hash {
        let mut hasher = Hasher::new();
        hasher.text(self.kind());
        match self {
            Request::Generate(request) => request.hash_into(&mut hasher),
            Request::Http(request) | Request::Exchange(request) => hash_http(&mut hasher, request),
            Request::Scrape(request) => {
                hasher.text(&request.url).number(u64::from(request.capture == Capture::Html));
            }
            Request::Call(request) => {
                hasher.text(&request.function);
                request.payload.hash_into(&mut hasher);
            }
            Request::Python(request) => {
                hasher.text(&request.source).value(&request.inputs).value(&request.user).value(&request.memory);
            }
            Request::Memories | Request::Profile => {}
            Request::MemoryGet { key } => {
                hasher.text(key);
            }
            Request::MemorySet { key, value } => {
                hasher.text(key).value(value);
            }
            Request::Ask(request) => {
                hasher.text(&request.question).value(&request.schema.clone().unwrap_or_default());
                request.subject.iter().for_each(|subject| {
                    hasher.hash(subject);
                });
            }
            Request::Wait { duration_ms } => {
                hasher.number(*duration_ms);
            }
        }
        hasher.finish()
    }
}

impl GenerateRequest {
    fn hash_into(&self, hasher: &mut Hasher) {
        hasher.text(&self.model);
        self.messages.hash_into(hasher);
        hasher.number(self.tools.len() as u64);
        for tool in &self.tools {
            hasher.text(&tool.name).text(&tool.description).value(&tool.parameters);
        }
        hasher.value(&self.schema.clone().unwrap_or_default());
        // Options are few and small, and their serialised form has no secrets.
        hasher.text(&serde_json::to_string(&self.options).unwrap_or_default());
        if let Purpose::Summary { characters, part, parts } = &self.purpose {
            hasher.number(*characters as u64).number(*part as u64).number(*parts as u64);
        }
    }
}

fn hash_http(hasher: &mut Hasher, request: &HttpRequest) {
    hasher.text(&request.method);
    request.url.hash_into(hasher);
    hasher.number(request.headers.len() as u64);
    for (name, value) in &request.headers {
        hasher.text(name);
        value.hash_into(hasher);
    }
    hasher.number(u64::from(request.body.is_some()));
    if let Some(body) = &request.body {
        body.hash_into(hasher);
    }
}
