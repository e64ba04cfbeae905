//! Completion: the texts that can be written at a position.

use std::collections::HashSet;

use flowloom_core::diagnostic::Span;
use flowloom_core::json::Node;
use flowloom_formats::{find_built_in_parameters, find_format, flow, list_built_in_functions};

use super::block_inputs::find_block_inputs;
use super::definition::{Definition, IndexedFile};
use super::index::{Body, Index};
use super::json_place::{JsonPath, JsonPlace, PathStep, find_place, follow_path, to_pattern};
use super::json_tree::inner_span;
use super::known::{Known, KnownName};
use super::names::{Name, NameKind, Role};
use super::pipeline_order::list_refused_nodes;
use super::roles::{TextRole, find_role};
use super::schema::{FormatSchema, find_constant, write_skeleton};
use super::templates::{ReferenceRest, TemplateStyle, find_rest, find_started};

/// What the texts of the block for_each can name.
const ITEM_NAMES: [&str; 3] = ["item", "index", "number"];

/// Something that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The text that the list shows.
    pub label: String,
    /// The kind, for an icon.
    pub kind: ProposalKind,
    /// A few words about it.
    pub detail: String,
    /// More about it, as Markdown.
    pub meaning: String,
    /// The bytes that it replaces.
    pub replaces: Span,
    /// The inserted text.
    pub insert: String,
    /// Whether `insert` is a snippet with places to fill in.
    pub is_snippet: bool,
}

/// The kinds of proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalKind {
    /// A key or an attribute.
    Key,
    /// One of several values.
    Value,
    /// A name.
    Name(NameKind),
    /// A part of a definition with places to fill in.
    Skeleton,
    /// A member of a value.
    Member,
}

impl Proposal {
    pub(super) fn new(label: &str, kind: ProposalKind, replaces: Span) -> Proposal {
        let (detail, meaning) = (String::new(), String::new());
        let (label, insert) = (label.to_owned(), label.to_owned());
        Proposal { label, kind, detail, meaning, replaces, insert, is_snippet: false }
    }

    pub(super) fn of_name(name: &Name, replaces: Span) -> Proposal {
        let about = &name.about;
        let detail = [&about.type_name, &about.origin].into_iter().filter(|text| !text.is_empty());
        let detail = detail.cloned().collect::<Vec<_>>().join(", ");
        Proposal { detail, ..Proposal::new(&name.text, ProposalKind::Name(name.kind), replaces) }
    }
}

/// The texts that can be written at byte `offset` of a file of a definition.
pub fn list_proposals(definition: &Definition, file: &IndexedFile, offset: usize, known: &Known) -> Vec<Proposal> {
    let context = Context { definition, file, index: &file.index, offset, known };
    match &file.index.body {
        Body::Json(Some(tree)) => context.list_json(tree),
        Body::Json(None) => Vec::new(),
        Body::Markdown(document) => context.list_markdown(document),
    }
}

/// A place in a JSON document.
#[derive(Clone, Copy)]
struct JsonSpot<'a> {
    tree: &'a Node,
    path: &'a JsonPath,
}

/// A reference around the position.
#[derive(Clone, Copy)]
struct WrittenReference<'a> {
    /// From its start up to the position.
    written: &'a str,
    rest: ReferenceRest,
}

/// A position, and what can be named there.
pub(super) struct Context<'a> {
    pub(super) definition: &'a Definition,
    pub(super) file: &'a IndexedFile,
    index: &'a Index,
    pub(super) offset: usize,
    pub(super) known: &'a Known,
}

