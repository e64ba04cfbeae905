//! The definitions that the tests convert, with the worlds in which they run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conformance::{CaseDefinition, load_cases};
use flowloom_convert::{Conversion, ConversionSource, convert_definition};
use flowloom_core::plan::{Format, Inputs, Plan};
use flowloom_core::value::{Map, Value};
use flowloom_formats::{StopFlag, compile, find_format};

/// A definition with the world of its case.
pub(crate) struct Subject {
    pub(crate) id: String,
    pub(crate) case: Value,
    pub(crate) definition: CaseDefinition,
    pub(crate) plan: Plan,
}

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every valid definition of the recorded cases and of the examples.
pub(crate) fn subjects() -> Vec<Subject> {
    let cases = load_cases(&[repository().join("tests/conformance")]).expect("readable");
    let mut subjects = Vec::new();
    for case in cases {
        for definition in case.definitions() {
            let Some(plan) = definition.compile().plan else { continue };
            subjects.push(Subject { id: case.id.clone(), case: case.content.clone(), definition, plan });
        }
    }
    let examples = repository().join("examples");
    let mut files = BTreeMap::new();
    read_files(&examples, &examples, &mut files);
    for name in files.keys().filter(|name| name.ends_with(".json") || name.ends_with(".mdx")) {
        let made = CaseDefinition::new(find_format("flow").expect("a format"), name, String::new());
        let made = CaseDefinition { files: files.clone(), ..made };
        let compiled = compile(name, &made.sources(), None);
        if let (Some(plan), Some(format)) = (compiled.plan, compiled.format) {
            let definition = CaseDefinition { format, ..made };
            subjects.push(Subject { id: name.clone(), case: Value::Null, definition, plan });
        }
    }
    subjects
}

/// The definitions of this test: common ones, and those with which conversions are most easily wrong.
pub(crate) fn specimens() -> Vec<Subject> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/definitions");
    let mut files = BTreeMap::new();
    read_files(&folder, &folder, &mut files);
    let read = |(name, bytes): (String, Vec<u8>)| {
        let format = name.split('.').nth(1).and_then(find_format).expect("NAME.FORMAT.EXTENSION");
        let made = CaseDefinition::new(format, &name, String::from_utf8(bytes).expect("UTF-8"));
        let plan = made.compile().plan.unwrap_or_else(|| panic!("{name}: {:?}", made.compile().diagnostics));
        let message = || Value::map([("message", Value::from("What is new?"))]);
        let input = match (&plan.inputs, &plan.thread) {
            (_, Some(_)) => message(),
            (Inputs::Whole(_), _) => "lamps".into(),
            (Inputs::Named { declared, .. }, _) => {
                let given = declared.iter().map(|input| (input.name.as_str().into(), Value::from("lamps")));
                given.collect::<Map>().into()
            }
        };
        let definition = CaseDefinition { input, ..made };
        Subject { id: name, case: Map::new().into(), definition, plan }
    };
    files.into_iter().map(read).collect()
}

/// All definitions.
pub(crate) fn all_subjects() -> Vec<Subject> {
    subjects().into_iter().chain(specimens()).collect()
}

fn read_files(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_files(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("inside").display().to_string();
            files.insert(name, std::fs::read(&path).expect("readable"));
        }
    }
}

impl Subject {
    pub(crate) fn convert(&self, to: Format) -> Conversion {
        let text = self.definition.text();
        let source =
            ConversionSource { file: &self.definition.entry, text, plan: &self.plan, stop: &StopFlag::default() };
        convert_definition(&source, to, false)
    }

    /// The converted definition.
    pub(crate) fn converted(&self, to: Format, text: &str) -> CaseDefinition {
        let entry = if to.name() == "markdown" { "converted.mdx" } else { "converted.json" };
        let made = CaseDefinition::new(to, entry, text.to_owned());
        CaseDefinition { functions: self.definition.functions.clone(), ..made }
    }
}

/// The inputs of a run as the other definition takes them.
pub(crate) fn map_inputs(from: &Plan, to: &Plan, inputs: &Value) -> Value {
    match (&from.inputs, &to.inputs) {
        (Inputs::Whole(_), Inputs::Whole(_)) => inputs.clone(),
        (Inputs::Whole(name), Inputs::Named { .. }) => to.inputs.keep_accepted(Value::map([(&**name, inputs.clone())])),
        (Inputs::Named { declared, .. }, Inputs::Whole(_)) => match declared.as_slice() {
            [first, others @ ..] if others.iter().all(|other| other.name == first.name) => {
                inputs.get(&first.name).cloned().unwrap_or_default()
            }
            _ => inputs.clone(),
        },
        (Inputs::Named { .. }, Inputs::Named { .. }) => to.inputs.keep_accepted(inputs.clone()),
    }
}

/// Whether a run takes only texts that are not empty. What becomes of other inputs is reported as expressed differently.
pub(crate) fn has_plain_inputs(plan: &Plan, inputs: &Value) -> bool {
    let is_plain = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    match &plan.inputs {
        Inputs::Whole(_) => is_plain(inputs),
        Inputs::Named { declared, .. } => declared.iter().all(|input| match inputs.get(&input.name) {
            Some(value) => is_plain(value),
            None => !input.required,
        }),
    }
}

/// Whether a model answers without a text. What becomes of references to it is reported as expressed differently.
pub(crate) fn has_missing_answer(case: &Value) -> bool {
    let answers = case.get("mock_llm").and_then(Value::as_list).unwrap_or_default();
    answers.contains(&Value::Null)
}
