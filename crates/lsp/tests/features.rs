//! The answers of the language server about documents. Each file of `tests/cases` has documents with marks (`‸`) and a
//! question about each; the answers are snapshots.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use flowloom_core::diagnostic::Span;
use flowloom_formats::find_format;
use flowloom_lsp::analysis::completion::list_proposals;
use flowloom_lsp::analysis::definition::Definition;
use flowloom_lsp::analysis::hover::find_meaning;
use flowloom_lsp::analysis::known::{Known, KnownName};
use flowloom_lsp::analysis::lines::Lines;
use flowloom_lsp::analysis::outline::{OutlineItem, list_folds, list_parts};
use flowloom_lsp::analysis::rename::{find_renamable, rename};
use flowloom_lsp::analysis::tokens::{TOKEN_KINDS, list_tokens};
use serde_json::Value;

/// The sign at the position that a question is about.
const MARK: char = '‸';

/// A document with a mark, and the question about it.
struct Case {
    definition: Definition,
    /// The file with the mark.
    path: String,
    offset: usize,
    new_name: String,
}

impl Case {
    fn read(case: &Value) -> Case {
        let text = |value: &Value| match value {
            Value::Array(lines) => lines.iter().filter_map(Value::as_str).map(|line| format!("{line}\n")).collect(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        let entry = case["entry"].as_str().expect("an entry");
        let mut marked = (entry.to_owned(), 0);
        let mut files: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for (path, content) in case["files"].as_object().expect("files") {
            let mut content: String = text(content);
            if let Some(at) = content.find(MARK) {
                content.remove(at);
                marked = (path.clone(), at);
            }
            files.insert(path.clone(), content.into());
        }
        let format = find_format(case["format"].as_str().expect("a format")).expect("a known format");
        let main = files[entry].clone();
        let definition = Definition::new(entry, main, format, files.iter());
        let new_name = case["new_name"].as_str().unwrap_or_default().to_owned();
        Case { definition, path: marked.0, offset: marked.1, new_name }
    }

    fn answer(&self, question: &str) -> String {
        let file = self.definition.find_file(&self.path).expect("the file");
        let part = |span: Span| file.index.text[span.start..span.end()].replace('\n', "⏎");
        let mut answer = String::new();
        match question {
            "completion" => {
                for proposal in list_proposals(&self.definition, file, self.offset, &known()) {
                    let (label, insert) = (&proposal.label, &proposal.insert);
                    let _ =
                        writeln!(answer, "{label} | {} | {:?} → {insert:?}", proposal.detail, part(proposal.replaces));
                }
            }
            "hover" => {
                let meaning = find_meaning(&self.definition, file, self.offset, &known());
                answer = meaning.map_or("nothing".to_owned(), |one| format!("{}\n---\n{}", part(one.span), one.text));
            }
            "references" => {
                let name = file.index.find_names(self.offset).next().expect("a name");
                for place in self.definition.find_places(name) {
                    let lines = Lines::new(&place.file.index.text);
                    let line = lines.line_text(&place.file.index.text, lines.find_line(place.name.span.start));
                    let _ = writeln!(answer, "{} {:?}: {}", place.file.path, place.name.role, line.trim());
                }
            }
            "rename" => {
                answer = match find_renamable(&self.definition, file, self.offset) {
                    None => "nothing to rename".to_owned(),
                    Some(name) => match rename(&self.definition, name, &self.new_name) {
                        Ok(edits) => self.apply(edits),
                        Err(message) => format!("refused: {message}"),
                    },
                };
            }
            "symbols" => write_parts(&list_parts(&file.index), 0, &mut answer),
            "folding" => {
                let lines = Lines::new(&file.index.text);
                for fold in list_folds(&file.index, &lines) {
                    let (first, last) = (lines.find_line(fold.start), lines.find_line(fold.end() - 1));
                    let _ = writeln!(answer, "{first}-{last}");
                }
            }
            "tokens" => {
                for token in list_tokens(&file.index) {
                    let declared = if token.is_declaration { " (declared)" } else { "" };
                    let _ = writeln!(answer, "{}: {}{declared}", part(token.span), TOKEN_KINDS[token.kind]);
                }
            }
            other => panic!("there is no question {other}"),
        }
        answer
    }

    /// The changed files.
    fn apply(&self, mut edits: Vec<flowloom_lsp::analysis::rename::Replacement>) -> String {
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
        let mut changed: BTreeMap<&str, String> = BTreeMap::new();
        for edit in &edits {
            let file = self.definition.find_file(&edit.file).expect("the file");
            let text = changed.entry(&edit.file).or_insert_with(|| file.index.text.to_string());
            text.replace_range(edit.span.start..edit.span.end(), &edit.text);
        }
        changed.into_iter().map(|(path, text)| format!("== {path}\n{text}")).collect()
    }
}

fn write_parts(parts: &[OutlineItem], depth: usize, out: &mut String) {
    for part in parts {
        let _ = writeln!(out, "{}{} {:?} {}", "  ".repeat(depth), part.name, part.kind, part.detail);
        write_parts(&part.children, depth + 1, out);
    }
}

/// A function of the configuration.
fn called_function() -> KnownName {
    let inputs = vec![KnownName::new("query", "string, required"), KnownName::new("limit", "integer")];
    let helpers = vec![KnownName::new("currency", "")];
    KnownName { inputs, helpers, ..KnownName::new("crm::lookup", "for tests") }
}

fn known() -> Known {
    let known_name = |name: &str| vec![KnownName::new(name, "for tests")];
    Known {
        functions: [vec![called_function()], known_name("agent::chat"), known_name("tool::web_fetch")].concat(),
        models: known_name("scripted:echo"),
        blocks: vec![KnownName {
            inputs: [known_name("key"), known_name("default")].concat(),
            ..KnownName::new("memory_read", "for tests")
        }],
        agents: known_name("orders"),
        workflows: known_name("weather"),
        secrets: known_name("SHOP_KEY"),
        texts: known_name("house-style"),
        fields: [("report".to_owned(), vec!["title".to_owned(), "text".to_owned()])].into(),
    }
}

#[test]
fn documents_are_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("cases").flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let cases: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(file).expect("UTF-8")).expect("a list of cases");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut all = String::new();
        for case in &cases {
            let question = case["question"].as_str().expect("a question");
            let title = case["title"].as_str().expect("a title");
            let _ = writeln!(all, "## {question}: {title}\n{}\n", Case::read(case).answer(question).trim_end());
        }
        insta::with_settings!({snapshot_path => "cases", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name, all);
        });
    }
}
