//! What the leaves hold: steps that are one effect each.

use std::sync::Arc;

use crate::chat::{GenerateOptions, Role};
use crate::expr::{Data, Expr, Template, TextRules};
use crate::value::Value;

/// A model call.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The model as the definition names it; `None` for the default model.
    pub model: Option<Template>,
    /// Instructions; they precede everything else and are not part of the conversation.
    pub system: Option<Data>,
    /// The conversation so far; the new messages and the answer are appended to it.
    pub thread: Option<Arc<str>>,
    /// New messages.
    pub messages: Vec<(Role, Data)>,
    /// JSON Schema that the answer must match.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// Computed options: an object whose fields override those above.
    pub computed: Option<Expr>,
}

/// A block: code or a prompt, with inputs and an output that are validated against schemas.
#[derive(Clone, Debug)]
pub struct Block {
    /// The id in reports.
    pub id: Arc<str>,
    /// What runs.
    pub code: BlockCode,
    /// The inputs: an object.
    pub inputs: Data,
    /// JSON Schema of the inputs; inputs are coerced to it where possible.
    pub input_schema: Option<Value>,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// A field whose presence in the output means failure, whatever its value.
    pub failure: Option<Arc<str>>,
}

/// The code of a block.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// Python, in the sandbox.
    Python {
        /// Source that defines `execute(inputs, context)`.
        source: Arc<str>,
        /// Whether it may run again after a crash.
        effect: EffectClass,
    },
    /// A model call.
    Prompt {
        /// The call; its templates see the inputs as `inputs`.
        generate: Box<Generate>,
        /// How inputs become text in it.
        text: TextRules,
    },
    /// A function that receives the inputs as its arguments.
    Function(Arc<str>),
}

/// A web page to read.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The URL.
    pub url: Template,
    /// What the scraper returns.
    pub capture: Capture,
    /// CSS selector applied to the HTML. One match yields its inner HTML; several are joined by line breaks.
    pub selector: Option<Template>,
    /// How text that exceeds the model's context window is shortened; `None` if it is not.
    pub summary: Option<Summary>,
    /// The messages of its own failures.
    pub messages: ScrapeMessages,
}

/// How a text that does not fit a model's window is shortened: part by part, to the key points of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Instructions for the model.
    pub instructions: &'static str,
    /// Share of the model's window that one part takes, in percent.
    pub part_percent: u64,
    /// Bytes that are passed on as they are where there is no model.
    pub max_bytes_without_model: usize,
}

/// The messages of a scrape step's own failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeMessages {
    /// The address is empty.
    pub no_url: &'static str,
    /// The selector matches nothing; the selector follows.
    pub no_match: &'static str,
    /// What the selector matches is empty.
    pub no_content: &'static str,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// The function's id.
    pub function: Arc<str>,
    /// The prompt.
    pub prompt: Template,
    /// Entries added to the variables in the payload, as `(name, variable)`; left out if the variable does not exist.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
    /// The whole payload, where it does not contain the variables and the prompt.
    pub arguments: Option<Vec<(Arc<str>, Expr)>>,
}

/// A memory operation on behalf of the user; the arguments are read like those of a built-in function.
#[derive(Clone, Debug)]
pub struct MemoryStep {
    /// The operation.
    pub operation: MemoryOperation,
    /// The prompt that may hold the arguments.
    pub prompt: Template,
}

/// A memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOperation {
    /// Returns the value of `key`.
    Get,
    /// Sets `key` to `value`.
    Set,
    /// Returns all entries as an object.
    All,
    /// Returns the user's profile as an object.
    Profile,
}

/// What happens to an effect that was in flight during a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// The effect is repeated under the same idempotency key.
    AtLeastOnce,
    /// The effect is never repeated automatically; the run becomes `uncertain`.
    AtMostOnce,
}

/// The form in which a scraper returns a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The readable text as Markdown.
    Text,
    /// The page's HTML.
    Html,
}
