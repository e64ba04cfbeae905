//! A definition with all its files, and the places of one name in all of them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use flowloom_core::diagnostic::Span;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{graph, markdown, pipeline};

use super::field_reads::BlockResults;
use super::index::Index;
use super::json_names::{COUNTER_NAME, FANOUT_NAME, list_given_names};
use super::names::{Name, NameKind, Role, ValueField};

/// The names of an included file that are its own have scopes from here on, in steps of this size.
const SCOPES_PER_FILE: usize = 1 << 20;

/// A definition with its files.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The files; the definition itself is the first one.
    pub files: Vec<IndexedFile>,
    /// The results of the blocks of a Markdown workflow.
    pub block_results: BlockResults,
    /// Where each name is; computed on the first request.
    places: OnceLock<PlaceIndex>,
}

/// The positions of names, by their kinds and texts.
#[derive(Clone, Debug, Default)]
struct PlaceIndex(HashMap<NameKind, HashMap<String, Vec<NamePosition>>>);

/// The position of a name in a definition.
#[derive(Clone, Copy, Debug)]
struct NamePosition {
    file: usize,
    name: usize,
}

/// A file of a definition.
#[derive(Clone, Debug)]
pub struct IndexedFile {
    /// Its path.
    pub path: String,
    /// Its index. The scopes of its names count for the whole definition.
    pub index: Index,
    scopes: ScopeShift,
}

/// The scopes of a file in the definition.
#[derive(Clone, Copy, Debug, Default)]
struct ScopeShift {
    /// The scope of the place where the file is included.
    outer: usize,
    /// The names that are added to the scopes of its blocks.
    inner: usize,
}

impl ScopeShift {
    fn shift_scope(self, scope: usize) -> usize {
        if scope == 0 { self.outer } else { scope + self.inner }
    }
}

/// A place in a file of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace<'d> {
    /// The file.
    pub file: &'d IndexedFile,
    /// The name there.
    pub name: &'d Name,
}

impl PartialEq for IndexedFile {
    fn eq(&self, other: &IndexedFile) -> bool {
        self.path == other.path
    }
}

impl Eq for IndexedFile {}

impl Definition {
    /// The definition at `entry` in `format`, with the other `files` that were read for it.
    pub fn new<'f>(
        entry: &str,
        text: Arc<str>,
        format: Format,
        files: impl Iterator<Item = (&'f String, &'f Arc<str>)>,
    ) -> Definition {
        let main = Index::new(text, format);
        let mut all = vec![IndexedFile { path: entry.to_owned(), index: main, scopes: ScopeShift::default() }];
        for (path, text) in files.filter(|(path, _)| *path != entry) {
            let index = match format {
                markdown::FORMAT => Index::of_markdown(text.clone()),
                pipeline::FORMAT if is_in_folder(path, "blocks") => Index::of_block(text.clone()),
                graph::FORMAT if path.ends_with(graph::AGENT_SETTINGS_FILE) => Index::of_agent(text.clone(), path),
                _ => continue,
            };
            all.push(IndexedFile { path: path.clone(), index, scopes: ScopeShift::default() });
        }
        let mut definition = Definition { files: all, block_results: BlockResults::default(), places: OnceLock::new() };
        definition.join_scopes();
        definition.add_field_reads();
        definition
    }

    /// Adds another definition of the same folder, with the names that both share: those of agents and blocks, which are files
    /// next to them.
    pub fn add_neighbour(&mut self, path: &str, text: Arc<str>, format: Format) {
        let mut index = Index::new(text, format);
        index.names.retain(|name| matches!(name.kind, NameKind::Agent | NameKind::Block) && name.role == Role::Read);
        self.files.push(IndexedFile { path: path.to_owned(), index, scopes: ScopeShift::default() });
        self.places = OnceLock::new();
    }

    /// Gives the names of other files the scopes that they have in the definition.
    fn join_scopes(&mut self) {
        let includes: Vec<(String, usize)> =
            self.files.iter().flat_map(|file| file.index.includes.iter().cloned()).collect();
        for (position, file) in self.files.iter_mut().enumerate().skip(1) {
            let stem = Path::new(&file.path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let found = includes
                .iter()
                .find(|(path, _)| Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()) == stem);
            let outer = found.map_or(0, |(_, scope)| *scope);
            file.scopes = ScopeShift { outer, inner: position * SCOPES_PER_FILE };
            let scopes = file.scopes;
            file.index.names.iter_mut().for_each(|name| name.scope = scopes.shift_scope(name.scope));
            file.index.fields.reads.iter_mut().for_each(|read| read.scope = scopes.shift_scope(read.scope));
            for block in &mut file.index.fields.blocks {
                block.scope = scopes.shift_scope(block.scope);
                block.inner = scopes.shift_scope(block.inner);
            }
        }
    }

    /// Adds the results inside of blocks that are read as fields of the results of these blocks.
    fn add_field_reads(&mut self) {
        let mut results =
            BlockResults::new(self.files.iter().flat_map(|file| file.index.fields.blocks.iter().cloned()));
        for file in &mut self.files {
            let index = &mut file.index;
            index.names.extend(index.fields.reads.iter().flat_map(|read| results.find_names(read)));
            index.names.sort_by_key(|name| (name.span.start, name.role));
        }
        self.block_results = results;
    }

    /// The file at a path.
    pub fn find_file(&self, path: &str) -> Option<&IndexedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The definition itself.
    pub fn main(&self) -> &IndexedFile {
        &self.files[0]
    }

    /// Every place of a name, in the order of the files.
    pub fn find_places<'d>(&'d self, wanted: &'d Name) -> impl Iterator<Item = FilePlace<'d>> {
        let positions = self.places.get_or_init(|| self.index_places()).find_positions(wanted);
        let places = positions.iter().map(|position| {
            let file = &self.files[position.file];
            FilePlace { file, name: &file.index.names[position.name] }
        });
        places.filter(move |place| place.name.is_same(wanted))
    }

    fn index_places(&self) -> PlaceIndex {
        let mut places = PlaceIndex::default();
        for (file, indexed) in self.files.iter().enumerate() {
            for (name, found) in indexed.index.names.iter().enumerate() {
                let of_kind = places.0.entry(found.kind).or_default();
                of_kind.entry(found.text.clone()).or_default().push(NamePosition { file, name });
            }
        }
        places
    }

    /// The places where a name gets its meaning.
    pub fn find_origins<'d>(&'d self, wanted: &'d Name) -> impl Iterator<Item = FilePlace<'d>> {
        self.find_places(wanted).filter(|place| place.name.is_origin())
    }

    /// The most informative declaration of a name.
    pub fn find_origin<'d>(&'d self, wanted: &'d Name) -> Option<&'d Name> {
        let mut origins = self.find_origins(wanted).map(|place| place.name);
        let first = origins.next()?;
        Some(std::iter::once(first).chain(origins).find(|name| !name.about.origin.is_empty()).unwrap_or(first))
    }

    fn all_names(&self) -> impl Iterator<Item = FilePlace<'_>> {
        self.files.iter().flat_map(|file| file.index.names.iter().map(move |name| FilePlace { file, name }))
    }

    /// The names of a kind that can be used at a position of a file, each once, with the most informative declaration.
    pub fn list_visible(&self, file: &IndexedFile, offset: usize, kind: NameKind) -> Vec<Name> {
        let scope = file.scopes.shift_scope(file.index.find_scope(offset));
        let is_main = file == self.main();
        // A step sees what steps before it have set.
        let limit = file.index.find_step(offset).map_or(offset, |step| step.first);
        let is_above = |place: &FilePlace<'_>| {
            !is_main || place.file != file || !file.index.is_sequential() || place.name.span.end() < limit
        };
        let mut visible: Vec<Name> = Vec::new();
        let mut seen = HashSet::new();
        let known = self.all_names().filter(|place| place.name.kind == kind && place.name.is_origin());
        for place in known.filter(|place| place.name.scope == scope).filter(is_above) {
            if seen.insert(place.name.text.as_str()) {
                visible.push(self.find_origin(place.name).unwrap_or(place.name).clone());
            }
        }
        if let (NameKind::Variable, Some(format)) = (kind, self.main().index.format) {
            let step = file.index.find_step(offset);
            let is_given = |name: &Name| match name.text.as_str() {
                COUNTER_NAME => step.is_some_and(|step| step.is_loop),
                FANOUT_NAME => step.is_some_and(|step| step.follows_fan_out),
                _ => true,
            };
            visible.extend(list_given_names(format).into_iter().filter(is_given));
        }
        visible
    }

    /// The fields that a name's value has, if they are known.
    pub fn list_fields(&self, name: &Name) -> Vec<ValueField> {
        let Some(origin) = self.find_origin(name) else { return Vec::new() };
        if !origin.about.fields.is_empty() || name.kind != NameKind::Node {
            return origin.about.fields.clone();
        }
        // A node has the fields of its block, which may be in a file of its own.
        let block = origin.about.origin.rsplit(' ').next().unwrap_or_default();
        let wanted = Name::new(NameKind::Block, block, Span::default(), Role::Read);
        let own = self.find_origins(&wanted).map(|place| place.name.about.fields.clone()).next();
        own.unwrap_or_else(|| list_built_in_fields(block))
    }
}

