//! `flowloom dev`: checks and runs a definition again whenever one of its files is saved.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use flowloom_app::definitions::find::find_named;
use flowloom_app::definitions::source::{Loader, parse_format};

use super::run::run_definition;
use crate::cli::{Global, RunArgs};
use crate::failure::{CommandError, CommandResult};

/// Interval between two looks at the files. Editors replace files in many ways, all of which change the time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A file with its time of change; `None` if it does not exist.
type WatchedFile = (PathBuf, Option<SystemTime>);

pub(crate) async fn run_on_changes(global: &Global, arguments: RunArgs) -> CommandResult {
    if arguments.file.as_os_str() == "-" {
        return Err(CommandError::usage("dev needs a file to watch; stdin has none"));
    }
    loop {
        let files = list_watched_files(global, &arguments)?;
        match run_definition(global, &arguments).await {
            Ok(_) => {}
            Err(error) if error.interrupted.is_some() => return Err(error),
            Err(error) => drop(super::report_error(error, global.json, true)),
        }
        let noun = if files.len() == 1 { "file" } else { "files" };
        eprintln!("waiting for a change of {} {noun}; Ctrl-C ends", files.len());
        wait_for_change(&files).await;
    }
}

/// The files that the run depends on: those of the definition, and the configuration.
fn list_watched_files(global: &Global, arguments: &RunArgs) -> Result<Vec<WatchedFile>, CommandError> {
    let config = global.load_config()?;
    let file = find_named(&config.project.root, &arguments.file)?;
    let format = parse_format(arguments.format.as_deref())?;
    let source = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) }.compile(&file);
    let files = source.files().keys().map(PathBuf::from).chain([file]).chain(config.file.clone());
    Ok(files.map(|file| (file.clone(), read_time(&file))).collect())
}

async fn wait_for_change(files: &[WatchedFile]) {
    while files.iter().all(|(file, time)| read_time(file) == *time) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn read_time(file: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}
