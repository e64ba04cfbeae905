//! Changes of a definition: each names a value or a part, and is applied to the text.

use std::sync::Arc;

use flowloom_core::json::{MAX_DEPTH, Node};
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::markdown::read_within_limits;
use flowloom_formats::{graph, markdown, pipeline, steps};

use super::json_edit::JsonText;
use super::kinds::{AGENTS, BLOCKS, NODES, choose_key, find_list, find_lists, find_root, read_text};
use super::markdown_edit::{MarkdownText, new_action};
use super::names::TakenNames;
use super::skeletons::{find_block, new_block, new_flow_step, new_graph_node, new_list_step, new_pipeline_node};
use super::{BuildError, join_key, join_step};
use super::{block_fields, connect};
use crate::analysis::definition::Definition;
use crate::analysis::index::Index;
use crate::analysis::json_place::{JsonPath, PathStep, follow_path};
use crate::analysis::json_tree::inner_span;
use crate::analysis::names::{Name, NameKind};
use crate::analysis::rename::rename;

/// A change of a definition. Paths lead through keys and positions; the actions of Markdown are in the list `elements`.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Gives a value another content. Missing objects and lists on the path are added.
    Set {
        /// The value.
        path: JsonPath,
        /// The content.
        value: Value,
    },
    /// Removes a value, or a part with its connections.
    Remove {
        /// The value or the part.
        path: JsonPath,
    },
    /// Gives the key of an entry another name.
    RenameKey {
        /// The entry.
        path: JsonPath,
        /// The name.
        to: String,
    },
    /// Gives a declared name another text, at all of its places.
    Rename {
        /// The value that declares it.
        path: JsonPath,
        /// The name.
        to: String,
    },
    /// Moves a part to another position of its list.
    Move {
        /// The part.
        path: JsonPath,
        /// The position.
        to: usize,
    },
    /// Adds a new part.
    Add {
        /// The name of the list, or `elements` with the position of the action around it.
        list: JsonPath,
        /// The position.
        at: usize,
        /// The kind of part; for a node of a pipeline, its block.
        kind: String,
    },
    /// Adds a copy of a part after it.
    Duplicate {
        /// The part.
        path: JsonPath,
    },
    /// Adds a part that was copied as text.
    Paste {
        /// The list.
        list: JsonPath,
        /// The position.
        at: usize,
        /// The text.
        text: String,
    },
    /// Connects two nodes.
    Connect {
        /// The node that the connection leaves.
        from: JsonPath,
        /// The node that it enters; `None` ends the graph.
        to: Option<JsonPath>,
    },
}

impl Edit {
    /// The paths that it names.
    fn list_paths(&self) -> impl Iterator<Item = &JsonPath> {
        let (first, second) = match self {
            Edit::Set { path, .. }
            | Edit::Remove { path }
            | Edit::RenameKey { path, .. }
            | Edit::Rename { path, .. }
            | Edit::Move { path, .. }
            | Edit::Add { list: path, .. }
            | Edit::Duplicate { path }
            | Edit::Paste { list: path, .. } => (path, None),
            Edit::Connect { from, to } => (from, to.as_ref()),
        };
        [Some(first), second].into_iter().flatten()
    }
}

/// The surroundings of a change.
#[derive(Clone, Copy, Debug)]
pub struct EditEnv<'a> {
    /// The format.
    pub format: Format,
    /// The path of the file.
    pub file: &'a str,
    /// The blocks that a pipeline can use in addition to its own.
    pub blocks: &'a [Value],
    /// The model of new actions.
    pub model: &'a str,
}

/// A text in which a new part is written.
#[derive(Clone, Debug)]
pub struct EditContext<'a> {
    /// Its index.
    pub index: Index,
    /// Its tree, if it is JSON.
    pub tree: Option<&'a Node>,
    /// The blocks in addition to its own.
    pub blocks: &'a [Value],
    /// The model of new actions.
    pub model: &'a str,
}

/// The result of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: String,
    /// The part that was added or moved last.
    pub part: Option<JsonPath>,
}

