//! The project: the folder whose configuration and data a command uses. It is found by searching upwards, as git does.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::env_file;
use super::error::ConfigError;
use crate::definitions::reader::{MAX_CONFIG_BYTES, read_bounded_text};
use crate::folders::name_folder;

/// Name of the configuration file, which makes its folder a project.
pub const CONFIG_FILE: &str = "flowloom.toml";

/// Name of the folder in a project that holds its data.
pub const DATA_FOLDER: &str = ".flowloom";

/// Name of the file in a project with environment variables.
const ENV_FILE: &str = ".env";

/// The object of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectTarget {
    /// A definition, or a folder that is read once. Outside of a project, its data is kept in the current folder.
    Definition(PathBuf),
    /// A file in an editor. The project around it counts, wherever the program was started.
    Edited(PathBuf),
    /// A folder that is served. Outside of a project, it is one itself.
    Served(PathBuf),
}

/// The folder whose configuration and data a command uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The folder. It is empty if it is the current folder.
    pub root: PathBuf,
    /// Its configuration file, if it has one.
    pub file: Option<PathBuf>,
    /// Why it is this folder.
    pub reason: ProjectReason,
}

/// Why a folder is the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectReason {
    /// The caller named its configuration file.
    Named,
    /// It is the nearest folder with a configuration file.
    ConfigFile,
    /// It is the nearest folder with data of a project.
    DataFolder,
    /// It is served, and in no project.
    Served,
    /// It is the current folder, and in no project.
    CurrentFolder,
}

impl ProjectReason {
    /// The reason for people.
    pub fn describe(self) -> &'static str {
        match self {
            ProjectReason::Named => "chosen explicitly",
            ProjectReason::ConfigFile => "nearest flowloom.toml",
            ProjectReason::DataFolder => "nearest .flowloom",
            ProjectReason::Served => "served folder, outside of a project",
            ProjectReason::CurrentFolder => "current folder, outside of a project",
        }
    }
}

