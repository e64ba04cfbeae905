//! The parts of a definition, with their values, forms and connections.

use std::collections::{BTreeMap, HashMap};

use flowloom_core::diagnostic::Span;
use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::markdown::read_within_limits;
use flowloom_formats::{flow, format_schema, graph, markdown, pipeline};
use serde_json::Value as Json;

use super::connect::{SOURCE_KEYS, TARGET_KEYS};
use super::edit::{EditContext, EditEnv};
use super::forms::{FormWriter, add_block_inputs};
use super::json_edit::JsonText;
use super::kinds::{EDGES, ELEMENTS, NODES, PartList, find_lists, find_root, read_text};
use super::markdown_parts::{AFTER_KEY, Actions, list_element_kinds, write_element_form};
use super::skeletons::{PartKind, find_block, list_kinds};
use super::yaml_edit::read_frontmatter;
use super::{join_step, key_path};
use crate::analysis::index::Index;
use crate::analysis::json_place::{JsonPath, PathStep};
use crate::analysis::names::{NameKind, Role};

/// The parts of a definition.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Why the parts cannot be shown; the source must be mended.
    pub problem: Option<String>,
    /// The way to the values of the whole definition.
    pub root: JsonPath,
    /// The values of the whole definition, without its parts.
    pub value: Value,
    /// Their form.
    pub form: Json,
    /// The lists of parts.
    pub lists: Vec<PartList>,
    /// The kinds of parts that can be added.
    pub kinds: Vec<PartKind>,
    /// The parts, in the order of the source.
    pub parts: Vec<Part>,
    /// The connections of nodes.
    pub links: Vec<Link>,
    /// The forms of parts, by name.
    pub forms: BTreeMap<String, Json>,
}

/// A part of a definition.
#[derive(Clone, Debug)]
pub struct Part {
    /// The list that it is in.
    pub list: &'static str,
    /// Where it is.
    pub path: JsonPath,
    /// The position of the part around it.
    pub parent: Option<usize>,
    /// Its kind.
    pub kind: String,
    /// The name by which people know it.
    pub title: String,
    /// Its place in the source.
    pub span: Span,
    /// Its value.
    pub value: Value,
    /// The name of its form.
    pub form: String,
}

/// A connection of two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The position of the part that it leaves.
    pub from: usize,
    /// The position of the part that it enters; `None` is the end.
    pub to: Option<usize>,
    /// The condition under which it is taken.
    pub label: String,
    /// The position of the part that makes the connection; `None` if a reference makes it.
    pub part: Option<usize>,
}

/// Inspects a definition.
pub fn inspect_definition(env: EditEnv<'_>, text: &str) -> Inspection {
    let Some(schema) = format_schema(env.format).and_then(|schema| serde_json::from_str(schema).ok()) else {
        return Inspection { problem: Some("this format has no forms".to_owned()), ..Inspection::default() };
    };
    match env.format {
        markdown::FORMAT => match read_within_limits(text, || inspect_markdown(&schema, text)) {
            Ok(inspection) => inspection,
            Err(message) => Inspection { problem: Some(message), ..Inspection::default() },
        },
        _ => match JsonText::read(text.to_owned()) {
            Ok(document) => JsonInspector { env, schema: &schema, document: &document }.inspect_parts(),
            Err(error) => Inspection { problem: Some(error.to_string()), ..Inspection::default() },
        },
    }
}

fn inspect_markdown(schema: &Json, text: &str) -> Inspection {
    let value = match read_frontmatter(text) {
        Ok(value) => value,
        Err(error) => return Inspection { problem: Some(error.to_string()), ..Inspection::default() },
    };
    let actions = Actions::read(text);
    let mut form = FormWriter::new(markdown::FORMAT, schema).write(schema, &[]);
    if let Some(properties) = form.get_mut("properties").and_then(Json::as_object_mut) {
        let after = serde_json::json!({"type": "string", "x-widget": "template", "x-references": "{}", "x-long": true,
            "description": "The text after the last action: the result of the workflow"});
        properties.insert(AFTER_KEY.into(), after);
    }
    let after = actions.trailing_span(text);
    let mut map = value.as_map().cloned().unwrap_or_default();
    map.insert(AFTER_KEY.into(), text[after.start..after.end()].into());
    let mut forms = BTreeMap::new();
    let mut parts = Vec::new();
    for (index, action) in actions.actions.iter().enumerate() {
        let can_begin_phase = actions.can_begin_phase(index);
        let form = format!("{}{}", action.kind.name, if can_begin_phase { " of a phase" } else { "" });
        forms.entry(form.clone()).or_insert_with(|| write_element_form(action.kind, can_begin_phase));
        let value = actions.value(text, index);
        let name = value.get("as").and_then(Value::as_str).filter(|name| !name.is_empty());
        parts.push(Part {
            list: ELEMENTS,
            path: join_step(&key_path(&[ELEMENTS]), PathStep::Index(index)),
            parent: action.parent,
            kind: action.kind.name.to_owned(),
            title: name.unwrap_or(action.kind.name).to_owned(),
            span: actions.element(index).span,
            form,
            value,
        });
    }
    Inspection {
        value: map.into(),
        form,
        lists: vec![PartList { name: ELEMENTS, path: key_path(&[ELEMENTS]) }],
        kinds: list_element_kinds(),
        parts,
        forms,
        ..Inspection::default()
    }
}

