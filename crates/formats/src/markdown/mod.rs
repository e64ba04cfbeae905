//! The `markdown` format: lebrunel/agentflow's workflows in Markdown with expressions and actions (docs/formats/markdown.md).
//!
//! A file is scanned against limits (`source`) and parsed into a tree (`parse`). The frontmatter declares the inputs
//! (`frontmatter`). Nodes become phases and steps (`build`, `generate`, `actions`), their text becomes messages
//! (`text`, `include`), and expressions are compiled for native or sandboxed evaluation (`expression`, `check`,
//! `native`).

mod actions;
mod attribute_gaps;
mod build;
mod check;
mod combine;
mod elements;
mod expression;
mod front_end;
mod frontmatter;
mod generate;
mod hidden;
mod history;
mod include;
mod indentation;
mod index_limits;
mod inspect;
mod large_stack;
mod layout;
mod lex;
mod mistake;
mod mistake_words;
mod model_options;
mod name_rule;
mod native;
mod nodes;
mod paragraphs;
mod parse;
mod present;
mod provide;
mod schema;
mod schema_names;
mod scope;
mod source;
mod text;
mod text_patterns;
mod tools;
mod variable_expression;
mod yaml;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Span};
use flowloom_core::expr::{Missing, TextRules};
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Composite, Format, Inputs, Plan, Step};
use flowloom_core::render::TextStyle;
use flowloom_core::value::Map;
use markdown::mdast::Node;

use crate::front_end::DefinitionSource;
use crate::problems::Problems;
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;
use frontmatter::Frontmatter;
use large_stack::run_on_large_stack;
use nodes::node_range;
use parse::TextPiece;
use scope::{Meaning, ScopeNames};

pub use elements::has_action;
pub(crate) use front_end::FRONT_END;
pub use frontmatter::read_yaml;
pub use include::{FLOWS_FOLDER, PROMPTS_FOLDER};
pub use inspect::{ExpressionNames, FieldRead, NameRead, ObjectKey, inspect_expression};
pub use large_stack::{is_parser_panic, read_within_limits};
pub use lex::{compact_expression, find_expression_end, measure_tag};
pub use name_rule::can_name_variable;
pub use schema::read_written_schema;
pub use variable_expression::VariableExpression;

/// The text between the instructions and a role.
pub const ROLE_PREFIX: &str = "\n\nYour role in this step: ";

/// The default instructions in front of every conversation.
pub const DEFAULT_SYSTEM_PROMPT: &str = "You carry out one step of a workflow. The conversation holds the texts of the workflow's \
author and the results of earlier steps. Do exactly what the last text asks, with what stands before it as context. \
Answer with the result alone: no greeting, no introduction, no explanation of what you did, no question back, and no \
offer of further help. Write Markdown where it helps, unless the text asks for another form. Your answer is stored as \
it is, and later steps build on it.";

/// The text rules of this format.
const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: false,
    style: TextStyle::JavaScript,
    keeps_type: true,
    wording: ORIGINAL_WORDING,
};

/// Compiles one file.
struct MarkdownCompiler<'a> {
    entry: &'a str,
    sources: &'a Sources,
    problems: &'a mut Problems,
    missing_files: &'a mut Vec<String>,
    frontmatter: Frontmatter,
    functions: Vec<(Arc<str>, Span)>,
    /// Files that are currently being included.
    including: Vec<String>,
    inclusions: usize,
    fragments: usize,
    slots: usize,
    lines: parse::Lines,
    /// Undeclared names that could be inputs, and whether they are used as lists.
    undeclared: Vec<(String, bool)>,
}

/// The id of the format.
pub const FORMAT: Format = Format::new("markdown");

/// Compiles a Markdown workflow. Included files that `sources` lacks are added to `needs`.
fn compile(
    source: DefinitionSource<'_>,
    sources: &Sources,
    problems: &mut Problems,
    needs: &mut Vec<String>,
) -> Option<Plan> {
    if let Err(message) = source::check_limits(source.text) {
        problems.add_error(Code::TooComplex, Span::default(), message);
        return None;
    }
    let work = || compile_on_this_thread(&source, sources, &mut *problems, needs);
    match run_on_large_stack(work) {
        Ok(plan) => plan,
        Err(failure) => {
            failure.add_problem(source.text, problems);
            None
        }
    }
}