/// Applies changes one after another. Fails at the first change whose path is too deep or names nothing, or whose
/// result cannot be read; no change is kept then.
pub fn apply_edits(env: EditEnv<'_>, text: &str, edits: &[Edit]) -> Result<Edited, BuildError> {
    let mut edited = Edited { text: text.to_owned(), part: None };
    for edit in edits {
        if edit.list_paths().any(|path| path.len() > MAX_DEPTH) {
            return Err(BuildError::DeepPath);
        }
        let next = match env.format {
            markdown::FORMAT => read_within_limits(&edited.text, || edit_markdown(env, &edited.text, edit))
                .map_err(BuildError::Unreadable)??,
            _ => edit_json(env, edited.text, edit)?,
        };
        edited = Edited { part: next.part.or(edited.part), text: next.text };
    }
    Ok(edited)
}

fn edit_markdown(env: EditEnv<'_>, text: &str, edit: &Edit) -> Result<Edited, BuildError> {
    let mut document = MarkdownText { text: text.to_owned() };
    let mut part = None;
    match edit {
        Edit::Set { path, value } => document.set_value(path, value)?,
        Edit::Remove { path } => document.remove(path)?,
        Edit::RenameKey { path, to } => document.rename_key(path, to)?,
        Edit::Rename { path, to } => document.text = rename_declared(env, &document.text, path, to)?,
        Edit::Move { path, to } => part = document.move_action(path, *to)?,
        Edit::Add { list, at, kind } => {
            let index = Index::new(Arc::from(document.text.as_str()), env.format);
            let context = EditContext { index, tree: None, blocks: env.blocks, model: env.model };
            let block = new_action(kind, &context).ok_or_else(|| BuildError::UnknownKind(kind.clone()))?;
            part = document.insert_action(list, *at, &block)?;
        }
        Edit::Duplicate { path } => {
            let block = free_results(env, &document.text, &document.copy_action(path)?);
            let (list, at) = document.find_position(path)?;
            part = document.insert_action(&list, at + 1, &block)?;
        }
        Edit::Paste { list, at, text } => {
            if super::markdown_parts::Actions::read(text).actions.is_empty() {
                return Err(BuildError::Paste("it has no action".to_owned()));
            }
            let block = free_results(env, &document.text, text);
            part = document.insert_action(list, *at, &block)?;
        }
        Edit::Connect { .. } => return Err(BuildError::Connection("actions run in their order".to_owned())),
    }
    Ok(Edited { text: document.text, part })
}

/// Actions whose results have names that no other result has.
fn free_results(env: EditEnv<'_>, text: &str, block: &str) -> String {
    let index = Index::new(Arc::from(text), env.format);
    super::markdown_edit::rename_results(block, TakenNames::of_kind(&index, NameKind::Variable))
}

fn edit_json(env: EditEnv<'_>, text: String, edit: &Edit) -> Result<Edited, BuildError> {
    let mut document = JsonText::read(text)?;
    let mut part = None;
    match edit {
        Edit::Set { path, value } => document.set_value(path, value)?,
        Edit::Remove { path } => remove_part(env.format, &mut document, path)?,
        Edit::RenameKey { path, to } => block_fields::rename_key(env.format, &mut document, path, to)?,
        Edit::Rename { path, to } => {
            let text = rename_declared(env, &document.text, path, to)?;
            return Ok(Edited { text, part: None });
        }
        Edit::Move { path, to } => {
            let (_, parent) = path.split_last().ok_or_else(|| BuildError::Nothing(path.clone()))?;
            let to = (*to).min(count_items(&document, parent).saturating_sub(1));
            document.move_item(path, to)?;
            part = Some(join_step(parent, PathStep::Index(to)));
        }
        Edit::Add { list, at, kind } => {
            let path = resolve_list(env.format, &document, list);
            part = Some(join_step(&path, PathStep::Index(count_items(&document, &path).min(*at))));
            add_part(env, &mut document, &path, *at, kind)?;
        }
        Edit::Duplicate { path } => {
            let node = document.find(path).ok_or_else(|| BuildError::Nothing(path.clone()))?;
            let text = document.text[node.span.start..node.span.end()].to_owned();
            let Some((PathStep::Index(at), list)) = path.split_last() else {
                return Err(BuildError::Nothing(path.clone()));
            };
            part = Some(join_step(list, PathStep::Index(at + 1)));
            paste_part(env, &mut document, list, at + 1, &text)?;
        }
        Edit::Paste { list, at, text } => {
            let path = resolve_list(env.format, &document, list);
            part = Some(join_step(&path, PathStep::Index(count_items(&document, &path).min(*at))));
            paste_part(env, &mut document, &path, *at, text)?;
        }
        Edit::Connect { from, to } => connect::connect(env.format, &mut document, from, to.as_deref())?,
    }
    Ok(Edited { text: document.text, part })
}

