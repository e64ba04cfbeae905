//! The planted bugs: patches of the real code, each of which breaks a promise that a check must notice.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The check that must find a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The simulation.
    Simulation,
    /// The tests of the store, because the bug is in SQL.
    Store,
}

/// A patch that breaks a promise.
pub struct PlantedBug {
    /// Its name.
    pub name: String,
    /// The description of the bug.
    pub breaks: String,
    /// The promise that it breaks.
    pub promise: String,
    /// The patch.
    pub file: PathBuf,
    /// The check that must find it.
    pub check: Check,
    /// The seed of a schedule that failed with it. The search for it begins there.
    pub seed: Option<u64>,
}

/// The root of the repository.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All planted bugs, by name. Fails if a patch has no header.
pub fn read_bugs() -> Result<Vec<PlantedBug>, String> {
    let folder = repository_root().join("tests/planted-bugs");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "patch")).collect();
    files.sort();
    files.into_iter().map(read_bug).collect()
}

fn read_bug(file: PathBuf) -> Result<PlantedBug, String> {
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let find = |name: &str| {
        let line = text.lines().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
    };
    let header = |name: &str| find(name).ok_or_else(|| format!("{} has no line {name}", file.display()));
    let seed = match (header("Caught by:")?.as_str(), find("Seed:")) {
        ("simulation", None) => return Err(format!("{} has no line Seed:", file.display())),
        (_, seed) => seed.and_then(|seed| seed.parse().ok()),
    };
    let check = match header("Caught by:")?.as_str() {
        "simulation" => Check::Simulation,
        "store" => Check::Store,
        other => return Err(format!("{}: nothing is called {other}", file.display())),
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(PlantedBug { name, breaks: header("Breaks:")?, promise: header("Promise:")?, file, check, seed })
}

impl PlantedBug {
    /// The row of the bug in the table of `docs/reliability.md`.
    pub fn table_row(&self) -> String {
        let check = match self.check {
            Check::Simulation => "simulation",
            Check::Store => "tests of the store",
        };
        format!("| {} | {} | {check} |", self.promise, self.breaks)
    }
}

/// Applies a patch to the tree at `root`, as `git apply` with further arguments does. Fails if it does not apply.
pub fn apply_patch(root: &Path, file: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut git = Command::new("git");
    // A tree within the repository is not a part of it.
    git.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root));
    let output = git.arg("apply").args(arguments).arg(file).current_dir(root).output();
    let output = output.map_err(|error| format!("git does not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", file.display(), String::from_utf8_lossy(&output.stderr))),
    }
}
