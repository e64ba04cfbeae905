//! The text of a Markdown workflow: its frontmatter, its phases, and the check that Markdown leaves the prompts alone.

use flowloom_core::chat::GenerateOptions;
use flowloom_core::plan::{Composite, Plan, StepKind};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, StopFlag, compile, markdown};

use crate::draft::{ItemKind, read_phase_of};
use crate::prose::{write_literal, write_plain};
use crate::text::{Piece, read_pieces, write_value};

/// The temperature of a call that sets none.
const DEFAULT_TEMPERATURE: f64 = 0.5;

/// The name under which the result is compiled for the comparison of its texts.
pub(super) const CHECKED_FILE: &str = "converted.mdx";

/// A phase of the result.
pub(super) struct Phase {
    pub(super) comments: Vec<String>,
    /// The pieces of the prompt, in the names of the target.
    pub(super) pieces: Vec<Piece>,
    /// The action below it; empty for text alone.
    pub(super) action: String,
    /// Whether the action calls a function, so that it has no prompt.
    pub(super) is_call: bool,
    /// The tag of the block around both, and the name of its element.
    pub(super) block: Option<(String, &'static str)>,
}

impl Phase {
    /// Comments alone, in the place of something that is lost.
    pub(super) fn new_comment(comments: Vec<String>) -> Phase {
        Phase { comments, pieces: Vec::new(), action: String::new(), is_call: false, block: None }
    }

    /// Whether the phase asks a model.
    fn has_prompt(&self) -> bool {
        !self.action.is_empty() && !self.is_call
    }
}

/// The options that differ from those of a call without options, as entries of an object.
pub(super) fn write_options(options: &GenerateOptions) -> String {
    let mut entries = Vec::new();
    let mut number = |name: &str, value: Option<f64>| entries.extend(value.map(|value| format!("{name}: {value}")));
    number("maxTokens", options.max_tokens.map(f64::from));
    if let Some(temperature) = options.temperature.filter(|value| *value != DEFAULT_TEMPERATURE) {
        number("temperature", Some(temperature));
    }
    number("topP", options.top_p);
    number("topK", options.top_k);
    number("presencePenalty", options.presence_penalty);
    number("frequencyPenalty", options.frequency_penalty);
    if options.temperature.is_none() {
        entries.push("temperature: null".to_owned());
    }
    entries.extend(options.seed.map(|seed| format!("seed: {seed}")));
    if !options.stop.is_empty() {
        let stop: Vec<Value> = options.stop.iter().map(|text| text.as_str().into()).collect();
        entries.push(format!("stop: {}", to_json(&Value::list(stop))));
    }
    entries.join(", ")
}

pub(super) fn yaml_text(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '/'))
        && text.trim() == text
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "none" | "y" | "n"
        );
    if is_plain { text.to_owned() } else { to_json(&text.into()) }
}

pub(super) fn write_file(
    head: &str,
    description: &str,
    phases: &[Phase],
    literal: &[bool],
    has_comments: bool,
) -> String {
    let mut parts = Vec::new();
    parts.extend((!description.is_empty()).then(|| description.to_owned()));
    for (phase, is_literal) in phases.iter().zip(literal) {
        let comments = phase.comments.iter().filter(|_| has_comments);
        let mut blocks: Vec<String> = comments.map(|comment| write_comment(comment)).collect();
        let text = (!phase.pieces.is_empty()).then(|| match is_literal {
            true => write_literal(&phase.pieces),
            false => write_plain(&phase.pieces),
        });
        let inner: Vec<String> =
            text.into_iter().chain((!phase.action.is_empty()).then(|| phase.action.clone())).collect();
        match &phase.block {
            Some((tag, element)) => blocks.push(format!("{tag}\n{}\n</{element}>", indent(&inner.join("\n\n")))),
            None => blocks.extend(inner),
        }
        parts.extend((!blocks.is_empty()).then(|| blocks.join("\n\n")));
    }
    format!("---\n{head}---\n\n{}\n", parts.join("\n\n---\n\n"))
}

/// The text of a block, two blanks further to the right.
fn indent(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("  {line}") };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A comment. Braces and tags in it are only signs.
fn write_comment(comment: &str) -> String {
    let signs = comment.replace(['\n', '\r'], " ").replace('\\', "").replace('`', "'");
    let signs: String =
        signs.chars().map(|c| if matches!(c, '{' | '}' | '<') { format!("\\{c}") } else { c.to_string() }).collect();
    format!("> {signs}")
}

/// Which texts must be written as expressions: those that are, and those that Markdown reads differently.
pub(super) fn find_changed_texts(text: &str, phases: &[Phase], literal: Vec<bool>, stop: &StopFlag) -> Vec<bool> {
    let files = [(CHECKED_FILE.to_owned(), text.as_bytes().to_vec())].into();
    let sources = Sources { files, source_bytes: u64::MAX, stop: stop.clone(), ..Sources::default() };
    let compiled = compile(CHECKED_FILE, &sources, Some(markdown::FORMAT));
    let read: Option<Vec<Vec<Piece>>> = compiled.plan.as_ref().map(read_prompts);
    let expected = phases.iter().zip(&literal).filter(|(phase, _)| phase.has_prompt());
    let Some(read) = read.filter(|read| read.len() == expected.clone().count()) else {
        return vec![true; literal.len()];
    };
    let mut read = read.into_iter();
    let changed = phases.iter().zip(&literal).map(|(phase, is_literal)| {
        let own = if phase.has_prompt() { read.next() } else { None };
        *is_literal || own.is_some_and(|own| !is_same_text(&own, &phase.pieces))
    });
    changed.collect()
}

/// The texts of all prompts of a plan, also of those in blocks.
fn read_prompts(plan: &Plan) -> Vec<Vec<Piece>> {
    let mut texts = Vec::new();
    plan.root.visit(&mut |step| {
        let StepKind::Composite(Composite::Sequence(_)) = &step.kind else { return };
        for item in read_phase_of(step) {
            if let ItemKind::Prompt(prompt) = &item.kind {
                texts.push(read_pieces(&prompt.text));
            }
        }
    });
    texts
}

/// Whether two texts are equal, whatever their references are called in their notation.
fn is_same_text(one: &[Piece], other: &[Piece]) -> bool {
    let plain = |pieces: &[Piece]| -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(reference) => format!("\u{1}{}\u{1}", write_value(reference)),
            Piece::Expression(source) => format!("\u{1}{source}\u{1}"),
            Piece::Secret(name) => format!("\u{1}{name}\u{1}"),
        };
        pieces.iter().map(piece).collect()
    };
    plain(one) == plain(other)
}
