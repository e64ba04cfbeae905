//! Checks the references of a flow: unknown names, names used before they are set, double braces, and secrets in the
//! wrong place. Most findings are warnings, because AnythingLLM accepts any argument and leaves unknown references as
//! text.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::{Data, Ref, Segment, Template, TemplatePart};
use flowloom_core::json::{Node, parse_node, write_json};
use flowloom_core::plan::{BodySpec, Composite, Inputs, Leaf, Plan, Step, StepKind};
use flowloom_core::value::Map;

use super::FORMAT;
use crate::problems::Problems;
use crate::reader::find_span;

/// The position of a template, which determines whether it may contain secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplatePosition {
    /// Inserted when the request is sent; secrets are allowed.
    Socket,
    /// A URL; secrets are allowed in its query.
    Url,
    /// Text for a model.
    Prompt,
    /// A body that is an object.
    BodyValue,
    /// Any other position.
    Plain,
}

/// The source of one step.
struct StepSource<'a> {
    source: &'a str,
    step: Span,
    /// The place at which variables are declared, once it was looked for.
    declarations: &'a OnceCell<Option<usize>>,
}

impl StepSource<'_> {
    fn find_reference(&self, reference: &str) -> Span {
        find_span(self.source, self.step, reference)
    }

    /// A fix that declares a variable in the start block; `None` without such a block.
    fn build_declaration(&self, name: &str) -> Option<Fix> {
        let at = (*self.declarations.get_or_init(|| find_declarations(self.source)))?;
        let comma = if self.source[at..].trim_start().starts_with(']') { "" } else { ", " };
        let declaration = format!("{{\"name\": {}, \"value\": \"\"}}{comma}", write_json(&name.into()));
        let edits = vec![(Span { start: at, length: 0 }, declaration)];
        Some(Fix::new_suggestion(format!("declare {name} in the start block"), edits))
    }
}

/// The place after the opening bracket of the variables that the start block of a flow declares.
fn find_declarations(source: &str) -> Option<usize> {
    let (flow, _) = parse_node(source).ok()?;
    let start =
        flow.get("steps")?.items()?.iter().find(|step| step.get("type").and_then(Node::as_str) == Some("start"))?;
    let variables = start.get("config")?.get("variables").filter(|list| list.items().is_some())?;
    Some(variables.span.start + 1)
}

pub(super) fn check_references(plan: &Plan, source: &str, problems: &mut Problems) {
    let StepKind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return };
    let Inputs::Named { declared, defaults, .. } = &plan.inputs else { return };
    let mut known: BTreeSet<String> = declared.iter().map(|input| input.name.clone()).collect();
    known.extend(defaults.keys().map(|name| name.to_string()));
    let declarations = OnceCell::new();
    let later: HashSet<String> = steps.iter().flat_map(assigned_names).collect();
    for step in steps {
        let as_written = StepSource { source, step: step.span, declarations: &declarations };
        let mut seen = HashSet::new();
        visit_templates(step, &mut |template, place| {
            for reference in template.iter_refs().filter(|reference| is_hidden_secret(reference)) {
                if seen.insert(reference.source.clone()) {
                    warn_hidden_secret(reference, &as_written, problems);
                }
            }
            for reference in template.iter_refs().filter(|reference| !known.contains(&*reference.name)) {
                if seen.insert(reference.source.clone()) {
                    check_reference(reference, &as_written, &known, &later, problems);
                }
            }
            check_secrets(template, place, &as_written, problems);
        });
        known.extend(assigned_names(step));
    }
}

/// Warnings about inputs that nothing in a flow refers to. AnythingLLM ignores them. The other formats reject them.
pub fn describe_unused_inputs(plan: &Plan, given: &Map) -> Vec<String> {
    let Inputs::Named { declared, defaults, .. } = &plan.inputs else { return Vec::new() };
    let mut known: HashSet<String> = declared.iter().map(|input| input.name.clone()).collect();
    known.extend(defaults.keys().map(|name| name.to_string()));
    // Most runs have no others, and steps are many.
    if plan.format != FORMAT || given.keys().all(|name| known.contains(&**name)) {
        return Vec::new();
    }
    plan.root.visit(&mut |step| {
        visit_templates(step, &mut |template, _| {
            known.extend(template.iter_refs().map(|reference| reference.name.to_string()));
        });
    });
    given.keys().filter(|name| !known.contains(&***name)).map(|name| plan.inputs.describe_unknown(name)).collect()
}

