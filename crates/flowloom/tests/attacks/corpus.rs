//! Reads the files of `tests/attacks`: inputs, the points at which they enter, and the outcome that is expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The folder of the corpus.
pub(crate) fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/attacks")
}

/// One file: the attacks of one class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttackFile {
    /// The class of the attacks, which is the name of the file.
    pub(crate) class: String,
    /// The goal of an attacker of this class.
    #[serde(rename = "about")]
    _about: String,
    pub(crate) rows: Vec<AttackRow>,
}

/// Inputs with the same points and the same outcome. Every input is tried at every point.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttackRow {
    pub(crate) inputs: Vec<AttackInput>,
    pub(crate) points: Vec<String>,
    pub(crate) expect: Outcome,
    /// The key of the requests: `bob`, `reader`, `runner`, `writer` or `none`.
    #[serde(default = "default_key")]
    pub(crate) key: String,
    #[serde(default, rename = "note")]
    _note: String,
}

fn default_key() -> String {
    "bob".to_owned()
}

/// An input: its text, or a short description of a long text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum AttackInput {
    Text(String),
    Long(LongInput),
}

/// `before`, then `repeat` for `times` times, then `middle`, then `closing` as often, then `after`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongInput {
    #[serde(default)]
    before: String,
    repeat: String,
    times: usize,
    #[serde(default)]
    middle: String,
    #[serde(default)]
    closing: String,
    #[serde(default)]
    after: String,
}

impl AttackInput {
    pub(crate) fn to_text(&self) -> String {
        match self {
            AttackInput::Text(text) => text.clone(),
            AttackInput::Long(long) => [
                long.before.clone(),
                long.repeat.repeat(long.times),
                long.middle.clone(),
                long.closing.repeat(long.times),
                long.after.clone(),
            ]
            .concat(),
        }
    }
}

/// The required observations. Every field that is present must hold.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Outcome {
    /// The HTTP status is one of these.
    pub(crate) status: Vec<u16>,
    /// One of these error codes is in the response.
    pub(crate) code: Vec<String>,
    /// The run has one of these states.
    pub(crate) run: Vec<String>,
    /// The output of the run is one of these; `@{input}` is the input.
    pub(crate) output: Vec<String>,
    /// The number of responses on the connection is one of these.
    pub(crate) responses: Vec<usize>,
    /// The exit code of the command is one of these.
    pub(crate) exit: Vec<i32>,
    /// The response contains this; `@{input}` is the input.
    pub(crate) contains: String,
}

impl Outcome {
    /// Whether a case with this outcome can fail for another reason than a canary.
    fn says_something(&self) -> bool {
        !(self.status.is_empty() && self.run.is_empty() && self.output.is_empty() && self.code.is_empty())
            || !(self.responses.is_empty() && self.exit.is_empty() && self.contains.is_empty())
    }
}

/// Reads a file of the corpus.
pub(crate) fn read_file(name: &str) -> AttackFile {
    let path = corpus_folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: AttackFile = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    assert_eq!(file.class, name, "the class is the name of the file");
    for (number, row) in file.rows.iter().enumerate() {
        assert!(row.expect.says_something(), "{name}.json, row {number}: an outcome is missing");
        assert!(!row.inputs.is_empty() && !row.points.is_empty(), "{name}.json, row {number} has no case");
    }
    file
}

/// Replaces `@{name}` by the value of that name.
pub(crate) fn fill_in(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut parts = text.split("@{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').and_then(|(name, rest)| Some((values.get(name)?, rest))) {
            Some((value, rest)) => filled.extend([value.as_str(), rest]),
            None => filled.extend(["@{", part]),
        }
    }
    filled
}
