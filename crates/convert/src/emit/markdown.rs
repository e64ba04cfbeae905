//! Writes Markdown workflows: a phase for each step.

use flowloom_core::chat::GenerateOptions;
use flowloom_core::expr::Data;
use flowloom_core::plan::{Generate, Input, InputKind, Inputs, Plan};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile, format_source, markdown};

use super::{Abilities, Emitter};
use crate::draft::{Body, Item, ItemKind, Prompt, read_body};
use crate::names::{chains_outputs, declared_inputs};
use crate::prose::{is_plain, write_literal, write_plain, write_value};
use crate::text::{Piece, is_identifier, read_pieces, shorten, to_identifier};

/// The temperature of a call that sets none.
const DEFAULT_TEMPERATURE: f64 = 0.5;

/// The name under which the result is compiled for the comparison of its texts.
const CHECKED_FILE: &str = "converted.mdx";

/// A phase of the result.
struct Phase {
    comments: Vec<String>,
    /// The pieces of the prompt, in the names of the target.
    pieces: Vec<Piece>,
    /// The action below it; empty for text alone.
    action: String,
}

impl Emitter<'_> {
    pub(super) fn emit_markdown(&mut self, items: &[Item<'_>]) -> Option<String> {
        let system = self.common_system(items);
        let head = self.write_frontmatter(system.as_ref());
        let mut phases = Vec::new();
        for item in items {
            self.push_phase(item, system.as_ref(), &mut phases);
        }
        if !phases.iter().any(|phase| !phase.action.is_empty()) {
            self.report_nothing_left(markdown::FORMAT);
            return None;
        }
        let description = self.description_phase(&phases);
        let literal: Vec<bool> = phases.iter().map(|phase| !is_plain(&phase.pieces)).collect();
        let text = write_file(&head, &description, &phases, &literal, self.has_comments);
        // What Markdown reads differently is written as an expression.
        let literal = find_changed_texts(&text, &phases, literal);
        let text = write_file(&head, &description, &phases, &literal, self.has_comments);
        Some(format_source(markdown::FORMAT, CHECKED_FILE, &text).unwrap_or(text))
    }

    /// The instructions that all model calls share: none, or a constant text.
    fn common_system(&mut self, items: &[Item<'_>]) -> Option<String> {
        let mut calls = Vec::new();
        collect_calls(items, &mut calls);
        calls.first().and_then(|generate| constant_system(generate))
    }

    fn write_frontmatter(&mut self, system: Option<&String>) -> String {
        let mut head = format!("title: {}\n", yaml_text(&self.plan.name));
        match system {
            None => head.push_str("system: none\n"),
            Some(text) if text == markdown::DEFAULT_SYSTEM_PROMPT => {}
            Some(text) => head.push_str(&format!("system: {}\n", yaml_text(text))),
        }
        if let Some(id) = &self.plan.id {
            let message = format!("the id {id}: a Markdown workflow is called by its file");
            self.report.add_difference(self.plan.root.span, message);
        }
        let inputs = declared_inputs(self.plan);
        if !inputs.is_empty() {
            head.push_str("input:\n");
        }
        for input in &inputs {
            head.push_str(&self.write_input(input));
        }
        head
    }

    fn write_input(&mut self, input: &Input) -> String {
        let span = self.plan.root.span;
        let name = to_identifier(&input.name, "input1");
        let is_any = input.kind == InputKind::Any;
        let has_defaults = matches!(&self.plan.inputs, Inputs::Named { .. }) && is_any;
        let default = input.default.clone().filter(|value| value.is_truthy() || !is_any);
        let is_text = default.as_ref().is_none_or(|value| value.as_str().is_some())
            && matches!(input.kind, InputKind::Any | InputKind::Text | InputKind::OneOf(_));
        self.names.set(&input.name, &name, is_text);
        if is_any {
            let rest = if has_defaults { ", and an empty text no longer takes the default" } else { "" };
            let message = format!("the input {name} is a text; lists and objects are refused{rest}");
            self.report.add_difference(span, message);
        }
        if name != input.name {
            self.report.add_difference(span, format!("the input {} is called {name}", input.name));
        }
        let kind = match &input.kind {
            InputKind::Any | InputKind::Text => "type: text".to_owned(),
            InputKind::Number => "type: text, format: number".to_owned(),
            InputKind::Boolean => "type: text, format: boolean".to_owned(),
            InputKind::List => "type: array".to_owned(),
            InputKind::File => "type: file, fileType: image".to_owned(),
            InputKind::OneOf(options) => {
                let options: Vec<String> = options.iter().map(|option| yaml_text(option)).collect();
                format!("type: select, options: [{}]", options.join(", "))
            }
        };
        let message = input.description.as_deref().map(|text| format!(", message: {}", yaml_text(text)));
        let default = match default {
            Some(Value::String(text)) => format!(", default: {}", yaml_text(&text)),
            Some(value) => format!(", default: {}", to_json(&value)),
            None if has_defaults => ", default: \"\"".to_owned(),
            None if !input.required && !is_any => ", required: false".to_owned(),
            None => String::new(),
        };
        format!("  {name}: {{{kind}{}{default}}}\n", message.unwrap_or_default())
    }

    /// The description as a first phase without an action.
    fn description_phase(&mut self, phases: &[Phase]) -> String {
        let description = self.plan.description.as_str();
        if description.is_empty() {
            return String::new();
        }
        let acts = phases.iter().any(|phase| !phase.action.is_empty());
        if !acts || !is_plain(&[Piece::Text(description.to_owned())]) || description.contains(['{', '<']) {
            let message = format!("the description {:?}: no text of a Markdown workflow can be it", shorten(description));
            self.report.add_loss(self.plan.root.span, message);
            return String::new();
        }
        description.to_owned()
    }

    fn push_phase(&mut self, item: &Item<'_>, system: Option<&String>, phases: &mut Vec<Phase>) {
        let mark = self.report.mark();
        let span = item.span;
        let title = item.title().to_owned();
        let what = match &item.kind {
            ItemKind::Prompt(prompt) => return self.push_prompt(item, prompt, system, phases),
            ItemKind::Fanout(members) => {
                members.iter().for_each(|member| self.push_phase(member, system, phases));
                self.names.set("__fanout", "undefined", false);
                self.report.add_difference(span, "the steps of a fan-out run one after another here");
                return;
            }
            ItemKind::Defaults(rows) => {
                if rows.is_empty() {
                    self.report.add_difference(span, format!("{title} sets nothing and is left out"));
                }
                return;
            }
            ItemKind::Text => "a text that no model answers".to_owned(),
            ItemKind::Http(_) => format!("the request {title}: only functions of the configuration send some here"),
            ItemKind::Scrape(_) => format!("the page of {title}: only functions of the configuration read some here"),
            ItemKind::Call(call) => format!(
                "the call of {} by {title}: a function gets all variables there, and named arguments here",
                call.function
            ),
            ItemKind::Memory(_) => format!("the step {title}: a Markdown workflow has no memory"),
            ItemKind::Ask(_) => format!("the question {title}: a Markdown workflow asks nobody"),
            ItemKind::Block => format!("the block {title}: a Markdown workflow runs no code"),
            ItemKind::Repeat(..) => format!("the loop {title}: its condition cannot be written here"),
            ItemKind::Other(what) => format!("{what}: it cannot be written here"),
        };
        self.report.add_loss(span, what);
        if let Some(variable) = &item.variable {
            self.names.forget(variable);
        }
        phases.push(Phase { comments: self.loss_comments(mark), pieces: Vec::new(), action: String::new() });
    }

    fn push_prompt(
        &mut self,
        item: &Item<'_>,
        prompt: &Prompt<'_>,
        system: Option<&String>,
        phases: &mut Vec<Phase>,
    ) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_policy(item, Abilities::default());
        if prompt.earlier > 0 {
            self.report.add_loss(span, format!("the earlier messages of {title}: each step starts a conversation here"));
        }
        if constant_system(prompt.generate).as_ref() != system || is_computed(prompt.generate.system.as_ref()) {
            let message = format!("the instructions of {title}: all steps share one text of instructions here");
            self.report.add_loss(span, message);
        }
        let pieces = self.translate_pieces(item, prompt);
        let name = self.action_name(item, &title);
        let action = self.write_action(item, prompt.generate, &name);
        self.names.note_result(item, &name, chains_outputs(self.plan));
        if item.step.capability.is_some() {
            let message = format!("the grants of an agent are not checked before {title}");
            self.report.add_difference(span, message);
        }
        let comments = self.loss_comments(mark);
        self.finish_item(item, mark);
        phases.push(Phase { comments, pieces, action });
    }

    /// The pieces of a prompt, with references in the names of the target.
    fn translate_pieces(&mut self, item: &Item<'_>, prompt: &Prompt<'_>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for piece in read_pieces(&prompt.text) {
            pieces.push(match piece {
                Piece::Value(mut reference) => match self.find_reference(&reference, item.span) {
                    Some(known) => {
                        reference.name = known.target;
                        Piece::Value(reference)
                    }
                    None => Piece::Text(reference.source),
                },
                Piece::Expression(source) => {
                    self.report.add_loss(item.span, format!("the expression {{{}}}", shorten(&source)));
                    Piece::Text("…".to_owned())
                }
                Piece::Secret(name) => {
                    self.report.add_loss(item.span, format!("the secret {name}: a prompt cannot hold one here"));
                    Piece::Text("…".to_owned())
                }
                text @ Piece::Text(_) => text,
            });
        }
        if pieces.is_empty() {
            self.report.add_loss(item.span, "an empty prompt: an action without a text has no message here");
        }
        pieces
    }

    /// The name of an action. It is unique, and every action has one.
    fn action_name(&mut self, item: &Item<'_>, title: &str) -> String {
        let wanted = item.variable.as_deref().unwrap_or(title);
        let base = to_identifier(wanted, "answer");
        let mut name = base.clone();
        let mut number = 1;
        while self.names.is_taken(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        self.names.take(&name);
        if item.variable.as_deref() != Some(&name) {
            let what = item.variable.as_deref().map_or_else(|| format!("the output of {title}"), |name| format!("the result {name}"));
            self.report.add_difference(item.span, format!("{what} has the name {name}"));
        } else if title != name && !title.ends_with(&format!(" → {name}")) {
            self.report.add_difference(item.span, format!("the step {title} is called {name}"));
        }
        name
    }

    fn write_action(&mut self, item: &Item<'_>, generate: &Generate, name: &str) -> String {
        let title = item.title().to_owned();
        let model = generate.model.as_ref().map_or(Some(""), |model| model.as_literal()).unwrap_or_else(|| {
            self.report.add_loss(item.span, format!("the computed model of {title}"));
            ""
        });
        let element = if generate.schema.is_some() { "GenObject" } else { "GenText" };
        let mut action = format!("<{element} as=\"{name}\" model=\"{}\"", model.replace('"', ""));
        if generate.computed.is_some() {
            self.report.add_loss(item.span, format!("the computed options of {title}"));
        }
        let options = write_options(&generate.options);
        if !options.is_empty() {
            action.push_str(&format!(" options={{{{ {options} }}}}"));
        }
        if let Some(schema) = &generate.schema {
            action.push_str(&format!(" schema={{{}}}", to_json(schema)));
        }
        action + " />"
    }
}

fn collect_calls<'p>(items: &[Item<'p>], calls: &mut Vec<&'p Generate>) {
    for item in items {
        match &item.kind {
            ItemKind::Prompt(prompt) => calls.push(prompt.generate),
            ItemKind::Fanout(members) => collect_calls(members, calls),
            _ => {}
        }
    }
}

