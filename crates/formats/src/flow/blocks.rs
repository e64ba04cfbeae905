//! The block types of a flow (docs/formats/flow.md), each compiled into a step.

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span, did_you_mean};
use flowloom_core::expr::{Data, Template};
use flowloom_core::json::{Node, NodeKind};
use flowloom_core::path::Key;
use flowloom_core::plan::{
    Assignment, Body, Capture, Composite, Generate, HttpSpec, Kind, Leaf, Merge, Scrape, ScrapeMessages, Step, Summary,
    Write,
};
use flowloom_core::value::Value;

use super::{Compiler, scalar_text, template};
use crate::reader::Fields;

/// The messages of AnythingLLM's scraper.
const MESSAGES: ScrapeMessages = ScrapeMessages {
    no_url: "URL is required for web scraping",
    no_match: "URL could not be scraped and no content was found",
    no_content: "There was no content to be collected or read.",
};

/// How long pages are shortened (docs/formats/flow.md, "Long pages").
const SUMMARY: Summary = Summary {
    instructions: "List the key points of the text as short bullets. Keep names, figures and dates. Write nothing else.",
    part_percent: 45,
    // They fit the window of any model in use, which has 8000 tokens at least.
    max_bytes_without_model: 8_000,
};

const STORE: [&str; 3] = ["resultVariable", "responseVariable", "directOutput"];