struct JsonInspector<'a> {
    env: EditEnv<'a>,
    schema: &'a Json,
    document: &'a JsonText,
}

impl JsonInspector<'_> {
    fn format(&self) -> Format {
        self.env.format
    }

    fn inspect_parts(&self) -> Inspection {
        let tree = &self.document.tree;
        let lists = find_lists(self.format(), tree);
        let root = find_root(self.format(), tree);
        let mut found = Inspection {
            kinds: self.list_kinds(&lists),
            value: self.read_definition(&root, &lists),
            form: self.write_definition_form(&lists),
            root,
            lists,
            ..Inspection::default()
        };
        for list in &found.lists {
            let items = self.document.find(&list.path).and_then(Node::items).unwrap_or_default();
            for (index, item) in items.iter().enumerate() {
                let path = join_step(&list.path, PathStep::Index(index));
                let (kind, form) = self.name_form(list.name, item);
                found.forms.entry(form.clone()).or_insert_with(|| self.write_form(list.name, item));
                found.parts.push(Part {
                    list: list.name,
                    path,
                    parent: None,
                    kind,
                    title: find_title(item).unwrap_or_default(),
                    span: item.span,
                    value: item.to_value(),
                    form,
                });
            }
        }
        found.links = self.find_links(&found.parts);
        found
    }

    fn list_kinds(&self, lists: &[PartList]) -> Vec<PartKind> {
        let has_own_blocks = lists.iter().any(|list| list.name == super::kinds::BLOCKS);
        let mut kinds = list_kinds(self.format(), has_own_blocks);
        if self.format() == pipeline::FORMAT {
            let own = self.document.tree.get(super::kinds::BLOCKS).and_then(Node::items).unwrap_or_default();
            let own: Vec<Value> = own.iter().map(Node::to_value).collect();
            let mut names = std::collections::HashSet::new();
            for block in own.iter().chain(self.env.blocks).chain(pipeline::built_in_blocks()) {
                let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                if names.insert(text("id")) && !text("id").is_empty() {
                    kinds.push(PartKind::new(NODES, text("id"), text("description")));
                }
            }
        }
        kinds
    }

    /// The values of the definition without its parts.
    fn read_definition(&self, root: &[PathStep], lists: &[PartList]) -> Value {
        let node = self.document.find(root).map(Node::to_value).unwrap_or_default();
        let mut map = node.as_map().cloned().unwrap_or_default();
        lists.iter().for_each(|list| {
            map.shift_remove(list.name);
        });
        map.into()
    }

    fn write_definition_form(&self, lists: &[PartList]) -> Json {
        let schema = match self.format() {
            pipeline::FORMAT => self.schema.pointer("/$defs/pipeline"),
            graph::FORMAT => self.schema.pointer("/$defs/graph"),
            _ => Some(self.schema),
        };
        let mut form = FormWriter::new(self.format(), self.schema).write(schema.unwrap_or(self.schema), &[]);
        if let Some(properties) = form.get_mut("properties").and_then(Json::as_object_mut) {
            lists.iter().for_each(|list| {
                properties.remove(list.name);
            });
            // Internal fields of the original systems are meaningless to people.
            properties.retain(|_, field| {
                field.get("type").is_some() || field.get("anyOf").is_some() || field.get("enum").is_some()
            });
        }
        form
    }

    /// The kind of a part, and the name of its form.
    fn name_form(&self, list: &str, item: &Node) -> (String, String) {
        let text = |keys: &[&str]| read_text(item, keys).unwrap_or_default().to_owned();
        match (self.format(), list) {
            (flow::FORMAT, _) => (text(&["type"]), text(&["type"])),
            (pipeline::FORMAT, NODES) => {
                let block = text(&["block_id"]);
                (block.clone(), format!("{NODES}:{block}"))
            }
            (pipeline::FORMAT, super::kinds::BLOCKS) => (text(&["execution_type"]), list.to_owned()),
            (graph::FORMAT, NODES) => (text(&["nodeType", "node_type"]), list.to_owned()),
            (graph::FORMAT, EDGES) => (text(&["conditionType", "condition_type"]), list.to_owned()),
            (flowloom_formats::steps::FORMAT, _) => (text(&["mode"]), list.to_owned()),
            _ => (list.strip_suffix('s').unwrap_or(list).to_owned(), list.to_owned()),
        }
    }

    fn write_form(&self, list: &str, item: &Node) -> Json {
        let writer = FormWriter::new(self.format(), self.schema);
        let items = |pointer: &str| self.schema.pointer(pointer).unwrap_or(&Json::Null);
        match (self.format(), list) {
            (flow::FORMAT, _) => {
                let variants = items("/properties/steps/items/oneOf").as_array().into_iter().flatten();
                let kind = read_text(item, &["type"]).unwrap_or_default();
                let mut variants =
                    variants.filter(|one| one.pointer("/properties/type/const").is_some_and(|one| one == kind));
                variants.next().map_or(Json::Null, |variant| writer.write(variant, &["steps", "*"]))
            }
            (pipeline::FORMAT, NODES) => {
                let mut form = writer.write(items("/$defs/node"), &[NODES, "*"]);
                let tree = &self.document.tree;
                let context = EditContext {
                    index: Index::of_block("".into()),
                    tree: Some(tree),
                    blocks: self.env.blocks,
                    model: self.env.model,
                };
                let block = read_text(item, &["block_id"]).and_then(|id| find_block(id, &context));
                block.iter().for_each(|block| add_block_inputs(&mut form, block));
                form
            }
            (pipeline::FORMAT | graph::FORMAT, _) => {
                let name = list.strip_suffix('s').unwrap_or(list);
                writer.write(items(&format!("/$defs/{name}")), &[list, "*"])
            }
            _ => writer.write(items("/properties/steps/items"), &["steps", "*"]),
        }
    }

    fn find_links(&self, parts: &[Part]) -> Vec<Link> {
        let nodes: HashMap<&str, usize> = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.list == NODES)
            .filter_map(|(index, part)| Some((part.value.get("id")?.as_str()?, index)))
            .collect();
        let text =
            |value: &Value, keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str().map(str::to_owned));
        let mut links = Vec::new();
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.list == EDGES) {
            let end = |keys| text(&part.value, keys);
            let Some(from) = end(&SOURCE_KEYS).and_then(|id| nodes.get(id.as_str()).copied()) else { continue };
            let target = end(&TARGET_KEYS);
            let to = target.as_deref().and_then(|id| nodes.get(id).copied());
            if target.is_some() && to.is_none() {
                continue;
            }
            let label = text(&part.value, &["conditionValue", "condition_value"]).unwrap_or_default();
            links.push(Link { from, to, label, part: Some(index) });
        }
        self.add_references(parts, &nodes, &mut links);
        links
    }

    /// The connections that references make.
    fn add_references(&self, parts: &[Part], nodes: &HashMap<&str, usize>, links: &mut Vec<Link>) {
        if self.format() != pipeline::FORMAT {
            return;
        }
        let known: std::collections::HashSet<(usize, usize)> =
            links.iter().filter_map(|link| Some((link.from, link.to?))).collect();
        let index = Index::new(self.document.text.as_str().into(), self.format());
        let mut seen = known;
        let mut readers = parts.iter().enumerate().filter(|(_, part)| part.list == NODES).peekable();
        // Both are in the order of the source.
        for name in index.names.iter().filter(|name| name.kind == NameKind::Node && name.role == Role::Read) {
            while readers.peek().is_some_and(|(_, part)| part.span.end() < name.span.start) {
                readers.next();
            }
            let Some((to, part)) = readers.peek() else { break };
            let Some(from) = nodes.get(name.text.as_str()).filter(|_| part.span.start <= name.span.start) else {
                continue;
            };
            if seen.insert((*from, *to)) {
                links.push(Link { from: *from, to: Some(*to), label: String::new(), part: None });
            }
        }
    }
}

/// Keys by whose values people distinguish parts, the best one first.
const TITLE_KEYS: [&str; 5] = ["name", "nodeName", "node_name", "id", "type"];

fn find_title(item: &Node) -> Option<String> {
    read_text(item, &TITLE_KEYS).map(str::to_owned)
}