fn constant_system(generate: &Generate) -> Option<String> {
    match &generate.system {
        Some(Data::Text(text)) => text.as_literal().map(str::to_owned),
        _ => None,
    }
}

fn is_computed(system: Option<&Data>) -> bool {
    match system {
        None => false,
        Some(Data::Text(text)) => text.as_literal().is_none(),
        Some(_) => true,
    }
}

/// The options that differ from those of a call without options, as entries of an object.
fn write_options(options: &GenerateOptions) -> String {
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

fn yaml_text(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '/'))
        && text.trim() == text
        && !matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "none" | "y" | "n");
    if is_plain { text.to_owned() } else { to_json(&text.into()) }
}

fn write_file(head: &str, description: &str, phases: &[Phase], literal: &[bool], has_comments: bool) -> String {
    let mut parts = Vec::new();
    parts.extend((!description.is_empty()).then(|| description.to_owned()));
    for (phase, is_literal) in phases.iter().zip(literal) {
        let comments = phase.comments.iter().filter(|_| has_comments);
        let mut blocks: Vec<String> = comments.map(|comment| write_comment(comment)).collect();
        blocks.extend((!phase.pieces.is_empty()).then(|| match is_literal {
            true => write_literal(&phase.pieces),
            false => write_plain(&phase.pieces),
        }));
        blocks.extend((!phase.action.is_empty()).then(|| phase.action.clone()));
        parts.extend((!blocks.is_empty()).then(|| blocks.join("\n\n")));
    }
    format!("---\n{head}---\n\n{}\n", parts.join("\n\n---\n\n"))
}