/// The list that a name or a path means.
fn resolve_list(format: Format, document: &JsonText, list: &[PathStep]) -> JsonPath {
    match list {
        [PathStep::Key(name)] => {
            find_list(format, &document.tree, name).map_or_else(|| list.to_vec(), |list| list.path)
        }
        path => path.to_vec(),
    }
}

fn count_items(document: &JsonText, list: &[PathStep]) -> usize {
    document.find(list).and_then(Node::items).map_or(0, <[Node]>::len)
}

fn add_part(
    env: EditEnv<'_>,
    document: &mut JsonText,
    list: &[PathStep],
    at: usize,
    kind: &str,
) -> Result<(), BuildError> {
    let unknown = || BuildError::UnknownKind(kind.to_owned());
    let tree = document.tree.clone();
    let items = follow_path(&tree, list);
    let context = EditContext {
        index: Index::new(Arc::from(document.text.as_str()), env.format),
        tree: Some(&tree),
        blocks: env.blocks,
        model: env.model,
    };
    let name = find_lists(env.format, &tree).into_iter().find(|one| one.path == list).map(|one| one.name);
    let value = match (env.format, name) {
        (flowloom_formats::flow::FORMAT, _) => new_flow_step(kind, &context).ok_or_else(unknown)?,
        (steps::FORMAT, _) => new_list_step(kind, items).ok_or_else(unknown)?,
        (pipeline::FORMAT, Some(BLOCKS)) => new_block(kind, items).ok_or_else(unknown)?,
        (pipeline::FORMAT, Some(NODES)) => {
            let block = find_block(kind, &context);
            new_pipeline_node(kind, block.as_ref(), items)
        }
        (graph::FORMAT, Some(NODES)) => return add_graph_node(document, list, at, kind),
        _ => return Err(unknown()),
    };
    document.insert(list, at, &value)
}

/// Adds a node of a graph, with its agent, and as the entry if it is the first one.
fn add_graph_node(document: &mut JsonText, list: &[PathStep], at: usize, kind: &str) -> Result<(), BuildError> {
    let items = document.find(list);
    let is_first = items.and_then(Node::items).is_none_or(<[Node]>::is_empty);
    let (node, agent) = new_graph_node(kind, items).ok_or_else(|| BuildError::UnknownKind(kind.to_owned()))?;
    document.insert(list, at, &node)?;
    if let Some(agent) = agent
        && let Some(agents) = find_list(graph::FORMAT, &document.tree, AGENTS)
    {
        let end = count_items(document, &agents.path);
        document.insert(&agents.path, end, &agent)?;
    }
    if is_first {
        let root = find_root(graph::FORMAT, &document.tree);
        let key = choose_key(document.find(&root), ["entrypointNodeId", "entrypoint_node_id"]);
        document.set_value(&join_key(&root, key), node.get("id").unwrap_or(&Value::Null))?;
    }
    Ok(())
}

/// The keys that declare the name of a part, by format.
fn naming_keys(format: Format) -> &'static [&'static str] {
    match format {
        steps::FORMAT => &["name", "outputVar"],
        pipeline::FORMAT => &["id"],
        graph::FORMAT => &["id", "nodeName", "node_name"],
        _ => &[],
    }
}

