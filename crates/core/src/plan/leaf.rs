//! What the leaves hold: steps that are one effect each.

use std::sync::Arc;

use crate::chat::{GenerateOptions, Role};
use crate::expr::{Data, Expr, Template, TextRules};
use crate::value::Value;

/// A model call.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The model as the definition names it.
    pub model: Option<Template>,
    /// Instructions, in front of everything and no part of the conversation.
    pub system: Option<Data>,
    /// The conversation so far; the new messages and the answer are added to it.
    pub thread: Option<Arc<str>>,
    /// New messages.
    pub messages: Vec<(Role, Data)>,
    /// JSON Schema of the answer.
    pub schema: Option<Value>,
    /// Sampling options.
    pub options: GenerateOptions,
    /// Options that are computed: an object whose fields take the place of those above.
    pub computed: Option<Expr>,
}

/// A block: code or a prompt, with inputs and an output that are held to schemas.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its id in reports.
    pub id: Arc<str>,
    /// What runs.
    pub code: BlockCode,
    /// Its inputs: an object.
    pub inputs: Data,
    /// JSON Schema of the inputs, to which they are brought as far as possible.
    pub input_schema: Option<Value>,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// A field that means failure when the output has it, whatever it holds.
    pub failure: Option<Arc<str>>,
}

/// What a block runs.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// Python, in the sandbox.
    Python {
        /// Source with `execute(inputs, context)`.
        source: Arc<str>,
        /// Whether it may be run again after a crash.
        effect: EffectClass,
    },
    /// A model call.
    Prompt {
        /// The call; its templates see the inputs as `inputs`.
        generate: Box<Generate>,
        /// How inputs become text in it.
        text: TextRules,
    },
    /// A function, which gets the inputs as its arguments.
    Function(Arc<str>),
}

/// A page to read.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The address.
    pub url: Template,
    /// What is brought back.
    pub capture: Capture,
    /// CSS selector applied to the HTML; one hit gives its inner HTML, several are joined by line breaks.
    pub selector: Option<Template>,
    /// How text that does not fit the model's window is shortened; `None` if it is not.
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
pub struct Call {
    /// The function's id.
    pub function: Arc<str>,
    /// The prompt.
    pub prompt: Template,
    /// Entries added to the variables in the payload; `(name, variable)`, left out if the variable does not exist.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
    /// The whole payload, where the variables and the prompt are no part of it.
    pub arguments: Option<Vec<(Arc<str>, Expr)>>,
}

/// A step on the owner's memory; the arguments are read as those of a built-in function.
#[derive(Clone, Debug)]
pub struct MemoryStep {
    /// Read or write.
    pub operation: MemoryOperation,
    /// The prompt that may hold the arguments.
    pub prompt: Template,
}

/// What is done with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOperation {
    /// Gives the value of `key`.
    Get,
    /// Sets `key` to `value`.
    Set,
    /// Gives everything, as an object.
    All,
    /// Gives the owner's profile, as an object.
    Profile,
}

/// What may happen to an effect that a crash caught in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It is sent again under the same idempotency key.
    AtLeastOnce,
    /// It is never sent again by itself; the run becomes `uncertain`.
    AtMostOnce,
}

/// What a scraper brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The readable text as Markdown.
    Text,
    /// The page's HTML.
    Html,
}
