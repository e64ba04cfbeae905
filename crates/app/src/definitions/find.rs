//! Finds the definitions of a folder: all of them, or the one with a name.

use std::path::{Path, PathBuf};

use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::json::parse_value;
use flowloom_core::plan::Plan;
use flowloom_formats::is_test;
use flowloom_formats::pipeline::WRAPPER_KEYS;

use super::error::DefinitionError;
use super::folder::{derive_file_id, find_definition_id, find_shared_ids, has_definition_extension, list_files};
use super::found::{is_definition, is_foreign};
use super::included::{ReadFile, find_included, is_text};
use super::missing_file::find_similar_file;
use super::reader::{MAX_TEST_BYTES, read_bounded_text};
use super::source::{LoadedDefinition, Loader, STDIN_PATH, resolve_entry};
use crate::config::Config;
use crate::folders::name_folder;

/// A file of a folder, as it was read.
pub struct FoundFile {
    /// Its id, as a server calls it.
    pub id: String,
    /// Its path relative to the folder.
    pub file: PathBuf,
    /// Its definition.
    pub source: LoadedDefinition,
}

/// The files of a folder that look like definitions, by path. Tests of workflows do not.
#[derive(Default)]
pub struct FolderContent {
    /// The definitions, also broken ones.
    pub definitions: Vec<FoundFile>,
    /// Texts that a definition of the folder includes. They are checked where they are included.
    pub included: Vec<FoundFile>,
    /// The paths of files in no known format.
    pub others: Vec<PathBuf>,
}

/// Reads and compiles the files of a folder.
pub fn find_definitions(folder: &Path, loader: &Loader<'_>) -> FolderContent {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for path in sorted_files(folder) {
        let source = loader.compile(&path);
        if is_foreign(&source.compiled) && is_test(&String::from_utf8_lossy(source.bytes())) {
            continue;
        }
        if !is_definition(&path, &source, loader.config) {
            others.push(path);
        } else {
            let file = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            let id = find_definition_id(source.compiled.plan.as_ref(), folder, &path);
            found.push(FoundFile { id, file, source });
        }
    }
    let (included, mut definitions) = separate_included(found, loader.config);
    report_shared_ids(&mut definitions);
    FolderContent { definitions, included, others }
}

/// Separates texts that another definition includes from the definitions, which come second.
fn separate_included(found: Vec<FoundFile>, config: &Config) -> (Vec<FoundFile>, Vec<FoundFile>) {
    let read = |FoundFile { source, .. }: &FoundFile| {
        let is_text = is_text(source.compiled.format, source.bytes(), config);
        ReadFile::new(Path::new(source.name()), source.files().keys().map(Path::new), is_text)
    };
    let included = find_included(&found.iter().map(read).collect::<Vec<_>>());
    let (texts, definitions): (Vec<_>, Vec<_>) =
        found.into_iter().zip(included).partition(|(_, is_included)| *is_included);
    let take_files = |files: Vec<(FoundFile, bool)>| files.into_iter().map(|(file, _)| file).collect();
    (take_files(texts), take_files(definitions))
}

/// Adds an error to each definition that shares its id with another one, as a server does.
fn report_shared_ids(found: &mut [FoundFile]) {
    let items: Vec<(&str, &str)> = found.iter().map(|file| (file.id.as_str(), file.source.name())).collect();
    for (index, problem) in find_shared_ids(&items) {
        found[index].source.compiled.diagnostics.push(problem);
    }
}

/// The definition that a person means: the file or folder at a path, or the workflow of the project with this file name or
/// id. Fails with the nearest names if there is none, or with all if there are several.
pub fn find_named(config: &Config, named: &Path) -> Result<PathBuf, DefinitionError> {
    let root = &*config.project.root;
    let name = named.display().to_string();
    let is_name = named.components().count() == 1 && !has_definition_extension(named);
    if named.exists() || !is_name || name == STDIN_PATH {
        return Ok(named.to_owned());
    }
    let files = sorted_files(root);
    let id = |path: &PathBuf| derive_file_id(root, path);
    if let Some(file) = files.iter().find(|file| id(file) == name) {
        return Ok(file.clone());
    }
    let mut broken = None;
    for file in &files {
        match find_id_origin(config, file, &name) {
            Some(IdOrigin::Plan) => return Ok(file.clone()),
            Some(IdOrigin::Text) => broken = broken.or(Some(file)),
            None => {}
        }
    }
    if let Some(file) = broken {
        return Ok(file.clone());
    }
    let has_name = |file: &&PathBuf| file.file_stem().is_some_and(|stem| stem.to_string_lossy() == name);
    let mut fitting: Vec<&PathBuf> = files.iter().filter(has_name).filter(|file| !is_test_file(file)).collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(file), true) => Ok(file.clone()),
        (Some(file), false) => {
            fitting.push(file);
            Err(DefinitionError::Ambiguous { name, ids: fitting.into_iter().map(id).collect() })
        }
        (None, _) => {
            let ids: Vec<String> = files.iter().map(id).collect();
            let similar = find_similar_name(&name, ids.iter().map(String::as_str)).map(str::to_owned);
            let meant = similar.or_else(|| find_similar_file(named));
            Err(DefinitionError::NotInProject { name, meant })
        }
    }
}

