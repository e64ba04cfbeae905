//! Changes of definitions: any change of any known definition leaves a text that can be read, changes only what it names,
//! and its inverse restores the meaning. The definitions are the examples and the conformance cases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::json::{parse_node, parse_value};
use flowloom_core::plan::Format;
use flowloom_core::value::{Map, Value};
use flowloom_formats::{find_format, markdown, recognise};
use flowloom_lsp::analysis::json_place::{JsonPath, PathStep};
use flowloom_lsp::analysis::json_tree::parse_tolerant;
use flowloom_lsp::builder::edit::EditEnv;
use flowloom_lsp::builder::inspect::Part;
use flowloom_lsp::builder::json_edit::JsonText;
use flowloom_lsp::builder::{Edit, Inspection, apply_edits, inspect_definition};

/// A definition of a file.
struct Case {
    name: String,
    format: Format,
    text: String,
}

impl Case {
    fn edit_env(&self) -> EditEnv<'_> {
        EditEnv { format: self.format, file: "definition", blocks: &[], model: "house:small" }
    }

    fn inspect(&self, text: &str) -> Inspection {
        let inspection = inspect_definition(self.edit_env(), text);
        assert_eq!(inspection.problem, None, "{}:\n{text}", self.name);
        inspection
    }

    fn edit(&self, text: &str, edit: &Edit) -> String {
        match apply_edits(self.edit_env(), text, std::slice::from_ref(edit)) {
            Ok(edited) => edited.text,
            Err(error) => panic!("{}: {edit:?}: {error}\n{text}", self.name),
        }
    }

    /// The meaning of a text: its value, or the values of its parts.
    fn meaning(&self, text: &str) -> Value {
        if self.format != markdown::FORMAT {
            return JsonText::read(text.to_owned()).expect("readable").tree.to_value();
        }
        let inspection = self.inspect(text);
        let parts = inspection.parts.iter().map(|part| part.value.clone()).collect();
        Value::map([("definition", inspection.value.clone()), ("elements", Value::list(parts))])
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("readable").flatten().map(|one| one.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            list_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// The definitions of the examples and of the conformance cases.
fn list_cases() -> Vec<Case> {
    let mut files = Vec::new();
    for folder in ["examples", "tests/conformance"] {
        list_files(&repository().join(folder), &mut files);
    }
    let mut cases = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let is_case = name.contains("conformance");
        match path.extension().and_then(|end| end.to_str()) {
            Some("mdx") => cases.push(Case { name, format: markdown::FORMAT, text }),
            Some("md") if is_case => {
                for (index, piece) in text.split("```mdx\n").skip(1).enumerate() {
                    let text = piece.split("\n```").next().unwrap_or_default().to_owned() + "\n";
                    cases.push(Case { name: format!("{name} {index}"), format: markdown::FORMAT, text });
                }
            }
            Some("json") if is_case => {
                let Ok((tree, _)) = parse_node(&text) else { continue };
                let Some(node) = tree.get("flow").or_else(|| tree.get("definition")) else { continue };
                cases.extend(to_case(name, text[node.span.start..node.span.end()].to_owned()));
            }
            Some("json") => cases.extend(to_case(name, text)),
            _ => {}
        }
    }
    // What cannot be read is mended as text.
    cases.retain(|case| inspect_definition(case.edit_env(), &case.text).problem.is_none());
    cases
}

/// A definition in JSON that can be read.
fn to_case(name: String, text: String) -> Option<Case> {
    let format = recognise(&name, &text, parse_tolerant(&text).as_ref())?;
    JsonText::read(text.clone()).ok()?;
    (format != markdown::FORMAT).then_some(Case { name, format, text })
}

fn key(name: &str) -> PathStep {
    PathStep::Key(name.to_owned())
}

fn join(path: &[PathStep], more: &[PathStep]) -> JsonPath {
    path.iter().chain(more).cloned().collect()
}

/// A value with another content at a path.
fn with(whole: &Value, path: &[PathStep], new: Option<&Value>) -> Value {
    let Some((first, rest)) = path.split_first() else { return new.cloned().unwrap_or_default() };
    match first {
        PathStep::Key(key) => {
            let mut map: Map = whole.as_map().cloned().unwrap_or_default();
            match new {
                None if rest.is_empty() => drop(map.shift_remove(key.as_str())),
                _ => {
                    let inner = with(map.get(key.as_str()).unwrap_or(&Value::Null), rest, new);
                    map.insert(Arc::from(key.as_str()), inner);
                }
            }
            map.into()
        }
        PathStep::Index(index) => {
            let mut items = whole.as_list().unwrap_or_default().to_vec();
            match new {
                None if rest.is_empty() => drop(items.remove(*index)),
                _ => items[*index] = with(&items[*index].clone(), rest, new),
            }
            Value::list(items)
        }
    }
}

#[test]
fn a_value_is_changed_alone_and_restored() {
    let mut count = 0;
    for case in list_cases() {
        let before = case.meaning(&case.text);
        for part in case.inspect(&case.text).parts {
            let Some(map) = part.value.as_map() else { continue };
            for (name, old) in map.iter().filter(|(_, old)| old.as_str().is_some()) {
                let path = join(&part.path, &[key(name)]);
                let new = Value::from("A \"new\" text,\nof two lines: { } ä");
                let set = |value: &Value| Edit::Set { path: path.clone(), value: value.clone() };
                let is_attribute = case.format == markdown::FORMAT && &**name != "text";
                // The name of an action must stay one, or its scope is another.
                if is_attribute && &**name == "as" {
                    continue;
                }
                let new =
                    if case.format == markdown::FORMAT && !is_attribute { Value::from("A new text.") } else { new };
                let changed = case.edit(&case.text, &set(&new));
                assert_eq!(case.meaning(&changed), with(&before, &path, Some(&new)), "{}:\n{changed}", case.name);
                let restored = case.edit(&changed, &set(old));
                assert_eq!(case.meaning(&restored), before, "{}:\n{restored}", case.name);
                if case.format != markdown::FORMAT {
                    assert_eq!(parse_value(&restored).ok(), parse_value(&case.text).ok());
                }
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn a_value_is_added_and_removed() {
    for case in list_cases() {
        let before = case.meaning(&case.text);
        for part in case.inspect(&case.text).parts {
            let path = join(&part.path, &[key("description")]);
            if part.value.get("description").is_some() {
                continue;
            }
            let value = Value::from("What it is for");
            let added = case.edit(&case.text, &Edit::Set { path: path.clone(), value: value.clone() });
            assert_eq!(case.meaning(&added), with(&before, &path, Some(&value)), "{}:\n{added}", case.name);
            let removed = case.edit(&added, &Edit::Remove { path });
            assert_eq!(removed, case.text, "{}", case.name);
        }
    }
}

#[test]
fn a_part_is_moved_and_moved_back() {
    for case in list_cases() {
        let inspection = case.inspect(&case.text);
        for list in &inspection.lists {
            let own: Vec<_> =
                inspection.parts.iter().filter(|part| part.list == list.name && part.parent.is_none()).collect();
            if own.len() < 2 || case.format == markdown::FORMAT {
                continue;
            }
            let at = |index: usize| join(&list.path, &[PathStep::Index(index)]);
            let last = own.len() - 1;
            let moved = case.edit(&case.text, &Edit::Move { path: at(0), to: last });
            let back = case.edit(&moved, &Edit::Move { path: at(last), to: 0 });
            assert_ne!(case.meaning(&moved), Value::Null);
            assert_eq!(back, case.text, "{}:\n{moved}", case.name);
        }
    }
}

/// The values of actions. A phase of one action ends when that is moved away, so phases do not count.
fn list_values(parts: &[Part]) -> Vec<Value> {
    let without_phase = |part: &Part| {
        let mut map = part.value.as_map().cloned().unwrap_or_default();
        map.shift_remove("newPhase");
        map.into()
    };
    parts.iter().map(without_phase).collect()
}

#[test]
fn an_action_is_moved_and_moved_back() {
    for case in list_cases().into_iter().filter(|case| case.format == markdown::FORMAT) {
        let parts = case.inspect(&case.text).parts;
        let before = list_values(&parts);
        let own: Vec<usize> = (0..parts.len()).filter(|index| parts[*index].parent.is_none()).collect();
        if own.len() < 2 {
            continue;
        }
        let moved = case.edit(&case.text, &Edit::Move { path: parts[own[0]].path.clone(), to: own.len() - 1 });
        let after = case.inspect(&moved).parts;
        assert_eq!(after.len(), parts.len(), "{}:\n{moved}", case.name);
        let last = after.iter().rfind(|part| part.parent.is_none()).expect("an action");
        assert_eq!(last.value, parts[own[0]].value, "{}:\n{moved}", case.name);
        let back = case.edit(&moved, &Edit::Move { path: last.path.clone(), to: 0 });
        assert_eq!(list_values(&case.inspect(&back).parts), before, "{}:\n{back}", case.name);
    }
}

#[test]
fn a_copy_is_added_and_removed() {
    for case in list_cases() {
        let before = case.meaning(&case.text);
        for part in case.inspect(&case.text).parts {
            let is_container =
                case.format == markdown::FORMAT && ["Loop", "Cond", "Else"].contains(&part.kind.as_str());
            if is_container || part.value.as_map().is_none_or(|map| map.is_empty()) {
                continue;
            }
            let edited = apply_edits(case.edit_env(), &case.text, &[Edit::Duplicate { path: part.path.clone() }]);
            // A value that is not a part of the format cannot be copied.
            let Ok(edited) = edited else { continue };
            let copy = edited.part.expect("the copy");
            let removed = case.edit(&edited.text, &Edit::Remove { path: copy });
            let has_id = part.value.get("id").and_then(Value::as_str).is_some();
            if has_id || case.format != find_format("pipeline").expect("a format") {
                assert_eq!(case.meaning(&removed), before, "{}:\n{}", case.name, edited.text);
            }
        }
    }
}

#[test]
fn every_kind_of_part_can_be_added_to_every_definition() {
    for case in list_cases() {
        let inspection = case.inspect(&case.text);
        for kind in &inspection.kinds {
            let list = vec![key(kind.list)];
            let add = Edit::Add { list, at: usize::MAX, kind: kind.name.clone() };
            let edited = apply_edits(case.edit_env(), &case.text, &[add]).expect("a part");
            let after = case.inspect(&edited.text);
            let path = edited.part.expect("the part");
            let part = after.parts.iter().find(|part| part.path == path);
            assert!(part.is_some_and(|part| part.list == kind.list), "{}: {}\n{}", case.name, kind.name, edited.text);
            let known = inspection.parts.iter().filter(|part| part.list == kind.list).count();
            assert!(after.parts.iter().filter(|part| part.list == kind.list).count() > known);
        }
    }
}

/// A path that is written with dots.
fn path(written: &str) -> JsonPath {
    let step = |word: &str| word.parse().map_or_else(|_| key(word), PathStep::Index);
    written.split('.').map(step).collect()
}

#[test]
fn the_frontmatter_keeps_its_comments_and_its_order() {
    let text = "---\n# why\ntitle: A # short\ninput:\n  topic: {type: text, default: cats}\n  more:\n    type: text # kind\ndata:\n  - 1\n---\n\nHi.\n";
    let case = Case { name: "frontmatter".to_owned(), format: markdown::FORMAT, text: text.to_owned() };
    let set = |written: &str, value: Value| case.edit(text, &Edit::Set { path: path(written), value });
    let changed = |old: &str, new: &str| text.replace(old, new);
    assert_eq!(set("title", "B: c".into()), changed("title: A # short", "title: \"B: c\" # short"));
    assert_eq!(set("input.more.type", "file".into()), changed("type: text # kind", "type: file # kind"));
    assert_eq!(set("input.topic.default", "dogs".into()), changed("default: cats", "default: dogs"));
    assert_eq!(
        set("input.name", Value::map([("type", Value::from("text"))])),
        changed("# kind\n", "# kind\n  name: {type: text}\n")
    );
    assert_eq!(set("system", "Be brief.".into()), changed("---\n\nHi", "system: Be brief.\n---\n\nHi"));
    let rename = Edit::RenameKey { path: path("input.topic"), to: "animal".to_owned() };
    assert_eq!(case.edit(text, &rename), changed("topic:", "animal:"));
    let remove = |written: &str| case.edit(text, &Edit::Remove { path: path(written) });
    assert_eq!(remove("input.more"), changed("  more:\n    type: text # kind\n", ""));
    assert_eq!(remove("data"), changed("data:\n  - 1\n", ""));
    let plain = Case { text: "Hi.\n".to_owned(), ..case };
    let titled = plain.edit(&plain.text, &Edit::Set { path: path("title"), value: "T".into() });
    assert_eq!(titled, "---\ntitle: T\n---\n\nHi.\n");
}

#[test]
fn a_phase_begins_and_ends() {
    let action = |name: &str| format!("Say {name}.\n\n<GenText as=\"{name}\" model=\"m\" />\n");
    let joined = format!("{}\n{}\n{}", action("a"), action("b"), action("c"));
    let case = Case { name: "phases".to_owned(), format: markdown::FORMAT, text: joined.clone() };
    let set = |text: &str, value: bool| {
        case.edit(text, &Edit::Set { path: path("elements.1.newPhase"), value: value.into() })
    };
    let parted = format!("{}\n---\n\n{}\n{}", action("a"), action("b"), action("c"));
    assert_eq!(set(&joined, true), parted);
    assert_eq!(set(&parted, true), parted);
    assert_eq!(set(&parted, false), joined);
    let starred = parted.replace("---", "***");
    assert_eq!(case.inspect(&starred).parts[1].value.get("newPhase"), Some(&Value::from(true)));
    assert_eq!(set(&starred, false), joined);
    // The first action begins the first phase anyway, and actions inside of others begin none.
    assert!(case.inspect(&parted).parts[0].value.get("newPhase").is_none());
    let added = Edit::Paste { list: path("elements"), at: 1, text: action("new") };
    let before_break = format!("{}\n{}\n---\n\n{}\n{}", action("a"), action("new"), action("b"), action("c"));
    assert_eq!(case.edit(&parted, &added), before_break);
}

#[test]
fn keys_between_braces_get_lines() {
    let text = "---\n{title: A, input: {topic: {type: text}}}\n---\n\nHi.\n";
    let case = Case { name: "braces".to_owned(), format: markdown::FORMAT, text: text.to_owned() };
    let titled = case.edit(text, &Edit::Set { path: path("title"), value: "B".into() });
    assert_eq!(titled, "---\ntitle: B\ninput: {topic: {type: text}}\n---\n\nHi.\n");
    let removed = case.edit(text, &Edit::Remove { path: path("title") });
    assert_eq!(removed, "---\ninput: {topic: {type: text}}\n---\n\nHi.\n");
}

#[test]
fn comments_stay_where_they_are() {
    let text = "{\n  // steps\n  \"steps\": [\n    // first\n    {\"name\": \"a\", \"functionId\": \"agent::chat\", \"mode\": \"sequential\"}, // one\n    {\"name\": \"b\", \"functionId\": \"agent::chat\", \"mode\": \"sequential\"} // two\n  ]\n}\n";
    let format = find_format("steps").expect("a format");
    let case = Case { name: "comments".to_owned(), format, text: text.to_owned() };
    let moved = case.edit(text, &Edit::Move { path: path("steps.0"), to: 1 });
    let names = |text: &str| -> Vec<usize> {
        ["\"a\"", "// first", "// one", "\"b\"", "// two"].iter().map(|part| text.find(part).expect(part)).collect()
    };
    let [a, first, one, b, two] = names(&moved)[..] else { panic!("five places") };
    assert!(b < two && two < first && first < a && a < one, "{moved}");
    let removed = case.edit(text, &Edit::Remove { path: path("steps.1") });
    assert!(removed.contains("// one") && !removed.contains("// two") && !removed.contains("},"), "{removed}");
    let renamed = case.edit(text, &Edit::RenameKey { path: path("steps.0.mode"), to: "how".to_owned() });
    assert_eq!(renamed, text.replacen("\"mode\"", "\"how\"", 1));
}

#[test]
fn a_renamed_node_keeps_its_references_and_a_removed_one_loses_its_connections() {
    let text = "{\n  \"nodes\": [\n    {\"id\": \"n1\", \"block_id\": \"a\"},\n    {\"id\": \"n2\", \"block_id\": \"b\", \"inputs\": {\"x\": \"{{n1.y}}\"}}\n  ],\n  \"edges\": [{\"from\": \"n1\", \"to\": \"n2\"}]\n}\n";
    let format = find_format("pipeline").expect("a format");
    let case = Case { name: "nodes".to_owned(), format, text: text.to_owned() };
    let renamed = case.edit(text, &Edit::Rename { path: path("nodes.0.id"), to: "first".to_owned() });
    assert_eq!(renamed, text.replace("n1", "first"));
    let taken = Edit::Rename { path: path("nodes.0.id"), to: "n2".to_owned() };
    let refused = apply_edits(case.edit_env(), text, &[taken]).expect_err("the name is taken");
    assert_eq!(refused.to_string(), "there is a node n2 already");
    let removed = case.edit(text, &Edit::Remove { path: path("nodes.0") });
    assert!(removed.contains("\"edges\": []"), "{removed}");
    let again = Edit::Connect { from: path("nodes.0"), to: Some(path("nodes.1")) };
    let refused = apply_edits(case.edit_env(), text, &[again]).expect_err("they are connected");
    assert_eq!(refused.to_string(), "these parts cannot be connected: they are connected already");
}
