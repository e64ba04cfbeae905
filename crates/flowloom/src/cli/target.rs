//! The target of a command (a file, a folder or a name), at which the search for its project starts.

use std::path::Path;

use flowloom_app::config::project::ProjectTarget;

use super::{Command, HooksCommand, ScheduleCommand};

/// The target of a command; `None` if it works on the stored data of the project of the current folder.
pub(super) fn find_target(command: &Command) -> Option<ProjectTarget> {
    let definition = |path: &Path| Some(ProjectTarget::Definition(path.to_owned()));
    let served = |path: &Path| Some(ProjectTarget::Served(path.to_owned()));
    match command {
        Command::Run(arguments) => definition(&arguments.file),
        Command::Dev(arguments) => definition(&arguments.file),
        Command::Chat(arguments) => definition(&arguments.file),
        Command::Graph(arguments) => definition(&arguments.file),
        Command::Convert(arguments) => definition(&arguments.file),
        Command::Plan(arguments) => definition(&arguments.file),
        Command::List { folder } => definition(folder),
        Command::Schedule { command: ScheduleCommand::Add { workflow, .. } }
        | Command::Hooks { command: HooksCommand::Add { workflow, .. } } => definition(Path::new(workflow)),
        Command::Agent(arguments) => served(&arguments.path),
        Command::Serve { arguments, .. } | Command::Studio { arguments, .. } => served(&arguments.folder),
        Command::Mcp(arguments) => served(&arguments.folder),
        Command::Sync(arguments) => served(&arguments.folder),
        _ => None,
    }
}