/// Lays out a Markdown workflow in the canonical form; `None`, with an error, if it does not parse.
pub(crate) fn lay_out(file: &str, text: &str, problems: &mut Problems) -> Option<String> {
    if let Err(message) = source::check_limits(text) {
        problems.add_error(Code::TooComplex, Span::default(), message);
        return None;
    }
    let work = || {
        let errors = list_syntax_errors(file, text);
        errors.iter().for_each(|error| problems.add_found(error));
        if errors.is_empty() { layout::lay_out(file, text, &mut *problems) } else { None }
    };
    match run_on_large_stack(work) {
        Ok(laid_out) => laid_out,
        Err(failure) => {
            failure.add_problem(text, problems);
            None
        }
    }
}

/// The codes of texts that cannot be read.
const SYNTAX_CODES: [Code; 3] = [Code::MarkdownSyntax, Code::FrontmatterSyntax, Code::ExpressionSyntax];

/// The errors of a text that no other file and no setting can repair: those of the Markdown, the YAML, and the expressions.
fn list_syntax_errors(file: &str, text: &str) -> Vec<Diagnostic> {
    let mut problems = Problems::new(file);
    let source = DefinitionSource { file, text, tree: None };
    let _ = compile_on_this_thread(&source, &Sources::default(), &mut problems, &mut Vec::new());
    let is_syntax = |problem: &Diagnostic| problem.is_error() && SYNTAX_CODES.contains(&problem.code);
    problems.into_list().0.into_iter().filter(is_syntax).collect()
}

fn compile_on_this_thread(
    source: &DefinitionSource<'_>,
    sources: &Sources,
    problems: &mut Problems,
    needs: &mut Vec<String>,
) -> Option<Plan> {
    let mark = if source.text.starts_with('\u{feff}') { 3 } else { 0 };
    let text = TextPiece { file: source.file, whole: source.text, stops: vec![(0, mark)], text: &source.text[mark..] };
    let nodes = parse::parse(&text, true, problems)?;
    let nodes: Vec<&Node> = nodes.iter().collect();
    let mut frontmatter = Frontmatter::default();
    if let Some(Node::Yaml(yaml)) = nodes.first() {
        let start = text.text.find('\n').map_or(0, |at| at + 1);
        frontmatter = frontmatter::read(&yaml.value, start, &text, problems);
    }
    let mut compiler = MarkdownCompiler {
        entry: source.file,
        sources,
        problems,
        missing_files: needs,
        frontmatter,
        functions: Vec::new(),
        including: vec![source.file.to_owned()],
        inclusions: 0,
        fragments: 0,
        slots: 0,
        lines: parse::Lines::default(),
        undeclared: Vec::new(),
    };
    compiler.compile_plan(&nodes, &text)
}