impl Context<'_> {
    pub(super) fn text(&self) -> &str {
        &self.index.text
    }

    /// The word that ends at the position.
    pub(super) fn word_span(&self) -> Span {
        let before = &self.text()[..self.offset];
        let length: usize = before.chars().rev().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
        Span { start: self.offset - length, length }
    }

    /// The word around the position.
    pub(super) fn whole_word_span(&self) -> Span {
        let before = self.word_span();
        let after: usize = self.text()[self.offset..].chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
        Span { length: before.length + after, ..before }
    }

    fn list_json(&self, tree: &Node) -> Vec<Proposal> {
        if let Some(template) = self.index.find_template(self.offset) {
            let inside = &self.text()[template.span.start..template.span.end()];
            let at = self.offset - template.span.start;
            if let Some(written) = find_started(inside, at, template.style) {
                let rest = find_rest(inside, at, template.style);
                return self.list_references(tree, template.kind, WrittenReference { written, rest });
            }
            if self.is_repeated_template(tree) && find_started(inside, at, TemplateStyle::Braces).is_some() {
                let word = self.whole_word_span();
                let propose = |name: &&str| Proposal::new(name, ProposalKind::Member, word);
                return ITEM_NAMES.iter().map(propose).collect();
            }
        }
        let Some(format) = self.index.format.filter(|format| find_format(format.name()).is_some()) else {
            return Vec::new();
        };
        let Some(schema) = FormatSchema::new(format) else { return Vec::new() };
        match find_place(self.text(), tree, self.offset) {
            Some(JsonPlace::Key { path, object, key }) => {
                self.list_keys(&schema, JsonSpot { tree, path: &path }, object, key.map(|(_, span)| span))
            }
            Some(JsonPlace::Value { path, node }) => {
                let role = find_role(format, &to_pattern(&path));
                self.list_values(&schema, JsonSpot { tree, path: &path }, node, role)
            }
            None => Vec::new(),
        }
    }

    /// The names with which a started reference can continue, or the fields of the name that it has.
    fn list_references(&self, tree: &Node, kind: NameKind, reference: WrittenReference<'_>) -> Vec<Proposal> {
        let WrittenReference { written, rest: ReferenceRest { name_length, missing } } = reference;
        let start = written.rfind('.').map_or(0, |dot| dot + 1);
        let length = written.len() - start;
        let replaces = Span { start: self.offset - length, length: length + name_length };
        let finish = |mut proposal: Proposal, is_whole: bool| {
            if is_whole {
                proposal.insert.push_str(missing);
            }
            proposal
        };
        if let Some((name, path)) = written.split_once('.') {
            let name = Name::new(kind, name, Span::default(), Role::Read);
            // A variable of this name hides the secrets.
            if name.text == "secret" && self.definition.find_origin(&name).is_none() {
                let propose = |known: &KnownName| Proposal {
                    detail: known.detail.clone(),
                    ..Proposal::new(&known.name, ProposalKind::Value, replaces)
                };
                return self.known.secrets.iter().map(propose).map(|proposal| finish(proposal, true)).collect();
            }
            let fields = if path.contains('.') { Vec::new() } else { self.list_reference_fields(tree, &name) };
            let propose = |field: &String| finish(Proposal::new(field, ProposalKind::Member, replaces), true);
            return fields.iter().map(propose).collect();
        }
        let names = self.definition.list_visible(self.file, self.offset, kind);
        // A node is named with one of its fields.
        let is_whole = kind != NameKind::Node;
        let refused = self.list_refused(tree, kind);
        let others = names.iter().filter(|name| !refused.contains(&name.text));
        let own = others.map(|name| finish(Proposal::of_name(name, replaces), is_whole));
        let given = self.list_given().into_iter().filter(|(given, _)| !names.iter().any(|name| name.text == *given));
        let propose_given = |(name, detail): (&str, &str)| Proposal {
            detail: detail.to_owned(),
            ..Proposal::new(name, ProposalKind::Name(kind), replaces)
        };
        own.chain(given.map(propose_given)).collect()
    }

    /// What references can name besides the names of the definition, each with its meaning.
    fn list_given(&self) -> Vec<(&'static str, &'static str)> {
        let is_pipeline = self.index.is_pipeline();
        let has_secrets = is_pipeline || self.index.format == Some(flow::FORMAT);
        let of_user = [("user", "the profile of the user"), ("memory", "the memory of the user")];
        let secret = ("secret", "a secret of the configuration");
        let of_user = of_user.into_iter().filter(|_| is_pipeline);
        of_user.chain([secret].into_iter().filter(|_| has_secrets && !self.known.secrets.is_empty())).collect()
    }

    /// The fields of what a reference names. The memory has those that the pipeline declares.
    fn list_reference_fields(&self, tree: &Node, name: &Name) -> Vec<String> {
        let mut fields = self.list_value_fields(name);
        if self.definition.find_origin(name).is_none() && self.index.is_pipeline() {
            let keys = tree.get("memory_keys").and_then(Node::items).unwrap_or_default();
            let declared: Vec<&str> = match name.text.as_str() {
                "memory" => keys.iter().filter_map(Node::as_str).collect(),
                "user" => vec!["name"],
                _ => Vec::new(),
            };
            let missing: Vec<&str> = declared.into_iter().filter(|key| !fields.iter().any(|one| one == key)).collect();
            fields.extend(missing.into_iter().map(str::to_owned));
        }
        fields
    }

    /// Whether the position is in a text that a node applies to each item of a list.
    fn is_repeated_template(&self, tree: &Node) -> bool {
        let Some(JsonPlace::Value { path, .. }) = find_place(self.text(), tree, self.offset) else { return false };
        let node = path.get(..2).and_then(|path| follow_path(tree, path));
        matches!(to_pattern(&path).as_slice(), ["nodes", "*", "inputs", "template", ..])
            && node.and_then(|node| node.get("block_id")).and_then(Node::as_str) == Some("for_each")
    }

    /// The fields of a name: those that the definition declares, or those of its last value.
    pub(super) fn list_value_fields(&self, name: &Name) -> Vec<String> {
        let declared = self.definition.list_fields(name);
        match declared.is_empty() {
            true => self.known.fields.get(&name.text).cloned().unwrap_or_default(),
            false => declared.into_iter().map(|field| field.name).collect(),
        }
    }

    /// The names of a kind that cannot be used here: nodes of a pipeline that would wait for each other.
    fn list_refused(&self, tree: &Node, kind: NameKind) -> HashSet<String> {
        match kind == NameKind::Node && self.index.is_pipeline() {
            true => list_refused_nodes(self.index, tree, self.offset),
            false => HashSet::new(),
        }
    }

    fn list_keys(
        &self,
        schema: &FormatSchema,
        at: JsonSpot<'_>,
        object: &Node,
        written: Option<Span>,
    ) -> Vec<Proposal> {
        let JsonSpot { tree, path } = at;
        let replaces = written.unwrap_or_else(|| self.quoted_word_span());
        let rest = self.text()[replaces.end()..].trim_start();
        let (has_value, needs_comma) = (rest.starts_with(':'), rest.starts_with('"'));
        let is_there = |name: &str| object.entries().iter().any(|(key, span, _)| key == name && Some(*span) != written);
        let keys = schema.list_keys(Some(tree), path).into_iter().filter(|key| !is_there(key.name));
        let propose = |key: super::schema::SchemaKey<'_>| {
            let mut insert = format!("\"{}\"", key.name);
            if !has_value {
                let value = write_skeleton(key.value, &mut 0);
                insert = format!("{insert}: {value}{}", if needs_comma { "," } else { "" });
            }
            Proposal {
                detail: if key.is_required { "required".to_owned() } else { String::new() },
                meaning: schema.describe(key.value).unwrap_or_default().to_owned(),
                insert,
                is_snippet: !has_value,
                ..Proposal::new(key.name, ProposalKind::Key, replaces)
            }
        };
        let mut inputs = find_block_inputs(self.index, tree, path, &self.known.blocks);
        inputs.retain(|input| !is_there(&input.name));
        let value = if needs_comma { ": \"$1\"," } else { ": \"$1\"" };
        let propose_input = |input: KnownName| Proposal {
            insert: format!("\"{}\"{}", input.name, if has_value { "" } else { value }),
            is_snippet: !has_value,
            detail: input.detail,
            ..Proposal::new(&input.name, ProposalKind::Key, replaces)
        };
        keys.map(propose).chain(inputs.into_iter().map(propose_input)).collect()
    }

    fn quoted_word_span(&self) -> Span {
        let word = self.word_span();
        match self.text()[..word.start].ends_with('"') {
            true => Span { start: word.start - 1, length: word.length + 1 },
            false => word,
        }
    }

    fn list_values(
        &self,
        schema: &FormatSchema,
        at: JsonSpot<'_>,
        node: Option<&Node>,
        role: TextRole,
    ) -> Vec<Proposal> {
        let JsonSpot { tree, path } = at;
        let string = node.filter(|node| node.as_str().is_some());
        let replaces = string.map_or_else(
            || node.map_or(Span { start: self.offset, length: 0 }, |node| node.span),
            |string| inner_span(self.text(), string),
        );
        let quote = |mut proposal: Proposal| {
            if string.is_none() {
                proposal.insert = format!("\"{}\"", proposal.insert);
            }
            proposal
        };
        let propose_names = |names: &[KnownName], kind| -> Vec<Proposal> {
            let propose = |known: &KnownName| Proposal {
                detail: known.detail.clone(),
                ..Proposal::new(&known.name, ProposalKind::Name(kind), replaces)
            };
            names.iter().map(propose).map(quote).collect()
        };
        if let TextRole::Name(kind, role) = role {
            let own = || {
                let names = self.definition.list_visible(self.file, self.offset, kind).into_iter();
                let refused = self.list_refused(tree, kind);
                names
                    .filter(|name| !refused.contains(&name.text))
                    .map(|name| quote(Proposal::of_name(&name, replaces)))
                    .collect::<Vec<_>>()
            };
            return match (kind, role) {
                (NameKind::Function, _) => propose_names(&self.known.list_functions(self.file.index.format), kind),
                (NameKind::Model, _) => propose_names(&self.known.models, kind),
                (NameKind::Tool, _) if path.first() != Some(&PathStep::Key("tools".to_owned())) => {
                    let tools = tree.get("tools").and_then(Node::items).unwrap_or_default().iter();
                    let names: Vec<KnownName> =
                        tools.filter_map(|tool| Some(KnownName::new(tool.as_str()?, ""))).collect();
                    propose_names(&names, kind)
                }
                (NameKind::Tool, _) => {
                    let mut tools = propose_names(&self.known.workflows, kind);
                    tools.extend(propose_names(&self.known.list_functions(self.file.index.format), kind));
                    tools
                }
                (NameKind::Block, Role::Read) => join_unique(own(), propose_names(&self.known.blocks, kind)),
                (NameKind::Agent, Role::Read) => join_unique(own(), propose_names(&self.known.agents, kind)),
                (NameKind::Destination, Role::Read) => {
                    let mut own = own();
                    own.push(quote(Proposal::new("END", ProposalKind::Value, replaces)));
                    own
                }
                (_, Role::Read) => own(),
                (_, Role::Declared | Role::Written) => Vec::new(),
            };
        }
        let values = schema.list_values(Some(tree), path).into_iter().filter_map(serde_json::Value::as_str);
        let mut all: Vec<Proposal> =
            values.map(|value| quote(Proposal::new(value, ProposalKind::Value, replaces))).collect();
        if string.is_none() && schema.takes_boolean(Some(tree), path) {
            all.extend(["true", "false"].map(|value| Proposal::new(value, ProposalKind::Value, replaces)));
        }
        if node.is_none() && matches!(path.last(), Some(PathStep::Index(_))) {
            all.extend(self.list_items(schema, tree, path, replaces));
        }
        all
    }

    /// The items that a list can have, as skeletons.
    fn list_items(&self, schema: &FormatSchema, tree: &Node, path: &JsonPath, replaces: Span) -> Vec<Proposal> {
        let schemas = schema.find_schemas(Some(tree), path);
        let variants = schema.list_variants(&schemas);
        let whole = schemas.iter().copied().filter(|schema| schema.get("properties").is_some());
        let all: Vec<&serde_json::Value> = if variants.is_empty() { whole.take(1).collect() } else { variants };
        let needs_comma = self.text()[self.offset..].trim_start().starts_with('{');
        let propose = |schema: &serde_json::Value| {
            let list = path.iter().rev().find_map(|step| match step {
                PathStep::Key(key) => Some(key.trim_end_matches('s').to_owned()),
                PathStep::Index(_) => None,
            });
            let label = find_constant(schema).map(|(_, value)| value.to_owned()).or(list).unwrap_or_default();
            let insert = format!("{}{}", write_skeleton(schema, &mut 0), if needs_comma { "," } else { "" });
            let proposal = Proposal::new(&label, ProposalKind::Skeleton, replaces);
            Proposal { insert, is_snippet: true, detail: "new".to_owned(), ..proposal }
        };
        all.into_iter().map(propose).collect()
    }
}

/// Whether a character is part of a word of an expression.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Whether a model can call a function: not those that are only kinds of steps or stages of the planner.
pub(super) fn is_tool(function: &str) -> bool {
    is_configured(function) || find_built_in_parameters(function).is_some()
}

/// Whether a function is one of the configuration.
pub(super) fn is_configured(function: &str) -> bool {
    list_built_in_functions().iter().all(|(id, _)| id != function)
}

/// The proposals of both lists, each label once.
fn join_unique(mut own: Vec<Proposal>, others: Vec<Proposal>) -> Vec<Proposal> {
    let known: HashSet<String> = own.iter().map(|proposal| proposal.label.clone()).collect();
    own.extend(others.into_iter().filter(|other| !known.contains(&other.label)));
    own
}
