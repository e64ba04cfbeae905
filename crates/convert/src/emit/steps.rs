//! Writes step lists.

use flowloom_core::expr::{Data, Template, TemplatePart};
use flowloom_core::plan::{Exhausted, LoopTest, MemoryOperation};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use flowloom_formats::steps;

use super::parts::join_instructions;
use super::{Abilities, Emitter};
use crate::calls::{Call, FETCH_FUNCTION, REQUEST_ARGUMENTS, REQUEST_FUNCTION, is_built_in, read_call};
use crate::draft::{FailureRule, Item, ItemKind, contained_text};
use crate::json_text::{ObjectBuilder, Row, write_definition};
use crate::names::{COUNTER, chains_outputs, declared_inputs};
use crate::text::{PathPart, Reference, is_word};

const ABILITIES: Abilities =
    Abilities { timeout: true, retry: true, skip_errors: true, condition: true, answer: false };

/// Delays of retries in step lists: the first one, and the longest one, in milliseconds.
const RETRY_DELAYS_MS: (u64, u64) = (500, 30_000);

impl Emitter<'_> {
    pub(super) fn emit_steps(&mut self, items: &[Item<'_>]) -> Option<String> {
        self.note_steps_input();
        let mut rows: Vec<Row> = Vec::new();
        let mut mode = "sequential";
        for (index, item) in items.iter().enumerate().take_while(|_| !self.stop.is_stopped()) {
            let leaves_input = mode != "fanout" && index + 1 < items.len() && self.can_leave_input(item);
            mode = if leaves_input { "fanout" } else { "sequential" };
            self.push_steps_item(item, mode, &mut rows);
        }
        if !rows.iter().any(|row| row.value.is_some()) {
            self.report_nothing_left(steps::FORMAT);
            return None;
        }
        let id = self.plan.id.as_deref().filter(|id| is_id(id));
        if let (Some(lost), None) = (&self.plan.id, id) {
            self.report.add_loss(self.plan.root.span, format!("the id {lost}: a step list cannot have it"));
        }
        let head = ObjectBuilder::default()
            .with_some("id", id)
            .with("name", self.plan.name.as_str())
            .with_text("description", &self.plan.description)
            .build();
        Some(write_definition(steps::FORMAT, head, &[("steps", &rows)], self.has_comments))
    }

    /// A step list has one input. Several become its fields, which only steps before the first output can read.
    fn note_steps_input(&mut self) {
        let inputs = declared_inputs(self.plan);
        let is_own = chains_outputs(self.plan);
        for input in &inputs {
            let is_single = inputs.len() == 1;
            let target = if is_single { "input".to_owned() } else { format!("input.{}", input.name) };
            self.names.set(&input.name, &target, true);
            if is_own {
                self.names.set(&input.name, &target, false);
                continue;
            }
            if let Some(default) = input.default.as_ref().filter(|default| default.is_truthy()) {
                let default = to_json(default);
                let message = format!("the default {default} of {}: the input of a step list has none", input.name);
                self.report.add_loss(input.span, message);
            }
            let how = match is_single {
                true => format!(
                    "the input {} is the whole input of the step list, a string, and its name is not kept",
                    input.name
                ),
                false => format!("the input {} is a field of the input of the step list, a string", input.name),
            };
            self.report.add_change(input.span, how);
        }
    }

    /// Whether a call is written as a fan-out of its own, which leaves the input as it is for the steps after it.
    fn can_leave_input(&self, item: &Item<'_>) -> bool {
        let has_inputs = !chains_outputs(self.plan) && !self.inputs.is_empty() && !self.is_input_replaced;
        has_inputs && item.variable.is_some() && read_call(item).is_some()
    }

    fn push_steps_item(&mut self, item: &Item<'_>, mode: &str, rows: &mut Vec<Row>) {
        let mark = self.begin_item();
        let span = item.span;
        let called = match &item.kind {
            ItemKind::Prompt(_) | ItemKind::Http(_) | ItemKind::Scrape(_) | ItemKind::Block(_) | ItemKind::Call(_) => {
                self.steps_call(item)
            }
            ItemKind::Memory(memory) => match memory.operation {
                MemoryOperation::Get => Some(("memory::get".to_owned(), self.steps_prompt(&memory.prompt, item))),
                MemoryOperation::Set => Some(("memory::set".to_owned(), self.steps_prompt(&memory.prompt, item))),
                MemoryOperation::All | MemoryOperation::Profile => None,
            },
            ItemKind::Ask(question) => Some(("human::ask".to_owned(), self.steps_prompt(question, item))),
            ItemKind::Fanout(members) => {
                self.emit_members(members, |emitter, member| emitter.push_steps_item(member, "fanout", rows));
                self.names.set("__fanout", "__fanout", false);
                return;
            }
            ItemKind::Repeat(looped, body) => {
                return self.push_steps_loop(item, looped, body, rows);
            }
            ItemKind::Group(group) => {
                self.report_group(item, group);
                rows.push(Row { comments: self.loss_comments(mark), value: None });
                return self.emit_group(item, group, |emitter, inner| emitter.push_steps_item(inner, mode, rows));
            }
            ItemKind::Defaults([]) => {
                let message = format!("{} sets nothing and is left out", item.title());
                return self.report.add_change(span, message);
            }
            ItemKind::Text | ItemKind::Other(_) => None,
            ItemKind::Defaults(defaults) => {
                self.lose_defaults(item, defaults);
                return self.check_defaults(item, rows.is_empty());
            }
        };
        let Some((function, text)) = called else {
            self.report.add_loss(span, format!("{}: a step list has no step of this kind", describe(item)));
            self.lose_result(item);
            rows.push(Row { comments: self.loss_comments(mark), value: None });
            return;
        };
        self.check_policy(item, ABILITIES);
        let row = self.steps_row(item, &function, text, mode);
        self.note_steps_result(item, mode);
        self.note_output_field(item);
        let comments = self.loss_comments(mark);
        self.finish_item(item, mark);
        rows.push(Row { comments, value: Some(row.build()) });
    }

    /// Reports defaults, which the input of a step list does not have.
    fn check_defaults(&mut self, item: &Item<'_>, is_first: bool) {
        let title = item.title().to_owned();
        if !is_first {
            self.report.add_loss(item.span, format!("{title}: defaults that are set after other steps"));
        }
        // The inputs say what becomes of them.
        let message = format!("{title}: an empty input takes no default in a step list");
        self.report.add_change(item.span, message);
    }

    /// The function that a step calls, and its prompt.
    fn steps_call(&mut self, item: &Item<'_>) -> Option<(String, String)> {
        match &item.kind {
            ItemKind::Prompt(prompt) => {
                self.check_plain_prompt(item, prompt);
                return Some(("agent::chat".to_owned(), self.steps_prompt(&join_instructions(prompt), item)));
            }
            ItemKind::Call(call) if call.arguments.is_none() => {
                return Some((call.function.to_string(), self.steps_prompt(&call.prompt, item)));
            }
            _ => {}
        }
        let call = read_call(item)?;
        self.check_call(item, &call);
        self.check_arguments(item, &call);
        if let Some(url) = self.find_prompt_address(&call) {
            return Some((call.function.clone(), self.steps_text(url, item)));
        }
        let arguments = self.write_arguments(&call, &|emitter, text| emitter.steps_text(text, item));
        Some((call.function, to_json(&arguments.into())))
    }

    /// Reports arguments that a function does not get from the JSON in the prompt of its step.
    fn check_arguments(&mut self, item: &Item<'_>, call: &Call) {
        let title = item.title();
        if !is_built_in(&call.function) {
            let message = format!(
                "the arguments of {title}: they are JSON in its prompt, and an endpoint gets this prompt and all \
                 variables as its fields"
            );
            self.report.add_loss(item.span, message);
        }
        if matches!(item.kind, ItemKind::Block(_)) {
            let message = format!("the schemas of the block {title}: a step checks no inputs and outputs");
            self.report.add_loss(item.span, message);
        }
    }

    /// The address that is the whole prompt of a call: the function reads it as no JSON, and reads no variables as its
    /// arguments.
    fn find_prompt_address<'c>(&self, call: &'c Call) -> Option<&'c Template> {
        let [(name, Data::Text(url))] = call.arguments.as_slice() else { return None };
        let is_address = matches!(url.parts.first(), Some(TemplatePart::Text(text)) if text.starts_with("http"));
        let is_argument = |name: &&str| self.variables.contains(*name);
        let is_plain = name == "url" && is_address && !REQUEST_ARGUMENTS.iter().any(is_argument);
        (is_plain && matches!(call.function.as_str(), FETCH_FUNCTION | REQUEST_FUNCTION)).then_some(url)
    }

    /// The prompt of a step, which the input replaces if it is empty.
    fn steps_prompt(&mut self, template: &Template, item: &Item<'_>) -> String {
        let text = self.steps_text(template, item);
        if text.is_empty() {
            self.has_other_text = true;
            let message = format!("the empty prompt of {}: a step list sends the input in its place", item.title());
            self.report.add_loss(item.span, message);
        }
        text
    }

    fn steps_text(&mut self, template: &Template, item: &Item<'_>) -> String {
        self.write_text(template, item.span, write_steps_reference, has_steps_reference)
    }

    fn steps_row(&mut self, item: &Item<'_>, function: &str, text: String, mode: &str) -> ObjectBuilder {
        let (span, title) = (item.span, item.title().to_owned());
        let condition = item.step.condition.as_ref();
        let contained = condition.and_then(contained_text);
        if let (Some(_), None) = (condition, contained) {
            self.report.add_loss(span, format!("the condition of {title}: it can only be a string in the input"));
        }
        let mode = if contained.is_some() { "conditional" } else { mode };
        let is_collect = matches!(&item.kind, ItemKind::Call(call) if !call.extra.is_empty());
        let mode = if is_collect { "collect" } else { mode };
        let policy = &item.step.policy;
        if let Some(retry) = policy.retry.as_ref().filter(|retry| (retry.base_ms, retry.cap_ms) != RETRY_DELAYS_MS) {
            let message = format!("the delays of the retries of {title}, {} to {} ms", retry.base_ms, retry.cap_ms);
            self.report.add_change(span, message);
        }
        let error_mode = match (&policy.retry, item.on_failure) {
            (Some(_), _) => "retry",
            (None, FailureRule::Skip) => "skip",
            (None, FailureRule::EndRun | FailureRule::FinishOthers) => "fail",
        };
        ObjectBuilder::default()
            .with("name", item.variable.as_deref().filter(|_| item.step.title.contains(" → ")).unwrap_or(&title))
            .with("functionId", function)
            .with("promptTemplate", text)
            .with("mode", mode)
            .with_some("condition", contained)
            .with_some("timeoutMs", policy.timeout_ms.and_then(|limit| i64::try_from(limit).ok()))
            .with("errorMode", error_mode)
            .with_some("maxRetries", policy.retry.as_ref().map(|retry| i64::from(retry.max)))
            .with_some("outputVar", item.variable.as_deref())
    }

    /// Notes the variables that a step sets. Every step but those of a fan-out replaces the input.
    fn note_steps_result(&mut self, item: &Item<'_>, mode: &str) {
        let is_text = item.gives_text() && item.is_certain();
        if mode != "fanout" {
            if chains_outputs(self.plan) {
                self.names.set("input", "input", is_text);
            } else if !std::mem::replace(&mut self.is_input_replaced, true) {
                declared_inputs(self.plan).iter().for_each(|input| self.names.forget(&input.name));
            }
        }
        if item.variable.is_none() {
            self.names.lose_names(item);
        }
        if let Some(variable) = &item.variable {
            if ["input", COUNTER, "__fanout"].contains(&variable.as_str()) && !chains_outputs(self.plan) {
                let message = format!("the name {variable}: a step list sets a variable of this name itself");
                self.report.add_loss(item.span, message);
            }
            if !is_word(variable) {
                self.report.add_loss(item.span, format!("the name {variable}: references here are single words"));
            }
            self.names.set(variable, variable, is_text);
        }
    }

    /// Notes that the output of a function has the output of the step as a field, or is a field of it.
    fn note_output_field(&mut self, item: &Item<'_>) {
        let (Some(variable), Some(call)) = (&item.variable, read_call(item)) else { return };
        if let Some(field) = call.output_field {
            self.names.set(variable, &format!("{variable}.{field}"), false);
        }
        if let Some(field) = call.kept_field {
            self.names.keep_field(variable, field);
        }
    }

    fn push_steps_loop(
        &mut self,
        item: &Item<'_>,
        looped: &flowloom_core::plan::Loop,
        body: &Item<'_>,
        rows: &mut Vec<Row>,
    ) {
        let mark = self.begin_item();
        let until = looped.until.as_ref().map(contained_text);
        let fits = looped.test == LoopTest::After && looped.exhausted == Exhausted::Succeed && until != Some(None);
        let is_callable = matches!(&body.kind, ItemKind::Prompt(_) | ItemKind::Call(_));
        if !is_callable || !fits {
            self.report.add_loss(item.span, format!("the loop {}: a step list repeats one step", item.title()));
            self.lose_result(item);
            rows.push(Row { comments: self.loss_comments(mark), value: None });
            return;
        }
        self.names.set(COUNTER, COUNTER, true);
        self.note_steps_result(body, "loop");
        let Some((function, text)) = self.steps_call(body) else { return };
        let row = self.steps_row(body, &function, text, "loop");
        let max = Value::from(i64::try_from(looped.max).unwrap_or(i64::MAX));
        let row = row.with("maxIterations", max).with_some("until", until.flatten());
        self.finish_item(item, mark);
        rows.push(Row { comments: self.loss_comments(mark), value: Some(row.build()) });
    }
}

