//! Writes flows.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::expr::{Data, Template};
use flowloom_core::json::parse_value;
use flowloom_core::plan::{Assignment, BodySpec, Capture, HttpSpec, Input, InputKind, Inputs, Scrape};
use flowloom_core::render::to_json;
use flowloom_core::value::{Map, Value};
use flowloom_formats::flow;

use super::parts::join_instructions;
use super::{Abilities, Emitter};
use crate::calls::{BODY_FIELD, FETCH_FUNCTION, REQUEST_FUNCTION, read_call};
use crate::draft::{Item, ItemKind, Prompt};
use crate::json_text::{ObjectBuilder, Row, write_definition};
use crate::names::{declared_inputs, read_inputs};
use crate::requests::CONTENT_TYPE;
use crate::text::{PathPart, Reference, to_identifier};

const ABILITIES: Abilities =
    Abilities { timeout: false, retry: false, skip_errors: false, condition: false, answer: true };

impl Emitter<'_> {
    pub(super) fn emit_flow(&mut self, items: &[Item<'_>]) -> Option<String> {
        self.reserve_names();
        let mut rows: Vec<Row> = Vec::new();
        if !items.iter().any(|item| matches!(item.kind, ItemKind::Defaults(_))) {
            rows.extend(self.start_row(items));
        } else {
            // A block of defaults declares the inputs, wherever it is.
            for input in declared_inputs(self.plan) {
                self.names.set(
                    &input.name,
                    &input.name,
                    input.default.as_ref().is_none_or(|value| value.as_str().is_some()),
                );
            }
        }
        let declared = rows.len();
        for item in items.iter().take_while(|_| !self.stop.is_stopped()) {
            self.push_flow_item(item, &mut rows);
        }
        if !rows[declared..].iter().any(|row| row.value.is_some()) {
            self.report_nothing_left(flow::FORMAT);
            return None;
        }
        let head = ObjectBuilder::default()
            .with_some("uuid", self.plan.id.as_deref())
            .with("name", self.plan.name.as_str())
            .with_text("description", &self.plan.description)
            .build();
        Some(write_definition(flow::FORMAT, head, &[("steps", &rows)], self.has_comments))
    }

    /// Keeps the names of variables, which they have in the flow too, from those that results need.
    fn reserve_names(&mut self) {
        self.inputs.iter().chain(&self.variables).for_each(|name| self.names.reserve_name(name));
    }

    /// The block that declares the inputs.
    fn start_row(&mut self, items: &[Item<'_>]) -> Option<Row> {
        let inputs = read_inputs(self.plan, items);
        if inputs.is_empty() {
            return None;
        }
        let mut variables = Vec::new();
        for input in &inputs {
            let message = match (&self.plan.inputs, &input.kind) {
                (Inputs::Whole(_), _) => format!(
                    "the input is the variable {}, a string: 0, false, null and objects are written differently",
                    input.name
                ),
                (_, InputKind::Any | InputKind::Text) if input.required => {
                    format!("a run without the input {} is not refused, and it is empty", input.name)
                }
                (_, InputKind::Any | InputKind::Text) => {
                    format!("an empty text as the input {} takes the default", input.name)
                }
                (..) => format!("the input {} takes any value, which nothing checks", input.name),
            };
            self.report.add_change(input.span, message);
            let is_text =
                !matches!(input.kind, InputKind::List | InputKind::File | InputKind::Number | InputKind::Boolean);
            self.names.set(&input.name, &input.name, is_text);
            let row = ObjectBuilder::default()
                .with("name", input.name.as_str())
                .with("value", input.default.clone().unwrap_or_else(|| "".into()))
                .with_some("description", input.description.as_deref());
            variables.push(row.build());
        }
        Some(self.flow_row("start", ObjectBuilder::default().with("variables", Value::list(variables)), Vec::new()))
    }

    fn flow_row(&self, kind: &str, config: ObjectBuilder, comments: Vec<String>) -> Row {
        let value = ObjectBuilder::default().with("type", kind).with("config", config.build()).build();
        Row { comments, value: Some(value) }
    }

    fn push_flow_item(&mut self, item: &Item<'_>, rows: &mut Vec<Row>) {
        let mark = self.begin_item();
        let span = item.span;
        let title = item.title().to_owned();
        let written = match &item.kind {
            ItemKind::Prompt(prompt) => Some(self.flow_prompt(item, prompt)),
            ItemKind::Http(http) => Some(("apiCall", self.flow_request(item, http), "responseVariable")),
            ItemKind::Scrape(scrape) => Some(("webScraping", self.flow_page(item, scrape), "resultVariable")),
            ItemKind::Defaults(defaults) => Some(("start", self.flow_defaults(defaults), "")),
            ItemKind::Fanout(members) => {
                self.emit_members(members, |emitter, member| emitter.push_flow_item(member, rows));
                self.report.add_change(span, "the steps of a fan-out run one after another here");
                None
            }
            ItemKind::Group(group) => {
                self.report_group(item, group);
                rows.push(Row { comments: self.loss_comments(mark), value: None });
                return self.emit_group(item, group, |emitter, inner| emitter.push_flow_item(inner, rows));
            }
            ItemKind::Text => {
                self.report.add_loss(span, "text that no model answers: a flow has none");
                None
            }
            ItemKind::Repeat(_, body) => {
                self.report.add_loss(span, format!("the loop {title}: a flow has no loops, so its step runs once"));
                rows.push(Row { comments: self.loss_comments(mark), value: None });
                return self.emit_once(body, |emitter, body| emitter.push_flow_item(body, rows));
            }
            ItemKind::Call(_) | ItemKind::Block(_) => self.flow_call(item),
            ItemKind::Memory(_) => {
                self.report.add_loss(span, format!("the step {title}: a flow has no memory"));
                None
            }
            ItemKind::Ask(_) => {
                self.report.add_loss(span, format!("the question {title}: a flow cannot ask people"));
                None
            }
            ItemKind::Other(what) => {
                self.report.add_loss(span, format!("{what}: a flow has none"));
                None
            }
        };
        let Some((kind, config, result_key)) = written else {
            if !matches!(item.kind, ItemKind::Fanout(_)) {
                self.lose_result(item);
            }
            let comments = self.loss_comments(mark);
            rows.extend((!comments.is_empty()).then_some(Row { comments, value: None }));
            return;
        };
        self.check_policy(item, ABILITIES);
        let variable = self.result_name(item, &title);
        let config = config.with_some(result_key, variable.as_deref().filter(|_| !result_key.is_empty()));
        let config = if item.is_answer { config.with("directOutput", true) } else { config };
        if let Some(target) = &variable {
            let sets_input = self.sets_input();
            self.names.note_result(item, target, sets_input);
            self.note_kept_field(item, sets_input);
        }
        self.note_lost_name(item, kind, variable.as_deref());
        let comments = self.loss_comments(mark);
        self.finish_item(item, mark);
        rows.push(self.flow_row(kind, config, comments));
    }

    /// The variable of a result. A step list passes each output on, so there it always has a name.
    fn result_name(&mut self, item: &Item<'_>, title: &str) -> Option<String> {
        if let Some(variable) = &item.variable {
            if !self.has_later_members || !self.names.has_target(variable) {
                return item.variable.clone();
            }
            // The other members read what is kept under this name.
            let name = self.names.take_name(variable);
            self.report.add_change(item.span, format!("the result {variable} has the name {name}"));
            return Some(name);
        }
        if !self.sets_input() || matches!(item.kind, ItemKind::Defaults(_)) {
            return None;
        }
        let name = self.names.take_name(&to_identifier(title, "result"));
        self.report.add_change(item.span, format!("the output of {title} has the name {name}"));
        Some(name)
    }

    /// Notes that only a field of the output of a call is the output of its block.
    fn note_kept_field(&mut self, item: &Item<'_>, sets_input: bool) {
        if !matches!(item.kind, ItemKind::Call(_) | ItemKind::Block(_)) {
            return;
        }
        let Some(call) = read_call(item) else { return };
        let field = if call.function == REQUEST_FUNCTION { Some(BODY_FIELD) } else { call.kept_field };
        let Some(field) = field else { return };
        for variable in item.variable.as_deref().into_iter().chain(sets_input.then_some("input")) {
            self.names.keep_field(variable, field);
        }
    }

    /// The name of a step that a flow shows under another name.
    fn note_lost_name(&mut self, item: &Item<'_>, kind: &str, variable: Option<&str>) {
        let own = variable.map_or_else(|| kind.to_owned(), |name| format!("{kind} → {name}"));
        let title = item.title();
        if title != own && Some(title) != variable && !item.step.title.contains('~') {
            self.report.add_change(item.span, format!("the step {title} is shown as {own}"));
        }
        self.note_grants(item);
    }

    fn flow_prompt(&mut self, item: &Item<'_>, prompt: &Prompt<'_>) -> (&'static str, ObjectBuilder, &'static str) {
        self.check_plain_prompt(item, prompt);
        let text = self.flow_text(&join_instructions(prompt), item);
        ("llmInstruction", ObjectBuilder::default().with("instruction", text), "resultVariable")
    }

    fn flow_text(&mut self, template: &Template, item: &Item<'_>) -> String {
        self.write_text(template, item.span, write_flow_reference, |text| text.contains("${"))
    }

    /// A call of a function that a flow has a block for.
    fn flow_call(&mut self, item: &Item<'_>) -> Option<(&'static str, ObjectBuilder, &'static str)> {
        let (span, title) = (item.span, item.title().to_owned());
        let Some(call) = read_call(item) else {
            self.report.add_loss(span, format!("the block {title}: a flow runs no code"));
            return None;
        };
        let function = call.function.as_str();
        if !matches!(function, FETCH_FUNCTION | REQUEST_FUNCTION) {
            let message = format!("the call of {function} by {title}: a flow calls no functions");
            self.report.add_loss(span, message);
            return None;
        }
        let is_page = function == FETCH_FUNCTION;
        let mut arguments = self.write_arguments(&call, &|emitter, text| emitter.flow_text(text, item));
        let Some(url) = arguments.shift_remove("url") else {
            let message = format!("the call of {function} by {title}: its address is computed or comes from the input");
            self.report.add_loss(span, message);
            return None;
        };
        let config = ObjectBuilder::default().with("url", url);
        if is_page {
            let message =
                format!("the call of {function} by {title}: a flow reads the page, and an empty one is an error");
            self.report.add_loss(span, message);
            return Some(("webScraping", config.with("captureAs", "text"), "resultVariable"));
        }
        let message = format!(
            "the call of {function} by {title}: a flow sends the request, gives only the body of the reply, and ends \
             with a status that is an error"
        );
        self.report.add_loss(span, message);
        Some(("apiCall", with_request_parts(config, arguments), "responseVariable"))
    }

    fn flow_request(&mut self, item: &Item<'_>, http: &HttpSpec) -> ObjectBuilder {
        let pairs = |emitter: &mut Self, rows: &[(Template, Template)]| {
            let row = |(key, value): &(Template, Template)| {
                let key = emitter.flow_text(key, item);
                ObjectBuilder::default().with("key", key).with("value", emitter.flow_text(value, item)).build()
            };
            Value::list(rows.iter().map(row).collect())
        };
        let headers = pairs(self, &http.headers);
        let request = ObjectBuilder::default()
            .with("url", self.flow_text(&http.url, item))
            .with_text("method", &self.flow_text(&http.method, item))
            .with_some("headers", (!http.headers.is_empty()).then_some(headers));
        match &http.body {
            BodySpec::None => request,
            BodySpec::Form(fields) => request.with("bodyType", "form").with("formData", pairs(self, fields)),
            BodySpec::Text(text) => request.with("bodyType", "text").with("body", self.flow_text(text, item)),
            BodySpec::JsonText(text) => request.with("bodyType", "json").with("body", self.flow_text(text, item)),
            BodySpec::JsonValue(data) => {
                let body = self.write_data(data, &|emitter, text| emitter.flow_text(text, item));
                request.with("bodyType", "json").with("body", body)
            }
        }
    }

    fn flow_page(&mut self, item: &Item<'_>, scrape: &Scrape) -> ObjectBuilder {
        let capture = match (&scrape.capture, &scrape.selector) {
            (Capture::Text, _) => "text",
            (Capture::Html, None) => "html",
            (Capture::Html, Some(_)) => "querySelector",
        };
        let selector = scrape.selector.as_ref().map(|selector| self.flow_text(selector, item));
        ObjectBuilder::default()
            .with("url", self.flow_text(&scrape.url, item))
            .with("captureAs", capture)
            .with_some("querySelector", selector)
            .with("enableSummarization", scrape.summary.is_some())
    }

    fn flow_defaults(&mut self, rows: &[Assignment]) -> ObjectBuilder {
        let inputs = declared_inputs(self.plan);
        let inputs: HashMap<&str, &Input> = inputs.iter().map(|input| (input.name.as_str(), input)).collect();
        let variables = rows.iter().map(|row| {
            let name = row.name.show_source();
            let declared = inputs.get(name.as_str());
            let value = match &row.value {
                Data::Constant(value) => {
                    declared.and_then(|input| input.default.clone()).unwrap_or_else(|| value.clone())
                }
                other => to_json(&other.resolve(&Map::new(), flow::TEXT_RULES).unwrap_or_default()).into(),
            };
            ObjectBuilder::default()
                .with("name", name.as_str())
                .with("value", value)
                .with_some("description", declared.and_then(|input| input.description.as_deref()))
                .build()
        });
        ObjectBuilder::default().with("variables", Value::list(variables.collect()))
    }
}

/// The method, the headers and the body of a request.
fn with_request_parts(config: ObjectBuilder, mut arguments: Map) -> ObjectBuilder {
    let config = match arguments.get("method").and_then(Value::as_str) {
        Some(method) => config.with("method", method.to_ascii_uppercase()),
        None => config,
    };
    let mut headers = arguments.get("headers").and_then(Value::as_map).cloned().unwrap_or_default();
    let body = arguments.shift_remove("body");
    let is_typed = headers.keys().any(|name| name.eq_ignore_ascii_case(CONTENT_TYPE));
    let body = body.map(|body| match body {
        Value::String(text) => {
            // The function takes the text of an object for JSON.
            if !is_typed && parse_value(text.trim()).is_ok_and(|value| value.as_map().is_some()) {
                headers.insert(CONTENT_TYPE.into(), "application/json".into());
            }
            ("text", Value::String(text))
        }
        // With this type, a flow would set its own one, too.
        body if is_typed => ("text", to_json(&body).into()),
        body => ("json", body),
    });
    let row = |(key, value): (&Arc<str>, &Value)| {
        ObjectBuilder::default().with("key", &**key).with("value", value.clone()).build()
    };
    let rows = (!headers.is_empty()).then(|| Value::list(headers.iter().map(row).collect()));
    let config = config.with_some("headers", rows);
    match body {
        Some((kind, body)) => config.with("bodyType", kind).with("body", body),
        None => config,
    }
}

/// `${name.field[0]}`; `None` if the notation cannot say it.
fn write_flow_reference(name: &str, reference: &Reference) -> Option<String> {
    let mut out = format!("${{{name}");
    for part in &reference.path {
        match part {
            PathPart::Index(index) => out.push_str(&format!("[{index}]")),
            PathPart::Field(field) if field.contains(['.', '[', ']', '}', '\'', '"']) || field.is_empty() => {
                return None;
            }
            PathPart::Field(field) => out.push_str(&format!(".{field}")),
        }
    }
    (!name.contains(['.', '[', ']', '}']) && !name.is_empty()).then(|| out + "}")
}
