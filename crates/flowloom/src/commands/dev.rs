//! `flowloom dev`: checks and runs a definition again whenever one of its files is saved.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::run::run_and_list_files;
use crate::cli::{Global, RunArgs};
use crate::failure::{CommandError, CommandResult};

/// Interval between two looks at the files. Editors replace files in many ways, all of which change the time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A file with its time of change; `None` if it does not exist.
pub(super) type WatchedFile = (PathBuf, Option<SystemTime>);

pub(crate) async fn run_on_changes(global: &Global, arguments: RunArgs) -> CommandResult {
    if arguments.file.as_os_str() == "-" {
        return Err(CommandError::usage("dev needs a file to watch; stdin has none"));
    }
    let mut watched = Vec::new();
    loop {
        let mut files = Vec::new();
        match run_and_list_files(global, &arguments, &mut files).await {
            Ok(_) => {}
            // Nothing was ever read, so nothing can change.
            Err(error) if error.left.is_some() || files.is_empty() && watched.is_empty() => return Err(error),
            Err(error) => drop(super::results::report_error(error, global.json, true)),
        }
        if files.is_empty() {
            // While an editor replaces its file, a workflow has no file with its name.
            files = watched.into_iter().map(|(file, _)| watch_file(file)).collect();
        }
        watched = files;
        let noun = if watched.len() == 1 { "file" } else { "files" };
        eprintln!("waiting for a change of {} {noun}; Ctrl-C ends", watched.len());
        wait_for_change(&watched).await;
    }
}

/// A file as it is now.
pub(super) fn watch_file(file: PathBuf) -> WatchedFile {
    let time = read_time(&file);
    (file, time)
}

async fn wait_for_change(files: &[WatchedFile]) {
    while files.iter().all(|(file, time)| read_time(file) == *time) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn read_time(file: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}