impl PlaceIndex {
    /// The positions of names with the same kind and text.
    fn find_positions(&self, wanted: &Name) -> &[NamePosition] {
        self.0.get(&wanted.kind).and_then(|of_kind| of_kind.get(&wanted.text)).map_or(&[], Vec::as_slice)
    }
}

/// Whether a file is directly in a folder of this name.
fn is_in_folder(path: &str, folder: &str) -> bool {
    Path::new(path).parent().and_then(Path::file_name).is_some_and(|name| name == folder)
}

/// The fields of a built-in block's output.
fn list_built_in_fields(block: &str) -> Vec<ValueField> {
    let is_meant = |one: &&Value| one.get("id").and_then(Value::as_str) == Some(block);
    let found = pipeline::built_in_blocks().iter().find(is_meant);
    let properties = found.and_then(|block| block.get("output_schema")?.get("properties")?.as_map());
    let fields = properties.map(|all| all.iter().map(|(name, schema)| ValueField::of_schema(name, schema)).collect());
    fields.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flowloom_formats::find_format;

    use super::*;

    #[test]
    fn the_fields_of_a_node_have_the_types_that_its_block_declares() {
        let text = r#"{"id": "p", "nodes": [{"id": "n1", "block_id": "count"}, {"id": "n2", "block_id": "web_search"}], "edges": [],
            "blocks": [{"id": "count", "output_schema": {"type": "object", "properties": {
                "total": {"type": "integer", "description": "How many"}, "rest": {}}}}]}"#;
        let format = find_format("pipeline").expect("a format");
        let definition = Definition::new("p.json", text.into(), format, std::iter::empty());
        let fields_of = |node| definition.list_fields(&Name::new(NameKind::Node, node, Span::default(), Role::Read));
        let own = fields_of("n1");
        assert_eq!(
            own,
            [
                ValueField { type_name: "integer".into(), description: "How many".into(), ..ValueField::new("total") },
                ValueField::new("rest"),
            ]
        );
        let built_in = fields_of("n2");
        assert!(!built_in.is_empty() && built_in.iter().all(|field| !field.type_name.is_empty()), "{built_in:?}");
    }
}
