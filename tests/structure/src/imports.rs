//! Import cycles between the files of one crate.
//!
//! A file imports another if one of its `use` items or qualified paths leads there, also if the path begins with the name of
//! a submodule; names that a module re-exports lead to the file that declares them. A module's re-exports of its own submodules are not counted: they are how a module is put together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::source::{ProductFile, read_product_files, split_list};

/// The files of a crate by module path (`["plan", "parts"]`), with what each imports.
pub struct Imports {
    files: BTreeMap<Vec<String>, ProductFile>,
    /// Names that a module re-exports, with the path that each comes from.
    reexports: BTreeMap<Vec<String>, Vec<(String, Vec<String>)>>,
}

impl Imports {
    /// Reads the sources of `crates/NAME`.
    pub fn read(name: &str) -> Imports {
        let folder = format!("crates/{name}/src");
        let files: BTreeMap<_, _> = read_product_files(&[&folder])
            .into_iter()
            .filter(|file| !file.path.contains("/src/bin/"))
            .map(|file| (module_path(&file.path, &folder), file))
            .collect();
        let reexports =
            files.iter().map(|(module, file)| (module.clone(), reexported_names(module, &file.code))).collect();
        Imports { files, reexports }
    }

    /// Cycles of more than one file, each as the sorted paths of its files.
    pub fn find_cycles(&self) -> Vec<Vec<String>> {
        let edges: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
            self.files.iter().map(|(module, file)| (module, self.imports_of(module, file))).collect();
        let reachable: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
            edges.keys().map(|module| (*module, reachable_from(module, &edges))).collect();
        let mut cycles = Vec::new();
        let mut seen = BTreeSet::new();
        for module in edges.keys() {
            let cycle: BTreeSet<&Vec<String>> =
                reachable[module].iter().filter(|other| reachable[**other].contains(module)).copied().collect();
            if cycle.len() > 1 && seen.insert(cycle.clone()) {
                cycles.push(cycle.iter().map(|module| self.files[*module].path.clone()).collect());
            }
        }
        cycles
    }

    /// The modules of the crate's root that each of them uses, in the order of their names.
    pub fn root_imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, file) in &self.files {
            let Some(root) = module.first() else { continue };
            let others = self.imports_of(module, file).into_iter().filter_map(|other| other.into_iter().next());
            used.entry(root.clone()).or_default().extend(others.filter(|other| other != root));
        }
        used
    }

    fn imports_of(&self, module: &[String], file: &ProductFile) -> BTreeSet<Vec<String>> {
        let paths = imported_paths(&file.code).into_iter().chain(self.child_paths(module, &file.code));
        let used = paths.filter_map(|path| self.absolute_path(module, &path));
        let mut found: BTreeSet<Vec<String>> = used.filter_map(|path| self.declaring_module(&path, 0)).collect();
        found.remove(module);
        found
    }

    /// The paths in the code of a module that begin with the name of one of its submodules. Its re-exports are none.
    fn child_paths(&self, module: &[String], code: &str) -> Vec<Vec<String>> {
        let is_child = |name: &str| {
            let child: Vec<String> = module.iter().cloned().chain([name.to_owned()]).collect();
            self.files.contains_key(&child)
        };
        qualified_paths(&blank_use_items(code)).into_iter().filter(|path| is_child(&path[0])).collect()
    }

    /// The path from the crate's root; `None` for paths into other crates.
    fn absolute_path(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => {
                let supers = path.iter().take_while(|part| *part == "super").count();
                let base = module.get(..module.len().checked_sub(supers)?)?;
                return Some(base.iter().chain(&path[supers..]).cloned().collect());
            }
            _ => {
                let child: Vec<String> = module.iter().chain([first]).cloned().collect();
                return self
                    .files
                    .contains_key(&child)
                    .then(|| child.into_iter().chain(rest.iter().cloned()).collect());
            }
        };
        Some(base.into_iter().chain(rest.iter().cloned()).collect())
    }

    /// The module that declares what a path names, through re-exports.
    fn declaring_module(&self, path: &[String], depth: usize) -> Option<Vec<String>> {
        let known = (0..=path.len()).rev().find(|count| self.files.contains_key(&path[..*count]))?;
        let module = &path[..known];
        let Some(name) = path.get(known) else { return Some(module.to_vec()) };
        let source = self.reexports[module].iter().find(|(exported, _)| exported == name);
        match source.and_then(|(_, from)| self.absolute_path(module, from)) {
            Some(from) if depth < MAX_REEXPORTS => self.declaring_module(&from, depth + 1),
            _ => Some(module.to_vec()),
        }
    }
}

