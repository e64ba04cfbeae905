//! `steps`: AgentOS step lists (docs/formats/steps.md).
//!
//! A JSON object with `name`, `description` and `steps`, each with a function, a mode and an error mode; references are
//! `{{name}}`. The call `trigger('workflow::create', {…})` from AgentOS' own documentation is accepted as well.

mod front_end;
mod functions;
mod present;
pub mod runs;
mod script;
mod template;

use std::collections::HashSet;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::{Expr, Missing, Ref, Template, TextRules};
use flowloom_core::json::{Node, parse_literal, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{
    Composite, Exhausted, Format, Inputs, Leaf, Loop, LoopOutput, LoopTest, OnError, Plan, Policy, RetryRule, Step,
    StepKind, Write,
};
use flowloom_core::render::TextStyle;

use crate::front_end::DefinitionSource;
use crate::functions::fills_secrets;
use crate::notations::{PlacedText, ReferenceRules};
use crate::problems::Problems;
use crate::reader::{Fields, find_span, label_span, read_json};
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;

pub(crate) use front_end::FRONT_END;
use functions::StepPrompt;
pub(crate) use functions::{BUILT_IN_FUNCTIONS, STEP_KIND_FUNCTIONS};
pub use present::{not_found_message, run_record, run_word, status_word};
use script::literal_start;
pub use script::{is_script, list_further_calls, read_definition};

/// How a reference is written, for texts that look like one and are none.
const REFERENCE_EXAMPLE: &str = "references are {{name}} and {{name.field}}, without blanks";

/// The text rules of a step list: unknown names stay as text, objects become compact JSON.
pub const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: false,
    style: TextStyle::JavaScript,
    keeps_type: false,
    wording: ORIGINAL_WORDING,
};

/// Maximum iterations of a loop that does not set them.
const DEFAULT_ITERATIONS: u64 = 10;
/// Retries of a step that does not set them.
const DEFAULT_RETRIES: u32 = 3;
/// Delay before the first retry, in milliseconds; doubled for each further one.
const RETRY_BASE_MS: u64 = 500;
/// Longest delay between attempts, in milliseconds.
const RETRY_CAP_MS: u64 = 30_000;

const STEP_MODES: [&str; 5] = ["sequential", "fanout", "collect", "conditional", "loop"];
const ERROR_MODES: [&str; 3] = ["fail", "skip", "retry"];
const KNOWN_KEYS: [&str; 11] = [
    "name",
    "functionId",
    "promptTemplate",
    "mode",
    "timeoutMs",
    "errorMode",
    "maxRetries",
    "outputVar",
    "condition",
    "maxIterations",
    "until",
];

/// Whether a word is the mode of a step.
pub(crate) fn is_mode(word: &str) -> bool {
    STEP_MODES.contains(&word)
}

/// The id of the format.
pub const FORMAT: Format = Format::new("steps");

/// Compiles a step list.
fn compile(source: DefinitionSource<'_>, sources: &Sources, problems: &mut Problems) -> Option<Plan> {
    let DefinitionSource { file, text, tree } = source;
    let node = tree.or_else(|| {
        let parsed = literal_start(text).map_or_else(|| parse_node(text), |start| parse_literal(text, start));
        read_json(text, parsed, problems)
    })?;
    for call in list_further_calls(text) {
        problems.add_warning(Code::FurtherDefinition, call, "only the first definition of a file is read").help =
            Some("put each definition into a file of its own".into());
    }
    let node = ["workflow", "definition"].iter().find_map(|key| node.get(key)).unwrap_or(&node);
    let mut known = KnownNames::default();
    known.insert("input");
    StepsCompiler { text, sources, problems, functions: Vec::new(), known }.compile_workflow(node, file)
}

struct StepsCompiler<'a> {
    /// The text that spans refer to.
    text: &'a str,
    sources: &'a Sources,
    problems: &'a mut Problems,
    functions: Vec<(Arc<str>, Span)>,
    /// Variables that the steps so far have set.
    known: KnownNames,
}

