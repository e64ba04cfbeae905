//! The index of one document: its tree, its names and its embedded texts. Every feature is answered from it.

use std::path::Path;
use std::sync::Arc;

use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_formats::graph::AGENT_ID_KEYS;
use flowloom_formats::markdown::read_within_limits;
use flowloom_formats::{flow, markdown, pipeline, steps};

use super::field_reads::FieldReads;
use super::json_names::{ComputedName, TemplateText, find_block_inputs, find_json_names, list_output_fields};
use super::json_place::touches_offset;
use super::json_tree::{inner_span, parse_tolerant};
use super::lines::Lines;
use super::mdx::{MdxDocument, read_mdx};
use super::mdx_names::find_mdx_names;
use super::names::{About, Name, NameKind, Role};
use super::templates::{TemplateStyle, find_references};

/// A document as it is written: complete, or on the way.
#[derive(Clone, Debug)]
pub struct Index {
    /// The text.
    pub text: Arc<str>,
    /// Its lines.
    pub lines: Lines,
    /// The format; `None` for a part of a definition.
    pub format: Option<Format>,
    /// The structure of the text.
    pub body: Body,
    /// The names, in the order of the document.
    pub names: Vec<Name>,
    /// The texts of a JSON document that contain references.
    pub templates: Vec<TemplateText>,
    /// The names of variables that a run of a JSON document computes.
    pub computed: Vec<ComputedName>,
    /// The files that a Markdown document includes, with the scope in which each is.
    pub includes: Vec<(String, usize)>,
    /// The reads of fields in a Markdown document, and the results that have fields.
    pub fields: FieldReads,
}

/// The structure of a document.
#[derive(Clone, Debug)]
pub enum Body {
    /// JSON; `None` if there is no value.
    Json(Option<Node>),
    /// Markdown.
    Markdown(MdxDocument),
}

/// A step of a list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepPlace {
    /// The byte at which it starts, or the first step that begins at the same time.
    pub(super) first: usize,
    /// Whether it is a loop.
    pub(super) is_loop: bool,
    /// Whether steps that run at the same time have ended before it.
    pub(super) follows_fan_out: bool,
}

impl Index {
    /// The index of a definition.
    pub fn new(text: Arc<str>, format: Format) -> Index {
        if format == markdown::FORMAT {
            return Index { format: Some(format), ..Index::of_markdown(text) };
        }
        let (tree, lines) = (parse_tolerant(&text), Lines::new(&text));
        let found = tree.as_ref().map(|tree| find_json_names(format, &text, tree)).unwrap_or_default();
        let (templates, computed) = (found.templates, found.computed);
        Index { format: Some(format), templates, computed, ..Index::of_json(text, tree, lines, found.names) }
    }

    /// The index of Markdown that a definition includes. A text that is too large, or nested too deeply, has no parts.
    pub fn of_markdown(text: Arc<str>) -> Index {
        let read = || {
            let document = read_mdx(&text);
            let found = find_mdx_names(&text, &document);
            (document, found)
        };
        let (document, found) = read_within_limits(&text, read).unwrap_or_default();
        let scope_at = |offset| document.find_scope(document.find_element(offset));
        let includes = found.includes.into_iter().map(|(path, span)| (path, scope_at(span.start))).collect();
        let (body, lines) = (Body::Markdown(document), Lines::new(&text));
        let (names, fields) = (found.names, found.fields);
        let (templates, computed) = (Vec::new(), Vec::new());
        Index { text, lines, format: None, body, names, templates, computed, includes, fields }
    }

    /// The index of a block that a pipeline uses, in a file of its own.
    pub fn of_block(text: Arc<str>) -> Index {
        let tree = parse_tolerant(&text);
        let (mut names, mut templates) = (Vec::new(), Vec::new());
        if let Some(block) = &tree {
            names = find_block_inputs(&text, block, 1);
            if let Some((id, node)) = block.get("id").and_then(|node| Some((node.as_str()?, node))) {
                let fields = list_output_fields(block);
                let origin = block.get("description").and_then(Node::as_str).unwrap_or_default().to_owned();
                let about = About { type_name: String::new(), origin, fields };
                names.push(Name { about, ..Name::new(NameKind::Block, id, inner_span(&text, node), Role::Declared) });
            }
            if let Some(prompt) = block.get("prompt_template").filter(|prompt| prompt.as_str().is_some()) {
                let (span, style) = (inner_span(&text, prompt), TemplateStyle::Braces);
                templates.push(TemplateText { span, style, kind: NameKind::Field, scope: 1 });
                for reference in find_references(&text[span.start..span.end()], span.start, style) {
                    let name = Name::new(NameKind::Field, &reference.name, reference.name_span, Role::Read);
                    names.push(Name { scope: 1, ..name });
                }
            }
        }
        names.sort_by_key(|name| name.span.start);
        let lines = Lines::new(&text);
        Index { templates, ..Index::of_json(text, tree, lines, names) }
    }

