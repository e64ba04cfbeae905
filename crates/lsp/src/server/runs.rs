//! The newest recorded run of each definition, for values and results.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flowloom_app::runs::last::{LastRun, find_last_run};
use flowloom_core::render::to_json;
use flowloom_core::value::Value;

use super::check::Checked;

/// How long a run that was read counts as the newest one.
const FRESH_TIME: Duration = Duration::from_secs(2);

/// Maximum number of characters of a value that is shown.
const MAX_VALUE_CHARS: usize = 500;

/// A definition: the data folder of its project, and its name.
type RunKey = (PathBuf, String);

/// A run that was read, and when; `None` if there is none.
type ReadRun = (Instant, Option<Arc<LastRun>>);

/// The newest runs that were read.
#[derive(Default)]
pub(super) struct LastRuns {
    read: Mutex<HashMap<RunKey, ReadRun>>,
}

impl LastRuns {
    /// The newest run of a definition; `None` if there is none, or if the data cannot be read. Blocks while it reads.
    pub(super) fn find_last(&self, checked: &Checked) -> Option<Arc<LastRun>> {
        let (config, plan) = (checked.config.as_ref()?, checked.plan.as_ref()?);
        let key = (config.data_dir.value.clone(), plan.name.clone());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, run)) = read.get(&key).filter(|(when, _)| when.elapsed() < FRESH_TIME) {
            return run.clone();
        }
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        // A database that another version has written shows nothing here; `flowloom runs` says why.
        let run = runtime.block_on(find_last_run(config, &plan.name)).ok().flatten().map(Arc::new);
        read.insert(key, (Instant::now(), run.clone()));
        run
    }
}

/// A value for people, on one line.
pub(super) fn show_value(value: &Value) -> String {
    let text = to_json(value);
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