impl Compiler<'_> {
    pub(super) fn block(&mut self, kind: &str, config: &Fields<'_>, key: Key) -> Option<Step> {
        match kind {
            "start" => self.start(config, key),
            "apiCall" => self.api_call(config, key),
            "llmInstruction" => Some(self.instruction(config, key)),
            _ => self.scraping(config, key),
        }
    }

    fn known(&mut self, config: &Fields<'_>, keys: &[&str]) {
        config.known(&[keys, &STORE].concat(), self.problems);
    }

    fn parse(&self, text: &str) -> Template {
        template::parse(text, self.has_secret)
    }

    /// Any scalar as a template: strings are parsed, other values become the text of JavaScript's `String()`, and a
    /// missing value becomes the word `undefined`.
    fn text_of(&self, node: Option<&Node>) -> Template {
        match node {
            Some(Node { kind: NodeKind::String(text), .. }) => self.parse(text),
            Some(node) => Template::literal(&scalar_text(node)),
            None => Template::literal("undefined"),
        }
    }

    fn start(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        config.known(&["variables", "resultVariable", "responseVariable", "directOutput"], self.problems);
        for name in ["resultVariable", "responseVariable"] {
            if let Some(node) = config.present(name).filter(|node| node.as_str() != Some("")) {
                let message = format!("a start block cannot have {name:?}: it would store the variables in themselves");
                self.problems.error(Code::StartResult, node.span, message).help = Some(format!("remove {name:?}"));
            }
        }
        let rows = match config.present("variables") {
            None => {
                config.missing("variables", self.problems);
                return None;
            }
            Some(node) => node,
        };
        let Some(items) = rows.items() else {
            config.wrong("variables", rows, "a list", self.problems);
            return None;
        };
        let mut assignments = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for row in items {
            let Some(fields) = Fields::of(row, "a variable", self.problems) else { continue };
            fields.known(&["name", "value", "description"], self.problems);
            let name = fields.node("name").map(scalar_text).unwrap_or_default();
            if name.is_empty() {
                let message = "this variable has no name, so nothing can refer to it";
                self.problems.warn(Code::BlankVariable, row.span, message).help =
                    Some("give it a name, or remove the row".into());
                continue;
            }
            if names.contains(&name) {
                let message =
                    format!("the variable {name:?} is declared twice; the last value counts, unless it is empty");
                self.problems.warn(Code::DuplicateName, row.span, message);
            }
            // Defaults are literal: text that looks like a reference stays text.
            let value = fields.node("value").map(Node::to_value).filter(Value::is_truthy);
            let value = Data::Constant(value.unwrap_or_else(|| "".into()));
            assignments.push(Assignment { name: self.parse(&name), value, only_if_falsy: true });
            names.push(name);
        }
        Some(Step::new(key, Composite::Assign(assignments)))
    }

    fn api_call(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        self.known(config, &["url", "method", "headers", "bodyType", "body", "formData"]);
        for name in ["url", "method"] {
            config.text(name, self.problems);
        }
        if let Some((kind, span)) = config.text("bodyType", self.problems).filter(|(kind, _)| kind.contains("${")) {
            let message = format!("\"bodyType\" is read as it is written; {kind:?} sends the body as it is");
            self.problems.warn(Code::WrongKind, span, message);
        }
        if config.present("url").is_none() {
            config.missing("url", self.problems);
        }
        let url = self.text_of(config.present("url"));
        let method = config.node("method").and_then(Node::as_str).unwrap_or_default();
        let (headers, broken) = self.headers(config);
        let written = matches!(method, "POST" | "PUT" | "PATCH") || method.contains("${");
        // AnythingLLM reads the body only if the method sends one.
        let body = if written { self.body(config) } else { Ok(Body::None) };
        let has_body = config.node("body").and_then(Node::as_str).is_some_and(|body| !body.is_empty());
        if has_body && !written && !method.is_empty() && method.to_uppercase() != "GET" {
            let message =
                format!("the body is not sent: only POST, PUT and PATCH, in capitals, carry one, not {method:?}");
            let node = config.node("method");
            let upper = method.to_uppercase();
            let diagnostic = self.problems.warn(Code::NoBody, node.map(|node| node.span).unwrap_or_default(), message);
            diagnostic.help = Some("remove the body, or choose another method".into());
            if let (Some(node), "POST" | "PUT" | "PATCH") = (node, upper.as_str()) {
                let title = format!("write {upper:?}");
                diagnostic.help = Some(title.clone());
                diagnostic.fix = Some(Fix { title, edits: vec![(node.span, format!("{upper:?}"))] });
            }
        }
        let broken = broken.or_else(|| body.as_ref().err().cloned());
        let kind = match (broken, body) {
            (Some(message), _) | (None, Err(message)) => Kind::Leaf(Leaf::Fail { code: Code::StepRefused, message }),
            (None, Ok(body)) => Kind::Leaf(Leaf::Http(HttpSpec { method: self.parse(method), url, headers, body })),
        };
        let mut step = Step::new(key, kind);
        step.policy.error_prefix = Some("API Call failed: ");
        Some(step)
    }

    /// The header rows, and the message with which the step must fail if the rows are not a list.
    fn headers(&mut self, config: &Fields<'_>) -> (Vec<(Template, Template)>, Option<String>) {
        let Some(node) = config.node("headers") else { return (Vec::new(), None) };
        let Some(items) = node.items() else {
            let message = match node.kind {
                NodeKind::Null => "headers is null (Cannot read properties of null (reading 'reduce'))",
                _ => "headers must be a list of {key, value} (headers.reduce is not a function)",
            };
            self.problems.warn(Code::WrongKind, node.span, format!("this step will fail: {message}")).help =
                Some("write \"headers\": [{\"key\": \"…\", \"value\": \"…\"}]".into());
            return (Vec::new(), Some(message.to_owned()));
        };
        (items.iter().filter_map(|row| self.header(row)).collect(), None)
    }

    fn header(&mut self, row: &Node) -> Option<(Template, Template)> {
        let fields = Fields::of(row, "a header row", self.problems)?;
        let key = fields.node("key");
        if key.is_some_and(|key| key.as_str() == Some("")) {
            let message = "this header row has no name and is left out";
            self.problems.warn(Code::HeaderRow, row.span, message).help = Some("fill it in or remove it".into());
            return None;
        }
        if key.is_none() {
            let diagnostic = self.problems.warn(
                Code::HeaderRow,
                row.span,
                "this row has no \"key\", so the header is called undefined",
            );
            if let Some((_, span, _)) = row.entries().iter().find(|(name, _, _)| name == "name") {
                diagnostic.help = Some("header rows have \"key\" and \"value\"; write \"key\" for \"name\"".into());
                diagnostic.fix =
                    Some(Fix { title: "rename \"name\" to \"key\"".into(), edits: vec![(*span, "\"key\"".into())] });
            }
        }
        let (name, value) = (self.text_of(key), self.text_of(fields.node("value")));
        self.literal_secret(&name, &value, row.span);
        Some((name, value))
    }

    /// Warns about secrets written literally in the file.
    fn literal_secret(&mut self, name: &Template, value: &Template, span: Span) {
        const SECRET: [&str; 6] = ["authorization", "cookie", "token", "secret", "password", "api-key"];
        let (Some(name), Some(value)) = (name.as_literal(), value.as_literal()) else { return };
        let lower = name.to_lowercase();
        if SECRET.iter().any(|word| lower.contains(word)) && value.len() >= 12 {
            let message = format!("the value of header {name} looks like a secret written in the file");
            self.problems.warn(Code::LiteralSecret, span, message).help =
                Some("write ${secret.NAME} and set FLOWLOOM_SECRET_NAME in the environment".into());
        }
    }

    /// The body, or the message with which the step must fail.
    fn body(&mut self, config: &Fields<'_>) -> Result<Body, String> {
        let body = config.present("body");
        let has_parts = body.is_some_and(|body| matches!(body.kind, NodeKind::Map(_) | NodeKind::List(_)));
        let data = |compiler: &Self| {
            let value = body.map(Node::to_value).unwrap_or_default();
            Data::from_value(&value, &|text| compiler.parse(text))
        };
        match config.node("bodyType").and_then(Node::as_str) {
            Some("json") if has_parts => Ok(Body::JsonValue(data(self))),
            Some("json") => {
                Ok(body.map_or(Body::JsonText(Template::default()), |body| Body::JsonText(self.text_of(Some(body)))))
            }
            Some("form") => self.form(config),
            Some("text") => Ok(Body::Text(self.text_of(config.node("body")))),
            _ if has_parts => Ok(Body::JsonValue(data(self))),
            _ => Ok(body.map_or(Body::None, |body| Body::Text(self.text_of(Some(body))))),
        }
    }

    fn form(&mut self, config: &Fields<'_>) -> Result<Body, String> {
        let Some(items) = config.node("formData").and_then(Node::items) else {
            let message = "bodyType form needs \"formData\" (Cannot read properties of undefined (reading 'forEach'))";
            let span = config.node("bodyType").map(|node| node.span).unwrap_or_default();
            self.problems.warn(Code::MissingKey, span, format!("this step will fail: {message}")).help =
                Some("add \"formData\": [{\"key\": \"…\", \"value\": \"…\"}]".into());
            return Err(message.to_owned());
        };
        let rows = items.iter().map(|row| (self.text_of(row.get("key")), self.text_of(row.get("value"))));
        Ok(Body::Form(rows.collect()))
    }

    fn instruction(&mut self, config: &Fields<'_>, key: Key) -> Step {
        self.known(config, &["instruction", "inputVariable"]);
        let content = match config.node("instruction") {
            None => {
                let message = "this step has no \"instruction\"; the model is asked for the word undefined";
                self.problems.warn(Code::MissingKey, config.head(), message);
                Data::Text(Template::literal("undefined"))
            }
            Some(Node { kind: NodeKind::String(text), .. }) => Data::Text(self.parse(text)),
            Some(node) => Data::from_value(&node.to_value(), &|text| self.parse(text)),
        };
        let generate = Generate {
            model: None,
            system: None,
            thread: None,
            computed: None,
            messages: vec![(Role::User, content)],
            schema: None,
            options: GenerateOptions::default(),
        };
        let mut step = Step::new(key, Leaf::Generate(generate));
        step.policy.error_prefix = Some("LLM processing failed: ");
        step
    }

    fn scraping(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        self.known(config, &["url", "captureAs", "querySelector", "enableSummarization"]);
        let url = config.text("url", self.problems).map(|(url, _)| self.parse(url)).unwrap_or_default();
        if config.node("url").is_none_or(|node| node.as_str() == Some("")) {
            let span = config.node("url").map_or(config.head(), |node| node.span);
            self.problems.warn(Code::MissingKey, span, "this step has no \"url\" and will fail");
        }
        const CAPTURES: [&str; 4] = ["text", "html", "querySelector", "json"];
        let (capture, span) = config.text("captureAs", self.problems).unwrap_or(("text", Span::default()));
        let (capture, selected) = match capture {
            "html" => (Capture::Html, false),
            "querySelector" => (Capture::Html, true),
            "text" | "json" | "" => (Capture::Text, false),
            other => {
                let meant = did_you_mean(other, CAPTURES).map(|meant| format!("did you mean {meant:?}?"));
                let message = format!("captureAs cannot be {other:?}");
                self.problems.error(Code::WrongKind, span, message).help =
                    meant.or_else(|| Some(format!("it is one of {}", CAPTURES.join(", "))));
                return None;
            }
        };
        let selector = config.text("querySelector", self.problems).map(|(selector, _)| self.parse(selector));
        let selector = selector.filter(|_| selected);
        let summarize = config.node("enableSummarization").is_none_or(|node| node.to_value().is_truthy());
        Some(Step::new(
            key,
            Leaf::Scrape(Scrape { url, capture, selector, summary: summarize.then_some(SUMMARY), messages: MESSAGES }),
        ))
    }

    /// Compiles what every block can have: a result variable and direct output.
    pub(super) fn finish_step(&mut self, kind: &str, config: &Fields<'_>, mut step: Step) -> Option<Step> {
        let mut names = Vec::new();
        for key in ["resultVariable", "responseVariable"] {
            if let Some(node) = config.present(key).filter(|_| kind != "start") {
                names.push(self.text_of(Some(node)));
            }
        }
        if !names.is_empty() {
            step.writes.push(Write { names, merge: Merge::Replace });
        }
        let direct = match config.present("directOutput") {
            None => false,
            Some(Node { kind: NodeKind::Bool(direct), .. }) => *direct,
            Some(node) => {
                let meant = node.as_str().is_some_and(|text| text == "true");
                let message = format!("\"directOutput\" must be true or false, not {}", node.kind_name());
                let diagnostic = self.problems.error(Code::WrongKind, node.span, message);
                diagnostic.fix =
                    Some(Fix { title: format!("write {meant}"), edits: vec![(node.span, meant.to_string())] });
                false
            }
        };
        if !direct {
            return Some(step);
        }
        let outer = Step {
            title: step.title.clone(),
            span: step.span,
            ..Step::new(step.key.clone(), Kind::Leaf(Leaf::Fail { code: Code::StepRefused, message: String::new() }))
        };
        Some(Step { kind: Kind::Composite(Composite::Return(Box::new(step))), ..outer })
    }
}