/// Like [`find_named`], but a folder names the one definition in it. Fails if it has none or several.
pub fn find_definition(config: &Config, named: &Path) -> Result<PathBuf, DefinitionError> {
    let path = find_named(config, named)?;
    if !path.is_dir() || resolve_entry(&path) != path {
        return Ok(path);
    }
    let found = find_definitions(&path, &Loader::new(config)).definitions;
    let mut files: Vec<PathBuf> = found.into_iter().map(|found| path.join(found.file)).collect();
    match (files.pop(), files.is_empty()) {
        (None, _) => Err(DefinitionError::EmptyFolder(path)),
        (Some(file), true) => Ok(file),
        (Some(file), false) => {
            files.push(file);
            Err(DefinitionError::SeveralInFolder { folder: path, files })
        }
    }
}

/// The id of the workflow in a project that has this file name or id, as servers and runs call it; `None` if there is none.
pub fn find_workflow_id(config: &Config, name: &str) -> Option<String> {
    let file = find_named(config, Path::new(name)).ok().filter(|file| file.is_file())?;
    if find_id_origin(config, &file, name).is_some() {
        return Some(name.to_owned());
    }
    let plan = Loader::new(config).compile(&file).compiled.plan;
    name_workflow(config, &file, plan.as_ref())
}

/// The id with which servers and runs call the workflow in a file of a project; `None` if the file is not in the project.
pub fn name_workflow(config: &Config, file: &Path, plan: Option<&Plan>) -> Option<String> {
    let place = config.project.describe_below(file);
    let is_inside = !place.is_empty() && Path::new(&place).is_relative();
    is_inside.then(|| find_definition_id(plan, Path::new(""), Path::new(&place)))
}

/// The name of the conversation with a file: the id with which a server calls it, so that both continue the same one. If
/// another file of the project has the same id, the path is a part of the name.
pub fn name_conversation(config: &Config, file: &Path, plan: &Plan) -> String {
    let place = config.project.describe_below(file);
    let id = find_definition_id(Some(plan), Path::new(""), Path::new(&place));
    let root = &*config.project.root;
    let has_same_id = |other: &PathBuf| {
        let is_same = derive_file_id(root, other) == id || find_id_origin(config, other, &id) == Some(IdOrigin::Plan);
        is_same && config.project.describe_below(other) != place
    };
    match sorted_files(root).iter().filter(|other| *other != file).any(has_same_id) {
        true => format!("{id}/{place}"),
        false => id,
    }
}

/// Where the id of a definition was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdOrigin {
    /// In its plan.
    Plan,
    /// In its text, because it has errors. They are shown under its id.
    Text,
}

/// Where a file gives itself the id `id`; `None` if it does not. Only a file whose text has it is compiled.
fn find_id_origin(config: &Config, file: &Path, id: &str) -> Option<IdOrigin> {
    let text = read_bounded_text(file, config.limits.source_bytes).ok().filter(|text| text.contains(id))?;
    if is_test(&text) {
        return None;
    }
    let compiled = Loader::new(config).compile(file).compiled;
    if let Some(plan) = compiled.plan {
        return (plan.id.as_deref() == Some(id)).then_some(IdOrigin::Plan);
    }
    (!is_foreign(&compiled) && find_written_id(&text).as_deref() == Some(id)).then_some(IdOrigin::Text)
}

/// The id in the text of a definition.
fn find_written_id(text: &str) -> Option<String> {
    let whole = parse_value(text).ok()?;
    let definition = WRAPPER_KEYS.iter().find_map(|key| whole.get(key)).unwrap_or(&whole);
    ["id", "uuid"].iter().find_map(|key| definition.get(key)?.as_str().map(str::to_owned))
}

fn is_test_file(path: &Path) -> bool {
    read_bounded_text(path, MAX_TEST_BYTES).is_ok_and(|text| is_test(&text))
}

