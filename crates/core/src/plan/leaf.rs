//! The leaves: steps that are one effect each.

use std::sync::Arc;

use super::fields::{Field, FieldContent, FieldList};
use super::http::HttpSpec;
use crate::chat::{GenerateOptions, Role};
use crate::code::Code;
use crate::expr::{Data, Expr, Template, TextRules};
use crate::value::Value;

/// Steps that perform one effect each; the output is what the effect gives.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// Fails without an effect.
    Fail {
        /// The code of the error.
        code: Code,
        /// The message of the error.
        message: String,
    },
    /// Calls a model.
    Generate(Generate),
    /// Sends an HTTP request; the output is the body of the reply, as JSON or text.
    Http(HttpSpec),
    /// Reads a web page.
    Scrape(Scrape),
    /// Calls a function.
    Call(FunctionCall),
    /// Runs a block.
    Block(Block),
    /// Reads or writes the user's memory.
    Memory(MemoryStep),
    /// Asks a person and waits for the answer.
    Ask {
        /// The question.
        question: Template,
        /// JSON Schema that the answer must match.
        schema: Option<Value>,
    },
    /// Waits.
    Wait {
        /// The duration, in milliseconds.
        duration_ms: u64,
    },
}

impl Leaf {
    /// The name in keys, events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Leaf::Fail { .. } => "fail",
            Leaf::Generate(_) => "generate",
            Leaf::Http(_) => "http",
            Leaf::Scrape(_) => "scrape",
            Leaf::Call(_) => "call",
            Leaf::Block(_) => "block",
            Leaf::Memory(_) => "memory",
            Leaf::Ask { .. } => "ask",
            Leaf::Wait { .. } => "wait",
        }
    }

    /// Whether the effect changes nothing outside its run, as far as its definition shows. Functions and code may change
    /// anything.
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            Leaf::Http(http) => {
                let method = http.method.as_literal().map(|method| method.trim().to_ascii_uppercase());
                method.is_some_and(|method| matches!(method.as_str(), "" | "GET" | "HEAD"))
            }
            Leaf::Call(_) => false,
            Leaf::Block(block) => matches!(block.code, BlockCode::Prompt { .. }),
            Leaf::Memory(memory) => memory.operation != MemoryOperation::Set,
            Leaf::Fail { .. } | Leaf::Generate(_) | Leaf::Scrape(_) | Leaf::Ask { .. } | Leaf::Wait { .. } => true,
        }
    }

    /// Whether the effect reaches only models, people and the store.
    pub(super) fn is_closed_world(&self) -> bool {
        match self {
            Leaf::Http(_) | Leaf::Scrape(_) => false,
            Leaf::Memory(_) => true,
            Leaf::Call(_) | Leaf::Block(_) => self.is_read_only(),
            Leaf::Fail { .. } | Leaf::Generate(_) | Leaf::Ask { .. } | Leaf::Wait { .. } => true,
        }
    }

    /// The fields of the leaf, in the order in which people read them.
    pub fn list_fields(&self) -> Vec<Field<'_>> {
        let mut fields = FieldList::default();
        match self {
            Leaf::Fail { code, message } => fields.add_fixed("fails with", format!("{code}: {message}")),
            Leaf::Generate(generate) => return generate.list_fields(),
            Leaf::Http(http) => fields.add_http(http),
            Leaf::Scrape(scrape) => {
                fields.add_field("url", FieldContent::Text(&scrape.url));
                fields.add_fixed("capture", if scrape.capture == Capture::Html { "html" } else { "text" });
                fields.add_if("selector", scrape.selector.as_ref().map(FieldContent::Text));
                if scrape.summary.is_some() {
                    fields.add_fixed("summary", "if the page does not fit the model's window");
                }
            }
            Leaf::Call(call) => {
                fields.add_fixed("function", &*call.function);
                fields.add_field("prompt", FieldContent::Text(&call.prompt));
                fields.add_if("arguments", call.arguments.as_deref().map(FieldContent::Arguments));
                fields.add_field("extra", FieldContent::Variables(&call.extra));
            }
            Leaf::Block(block) => fields.add_block(block),
            Leaf::Memory(memory) => {
                fields.add_fixed("operation", format!("{:?}", memory.operation).to_lowercase());
                fields.add_field("prompt", FieldContent::Text(&memory.prompt));
            }
            Leaf::Ask { question, schema } => {
                fields.add_field("question", FieldContent::Text(question));
                fields.add_if("schema", schema.as_ref().map(FieldContent::Schema));
            }
            Leaf::Wait { duration_ms } => fields.add_fixed("duration", format!("{duration_ms} ms")),
        }
        fields.0
    }
}

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
    /// The code of the block.
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
        /// The field of the output for an answer without a JSON object; `None` if every answer must match the schema.
        raw_field: Option<Arc<str>>,
    },
    /// A function that receives the inputs as its arguments.
    Function(Arc<str>),
}

/// A web page to read.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The URL.
    pub url: Template,
    /// The form of the result.
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
    /// The message if the matches of the selector are empty.
    pub no_content: &'static str,
}

/// A function call.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// The function's id.
    pub function: Arc<str>,
    /// The prompt.
    pub prompt: Template,
    /// Whether the author wrote no prompt, so that it is the default one.
    pub has_default_prompt: bool,
    /// Entries added to the variables in the payload, as `(name, variable)`; left out if the variable does not exist.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
    /// The whole payload, where it does not contain the variables and the prompt.
    pub arguments: Option<Vec<(Arc<str>, Expr)>>,
}

impl FunctionCall {
    /// A call of a function with a prompt that the author wrote.
    pub fn with_prompt(function: &str, prompt: Template) -> FunctionCall {
        FunctionCall {
            function: function.into(),
            prompt,
            has_default_prompt: false,
            extra: Vec::new(),
            arguments: None,
        }
    }
}

/// A memory operation on behalf of the user; the arguments are read like those of a built-in function.
#[derive(Clone, Debug)]
pub struct MemoryStep {
    /// The operation.
    pub operation: MemoryOperation,
    /// The prompt that may hold the arguments.
    pub prompt: Template,
    /// Whether the author wrote no prompt, so that it is the default one.
    pub has_default_prompt: bool,
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

/// The treatment of an effect that was in flight during a crash.
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