/// A comment. Braces and tags in it are only signs.
fn write_comment(comment: &str) -> String {
    let signs = comment.replace(['\n', '\r'], " ").replace('\\', "").replace('`', "'");
    let signs: String =
        signs.chars().map(|c| if matches!(c, '{' | '}' | '<') { format!("\\{c}") } else { c.to_string() }).collect();
    format!("> {signs}")
}

/// Which texts must be written as expressions: those that are, and those that Markdown reads differently.
fn find_changed_texts(text: &str, phases: &[Phase], literal: Vec<bool>) -> Vec<bool> {
    let files = [(CHECKED_FILE.to_owned(), text.as_bytes().to_vec())].into();
    let sources = Sources { files, source_bytes: u64::MAX, ..Sources::default() };
    let compiled = compile(CHECKED_FILE, &sources, Some(markdown::FORMAT));
    let read: Option<Vec<Vec<Piece>>> = compiled.plan.as_ref().map(read_prompts);
    let expected = phases.iter().zip(&literal).filter(|(phase, _)| !phase.action.is_empty());
    let Some(read) = read.filter(|read| read.len() == expected.clone().count()) else {
        return vec![true; literal.len()];
    };
    let mut read = read.into_iter();
    let changed = phases.iter().zip(&literal).map(|(phase, is_literal)| {
        let own = if phase.action.is_empty() { None } else { read.next() };
        *is_literal || own.is_some_and(|own| !is_same_text(&own, &phase.pieces))
    });
    changed.collect()
}

fn read_prompts(plan: &Plan) -> Vec<Vec<Piece>> {
    let Body::Items(items) = read_body(plan) else { return Vec::new() };
    let prompts = items.iter().filter_map(|item| match &item.kind {
        ItemKind::Prompt(prompt) => Some(read_pieces(&prompt.text)),
        _ => None,
    });
    prompts.collect()
}

/// Whether two texts are equal, whatever their references are called in their notation.
fn is_same_text(one: &[Piece], other: &[Piece]) -> bool {
    let plain = |pieces: &[Piece]| -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(reference) if is_identifier(&reference.name) => format!("\u{1}{}\u{1}", write_value(reference)),
            other => format!("\u{1}{other:?}\u{1}"),
        };
        pieces.iter().map(piece).collect()
    };
    plain(one) == plain(other)
}