    /// The index of the settings of an agent, in a folder of its own.
    pub fn of_agent(text: Arc<str>, path: &str) -> Index {
        let (tree, lines) = (parse_tolerant(&text), Lines::new(&text));
        let find = |keys: &[&str]| keys.iter().find_map(|key| tree.as_ref()?.get(key));
        // Nodes can refer to an agent by its id and by its name.
        let written = [find(&AGENT_ID_KEYS), find(&["name"])].into_iter().flatten();
        let declare = |node: &Node| {
            let id = node.as_str().filter(|id| !id.is_empty())?;
            let about = About { origin: describe_folder(path), ..About::default() };
            Some(Name { about, ..Name::new(NameKind::Agent, id, inner_span(&text, node), Role::Declared) })
        };
        let mut names: Vec<Name> = written.filter_map(declare).collect();
        names.sort_by_key(|name| name.span.start);
        Index::of_json(text, tree, lines, names)
    }

    fn of_json(text: Arc<str>, tree: Option<Node>, lines: Lines, names: Vec<Name>) -> Index {
        let (templates, computed, includes, fields) = (Vec::new(), Vec::new(), Vec::new(), FieldReads::default());
        Index { text, lines, format: None, body: Body::Json(tree), names, templates, computed, includes, fields }
    }

    /// The names at a position: one, or the two that a shorthand key refers to.
    pub fn find_names(&self, offset: usize) -> impl Iterator<Item = &Name> {
        self.names.iter().filter(move |name| name.span.start <= offset && offset <= name.span.end())
    }

    /// The scope of a position.
    pub fn find_scope(&self, offset: usize) -> usize {
        match &self.body {
            Body::Markdown(document) => {
                let element = document.find_element(offset);
                // The tag of a block is read in the scope around it.
                let in_tag = element.filter(|index| offset < document.elements[*index].tag.end());
                match in_tag {
                    Some(index) => document.elements[index].scope,
                    None => document.find_scope(element),
                }
            }
            Body::Json(_) => self
                .templates
                .iter()
                .find(|one| one.span.start <= offset && offset <= one.span.end())
                .map_or(0, |one| one.scope),
        }
    }

    /// The text with references at a position.
    pub fn find_template(&self, offset: usize) -> Option<&TemplateText> {
        self.templates.iter().find(|one| one.span.start <= offset && offset <= one.span.end())
    }

    /// Whether a name must be declared above the place where it is used.
    pub fn is_sequential(&self) -> bool {
        matches!(self.body, Body::Markdown(_)) || matches!(self.format, Some(steps::FORMAT | flow::FORMAT))
    }

    /// The step of a list of steps at a position; `None` if there is none.
    pub(super) fn find_step(&self, offset: usize) -> Option<StepPlace> {
        let Body::Json(Some(tree)) = &self.body else { return None };
        let steps = tree.get("steps")?.items()?;
        let at = steps.iter().position(|step| touches_offset(step.span, offset))?;
        let mode = |at: usize| steps[at].get("mode").and_then(Node::as_str).unwrap_or_default();
        let mut first = at;
        // The members of a fan-out begin together.
        while first > 0 && mode(at) == "fanout" && mode(first - 1) == "fanout" {
            first -= 1;
        }
        let follows_fan_out = (0..first).any(|before| mode(before) == "fanout");
        Some(StepPlace { first: steps[first].span.start, is_loop: mode(at) == "loop", follows_fan_out })
    }

    /// Whether names of a kind may have no declaration in the document itself.
    pub fn is_pipeline(&self) -> bool {
        self.format == Some(pipeline::FORMAT)
    }
}

/// The folder of the settings of an agent, in a few words.
fn describe_folder(settings: &str) -> String {
    let folder = Path::new(settings).parent().unwrap_or(Path::new(""));
    let parts: Vec<String> = folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let last = parts.len().saturating_sub(2);
    format!("folder {}/", parts[last..].join("/"))
}
