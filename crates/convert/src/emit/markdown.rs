//! Writes Markdown workflows: a phase for each step.

use std::collections::{HashMap, HashSet};

use flowloom_core::expr::Data;
use flowloom_core::plan::{Exhausted, Generate, Input, InputKind, Inputs, Loop, LoopTest};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use flowloom_formats::{format_source, markdown};

use super::markdown_text::{CHECKED_FILE, Phase, find_changed_texts, write_file, write_options, yaml_text};
use super::parts::{join_instructions, strip_rule};
use super::{Abilities, Emitter};
use crate::draft::{Item, ItemKind, Prompt, contained_text};
use crate::names::{COUNTER, chains_outputs, read_inputs};
use crate::prose::is_plain;
use crate::text::{Piece, Reference, is_identifier, shorten_line, to_identifier, write_value};

/// The name of the action inside a block, which differs from that of the block.
fn inner_name(block: &str) -> &'static str {
    if block == "answer" { "text" } else { "answer" }
}

/// Names of actions inside blocks, which nothing else in a block may have.
const INNER_NAMES: [&str; 2] = ["answer", "text"];

/// Iterations of a loop that sets no limit.
const DEFAULT_MAX_ITERATIONS: u64 = 1_000;

impl Emitter<'_> {
    pub(super) fn emit_markdown(&mut self, items: &[Item<'_>]) -> Option<String> {
        let system = self.common_system(items);
        let mut head = self.write_frontmatter(items, system.as_ref());
        let mut phases = Vec::new();
        for item in items.iter().take_while(|_| !self.stop.is_stopped()) {
            self.push_phase(item, system.as_ref(), &mut phases);
        }
        if !phases.iter().any(|phase| !phase.action.is_empty()) {
            self.report_nothing_left(markdown::FORMAT);
            return None;
        }
        let added = self.added_inputs.take().unwrap_or_default();
        if !added.is_empty() && !head.contains("\ninput:\n") {
            head.push_str("input:\n");
        }
        head.push_str(&added.concat());
        let description = self.description_phase(&phases);
        let literal: Vec<bool> = phases.iter().map(|phase| !is_plain(&phase.pieces)).collect();
        let text = write_file(&head, &description, &phases, &literal, self.has_comments);
        // What Markdown reads differently is written as an expression.
        let literal = find_changed_texts(&text, &phases, literal, self.stop);
        let text = write_file(&head, &description, &phases, &literal, self.has_comments);
        Some(format_source(markdown::FORMAT, CHECKED_FILE, &text).unwrap_or(text))
    }

    /// The instructions that all model calls share: none, or a constant text.
    fn common_system(&mut self, items: &[Item<'_>]) -> Option<String> {
        let mut calls = Vec::new();
        collect_calls(items, &mut calls);
        let first = calls.first().and_then(|generate| constant_system(generate));
        let is_shared = calls.iter().all(|generate| constant_system(generate) == first);
        first.filter(|_| is_shared)
    }

    fn write_frontmatter(&mut self, items: &[Item<'_>], system: Option<&String>) -> String {
        let mut head = format!("title: {}\n", yaml_text(&self.plan.name));
        match system {
            None => head.push_str("system: none\n"),
            Some(text) if text == markdown::DEFAULT_SYSTEM_PROMPT => {}
            Some(text) => head.push_str(&format!("system: {}\n", yaml_text(text))),
        }
        if let Some(id) = &self.plan.id {
            let message = format!("the id {id}: a Markdown workflow is called by its file");
            self.report.add_change(self.plan.root.span, message);
        }
        let inputs = read_inputs(self.plan, items);
        if inputs.is_empty() && chains_outputs(self.plan) {
            let message = "the input, which no step reads: a run with one is refused";
            self.report.add_difference(self.plan.root.span, message);
        }
        if !inputs.is_empty() {
            head.push_str("input:\n");
        }
        for input in &inputs {
            head.push_str(&self.write_input(input));
        }
        head
    }

    fn write_input(&mut self, input: &Input) -> String {
        let span = input.span;
        let name = self.names.take_name(&to_identifier(&input.name, "input1"));
        let is_any = input.kind == InputKind::Any;
        let has_defaults = matches!(&self.plan.inputs, Inputs::Named { .. }) && is_any;
        let default = input.default.clone().filter(|value| value.is_truthy() || !is_any);
        let is_text = default.as_ref().is_none_or(|value| value.as_str().is_some())
            && matches!(input.kind, InputKind::Any | InputKind::Text | InputKind::OneOf(_));
        self.names.set(&input.name, &name, is_text);
        if is_any {
            let rest = if has_defaults { ", and an empty text no longer takes the default" } else { "" };
            let message = format!("the input {name} is a string; lists and objects are refused{rest}");
            self.report.add_change(span, message);
        }
        if name != input.name {
            self.report.add_change(span, format!("the input {} is called {name}", input.name));
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
            let message = format!(
                "the description {:?}: it cannot be written as the text of a Markdown workflow",
                shorten_line(description)
            );
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
                self.emit_members(members, |emitter, member| emitter.push_phase(member, system, phases));
                self.report.add_change(span, "the steps of a fan-out run one after another here");
                return;
            }
            ItemKind::Defaults(rows) => {
                if !phases.is_empty() {
                    self.report.add_loss(span, format!("{title}: defaults that are set after other steps"));
                }
                self.lose_defaults(item, rows);
                if rows.is_empty() {
                    self.report.add_change(span, format!("{title} sets nothing and is left out"));
                }
                return;
            }
            ItemKind::Text => "text that no model answers".to_owned(),
            ItemKind::Http(_) | ItemKind::Scrape(_) | ItemKind::Call(_) | ItemKind::Block(_) => {
                let phase = self.call_phase(item);
                return phases.push(phase);
            }
            ItemKind::Memory(_) => format!("the step {title}: a Markdown workflow has no memory"),
            ItemKind::Ask(_) => format!("the question {title}: a Markdown workflow cannot ask people"),
            ItemKind::Group(group) => {
                self.report_group(item, group);
                return self.emit_group(item, group, |emitter, inner| emitter.push_phase(inner, system, phases));
            }
            ItemKind::Repeat(looped, _) => return self.push_loop(item, looped, system, phases),
            ItemKind::Other(what) => format!("{what}: it cannot be written here"),
        };
        self.report.add_loss(span, what);
        self.lose_result(item);
        phases.push(Phase::new_comment(self.loss_comments(mark)));
    }

    fn push_prompt(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, system: Option<&String>, phases: &mut Vec<Phase>) {
        let mark = self.begin_item();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_prompt(item, prompt, system);
        let condition = item.step.condition.as_ref().and_then(contained_text);
        let condition = condition.and_then(|text| Some((text, self.text_input()?)));
        self.check_policy(item, Abilities { condition: condition.is_some(), ..Abilities::default() });
        let pieces = self.translate_pieces(item, prompt, system);
        let name = self.action_name(item, &title);
        let sets_input = self.sets_input();
        let phase = match condition {
            Some((text, input)) => {
                let (pieces, provided) = provide_values(pieces);
                let (inner, operand) = (inner_name(&name), in_parentheses(&input));
                let test = format!("{operand}.toLowerCase().includes({})", to_json(&text.to_lowercase().into()));
                let tag = format!("<Cond as=\"{name}\" if={{{test}}}{provided}>");
                let action = self.write_action(item, prompt.generate, inner);
                self.report.add_change(span, format!("the output of {title} is the field {inner} of {name}"));
                if let Some(variable) = &item.variable {
                    self.names.set(variable, &format!("{name}?.{inner}"), false);
                }
                if sets_input {
                    self.names.set("input", &format!("{name}?.{inner} ?? {input}"), true);
                }
                Phase { pieces, action, block: Some((tag, "Cond")), ..Phase::new_comment(Vec::new()) }
            }
            None => {
                let action = self.write_action(item, prompt.generate, &name);
                self.names.note_result(item, &name, sets_input);
                Phase { pieces, action, ..Phase::new_comment(Vec::new()) }
            }
        };
        let comments = self.loss_comments(mark);
        self.finish_item(item, mark);
        phases.push(Phase { comments, ..phase });
    }

    /// The input of a step list at this point, if it is a text.
    fn text_input(&self) -> Option<String> {
        self.names.find("input").filter(|known| known.is_text).map(|known| known.target.clone())
    }

    /// A step that is repeated until its output contains a text.
    fn push_loop(&mut self, item: &Item<'_>, looped: &Loop, system: Option<&String>, phases: &mut Vec<Phase>) {
        let mark = self.report.mark();
        let ItemKind::Repeat(_, body) = &item.kind else { return };
        let until = looped.until.as_ref().map(contained_text);
        let fits = looped.test == LoopTest::After && looped.exhausted == Exhausted::Succeed && until != Some(None);
        let (ItemKind::Prompt(prompt), true, Some(input)) = (&body.kind, fits, self.text_input()) else {
            let message = format!(
                "the loop {}: its step or its condition cannot be repeated here, so the step runs once",
                item.title()
            );
            self.report.add_loss(item.span, message);
            phases.push(Phase::new_comment(self.loss_comments(mark)));
            return self.emit_once(body, |emitter, body| emitter.push_phase(body, system, phases));
        };
        let title = item.title().to_owned();
        self.check_policy(item, Abilities::default());
        self.check_policy(body, Abilities::default());
        self.check_prompt(body, prompt, system);
        let outside = self.names.mark();
        // In its own prompt, the variable is the output of the previous round, which the first one does not have.
        if let Some(variable) = &body.variable {
            self.names.lose(variable);
        }
        let name = self.action_name(body, &title);
        let inner = inner_name(&name);
        self.names.set("input", &format!("$.last?.{inner} ?? {input}"), true);
        self.names.set(COUNTER, "$.index", true);
        let (pieces, provided) = provide_values(self.translate_pieces(body, prompt, system));
        let mut ends = vec![format!("$.index === {}", looped.max)];
        if let Some(text) = until.flatten() {
            let text = to_json(&text.to_lowercase().into());
            ends.push(format!("($.last?.{inner} ?? \"\").toLowerCase().includes({text})"));
        }
        let max =
            if looped.max >= DEFAULT_MAX_ITERATIONS { format!(" max={{{}}}", looped.max + 1) } else { String::new() };
        let tag = format!("<Loop as=\"{name}\" until={{{}}}{max}{provided}>", ends.join(" || "));
        let action = self.write_action(body, prompt.generate, inner);
        let message = format!("the output of {title} is the field {inner} of the last item of {name}");
        self.report.add_change(item.span, message);
        self.names.return_to(outside);
        let last = format!("{name}[{name}.length - 1].{inner}");
        let is_text = body.gives_text();
        for variable in body.variable.iter().map(String::as_str).chain(["input"]) {
            self.names.set(variable, &last, is_text);
        }
        let comments = self.loss_comments(mark);
        phases.push(Phase { pieces, action, block: Some((tag, "Loop")), ..Phase::new_comment(comments) });
    }

    /// Reports the parts of a model call that the steps of a Markdown workflow share.
    fn check_prompt(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, system: Option<&String>) {
        let (span, title) = (item.span, item.title().to_owned());
        if prompt.earlier > 0 {
            self.report
                .add_loss(span, format!("the earlier messages of {title}: each step starts a conversation here"));
        }
        if constant_system(prompt.generate).as_ref() != system || is_computed(prompt.generate.system.as_ref()) {
            self.has_other_text = true;
            let how = "all steps share one text of instructions, so they are the beginning of its prompt here";
            self.report.add_loss(span, format!("the instructions of {title}: {how}"));
        }
        self.check_tools(item, prompt);
        self.note_grants(item);
    }

    /// The pieces of a prompt, with references in the names of the target.
    fn translate_pieces(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, system: Option<&String>) -> Vec<Piece> {
        let is_shared =
            constant_system(prompt.generate).as_ref() == system && !is_computed(prompt.generate.system.as_ref());
        let text = if is_shared { prompt.text.clone() } else { join_instructions(prompt) };
        let mut pieces = self.resolve_pieces(&text, item.span);
        self.read_output_inputs(&mut pieces);
        if pieces.is_empty() {
            self.report.add_loss(item.span, "an empty prompt: an action without text has no message here");
        }
        pieces
    }

    /// The name of an action. It is unique, and every action has one.
    pub(super) fn action_name(&mut self, item: &Item<'_>, title: &str) -> String {
        let wanted = item.variable.as_deref().unwrap_or(title);
        let base = to_identifier(wanted, "answer");
        let name = self.names.take_name(&base);
        if item.variable.as_deref() != Some(&name) {
            let what = item
                .variable
                .as_deref()
                .map_or_else(|| format!("the output of {title}"), |name| format!("the result {name}"));
            self.report.add_change(item.span, format!("{what} has the name {name}"));
        } else if title != name && !title.ends_with(&format!(" → {name}")) {
            self.report.add_change(item.span, format!("the step {title} is called {name}"));
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

/// The pieces of a text in a block, which sees only the provided variables, and the attribute that provides it.
fn provide_values(pieces: Vec<Piece>) -> (Vec<Piece>, String) {
    let mut provided: Vec<(String, String)> = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut taken: HashSet<String> = INNER_NAMES.map(str::to_owned).into();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let inner = pieces.into_iter().map(|piece| match piece {
        Piece::Value(reference) => {
            let value = write_value(&reference);
            let known = names.entry(value).or_insert_with_key(|value| {
                let base = if value.contains("$.index") {
                    "iteration"
                } else if is_identifier(value) {
                    value
                } else {
                    "input"
                };
                let mut name = base.to_owned();
                let number = numbers.entry(name.clone()).or_insert(1);
                while !taken.insert(name.clone()) {
                    *number += 1;
                    name = format!("{base}{number}");
                }
                provided.push((name.clone(), value.clone()));
                name
            });
            Piece::Value(Reference { name: known.clone(), path: Vec::new(), source: String::new() })
        }
        other => other,
    });
    let inner = inner.collect();
    let entries: Vec<String> = provided
        .iter()
        .map(|(name, value)| if name == value { name.clone() } else { format!("{name}: {value}") })
        .collect();
    let attribute =
        if entries.is_empty() { String::new() } else { format!(" provide={{{{ {} }}}}", entries.join(", ")) };
    (inner, attribute)
}

/// An expression of several parts in parentheses.
fn in_parentheses(expression: &str) -> String {
    if expression.contains(' ') { format!("({expression})") } else { expression.to_owned() }
}

fn collect_calls<'p>(items: &[Item<'p>], calls: &mut Vec<&'p Generate>) {
    for item in items {
        match &item.kind {
            ItemKind::Prompt(prompt) => calls.push(prompt.generate),
            ItemKind::Fanout(members) => collect_calls(members, calls),
            ItemKind::Repeat(_, body) => collect_calls(std::slice::from_ref(body), calls),
            ItemKind::Group(group) => group.scopes.iter().for_each(|scope| collect_calls(&scope.items, calls)),
            _ => {}
        }
    }
}

fn constant_system(generate: &Generate) -> Option<String> {
    match &generate.system {
        Some(Data::Text(text)) => {
            text.as_literal().map(|text| strip_rule(text).to_owned()).filter(|text| !text.is_empty())
        }
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