/// Adds the text of a part. Names that are taken get a number.
fn paste_part(
    env: EditEnv<'_>,
    document: &mut JsonText,
    list: &[PathStep],
    at: usize,
    text: &str,
) -> Result<(), BuildError> {
    let mut copy = JsonText::read(text.to_owned()).map_err(|error| BuildError::Paste(error.to_string()))?;
    if copy.tree.entries().is_empty() {
        return Err(BuildError::Paste("it is not an object".to_owned()));
    }
    check_pasted(env.format, &copy.tree)?;
    let rename = |copy: &mut JsonText, path: &[&str], taken: &TakenNames| -> Result<(), BuildError> {
        let path = super::key_path(path);
        let Some(name) = copy.find(&path).and_then(Node::as_str).map(str::to_owned) else { return Ok(()) };
        copy.set_value(&path, &taken.find_free(&name, "_").into())
    };
    for key in naming_keys(env.format) {
        rename(&mut copy, &[key], &TakenNames::of_items(document.find(list), key))?;
    }
    if env.format == flowloom_formats::flow::FORMAT {
        let index = Index::new(Arc::from(document.text.as_str()), env.format);
        let taken = TakenNames::of_kind(&index, NameKind::Variable);
        for key in ["resultVariable", "responseVariable"] {
            rename(&mut copy, &["config", key], &taken)?;
        }
    }
    document.insert_text(list, at, &copy.text)
}

/// Fails if a value is no part of a format.
fn check_pasted(format: Format, value: &Node) -> Result<(), BuildError> {
    let (keys, name) = match format {
        flowloom_formats::flow::FORMAT => (&["type"][..], "a block has a \"type\""),
        steps::FORMAT => (&["functionId", "mode"][..], "a step has a \"functionId\" and a \"mode\""),
        _ => (&["id", "sourceNodeId", "source_node_id", "from"][..], "it has no \"id\""),
    };
    match keys.iter().any(|key| value.get(key).is_some()) {
        true => Ok(()),
        false => Err(BuildError::Paste(name.to_owned())),
    }
}

/// Removes a value; of a node, its connections, too.
fn remove_part(format: Format, document: &mut JsonText, path: &[PathStep]) -> Result<(), BuildError> {
    let parent = path.split_last().map(|(_, parent)| parent.to_vec()).unwrap_or_default();
    let lists = find_lists(format, &document.tree);
    let is_node = lists.iter().any(|list| list.name == NODES && list.path == parent);
    let node = document.find(path).filter(|_| is_node);
    let id = node.and_then(|node| read_text(node, &["id"])).map(str::to_owned);
    document.remove(path)?;
    match id {
        Some(id) => connect::disconnect_all(format, document, &id),
        None => Ok(()),
    }
}

/// Gives what the value at a path declares another name, everywhere in the text.
fn rename_declared(env: EditEnv<'_>, text: &str, path: &[PathStep], to: &str) -> Result<String, BuildError> {
    let none = std::iter::empty();
    let definition = Definition::new(env.file, Arc::from(text), env.format, none);
    let start = find_declaration(env.format, text, path)?;
    let found = definition.main().index.find_names(start).find(|name| name.kind.can_be_renamed() && name.is_origin());
    let name: Name = found.cloned().ok_or_else(|| BuildError::Nothing(path.to_vec()))?;
    let mut changes = rename(&definition, &name, to).map_err(BuildError::Name)?;
    changes.sort_by_key(|change| std::cmp::Reverse(change.span.start));
    let mut new = text.to_owned();
    for change in changes {
        new.replace_range(change.span.start..change.span.end(), &change.text);
    }
    Ok(new)
}

/// The first byte of the name that the value at a path declares.
fn find_declaration(format: Format, text: &str, path: &[PathStep]) -> Result<usize, BuildError> {
    let nothing = || BuildError::Nothing(path.to_vec());
    if format != markdown::FORMAT {
        let document = JsonText::read(text.to_owned())?;
        let node = document.find(path).ok_or_else(nothing)?;
        return Ok(inner_span(text, node).start);
    }
    let [PathStep::Key(_), PathStep::Index(action), PathStep::Key(name)] = path else { return Err(nothing()) };
    let actions = super::markdown_parts::Actions::read(text);
    if *action >= actions.actions.len() {
        return Err(nothing());
    }
    let attribute = actions.element(*action).attributes.iter().find(|attribute| attribute.name == *name);
    Ok(attribute.and_then(|attribute| attribute.value).ok_or_else(nothing)?.start)
}