impl Project {
    /// Finds the project: that of the configuration file that the caller names, or else the nearest folder with a
    /// `flowloom.toml` around the current folder, or else the nearest one with data. In the project of the current folder, or
    /// outside of any, the search starts at the target; at a file in an editor it always does. Fails if the file is in a folder
    /// further up and belongs to another user, who could have put it there to run commands as this one.
    pub fn find(named: Option<&Path>, target: Option<&ProjectTarget>) -> Result<Project, ConfigError> {
        if let Some(file) = named {
            let root = file.parent().map(Path::to_owned).unwrap_or_default();
            return Ok(Project { root, file: Some(file.to_owned()), reason: ProjectReason::Named });
        }
        let current = std::env::current_dir().unwrap_or_default();
        let start = target.and_then(|target| target.start_folder());
        let starts: Vec<&Path> = start.iter().map(PathBuf::as_path).chain([current.as_path()]).collect();
        let has_config = |folder: &Path| folder.join(CONFIG_FILE).is_file();
        let own = find_around(&[current.as_path()], has_config);
        // A definition from elsewhere is used in the project of the current folder, but an editor has no current folder that a
        // person sees.
        let is_edited = matches!(target, Some(ProjectTarget::Edited(_)));
        let counts_here = |root: &Path| is_edited || own.is_none_or(|(_, own)| root.starts_with(own));
        let nearest = find_around(&starts, has_config).filter(|(_, root)| counts_here(root));
        if let Some((start, root)) = nearest.or(own) {
            check_owner(&root.join(CONFIG_FILE), start == root)?;
            return Ok(Project::with_relative_root(&current, root, ProjectReason::ConfigFile));
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let has_data = |folder: &Path| folder.join(DATA_FOLDER).is_dir();
        let served = match (&start, target) {
            (Some(start), Some(ProjectTarget::Served(_))) => Some(start),
            _ => None,
        };
        let starts = if served.is_some() { &starts[..1] } else { &starts[..] };
        // Data in the home folder does not make everything below it a project.
        let counts = |start: &Path, folder: &Path| start == folder || Some(folder) != home.as_deref();
        let found = find_around(starts, has_data).filter(|(start, folder)| counts(start, folder));
        Ok(match (found, served) {
            (Some((_, root)), _) => Project::with_relative_root(&current, root, ProjectReason::DataFolder),
            (None, Some(folder)) => Project::with_relative_root(&current, folder, ProjectReason::Served),
            (None, None) => Project::with_relative_root(&current, &current, ProjectReason::CurrentFolder),
        })
    }

    /// A project whose paths are relative to the current folder, if it is in it.
    fn with_relative_root(current: &Path, root: &Path, reason: ProjectReason) -> Project {
        let root = root.strip_prefix(current).unwrap_or(root).to_owned();
        let file = (reason == ProjectReason::ConfigFile).then(|| root.join(CONFIG_FILE));
        Project { root, file, reason }
    }

    /// The folder of its data, unless a setting names another one.
    pub fn data_folder(&self) -> PathBuf {
        self.root.join(DATA_FOLDER)
    }

    /// The path of a folder relative to the project, which is the same wherever the project is. It is empty for the folder of
    /// the project itself.
    pub fn describe_below(&self, folder: &Path) -> String {
        let (root, folder) =
            (name_folder(&self.root).canonicalize().unwrap_or_default(), folder.canonicalize().unwrap_or_default());
        folder.strip_prefix(&root).unwrap_or(&folder).display().to_string()
    }

    /// Whether commands in the current folder use this project.
    pub fn is_current(&self) -> bool {
        Project::find(None, None).is_ok_and(|found| found.root == self.root && found.file == self.file)
    }

    /// Sets the variables of the project's `.env` file that are not set yet, except for those that the system's programs obey
    /// ([`list_ignored_variables`](Project::list_ignored_variables)). Fails if the file cannot be read or parsed, or belongs
    /// to another user. Must be called while the process has one thread.
    pub fn load_env_file(&self) -> Result<(), ConfigError> {
        let mut accepted = self.read_env_file()?;
        accepted.retain(|(name, _)| !env_file::is_system_variable(name));
        env_file::set_variables(&accepted).map_err(|_| ConfigError::EnvLine { path: self.root.join(ENV_FILE), line: 1 })
    }

    /// The names in the project's `.env` file that are not set, because they would make other programs load code. Fails
    /// if the file cannot be read, or has an invalid line.
    pub fn list_ignored_variables(&self) -> Result<Vec<String>, ConfigError> {
        let names = self.read_env_file()?.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| env_file::is_system_variable(name)).collect())
    }

    fn read_env_file(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let path = self.root.join(ENV_FILE);
        if !path.is_file() {
            return Ok(Vec::new());
        }
        check_owner(&path, self.root.as_os_str().is_empty())?;
        let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
        let text = read_bounded_text(&path, MAX_CONFIG_BYTES).map_err(unreadable)?;
        env_file::read_variables(&text).map_err(|line| ConfigError::EnvLine { path, line })
    }

    /// The projects in the subfolders of the current folder that have data.
    pub fn list_below() -> Vec<Project> {
        let Ok(entries) = std::fs::read_dir(".") else { return Vec::new() };
        let names = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
        let mut roots: Vec<PathBuf> = names.filter(|folder| folder.join(DATA_FOLDER).is_dir()).collect();
        roots.sort_unstable();
        let project = |root: PathBuf| {
            let file = Some(root.join(CONFIG_FILE)).filter(|file| file.is_file());
            let reason = if file.is_some() { ProjectReason::ConfigFile } else { ProjectReason::DataFolder };
            Project { root, file, reason }
        };
        roots.into_iter().map(project).collect()
    }
}

impl ProjectTarget {
    /// The folder where the search starts. `None` if the target does not exist, such as the name of a workflow.
    fn start_folder(&self) -> Option<PathBuf> {
        let path = match self {
            ProjectTarget::Definition(path) | ProjectTarget::Served(path) => path.canonicalize().ok()?,
            // A new file may not be stored yet.
            ProjectTarget::Edited(path) => path.canonicalize().ok().or_else(|| path.parent()?.canonicalize().ok())?,
        };
        if path.is_dir() { Some(path) } else { path.parent().map(Path::to_owned) }
    }
}

/// The nearest folder around one of the starts that fits, with that start.
fn find_around<'a>(starts: &[&'a Path], fits: impl Fn(&Path) -> bool) -> Option<(&'a Path, &'a Path)> {
    starts.iter().find_map(|start| Some((*start, start.ancestors().find(|folder| fits(folder))?)))
}

/// Fails if a file belongs to another user than this process, and was not found in the very folder that is used.
fn check_owner(file: &Path, is_in_start: bool) -> Result<(), ConfigError> {
    let unreadable = |source: io::Error| ConfigError::Unreadable { path: file.to_owned(), source };
    let owner = std::fs::metadata(file).map_err(unreadable)?.uid();
    if is_in_start || owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(ConfigError::ForeignFile { path: file.to_owned(), owner })
}