impl MarkdownCompiler<'_> {
    fn compile_plan(&mut self, nodes: &[&Node], text: &TextPiece<'_>) -> Option<Plan> {
        let names = self.root_names();
        let phases = build::split_phases(nodes, text.text);
        if phases.is_empty() {
            let message = "there is nothing to run: the file has no text and no action";
            self.problems.add_error(Code::NothingToRun, Span::default(), message).help =
                Some("write a prompt, and below it <GenText as=\"answer\" model=\"…\" />".into());
            return None;
        }
        let is_description = self.is_description(&phases);
        let name = self.find_title(&phases, text);
        let description = if is_description { join_paragraphs(&phase_source(&phases[0], text)) } else { String::new() };
        let kind = build::ScopeKind::File { is_described: is_description };
        let built = self.compile_scope(nodes, text, names, kind);
        self.add_input_fix(text);
        let root = Step::new(Key::numbered_key("workflow", 1), Composite::Sequence(built.phases));
        self.warn_without_action(nodes, &root, text);
        let declared = self.frontmatter.inputs.clone();
        let mut defaults: Map =
            self.frontmatter.data.iter().map(|(name, value, _)| (name.as_str().into(), value.clone())).collect();
        for input in &declared {
            if let Some(default) = &input.default {
                defaults.insert(input.name.as_str().into(), default.clone());
            }
        }
        Some(Plan {
            format: FORMAT,
            id: None,
            name,
            description,
            inputs: Inputs::Named { declared, defaults, accepts_others: false },
            text: TEXT_RULES,
            limits: Limits::unlimited(),
            functions: std::mem::take(&mut self.functions),
            thread: None,
            root,
        })
    }

    /// The names that the frontmatter declares.
    fn root_names(&mut self) -> ScopeNames {
        let mut names = ScopeNames::default();
        let data = self.frontmatter.data.iter().map(|(name, _, span)| (name.clone(), *span));
        let inputs = self.frontmatter.inputs.iter().map(|input| (input.name.clone(), input.span));
        for (name, span) in data.chain(inputs).collect::<Vec<_>>() {
            if !names.add_name(&name, Meaning::Variable) {
                let message = format!("the name {name} is used already, in data");
                self.problems.add_error(Code::RepeatedName, span, message).help =
                    Some("data and inputs share their names: rename one of them".into());
            }
        }
        names
    }

    /// Whether the first phase only describes the workflow: it has no action, and a later phase has one.
    fn is_description(&self, phases: &[Vec<&Node>]) -> bool {
        let acts = |phase: &Vec<&Node>| {
            phase.iter().any(|node| {
                nodes::read_element(node)
                    .is_some_and(|(name, _)| name.is_some_and(|name| self.is_action(&actions::to_kebab_case(name))))
            })
        };
        phases.first().is_some_and(|first| !acts(first)) && phases.iter().skip(1).any(acts)
    }

    fn find_title(&self, phases: &[Vec<&Node>], text: &TextPiece<'_>) -> String {
        if let Some(title) = &self.frontmatter.title {
            return title.clone();
        }
        if let Some(heading @ Node::Heading(_)) = phases.first().and_then(|phase| phase.first()) {
            let title = heading_text(heading, text);
            if !title.is_empty() {
                return title;
            }
        }
        let base = self.entry.rsplit(['/', '\\']).next().unwrap_or_default();
        if base.is_empty() { "Untitled".to_owned() } else { base.to_owned() }
    }

    /// Adds a fix that declares all undeclared names together.
    fn add_input_fix(&mut self, text: &TextPiece<'_>) {
        let mut names: Vec<(String, bool)> = Vec::new();
        for (name, is_list) in std::mem::take(&mut self.undeclared) {
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known |= is_list,
                None => names.push((name, is_list)),
            }
        }
        let Some((first, _)) = names.first().cloned() else { return };
        let lines: String = names
            .iter()
            .map(|(name, is_list)| format!("  {name}: {{type: {}}}\n", if *is_list { "array" } else { "text" }))
            .collect();
        let whole = text.text;
        let has_frontmatter = whole.starts_with("---\n");
        let section = whole.split_once("\n---").map_or("", |(yaml, _)| yaml);
        let (at, new) = match section.find("\ninput:\n").filter(|_| has_frontmatter) {
            Some(at) => (at + "\ninput:\n".len(), lines),
            None if has_frontmatter && section.contains("\ninput:") => return,
            None if has_frontmatter => (4, format!("input:\n{lines}")),
            None => (0, format!("---\ninput:\n{lines}---\n\n")),
        };
        let list = names.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let fix = Fix::new_suggestion(format!("declare {list} as input"), vec![(text.file_span(at, at), new)]);
        self.problems.fix_first(Code::UnknownName, &format!("{first} is not known"), fix);
    }
}

/// The text of a heading.
fn heading_text(node: &Node, text: &TextPiece<'_>) -> String {
    match node {
        Node::Text(text) => text.value.clone(),
        Node::InlineCode(code) => code.value.clone(),
        Node::MdxTextExpression(_) => text.text[node_range(node)].to_owned(),
        node => node
            .children()
            .into_iter()
            .flatten()
            .map(|child| heading_text(child, text))
            .collect::<String>()
            .trim()
            .to_owned(),
    }
}

/// A text whose lines end without white space, and whose paragraphs are apart by one empty line.
fn join_paragraphs(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut empty_lines = 0;
    for line in text.lines().map(str::trim_end) {
        match line.is_empty() {
            true => empty_lines += 1,
            false => {
                if !joined.is_empty() {
                    joined += if empty_lines > 0 { "\n\n" } else { "\n" };
                }
                joined += line;
                empty_lines = 0;
            }
        }
    }
    joined
}

/// The source of a phase.
fn phase_source(phase: &[&Node], text: &TextPiece<'_>) -> String {
    let (Some(first), Some(last)) = (phase.first(), phase.last()) else { return String::new() };
    text.text[node_range(first).start..node_range(last).end].to_owned()
}

/// The role in a system prompt, if there is one.
pub fn find_role(system: &str) -> Option<&str> {
    let mark = ROLE_PREFIX.trim_start();
    system.strip_prefix(mark).or_else(|| system.split_once(ROLE_PREFIX).map(|(_, role)| role))
}