/// Re-exports of re-exports that are followed.
const MAX_REEXPORTS: usize = 8;

fn reachable_from<'a>(
    start: &Vec<String>,
    edges: &'a BTreeMap<&'a Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<&'a Vec<String>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Vec<String>> = edges[start].iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&edges[next]);
        }
    }
    found
}

fn module_path(path: &str, folder: &str) -> Vec<String> {
    let inside = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Names that `pub use` and `pub(crate) use` items of a module bring out, with their paths.
fn reexported_names(_module: &[String], code: &str) -> Vec<(String, Vec<String>)> {
    let items = use_items(code).into_iter().filter(|(is_public, _)| *is_public);
    let paths = items.flat_map(|(_, tree)| expand_tree(&tree));
    paths.filter_map(|path| Some((path.last()?.clone(), path))).collect()
}

/// Every path that a file's code names: those of `use` items, and those that begin with `crate`, `super` or `self`.
fn imported_paths(code: &str) -> Vec<Vec<String>> {
    let private = use_items(code).into_iter().filter(|(is_public, _)| !is_public);
    let mut paths: Vec<Vec<String>> = private.flat_map(|(_, tree)| expand_tree(&tree)).collect();
    let is_local = |path: &Vec<String>| matches!(path[0].as_str(), "crate" | "super" | "self");
    paths.extend(qualified_paths(code).into_iter().filter(is_local));
    paths
}

/// Every path of two or more names in a code.
fn qualified_paths(code: &str) -> Vec<Vec<String>> {
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let parts = words.map(|word| word.split("::").map(str::to_owned).collect::<Vec<String>>());
    parts.filter(|path| path.len() > 1 && !path[0].is_empty()).collect()
}

/// The same code without its `use` items.
fn blank_use_items(code: &str) -> String {
    let mut rest = code.to_owned();
    for (_, tree) in use_spans(code) {
        rest.replace_range(tree.clone(), &" ".repeat(tree.len()));
    }
    rest
}

/// The trees of `use` items, with whether each is public.
fn use_items(code: &str) -> Vec<(bool, String)> {
    let spans = use_spans(code).into_iter();
    spans.map(|(is_public, tree)| (is_public, code[tree].split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

/// Where the trees of `use` items are, with whether each item is public.
fn use_spans(code: &str) -> Vec<(bool, Range<usize>)> {
    let mut items = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end();
        let is_item = before.is_empty() || before.ends_with([';', '}', '{', ']', ')']) || before.ends_with("pub");
        if is_item && let Some(end) = code[at..].find(';') {
            let is_public = before.ends_with("pub") || (before.ends_with(')') && before.contains("pub("));
            items.push((is_public, at + 4..at + end));
        }
    }
    items
}

/// The paths of a `use` tree; a renamed import keeps the name that it has at its origin.
fn expand_tree(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "*");
        return vec![parts.map(str::to_owned).collect()];
    };
    let prefix: Vec<String> =
        tree[..open].split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let branches = split_list(inside).into_iter().flat_map(expand_tree);
    branches
        .map(|branch| prefix.iter().cloned().chain(branch.into_iter().filter(|part| part != "self")).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_trees_are_expanded() {
        let paths = expand_tree("crate::{a::{self, B as C}, d::*}");
        let texts: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(texts, ["crate::a", "crate::a::B", "crate::d"]);
    }

    #[test]
    fn paths_are_found_and_use_items_are_no_part_of_them() {
        let code = "pub use child::Name;\nfn f() { child::g(a::b::<u8>::c); D::E }";
        let texts: Vec<String> = qualified_paths(&blank_use_items(code)).iter().map(|path| path.join("::")).collect();
        assert_eq!(texts, ["child::g", "a::b::", "D::E"]);
        assert_eq!(use_items(code), [(true, "child::Name".to_owned())]);
    }

    #[test]
    fn the_value_family_of_core_is_found_as_a_cycle() {
        let cycles = Imports::read("core").find_cycles();
        assert!(cycles.iter().any(|cycle| cycle.iter().any(|file| file.ends_with("core/src/value.rs"))), "{cycles:?}");
    }
}
