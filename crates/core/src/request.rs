//! The requests of effects, their results, and the hash by which replay recognises a request.

use serde::{Deserialize, Serialize};

use crate::args::Payload;
use crate::hash::{Hash, Hasher};
use crate::http::HttpRequest;
use crate::rich::{Piece, Rich};
use crate::thread::Messages;
use crate::value::Value;

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
    Exchange(HttpRequest),
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
    /// The conversation.
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

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The parts of a message that is more than one text; `content` then holds the joined texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// Tool calls that the model requests (assistant messages).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that this message answers (tool messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A plain message.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), parts: Vec::new(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The media type.
        mime: String,
        /// The bytes in base64.
        data: std::sync::Arc<str>,
    },
}

/// A tool call that a model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id from the provider; never part of a path.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: an object, or whatever else it produced.
    #[serde(alias = "args")]
    pub arguments: Value,
}

/// The declaration of a tool for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// Name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Sampling options. The provider's defaults apply where an option is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateOptions {
    /// Maximum length of the answer, in tokens.
    #[serde(alias = "maxTokens", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling threshold.
    #[serde(alias = "topP", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Number of most likely tokens to sample from.
    #[serde(alias = "topK", skip_serializing_if = "Option::is_none")]
    pub top_k: Option<f64>,
    /// Penalty for tokens that occurred at all.
    #[serde(alias = "presencePenalty", skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Penalty for tokens by how often they occurred.
    #[serde(alias = "frequencyPenalty", skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Seed, if the provider supports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the answer must call one of the tools.
    #[serde(alias = "mustCall", skip_serializing_if = "std::ops::Not::not")]
    pub must_call: bool,
    /// Whether the answer is streamed; `None` means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// A model's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The text; `None` if the model returned none.
    pub text: Option<String>,
    /// The requested tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Tokens and cost.
    pub usage: Usage,
}

/// Tokens and cost of one or more model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar; `None` if the price of any call is unknown, which is never the same as free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

/// A web page to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeRequest {
    /// The URL as written.
    pub url: String,
    /// The form of the result.
    pub capture: Capture,
}

/// The form in which a scraper returns a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The readable text as Markdown.
    Text,
    /// The page's HTML.
    Html,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The function's id.
    pub function: std::sync::Arc<str>,
    /// The arguments.
    pub payload: Payload,
}

/// A Python block to run.
#[derive(Clone, Debug)]
pub struct PythonRequest {
    /// Source that defines `execute(inputs, context)`.
    pub source: std::sync::Arc<str>,
    /// The inputs.
    pub inputs: Value,
    /// The user's profile, which the block sees in its context together with the memory.
    pub user: Value,
    /// The user's memory at the start of the block: an object.
    pub memory: Value,
    /// What happens if a crash interrupts the block.
    pub class: crate::plan::EffectClass,
}

/// The result of a Python block.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonReply {
    /// What `execute` returned.
    pub output: Value,
    /// Keys of the memory that the block set or deleted (`None`), sorted.
    pub memory: Vec<(String, Option<Value>)>,
}

/// A JavaScript expression to evaluate in the sandbox.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// One expression.
    pub source: std::sync::Arc<str>,
    /// The free names that the expression reads, with their values; a name without a value is `undefined`.
    pub names: Vec<(std::sync::Arc<str>, Option<Value>)>,
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
    /// For an approval: the hash of what is approved (the tool, its effect and its arguments).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Hash>,
}

impl Request {
    /// The kind of effect, in one word.
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

    /// The target for people: the model, the URL, the function. Secrets are names.
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

    /// The hash of everything that can change the result. Two requests with equal hashes are the same request.
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
        // Options are few and small, and their serialised form contains no secrets.
        hasher.text(&serde_json::to_string(&self.options).unwrap_or_default());
        if let Purpose::Summary { characters, part, parts } = &self.purpose {
            hasher.number(*characters as u64).number(*part as u64).number(*parts as u64);
        }
    }
}

impl Usage {
    /// Adds the usage of another call. The cost of the sum is known only if both costs are.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.micro_usd = match (self.micro_usd, other.micro_usd) {
            (Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
    }

    /// The usage of no calls: the cost is known to be zero.
    pub fn none() -> Usage {
        Usage { micro_usd: Some(0), ..Usage::default() }
    }
}

fn hash_http(hasher: &mut Hasher, request: &HttpRequest) {
    hasher.text(&request.method);
    hash_rich(hasher, &request.url);
    hasher.number(request.headers.len() as u64);
    for (name, value) in &request.headers {
        hasher.text(name);
        hash_rich(hasher, value);
    }
    hasher.number(u64::from(request.body.is_some()));
    if let Some(body) = &request.body {
        hash_rich(hasher, body);
    }
}

/// Adds text with secrets to a hash, with names in place of values.
pub(crate) fn hash_rich(hasher: &mut Hasher, rich: &Rich) {
    hasher.number(rich.pieces().len() as u64);
    for piece in rich.pieces() {
        match piece {
            Piece::Text(text) => hasher.number(0).text(text),
            Piece::Secret(name) => hasher.number(1).text(name),
        };
    }
}