/// Names in the order in which they became known.
#[derive(Default)]
struct KnownNames {
    names: HashSet<String>,
    order: Vec<String>,
    /// Length of the longest name with a dot.
    max_dotted_bytes: usize,
}

impl KnownNames {
    fn insert(&mut self, name: &str) {
        if name.contains('.') {
            self.max_dotted_bytes = self.max_dotted_bytes.max(name.len());
        }
        if self.names.insert(name.to_owned()) {
            self.order.push(name.to_owned());
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }
}

/// Maximum number of names that help lists.
const MAX_LISTED_NAMES: usize = 20;

/// A step of the list with its mode.
struct StepRow<'a> {
    fields: Fields<'a>,
    node: &'a Node,
    name: String,
    mode: &'a str,
}

impl StepsCompiler<'_> {
    fn compile_workflow(mut self, node: &Node, file: &str) -> Option<Plan> {
        let fields = Fields::read_object(node, "a workflow", self.problems)?;
        fields.warn_unknown_keys(
            &["id", "name", "description", "steps", "agents", "version", "createdAt"],
            self.problems,
        );
        let name = fields.read_required_text("name", self.problems).map(|(name, _)| name.to_owned());
        let description = fields.read_text("description", self.problems).map(|(text, _)| text.to_owned());
        let id = fields.read_text("id", self.problems);
        if let Some((id, span)) = id.filter(|(id, _)| !is_id(id)) {
            let message = format_args!("{id:?} is not an id: letters, digits and _ - : . only, at most 256 of them");
            self.problems.add_error(Code::WrongKind, span, message);
        }
        let (items, span) = fields.read_required_list("steps", self.problems)?;
        let rows: Vec<StepRow<'_>> = items.iter().filter_map(|item| self.read_row(item)).collect();
        self.check_names(&rows);
        let steps = self.compile_batches(&rows);
        let root =
            Step { span, ..Step::new(Key::numbered_key("steps", 1), StepKind::Composite(Composite::Sequence(steps))) };
        Some(Plan {
            format: FORMAT,
            id: id.map(|(id, _)| id.to_owned()),
            name: name.unwrap_or_else(|| file.to_owned()),
            description: description.unwrap_or_default(),
            inputs: Inputs::Whole("input".into()),
            text: TEXT_RULES,
            limits: Limits::unlimited(),
            functions: self.functions,
            thread: None,
            root,
        })
    }

    fn read_row<'a>(&mut self, node: &'a Node) -> Option<StepRow<'a>> {
        let fields = Fields::read_object(node, "a step", self.problems)?;
        fields.warn_unknown_keys(&KNOWN_KEYS, self.problems);
        let name = fields.read_required_text("name", self.problems).map(|(name, _)| name.to_owned());
        let mode = self.read_mode(&fields);
        let unused: &[&str] = match mode {
            "conditional" => &["maxIterations", "until"],
            "loop" => &["condition"],
            _ => &["maxIterations", "until", "condition"],
        };
        for (key, span, _) in node.entries().iter().filter(|(key, _, _)| unused.contains(&key.as_str())) {
            let message = format_args!("{key:?} does nothing in mode {mode:?}");
            self.problems.add_warning(Code::UnusedField, *span, message);
        }
        Some(StepRow { fields, node, name: name.unwrap_or_default(), mode })
    }

    /// The mode of a step. One that is missing or unknown is reported, and the step is checked as if it had the mode that is
    /// probably meant.
    fn read_mode<'a>(&mut self, fields: &Fields<'a>) -> &'a str {
        let Some((mode, span)) = fields.read_required_text("mode", self.problems) else { return STEP_MODES[0] };
        if STEP_MODES.contains(&mode) {
            return mode;
        }
        let meant = self.problems.find_similar(mode, STEP_MODES);
        let message = format_args!("there is no mode {mode:?}");
        add_suggestion(self.problems.add_error(Code::UnknownMode, span, message), meant, span, &STEP_MODES);
        meant.unwrap_or(STEP_MODES[0])
    }

    /// Warns about steps with the same name, and about fan-out members that overwrite each other's results.
    fn check_names(&mut self, rows: &[StepRow<'_>]) {
        let mut names = HashSet::new();
        for row in rows.iter().filter(|row| !row.name.is_empty()) {
            if !names.insert(row.name.as_str()) {
                let message = format_args!(
                    "another step is also called {:?}; only their order distinguishes their results",
                    row.name
                );
                let span = row.fields.get("name").map_or(start_span(row.node), |name| name.span);
                self.problems.add_warning(Code::DuplicateName, span, message).help =
                    Some("give each its own name".into());
            }
        }
        for batch in rows.chunk_by(|a, b| a.mode == "fanout" && b.mode == "fanout") {
            let outputs: Vec<_> = batch.iter().filter_map(|row| row.fields.get_non_null("outputVar")).collect();
            let mut names = HashSet::new();
            for output in outputs {
                let Some(name) = output.as_str().filter(|name| !name.is_empty()) else { continue };
                if !names.insert(name) {
                    let message =
                        format_args!("{name:?} is set by another step of this fan-out too; one result is lost");
                    self.problems.add_warning(Code::DuplicateName, output.span, message).help =
                        Some("give each its own variable".into());
                }
            }
        }
    }

    /// Groups consecutive fan-out steps.
    fn compile_batches(&mut self, rows: &[StepRow<'_>]) -> Vec<Step> {
        let mut siblings = Siblings::default();
        let mut steps = Vec::new();
        let mut has_fanout = false;
        for batch in rows.chunk_by(|a, b| a.mode == "fanout" && b.mode == "fanout") {
            if batch[0].mode == "fanout" {
                has_fanout = true;
                let key = siblings.next_key(None, "fanout");
                let mut inner = Siblings::default();
                let members: Vec<_> = batch.iter().filter_map(|row| self.compile_step(row, &mut inner)).collect();
                self.known.insert("__fanout");
                batch.iter().for_each(|row| self.note_variable(row));
                let mut step = Step {
                    span: batch[0].node.span,
                    ..Step::new(key, StepKind::Composite(Composite::Parallel(members)))
                };
                step.writes = vec![Write::to_variable("__fanout")];
                steps.push(step);
                continue;
            }
            for row in batch {
                if row.mode == "collect" && !has_fanout {
                    let message = "there is no fan-out step before this collect step, so there is nothing to collect";
                    self.problems.add_warning(Code::CollectWithoutFanout, start_span(row.node), message);
                }
                steps.extend(self.compile_step(row, &mut siblings));
                self.note_variable(row);
            }
        }
        steps
    }

    fn compile_step(&mut self, row: &StepRow<'_>, siblings: &mut Siblings) -> Option<Step> {
        let function = row.fields.read_required_text("functionId", self.problems);
        let policy = self.read_policy(row);
        let is_collect = row.mode == "collect";
        let default = if is_collect { "{{__fanout}}" } else { "{{input}}" };
        // AgentOS computes `promptTemplate || "{{input}}"`, so an empty one means the default as well.
        let written = row.fields.read_text("promptTemplate", self.problems).filter(|(prompt, _)| !prompt.is_empty());
        let mut prompt = template::parse(written.map_or(default, |(prompt, _)| prompt));
        template::name_dotted_variables(&mut prompt, &self.known.names, self.known.max_dotted_bytes);
        if let Some((text, span)) = written {
            self.check_references(row, &prompt, span);
            let written = PlacedText { source: self.text, text, span };
            let known = &self.known.names;
            let is_known = |name: &str| known.contains(name);
            let rules = ReferenceRules { parse: template::parse, is_known: &is_known, example: REFERENCE_EXAMPLE };
            written.report_lookalikes(&rules, self.problems);
        }
        let secret = prompt.iter_secrets().next().map(|name| name.to_string());
        let is_default = written.is_none_or(|(prompt, _)| prompt == default);
        let prompt = StepPrompt { text: prompt, is_default, is_collect };
        let kind = function.and_then(|(function, span)| self.compile_function(function, span, prompt));
        if let (Some(name), Some((_, prompt)), Some((function, _)), Some(kind)) = (secret, written, function, &kind) {
            let at = find_span(self.text, prompt, &format!("{{{{secret.{name}}}}}"));
            self.check_secret(&name, at, function, kind);
        }
        // A step without a function that there is is left out, after the rest of it was checked.
        let is_known = kind.is_some();
        let kind = kind.unwrap_or_else(|| StepKind::Composite(Composite::Assign(Vec::new())));
        let key = siblings.next_key(Some(&row.name), row.mode);
        let mut step = Step { title: row.name.clone(), span: row.node.span, ..Step::new(key, kind) };
        step.capability = function.map(|(function, _)| function.into());
        step.policy = policy;
        let output =
            row.fields.read_text("outputVar", self.problems).map(|(name, _)| name).filter(|name| !name.is_empty());
        step.writes.extend(output.map(Write::to_variable));
        if row.mode != "fanout" {
            step.writes.push(Write::to_variable("input"));
        }
        let step = match row.mode {
            "conditional" => self.wrap_conditional(row, step),
            "loop" => self.wrap_loop(row, step),
            _ => step,
        };
        is_known.then_some(step)
    }

    /// Reports a secret in the prompt of a step that does not fill it in.
    fn check_secret(&mut self, name: &str, at: Span, function: &str, kind: &StepKind) {
        let (code, message) = match kind {
            StepKind::Leaf(Leaf::Call(_)) if fills_secrets(function) => return,
            StepKind::Leaf(Leaf::Call(_)) => (
                Code::SecretPlace,
                format!("the secret {name} cannot be an input of {function}, which sends no request"),
            ),
            _ => {
                let message = format!("the secret {name} would reach a model, a person or the memory");
                (Code::SecretInPrompt, message)
            }
        };
        self.problems.add_error(code, at, message).help =
            Some("secrets can be in the arguments of functions that send requests, such as tool::http_request".into());
    }

    /// Notes the variable that a step sets.
    fn note_variable(&mut self, row: &StepRow<'_>) {
        // A reference cannot name a variable of blanks.
        let output = row.fields.get("outputVar").and_then(Node::as_str).filter(|name| !name.trim().is_empty());
        output.into_iter().for_each(|name| self.known.insert(name));
    }

    /// Warns about references that no earlier step sets; they stay as text.
    fn check_references(&mut self, row: &StepRow<'_>, prompt: &Template, span: Span) {
        for reference in prompt.iter_refs() {
            let is_counter = row.mode == "loop" && &*reference.name == "iteration";
            let is_own =
                row.mode == "loop" && row.fields.get("outputVar").and_then(Node::as_str) == Some(&*reference.name);
            if is_counter || is_own || self.known.names.contains(&*reference.name) {
                continue;
            }
            if !self.problems.has_room_for_warning() {
                self.problems.add_warning(Code::UnknownVariable, span, "");
                continue;
            }
            let message = format_args!("no step before this one sets {}; it stays as text", reference.source);
            let meant = self.problems.find_similar(&reference.name, self.known.iter());
            let at = find_span(self.text, span, &reference.source);
            let diagnostic = self.problems.add_warning(Code::UnknownVariable, at, message);
            match meant {
                Some(meant) => {
                    let is_found = at.length == reference.source.len();
                    let meant = reference.source.replacen(&*reference.name, meant, 1);
                    diagnostic.suggest_text_at(&meant, is_found.then_some(at));
                }
                None => {
                    let names: Vec<&str> = self.known.iter().take(MAX_LISTED_NAMES).collect();
                    let more = if self.known.order.len() > MAX_LISTED_NAMES { ", …" } else { "" };
                    diagnostic.help = Some(format!("variables so far: {}{more}", names.join(", ")));
                }
            }
        }
    }

    fn read_policy(&mut self, row: &StepRow<'_>) -> Policy {
        let timeout_ms = row.fields.read_whole_number("timeoutMs", self.problems).map(|(number, _)| number);
        let retries = row.fields.read_whole_number("maxRetries", self.problems).map(|(number, _)| number);
        let mode = row.fields.read_text("errorMode", self.problems);
        if let Some((mode, span)) = mode.filter(|(mode, _)| !ERROR_MODES.contains(mode)) {
            let message = format_args!("there is no error mode {mode:?}; the step fails the run like \"fail\"");
            let meant = self.problems.find_similar(mode, ERROR_MODES);
            add_suggestion(self.problems.add_warning(Code::UnknownErrorMode, span, message), meant, span, &ERROR_MODES);
        }
        let mode = mode.map_or("fail", |(mode, _)| mode);
        // AgentOS computes `maxRetries || 3`, so 0 means 3 as well.
        let max = retries
            .filter(|retries| *retries > 0)
            .map_or(DEFAULT_RETRIES, |retries| u32::try_from(retries).unwrap_or(u32::MAX));
        Policy {
            timeout_ms: timeout_ms.filter(|limit| *limit > 0),
            retry: (mode == "retry").then_some(RetryRule { max, base_ms: RETRY_BASE_MS, cap_ms: RETRY_CAP_MS }),
            on_error: if mode == "skip" { OnError::Continue } else { OnError::Fail },
            error_prefix: None,
        }
    }

    fn wrap_conditional(&mut self, row: &StepRow<'_>, mut step: Step) -> Step {
        let condition = row.fields.read_text("condition", self.problems).map(|(text, _)| text).unwrap_or_default();
        if condition.is_empty() && row.fields.has_wrong_kind("condition") {
            return step;
        }
        if condition.is_empty() {
            let message = "this conditional step has no \"condition\", so it always runs";
            self.problems.add_warning(Code::MissingKey, start_span(row.node), message);
            return step;
        }
        let input = Ref { name: "input".into(), path: Vec::new(), source: "{{input}}".into() };
        step.condition = Some(Expr::Contains(Box::new(Expr::Ref(input)), condition.to_owned()));
        step
    }

    /// Wraps the step in a loop. An attempt is the call of one iteration, so retries belong to the body; the error mode
    /// applies to both.
    fn wrap_loop(&mut self, row: &StepRow<'_>, mut body: Step) -> Step {
        let until = row.fields.read_text("until", self.problems).map(|(text, _)| text).filter(|text| !text.is_empty());
        let max = row.fields.read_whole_number("maxIterations", self.problems).map(|(number, _)| number);
        let policy = Policy { on_error: body.policy.on_error, ..Policy::default() };
        body.policy.on_error = OnError::Fail;
        let (key, title, span) = (body.key.clone(), body.title.clone(), body.span);
        let looped = Loop {
            helper: None,
            scripts: Vec::new(),
            // Unlike the text that a condition searches, that of `false`, `null` and 0 is not empty.
            until: until.map(|until| Expr::Contains(Box::new(Expr::Text(Box::new(Expr::Output))), until.to_owned())),
            test: LoopTest::After,
            max: max.filter(|max| *max > 0).unwrap_or(DEFAULT_ITERATIONS),
            index_limits: Vec::new(),
            exhausted: Exhausted::Succeed,
            counter: Some("iteration".into()),
            output: LoopOutput::Last,
            body: Box::new(body),
        };
        Step { title, span, policy, ..Step::new(key, StepKind::Composite(Composite::Loop(looped))) }
    }
}

fn add_suggestion(diagnostic: &mut flowloom_core::Diagnostic, meant: Option<&str>, span: Span, known: &[&str]) {
    diagnostic.help = Some(format!("it is one of {}", known.join(", ")));
    if let Some(meant) = meant {
        diagnostic.help = Some(format!("did you mean {meant:?}?"));
        diagnostic.fix = Some(Fix::new_safe(format!("write {meant:?}"), vec![(span, format!("{meant:?}"))]));
    }
}

fn is_id(id: &str) -> bool {
    (1..=256).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-:.".contains(&b))
}

fn start_span(node: &Node) -> Span {
    label_span(node)
}