/// The variables that a step sets, if their names are literal.
fn assigned_names(step: &Step) -> Vec<String> {
    let mut names = Vec::new();
    step.visit(&mut |step| {
        let literals = step.writes.iter().flat_map(|write| &write.names).filter_map(Template::as_literal);
        names.extend(literals.map(str::to_owned));
        if let StepKind::Composite(Composite::Assign(rows)) = &step.kind {
            names.extend(rows.iter().filter_map(|row| row.name.as_literal()).map(str::to_owned));
        }
    });
    names
}

fn visit_templates(step: &Step, see: &mut dyn FnMut(&Template, TemplatePosition)) {
    for name in step.writes.iter().flat_map(|write| &write.names) {
        see(name, TemplatePosition::Plain);
    }
    let mut data = |data: &Data, place| data.visit(&mut |template| see(template, place));
    match &step.kind {
        StepKind::Composite(Composite::Return(inner)) => visit_templates(inner, see),
        StepKind::Leaf(Leaf::Http(spec)) => {
            see(&spec.method, TemplatePosition::Plain);
            see(&spec.url, TemplatePosition::Url);
            for (name, value) in &spec.headers {
                see(name, TemplatePosition::Plain);
                see(value, TemplatePosition::Socket);
            }
            match &spec.body {
                BodySpec::JsonText(template) | BodySpec::Text(template) => see(template, TemplatePosition::Socket),
                BodySpec::JsonValue(value) => value.visit(&mut |template| see(template, TemplatePosition::BodyValue)),
                BodySpec::Form(rows) => rows.iter().for_each(|(name, value)| {
                    see(name, TemplatePosition::Plain);
                    see(value, TemplatePosition::Socket);
                }),
                BodySpec::None => {}
            }
        }
        StepKind::Leaf(Leaf::Generate(generate)) => {
            generate.messages.iter().for_each(|(_, content)| data(content, TemplatePosition::Prompt))
        }
        StepKind::Leaf(Leaf::Scrape(scrape)) => {
            see(&scrape.url, TemplatePosition::Prompt);
            scrape.selector.iter().for_each(|selector| see(selector, TemplatePosition::Plain));
        }
        // No other step of a flow has templates.
        _ => {}
    }
}

fn check_reference(
    reference: &Ref,
    written: &StepSource<'_>,
    known: &BTreeSet<String>,
    later: &HashSet<String>,
    problems: &mut Problems,
) {
    if !problems.has_room_for_warning() {
        problems.add_warning(Code::UnknownVariable, written.step, "");
        return;
    }
    let at = written.find_reference(&reference.source);
    if later.contains(&*reference.name) {
        let message = format_args!("{} is used before the step that sets it; it stays as text here", reference.source);
        problems.add_warning(Code::LateVariable, at, message).help =
            Some("move the step that sets it before this one".into());
        return;
    }
    let message =
        format_args!("nothing in the flow sets {}; unless an argument does, it stays as text", reference.source);
    let (name, source) = (reference.name.trim(), remove_blanks(&reference.source));
    let is_known = known.contains(name);
    let field = match reference.path.last() {
        Some(Segment::Field(field)) if known.contains(&**field) => Some(format!("${{{field}}}")),
        _ => None,
    };
    let similar = problems.find_similar(name, known.iter().map(String::as_str));
    // As in other formats, where a variable is a field of the input.
    let meant = field.or_else(|| similar.map(|meant| source.replacen(name, meant, 1))).filter(|_| !is_known);
    let is_found = at.length == reference.source.len();
    let diagnostic = problems.add_warning(Code::UnknownVariable, at, message);
    if let Some(meant) = meant {
        diagnostic.suggest_text_at(&meant, is_found.then_some(at));
    } else if *source != *reference.source {
        let title = format!("write {source}, without blanks");
        diagnostic.help = Some(title.clone());
        diagnostic.fix = is_found.then(|| Fix::new_safe(title, vec![(at, source)]).safe_if(is_known));
    } else {
        diagnostic.help = Some(format!("if it is a parameter, declare {name:?} in the start block"));
        diagnostic.fix = written.build_declaration(name);
    }
}

