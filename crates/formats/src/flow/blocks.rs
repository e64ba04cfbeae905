//! The block types of a flow (docs/formats/flow.md), each compiled into a step.

use std::collections::HashSet;

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::effect::HTTP_METHODS;
use flowloom_core::expr::{Data, Template, TemplatePart};
use flowloom_core::json::{Node, NodeKind};
use flowloom_core::path::Key;
use flowloom_core::plan::{
    Assignment, BodySpec, Capture, Composite, Generate, HttpSpec, Leaf, Merge, Scrape, ScrapeMessages, Step, StepKind,
    Summary, Write,
};
use flowloom_core::selector::{PageSelector, SelectorError, describe_unreadable};
use flowloom_core::value::Value;

use super::{FlowCompiler, scalar_text, template};
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

const RESULT_KEYS: [&str; 3] = ["resultVariable", "responseVariable", "directOutput"];

impl FlowCompiler<'_> {
    pub(super) fn compile_block(&mut self, kind: &str, config: &Fields<'_>, key: Key) -> Option<Step> {
        match kind {
            "start" => self.compile_start(config, key),
            "apiCall" => self.compile_api_call(config, key),
            "llmInstruction" => Some(self.compile_instruction(config, key)),
            _ => self.compile_scraping(config, key),
        }
    }

    fn warn_unknown_keys(&mut self, config: &Fields<'_>, keys: &[&str]) {
        config.warn_unknown_keys(&[keys, &RESULT_KEYS].concat(), self.problems);
    }

    fn parse_template(&self, text: &str) -> Template {
        template::parse(text, self.variables.contains("secret"))
    }

    /// Any scalar as a template: strings are parsed, other values become the text of JavaScript's `String()`, and a
    /// missing value becomes the word `undefined`. The items of a list are joined with commas, and an object becomes JSON,
    /// in which values are inserted as they are.
    fn scalar_template(&self, node: Option<&Node>) -> Template {
        match node {
            Some(Node { kind: NodeKind::String(text), .. }) => self.parse_template(text),
            Some(Node { kind: NodeKind::List(items), .. }) => {
                let mut parts = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    parts.extend((index > 0).then(|| TemplatePart::Text(",".into())));
                    let item = Some(item).filter(|item| !matches!(item.kind, NodeKind::Null));
                    parts.extend(item.map(|item| self.scalar_template(Some(item)).parts).unwrap_or_default());
                }
                Template { parts }
            }
            Some(node @ Node { kind: NodeKind::Map(_), .. }) => self.parse_template(&scalar_text(node)),
            Some(node) => Template::from_literal(&scalar_text(node)),
            None => Template::from_literal("undefined"),
        }
    }

    fn compile_start(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        config.warn_unknown_keys(&["variables", "resultVariable", "responseVariable", "directOutput"], self.problems);
        for name in ["resultVariable", "responseVariable"] {
            if let Some(node) = config.get_non_null(name).filter(|node| node.as_str() != Some("")) {
                let message =
                    format_args!("a start block cannot have {name:?}: it would store the variables in themselves");
                self.problems.add_error(Code::StartResult, node.span, message).help = Some(format!("remove {name:?}"));
            }
        }
        let Some(rows) = config.get_non_null("variables") else {
            let message = "this start block has no \"variables\", so it does nothing";
            self.problems.add_warning(Code::MissingKey, config.start_span(), message).help =
                Some("add \"variables\": [], or remove the block".into());
            return Some(Step::new(key, Composite::Assign(Vec::new())));
        };
        let Some(items) = rows.items() else {
            config.report_wrong_kind("variables", rows, "a list", self.problems);
            return None;
        };
        let is_first = !std::mem::replace(&mut self.has_started, true);
        let mut assignments = Vec::new();
        let mut names = HashSet::new();
        for row in items {
            let Some(fields) = Fields::read_object(row, "a variable", self.problems) else { continue };
            fields.warn_unknown_keys(&["name", "value", "description"], self.problems);
            let name = fields.get("name").map(scalar_text).unwrap_or_default();
            if name.trim().is_empty() {
                let message = "this variable has no name, so nothing can refer to it";
                self.problems.add_warning(Code::BlankVariable, row.span, message).help =
                    Some("give it a name, or remove the row".into());
                continue;
            }
            if !names.insert(name.clone()) {
                let message =
                    format_args!("the variable {name:?} is declared twice; the last value counts, unless it is empty");
                self.problems.add_warning(Code::DuplicateName, row.span, message);
            }
            let value = fields.get("value").map(Node::to_value).filter(Value::is_truthy).unwrap_or_else(|| "".into());
            // The defaults of the first start block are set before the flow begins: what looks like a reference stays text.
            let value = match is_first {
                true => Data::Constant(value),
                false => Data::from_value(&value, &|text| self.parse_template(text)),
            };
            assignments.push(Assignment { name: self.parse_template(&name), value, only_if_falsy: true });
        }
        Some(Step::new(key, Composite::Assign(assignments)))
    }

    fn compile_api_call(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        self.warn_unknown_keys(config, &["url", "method", "headers", "bodyType", "body", "formData"]);
        for name in ["url", "method"] {
            config.read_text(name, self.problems);
        }
        if let Some((kind, span)) = config.read_text("bodyType", self.problems).filter(|(kind, _)| kind.contains("${"))
        {
            let message = format_args!("\"bodyType\" cannot contain references; {kind:?} sends the body unchanged");
            self.problems.add_warning(Code::WrongKind, span, message);
        }
        if config.get_non_null("url").is_none() {
            config.report_missing("url", self.problems);
        }
        self.warn_if_blank(config, "url", "this step will fail");
        let url = self.scalar_template(config.get_non_null("url"));
        self.check_method(config);
        let method = config.get("method").and_then(Node::as_str).unwrap_or_default();
        let (headers, broken) = self.compile_headers(config);
        let written = matches!(method, "POST" | "PUT" | "PATCH") || method.contains("${");
        // AnythingLLM reads the body only if the method sends one.
        let body = if written { self.compile_body(config) } else { Ok(BodySpec::None) };
        let has_body = config.get("body").and_then(Node::as_str).is_some_and(|body| !body.is_empty());
        if has_body && !written && !method.is_empty() && method.to_uppercase() != "GET" {
            let message =
                format_args!("the body is not sent: only POST, PUT and PATCH, in upper case, have one, not {method:?}");
            let node = config.get("method");
            let upper = method.to_uppercase();
            let diagnostic =
                self.problems.add_warning(Code::NoBody, node.map(|node| node.span).unwrap_or_default(), message);
            diagnostic.help = Some("remove the body, or choose another method".into());
            if let (Some(node), "POST" | "PUT" | "PATCH") = (node, upper.as_str()) {
                let title = format!("write {upper:?}");
                diagnostic.help = Some(title.clone());
                // AnythingLLM runs it without the body, so this may change what the flow does.
                diagnostic.fix = Some(Fix::new_suggestion(title, vec![(node.span, format!("{upper:?}"))]));
            }
        }
        let broken = broken.or_else(|| body.as_ref().err().cloned());
        let kind = match (broken, body) {
            (Some(message), _) | (None, Err(message)) => {
                StepKind::Leaf(Leaf::Fail { code: Code::StepRefused, message })
            }
            (None, Ok(body)) => {
                let method = self.parse_template(method);
                StepKind::Leaf(Leaf::Http(HttpSpec { method, url, headers, body, uses_tool_host: false }))
            }
        };
        let mut step = Step::new(key, kind);
        step.policy.error_prefix = Some("API Call failed: ");
        Some(step)
    }

    /// Warns about a method that no request can have.
    fn check_method(&mut self, config: &Fields<'_>) {
        let Some((method, span)) = config.get("method").and_then(|node| Some((node.as_str()?, node.span))) else {
            return;
        };
        if !method.is_empty() && !method.contains("${") && !HTTP_METHODS.contains(&method.to_uppercase().as_str()) {
            let meant = self.problems.find_similar(&method.to_uppercase(), HTTP_METHODS);
            let message = format_args!("this step will fail: {method:?} is not a method");
            let diagnostic = self.problems.add_warning(Code::WrongKind, span, message);
            let help = || format!("it is one of {}", HTTP_METHODS.join(", "));
            diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
        }
    }

    /// The header rows, and the message with which the step must fail if the rows are not a list.
    fn compile_headers(&mut self, config: &Fields<'_>) -> (Vec<(Template, Template)>, Option<String>) {
        let Some(node) = config.get("headers") else { return (Vec::new(), None) };
        let Some(items) = node.items() else {
            let message = match node.kind {
                NodeKind::Null => "headers is null (Cannot read properties of null (reading 'reduce'))",
                _ => "headers must be a list of {key, value} (headers.reduce is not a function)",
            };
            self.problems
                .add_warning(Code::WrongKind, node.span, format_args!("this step will fail: {message}"))
                .help = Some("write \"headers\": [{\"key\": \"…\", \"value\": \"…\"}]".into());
            return (Vec::new(), Some(message.to_owned()));
        };
        (items.iter().filter_map(|row| self.compile_header(row)).collect(), None)
    }

    fn compile_header(&mut self, row: &Node) -> Option<(Template, Template)> {
        let fields = Fields::read_object(row, "a header row", self.problems)?;
        let key = fields.get("key");
        if key.is_some_and(|key| key.as_str() == Some("")) {
            let message = "this header row has no name and is left out";
            self.problems.add_warning(Code::HeaderRow, row.span, message).help = Some("fill it in or remove it".into());
            return None;
        }
        self.check_row_key(row, &fields, "header");
        let (name, value) = (self.scalar_template(key), self.scalar_template(fields.get("value")));
        let place = fields.get("value").map_or(row.span, |value| value.span);
        self.warn_literal_secret(&name, &value, place);
        Some((name, value))
    }

    /// Warns about a row without a key, and renames `name` in it.
    fn check_row_key(&mut self, row: &Node, fields: &Fields<'_>, what: &str) {
        if fields.get("key").is_some() {
            return;
        }
        let message = format_args!("this row has no \"key\", so the {what} is called undefined");
        let diagnostic = self.problems.add_warning(Code::HeaderRow, row.span, message);
        if let Some((_, span, _)) = row.entries().iter().find(|(name, _, _)| name == "name") {
            diagnostic.help = Some("rows have \"key\" and \"value\"; write \"key\" for \"name\"".into());
            diagnostic.fix = Some(Fix::new_safe("rename \"name\" to \"key\"", vec![(*span, "\"key\"".into())]));
        }
    }

    /// Warns about secrets written literally in the file.
    fn warn_literal_secret(&mut self, name: &Template, value: &Template, span: Span) {
        const SECRET: [&str; 6] = ["authorization", "cookie", "token", "secret", "password", "api-key"];
        let (Some(name), Some(value)) = (name.as_literal(), value.as_literal()) else { return };
        let lower = name.to_lowercase();
        if SECRET.iter().any(|word| lower.contains(word)) && value.len() >= 12 {
            let message = format_args!("the value of header {name} looks like a secret written in the file");
            self.problems.add_warning(Code::LiteralSecret, span, message).help =
                Some("write ${secret.NAME} and set FLOWLOOM_SECRET_NAME in the environment".into());
        }
    }

    /// The body, or the message with which the step must fail.
    fn compile_body(&mut self, config: &Fields<'_>) -> Result<BodySpec, String> {
        let body = config.get_non_null("body");
        let has_parts = body.is_some_and(|body| matches!(body.kind, NodeKind::Map(_) | NodeKind::List(_)));
        let data = |compiler: &Self| {
            let value = body.map(Node::to_value).unwrap_or_default();
            Data::from_value(&value, &|text| compiler.parse_template(text))
        };
        match config.get("bodyType").and_then(Node::as_str) {
            Some("form") => self.compile_form(config),
            _ if has_parts => Ok(BodySpec::JsonValue(data(self))),
            Some("json") => Ok(body.map_or(BodySpec::JsonText(Template::default()), |body| {
                BodySpec::JsonText(self.scalar_template(Some(body)))
            })),
            Some("text") => Ok(BodySpec::Text(self.scalar_template(config.get("body")))),
            _ => Ok(body.map_or(BodySpec::None, |body| BodySpec::Text(self.scalar_template(Some(body))))),
        }
    }

    fn compile_form(&mut self, config: &Fields<'_>) -> Result<BodySpec, String> {
        let rows = config.get("formData");
        let Some(items) = rows.and_then(Node::items) else {
            if let Some(rows) = rows.filter(|rows| !matches!(rows.kind, NodeKind::Null)) {
                let message = "formData must be a list of {key, value}";
                let failure = format_args!("this step will fail: {message}");
                self.problems.add_warning(Code::WrongKind, rows.span, failure).help =
                    Some("write \"formData\": [{\"key\": \"…\", \"value\": \"…\"}]".into());
                return Err(format!("{message} (formData.forEach is not a function)"));
            }
            let message = "bodyType form needs \"formData\"";
            let span = config.get("bodyType").map(|node| node.span).unwrap_or_default();
            self.problems.add_warning(Code::MissingKey, span, format_args!("this step will fail: {message}")).help =
                Some("add \"formData\": [{\"key\": \"…\", \"value\": \"…\"}]".into());
            // The run fails as the original does, in its words.
            return Err(format!("{message} (Cannot read properties of undefined (reading 'forEach'))"));
        };
        let read = |row: &Node| {
            let fields = Fields::read_object(row, "a form row", self.problems)?;
            self.check_row_key(row, &fields, "field of the form");
            Some((self.scalar_template(fields.get("key")), self.scalar_template(fields.get("value"))))
        };
        Ok(BodySpec::Form(items.iter().filter_map(read).collect()))
    }

    fn compile_instruction(&mut self, config: &Fields<'_>, key: Key) -> Step {
        self.warn_unknown_keys(config, &["instruction", "inputVariable"]);
        self.warn_if_blank(config, "instruction", "the model receives an empty prompt");
        let content = match config.get("instruction") {
            None => {
                let message = "this step has no \"instruction\"; the prompt is the word undefined";
                self.problems.add_warning(Code::MissingKey, config.start_span(), message);
                Data::Text(Template::from_literal("undefined"))
            }
            Some(Node { kind: NodeKind::String(text), .. }) => Data::Text(self.parse_template(text)),
            Some(node) => Data::from_value(&node.to_value(), &|text| self.parse_template(text)),
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

    /// Warns about a text that is needed and has nothing but whitespace.
    fn warn_if_blank(&mut self, config: &Fields<'_>, key: &str, effect: &str) {
        let Some(node) = config.get(key).filter(|node| node.as_str().is_some_and(|text| text.trim().is_empty())) else {
            return;
        };
        self.problems.add_warning(Code::MissingKey, node.span, format_args!("{key:?} is empty: {effect}"));
    }

    fn compile_scraping(&mut self, config: &Fields<'_>, key: Key) -> Option<Step> {
        self.warn_unknown_keys(config, &["url", "captureAs", "querySelector", "enableSummarization"]);
        let url = config.read_text("url", self.problems).map(|(url, _)| self.parse_template(url)).unwrap_or_default();
        if config.get("url").is_none() {
            let message = "this step has no \"url\" and will fail";
            self.problems.add_warning(Code::MissingKey, config.start_span(), message);
        }
        self.warn_if_blank(config, "url", "this step will fail");
        const CAPTURES: [&str; 4] = ["text", "html", "querySelector", "json"];
        let (capture, span) = config.read_text("captureAs", self.problems).unwrap_or(("text", Span::default()));
        let (capture, selected) = match capture {
            "html" => (Capture::Html, false),
            "querySelector" => (Capture::Html, true),
            "text" | "json" | "" => (Capture::Text, false),
            other => {
                let meant = self.problems.find_similar(other, CAPTURES);
                let message = format_args!("captureAs {other:?} is not known, so the page is read as text");
                let diagnostic = self.problems.add_warning(Code::WrongKind, span, message);
                let help = || format!("it is one of {}", CAPTURES.join(", "));
                diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
                (Capture::Text, false)
            }
        };
        let selector = config.read_text("querySelector", self.problems).filter(|_| selected);
        let selector = selector.map(|(selector, span)| {
            let template = self.parse_template(selector);
            if let Some(selector) = template.as_literal() {
                self.check_selector(selector, span);
            }
            template
        });
        let summarize = self.read_summarization(config);
        Some(Step::new(
            key,
            Leaf::Scrape(Scrape { url, capture, selector, summary: summarize.then_some(SUMMARY), messages: MESSAGES }),
        ))
    }

    /// Whether a long page is summarised. AnythingLLM takes any text as true.
    fn read_summarization(&mut self, config: &Fields<'_>) -> bool {
        let Some(node) = config.get("enableSummarization") else { return true };
        if is_negation(node) {
            let message = "\"enableSummarization\" is text, which counts as true";
            self.problems.add_warning(Code::WrongKind, node.span, message).help =
                Some("write true or false without quotation marks".into());
        }
        node.to_value().is_truthy()
    }

    /// Reports a constant selector that cannot be read.
    fn check_selector(&mut self, text: &str, span: Span) {
        if text.is_empty() {
            return;
        }
        let is_css = |css: &str| match scraper::Selector::parse(css) {
            Ok(_) => Ok(()),
            Err(_) => Err(SelectorError::new(text, describe_unreadable(css))),
        };
        let checked = PageSelector::parse(text).and_then(|selector| selector.css_parts().try_for_each(is_css));
        if let Err(error) = checked {
            self.problems.add_error(Code::BadSelector, span, error).help = Some(
                "write a CSS selector; jQuery's :contains(\"…\"), :first, :last, :eq(n), :gt(n), :lt(n), :even, :odd, \
                 [a!=b], :header, :checked and the like work, too"
                    .into(),
            );
        }
    }

    /// Whether the step's result is the flow's answer. AnythingLLM takes any text and any number but 0 as true.
    fn read_direct_output(&mut self, config: &Fields<'_>) -> bool {
        let Some(node) = config.get_non_null("directOutput") else { return false };
        if let NodeKind::Bool(direct) = node.kind {
            return direct;
        }
        if !node.to_value().is_truthy() {
            return false;
        }
        if is_negation(node) {
            let message = "\"directOutput\" must be true or false; AnythingLLM treats any text as true";
            self.problems.add_error(Code::WrongKind, node.span, message).help =
                Some("write true or false without quotation marks".into());
            return false;
        }
        let message = format_args!("\"directOutput\" is {}, which counts as true", node.kind_name());
        let diagnostic = self.problems.add_warning(Code::WrongKind, node.span, message);
        diagnostic.help = Some("write true".into());
        diagnostic.fix = Some(Fix::new_safe("write true", vec![(node.span, "true".to_owned())]));
        true
    }

    /// Compiles what every block can have: a result variable and direct output.
    pub(super) fn finish_step(&mut self, kind: &str, config: &Fields<'_>, mut step: Step) -> Option<Step> {
        let mut names = Vec::new();
        for key in ["resultVariable", "responseVariable"] {
            let named = config.get_non_null(key).filter(|_| kind != "start");
            if let Some(node) = named.filter(|node| node.to_value().is_truthy()) {
                if node.as_str().is_none() {
                    let message = format_args!("{key:?} must be text; the variable is called {}", scalar_text(node));
                    self.problems.add_warning(Code::WrongKind, node.span, message);
                }
                names.push(self.scalar_template(Some(node)));
            }
        }
        if !names.is_empty() {
            step.writes.push(Write { names, merge: Merge::Replace });
        }
        if !self.read_direct_output(config) {
            return Some(step);
        }
        let outer = Step {
            title: step.title.clone(),
            span: step.span,
            ..Step::new(
                step.key.clone(),
                StepKind::Leaf(Leaf::Fail { code: Code::StepRefused, message: String::new() }),
            )
        };
        Some(Step { kind: StepKind::Composite(Composite::Return(Box::new(step))), ..outer })
    }
}

/// Whether a node is a text that means the opposite of what AnythingLLM makes of it.
fn is_negation(node: &Node) -> bool {
    node.as_str().is_some_and(|text| ["false", "no", "off", "0"].contains(&text.trim().to_lowercase().as_str()))
}