/// A description of an item for messages.
fn describe(item: &Item<'_>) -> String {
    let title = item.title();
    match &item.kind {
        ItemKind::Text => "text that no model answers".to_owned(),
        ItemKind::Defaults(_) => "a block without variables".to_owned(),
        ItemKind::Block(_) => format!("the block {title}"),
        ItemKind::Other(what) => (*what).to_owned(),
        _ => format!("the step {title}"),
    }
}

fn is_id(id: &str) -> bool {
    (1..=256).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-:.".contains(&b))
}

/// `{{name.field}}`; `None` if the notation cannot say it.
fn write_steps_reference(name: &str, reference: &Reference) -> Option<String> {
    let mut out = format!("{{{{{name}");
    for part in &reference.path {
        match part {
            PathPart::Field(field) if is_word(field) => out.push_str(&format!(".{field}")),
            PathPart::Index(index) if *index >= 0 => out.push_str(&format!(".{index}")),
            PathPart::Field(_) | PathPart::Index(_) => return None,
        }
    }
    name.split('.').all(is_word).then(|| out + "}}")
}

/// Whether a text holds `{{word}}`.
fn has_steps_reference(text: &str) -> bool {
    text.match_indices("{{").any(|(at, _)| {
        let inner = &text[at + 2..];
        let length = inner.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.')).unwrap_or(inner.len());
        length > 0 && inner[length..].starts_with("}}")
    })
}