/// A reference without blanks after its opening and before its closing brace, which would be parts of the name.
fn remove_blanks(source: &str) -> String {
    let inner = source.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.map_or_else(|| source.to_owned(), |inner| format!("${{{}}}", inner.trim()))
}

/// Whether a reference reads as that of a secret, but is a field of the flow's own variable `secret`.
fn is_hidden_secret(reference: &Ref) -> bool {
    &*reference.name == "secret" && matches!(reference.path.as_slice(), [Segment::Field(_)])
}

fn warn_hidden_secret(reference: &Ref, written: &StepSource<'_>, problems: &mut Problems) {
    let source = &reference.source;
    let message =
        format_args!("{source} is a field of the variable \"secret\", not a secret: the variable hides all secrets");
    problems.add_warning(Code::SecretPlace, written.find_reference(source), message).help =
        Some("give the variable another name".into());
}

fn check_secrets(template: &Template, place: TemplatePosition, written: &StepSource<'_>, problems: &mut Problems) {
    let mut in_query = false;
    for part in &template.parts {
        let TemplatePart::Secret(name) = part else {
            in_query |= matches!(part, TemplatePart::Text(text) if text.contains('?'));
            continue;
        };
        let (code, message, help) = match place {
            TemplatePosition::Socket => continue,
            TemplatePosition::Url if in_query => continue,
            TemplatePosition::Prompt => (
                Code::SecretInPrompt,
                format!("the secret {name} would be sent to a model or stored in a result"),
                "secrets can be in the query of a URL, in header values and in bodies of an apiCall",
            ),
            TemplatePosition::BodyValue => (
                Code::SecretPlace,
                format!("the secret {name} cannot be used in a body that is an object"),
                "write the body as text: \"body\": \"{ … }\"",
            ),
            TemplatePosition::Url | TemplatePosition::Plain => (
                Code::SecretPlace,
                format!("the secret {name} cannot be used here"),
                "secrets can be in the query of a URL, in header values and in bodies",
            ),
        };
        if !problems.has_room_for_error() {
            problems.add_error(code, written.step, "");
            continue;
        }
        problems.add_error(code, written.find_reference(&format!("${{secret.{name}}}")), message).help =
            Some(help.into());
    }
}

/// Warns about `{{name}}` and `{{$name}}` in the source of a text, which this format leaves as text.
pub(super) fn double_braces(source: &str, span: Span, variables: &HashSet<String>, problems: &mut Problems) {
    let Some(text) = source.get(span.start..span.end()) else { return };
    let mut at = 0;
    while let Some(found) = text[at..].find("{{") {
        let start = at + found;
        let Some(length) = text[start + 2..].find("}}") else { return };
        let name = &text[start + 2..start + 2 + length];
        let end = start + 2 + length + 2;
        at = end;
        let path = name.trim();
        let path = path.strip_prefix('$').unwrap_or(path);
        let is_path =
            !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '[' | ']'));
        if is_path {
            let span = Span { start: span.start + start, length: end - start };
            let message = format_args!("{{{{{name}}}}} is not a reference in a flow and stays as text");
            let diagnostic = problems.add_warning(Code::NotAReference, span, message);
            diagnostic.help = Some(format!("write ${{{path}}}"));
            let fix = Fix::new_safe(format!("write ${{{path}}}"), vec![(span, format!("${{{path}}}"))]);
            // Another name may belong to a template of another program.
            let root = path.split(['.', '[']).next().unwrap_or_default();
            diagnostic.fix = Some(fix.safe_if(variables.contains(root)));
        }
    }
}
