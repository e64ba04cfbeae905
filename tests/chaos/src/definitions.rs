//! The definitions of a campaign: files in `definitions/`, in which `@EFFECTS@` is replaced by the address of the
//! effect server.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

/// A definition that the campaign runs.
pub(crate) struct Case {
    /// Id of the workflow on a server.
    pub(crate) workflow: &'static str,
    pub(crate) file: &'static str,
    input: CaseInput,
    /// Whether its runs fail until they are retried.
    pub(crate) is_retried: bool,
}

/// How a run receives its tag, which occurs in all its requests.
#[derive(Clone, Copy)]
enum CaseInput {
    /// As the whole input.
    Text,
    /// As the input with this name.
    Named(&'static str),
    /// Only as the user of the run.
    User,
}

const fn case(workflow: &'static str, file: &'static str, input: CaseInput) -> Case {
    Case { workflow, file, input, is_retried: false }
}

/// All cases.
pub(crate) const CASES: &[Case] = &[
    case("orders", "orders.json", CaseInput::Named("tag")),
    case("fan", "fan.json", CaseInput::Text),
    case("ask", "ask.json", CaseInput::Text),
    case("nested", "nested.json", CaseInput::Text),
    case("branches", "branches.json", CaseInput::Text),
    case("counter", "counter.json", CaseInput::User),
    case("desk", "desk.json", CaseInput::Named("message")),
    case("letters", "letters.mdx", CaseInput::Named("tag")),
    case("clerk", "clerk.json", CaseInput::Named("message")),
    Case { is_retried: true, ..case("mended", "mended.json", CaseInput::Named("tag")) },
];

/// Placeholder of a run's tag in the results that runs are compared with.
const TAG_MARK: &str = "@TAG@";

impl Case {
    /// The inputs of the run with this tag.
    pub(crate) fn inputs(&self, tag: &str) -> Value {
        match self.input {
            CaseInput::Text => tag.into(),
            CaseInput::Named("message") => json!({ "message": format!("Please help {tag}") }),
            CaseInput::Named(name) => json!({ name: tag }),
            CaseInput::User => json!({}),
        }
    }
}

/// The answer to a question, which contains its number.
pub(crate) fn answer_question(prompt: &str) -> String {
    format!("answer {}", prompt.split(' ').nth(1).unwrap_or_default())
}

/// A value of the run `tag`, comparable with the value of another run.
pub(crate) fn mark_tag(value: &Value, tag: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(tag, TAG_MARK)).unwrap_or_default()
}

/// The value as the run `tag` would have it.
pub(crate) fn insert_tag(value: &Value, tag: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(TAG_MARK, tag)).unwrap_or_default()
}

/// Writes the definitions and their configuration to `folder`.
pub(crate) fn write_definitions(folder: &Path, effects: SocketAddr) -> std::io::Result<()> {
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions"), folder, &effects.to_string())
}

fn copy_folder(from: &Path, to: &Path, effects: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target, effects)?,
            false => fs::write(target, fs::read_to_string(entry.path())?.replace("@EFFECTS@", effects))?,
        }
    }
    Ok(())
}
