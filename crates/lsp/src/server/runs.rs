//! The newest recorded run of each definition, for values and results.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flowloom_app::runs::last::{LastRun, find_last_run};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;
use parking_lot::Mutex;

use super::check::Checked;

/// How long a run that was read counts as the newest one.
const FRESH_TIME: Duration = Duration::from_secs(2);

/// Maximum number of characters of a value that is shown.
const MAX_VALUE_CHARS: usize = 500;

/// A definition: the data folder of its project, and its name.
type RunKey = (PathBuf, String);

/// A run that was read, and when; `None` if there is none.
type ReadRun = (Instant, Option<Arc<LastRun>>);

/// The files of a database on the disk, which change with every run.
const DATABASE_FILES: [&str; 2] = ["flowloom.db", "flowloom.db-wal"];

/// When the files of a database changed, and their sizes.
type DatabaseStamp = [Option<(SystemTime, u64)>; DATABASE_FILES.len()];

/// The newest runs that were read.
#[derive(Default)]
pub(super) struct LastRuns {
    read: Mutex<HashMap<RunKey, ReadRun>>,
    /// The state of the database when the newest run of a definition was compared last.
    compared: Mutex<HashMap<RunKey, DatabaseStamp>>,
}

impl LastRuns {
    /// The newest run of a definition; `None` if there is none, or if the data cannot be read. Blocks while it reads.
    pub(super) fn find_last(&self, checked: &Checked) -> Option<Arc<LastRun>> {
        let key = run_key(checked)?;
        let mut read = self.read.lock();
        if let Some((_, run)) = read.get(&key).filter(|(when, _)| when.elapsed() < FRESH_TIME) {
            return run.clone();
        }
        let run = read_last(checked);
        read.insert(key, (Instant::now(), run.clone()));
        run
    }

    /// Whether a newest run that was shown has ended or is another one now. Reads nothing while the database on the disk
    /// is the same; the runs of another database are not looked for. Blocks while it reads.
    pub(super) fn has_news<'a>(&self, results: impl Iterator<Item = &'a Arc<Checked>>) -> bool {
        results.fold(false, |has_news, checked| self.compare_last(checked).unwrap_or_default() | has_news)
    }

    /// Whether the newest run of a definition differs from the one that was shown. `None` if none was shown.
    fn compare_last(&self, checked: &Checked) -> Option<bool> {
        let key = run_key(checked)?;
        let mut compared = self.compared.lock();
        if compared.get(&key) == Some(&stamp_database(&key.0)) {
            return Some(false);
        }
        let mut read = self.read.lock();
        let (_, shown) = read.get(&key)?;
        let run = read_last(checked);
        // Reading changes the files, too.
        compared.insert(key.clone(), stamp_database(&key.0));
        let describe = |run: &Option<Arc<LastRun>>| run.as_ref().map(|run| (run.id, run.status));
        let is_news = describe(shown) != describe(&run);
        read.insert(key, (Instant::now(), run));
        Some(is_news)
    }
}

/// The key of the runs of a definition; `None` if it does not compile.
fn run_key(checked: &Checked) -> Option<RunKey> {
    Some((checked.config.as_ref()?.data_dir.value.clone(), checked.plan.as_ref()?.name.clone()))
}

/// Reads the newest run of a definition.
fn read_last(checked: &Checked) -> Option<Arc<LastRun>> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let found = find_last_run(checked.config.as_ref()?, &checked.plan.as_ref()?.name);
    // A database that another version has written shows nothing here; `flowloom runs` reports why.
    runtime.block_on(found).ok().flatten().map(Arc::new)
}

fn stamp_database(folder: &Path) -> DatabaseStamp {
    DATABASE_FILES.map(|file| {
        let found = std::fs::metadata(folder.join(file)).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

/// A value for people, on one line.
pub(super) fn show_value(value: &Value) -> String {
    let text = to_json(value);
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