fn sorted_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = list_files(name_folder(folder));
    files.sort_unstable();
    files.into_iter().map(|file| file.strip_prefix(".").map(Path::to_owned).unwrap_or(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_included_is_no_workflow() {
        let place = tempfile::tempdir().expect("a folder");
        let config = Config::load(crate::config::Overrides::default()).expect("the defaults");
        let action = "\n\n<GenText as=\"t\" model=\"m:x\" />\n";
        let files = [
            ("a.mdx", format!("---\ninput:\n  audience: {{type: text}}\n---\n\n{{include('house')}}{action}")),
            ("house.mdx", "Be kind to {audience}. {include('prompts/tone')}\n".to_owned()),
            ("prompts/tone.mdx", "Be brief.\n".to_owned()),
            // These are workflows, even if another definition includes them.
            ("both.mdx", format!("Hi{action}")),
            ("b.mdx", format!("{{include('both')}}{action}")),
            ("ring1.mdx", "{include('ring2')}\n".to_owned()),
            ("ring2.mdx", "{include('ring1')}\n".to_owned()),
            ("alone.mdx", "Be kind to {nobody}.\n".to_owned()),
        ];
        std::fs::create_dir(place.path().join("prompts")).expect("created");
        for (name, text) in files {
            std::fs::write(place.path().join(name), text).expect("written");
        }
        let content = find_definitions(place.path(), &Loader::new(&config));
        let list_names =
            |found: &[FoundFile]| found.iter().map(|file| file.file.display().to_string()).collect::<Vec<_>>();
        let definitions = ["a.mdx", "alone.mdx", "b.mdx", "both.mdx", "ring1.mdx", "ring2.mdx"];
        assert_eq!(list_names(&content.definitions), definitions);
        assert_eq!(list_names(&content.included), ["house.mdx", "prompts/tone.mdx"]);
        assert_eq!(content.others, Vec::<PathBuf>::new());
        let found = content.definitions;
        assert!(found[0].source.compiled.plan.is_some(), "{:?}", found[0].source.compiled.diagnostics);
    }

    #[test]
    fn a_workflow_is_found_by_path_id_and_file_name() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path();
        for file in ["poem.json", "flow/weather.json", "flow/twin.json", "steps/twin.json"] {
            std::fs::create_dir_all(root.join(file).parent().expect("a folder")).expect("created");
            std::fs::write(root.join(file), "{}").expect("written");
        }
        std::fs::create_dir(root.join("tests")).expect("created");
        std::fs::write(root.join("tests/weather.json"), r#"{"definition": "x", "expect": {}}"#).expect("written");
        std::fs::write(root.join("g.json"), r#"{"id": "gg", "name": "G", "steps": []}"#).expect("written");
        let mut config = Config::load(crate::config::Overrides::default()).expect("the defaults");
        config.project.root = root.to_owned();
        let find = |name: &str| find_named(&config, Path::new(name)).map_err(|error| error.to_string());
        assert_eq!(find("g"), Ok(root.join("g.json")));
        assert_eq!(find("gg"), Ok(root.join("g.json")), "the id that the file gives itself");
        std::fs::write(root.join("bad.json"), r#"{"id": "broken", "nodes": [{"id": 1}], "edges": 7}"#)
            .expect("written");
        assert_eq!(find("broken"), Ok(root.join("bad.json")), "its errors are shown under its id");
        std::fs::write(root.join("bad.json"), r#"{"id": "gg", "rows": [{"id": 1}]}"#).expect("written");
        assert_eq!(find("gg"), Ok(root.join("g.json")), "data of other programs is no definition");
        std::fs::remove_file(root.join("bad.json")).expect("removed");
        assert_eq!(find_workflow_id(&config, "g").as_deref(), Some("gg"));
        assert_eq!(find_definitions(root, &Loader::new(&config)).definitions[0].id, "gg");
        assert_eq!(find("poem"), Ok(root.join("poem.json")));
        assert_eq!(find("flow.weather"), Ok(root.join("flow/weather.json")), "an id has an extension, too");
        assert_eq!(find("weather"), Ok(root.join("flow/weather.json")));
        let in_folder = |name: &str| {
            find_definition(&config, &root.join(name))
                .map_err(|error| error.to_string().replace(&root.display().to_string(), "R"))
        };
        std::fs::create_dir(root.join("empty")).expect("created");
        std::fs::create_dir(root.join("one")).expect("created");
        std::fs::write(root.join("one/x.json"), r#"{"name": "X", "steps": []}"#).expect("written");
        std::fs::create_dir(root.join("two")).expect("created");
        for file in ["two/x.json", "two/y.json"] {
            std::fs::write(root.join(file), r#"{"name": "X", "steps": []}"#).expect("written");
        }
        assert_eq!(in_folder("one"), Ok(root.join("one/x.json")));
        assert_eq!(in_folder("empty").expect_err("none"), "there are no workflows in R/empty");
        let several = "the folder R/two has 2 workflows; name one of them: R/two/x.json, R/two/y.json";
        assert_eq!(in_folder("two").expect_err("several"), several);
        assert_eq!(find("twin").expect_err("two"), "twin fits several workflows: flow.twin, steps.twin");
        assert_eq!(find("peom").expect_err("misspelt"), "there is no file or workflow peom; did you mean poem?");
        assert_eq!(
            find("lost/peom.json"),
            Ok(PathBuf::from("lost/peom.json")),
            "reading it reports that it is missing"
        );
    }
}
