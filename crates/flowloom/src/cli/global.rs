//! The options that every command has.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::config::error::ConfigError;
use flowloom_app::config::project::{Project, ProjectTarget};
use flowloom_app::config::{Config, Overrides, Setting};
use flowloom_app::definitions::functions::describe_functions;
use flowloom_app::engines::App;
use flowloom_core::code::Code;

use crate::failure::CommandError;
use crate::hint;
use crate::style::ColorChoice;

#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Folder of the database and local data [default: .flowloom in the folder of the project]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Use Postgres instead of SQLite: postgres://USER:PASSWORD@HOST/NAME
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) database: Option<String>,
    /// Print the result as one JSON value on stdout
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Configuration file [default: the nearest flowloom.toml in a folder around the definition, or around the current
    /// folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// Use the data folder even if other users can read it
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) allow_readable: bool,
    /// When to colour the output; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = "Global options")]
    pub(crate) color: ColorChoice,
    /// The file, folder or name that the command was given.
    #[arg(skip)]
    pub(super) target: Option<ProjectTarget>,
}

impl Global {
    /// Reads the variables of the project's `.env` file. Must be called while the process has one thread.
    pub(crate) fn load_env_file(&self) -> Result<(), ConfigError> {
        self.find_project(self.target.as_ref())?.load_env_file()
    }

    /// The project around a target, under these options.
    pub(crate) fn find_project(&self, target: Option<&ProjectTarget>) -> Result<Project, ConfigError> {
        Project::find(self.config.as_deref(), target)
    }

    /// Reads the configuration under these options.
    pub(crate) fn load_config(&self) -> Result<Config, ConfigError> {
        self.load_config_for(self.target.as_ref())
    }

    /// Reads the configuration of the project around a target, under these options.
    pub(crate) fn load_config_for(&self, target: Option<&ProjectTarget>) -> Result<Config, ConfigError> {
        let config = self.read_config_for(target)?;
        config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        hint::set_options(match &self.data_dir {
            Some(folder) => format!(" --data-dir {}", hint::quote_argument(folder)),
            None => hint::project_options(&config.project),
        });
        Ok(config)
    }

    /// The same, without a word to the person.
    pub(crate) fn read_config_for(&self, target: Option<&ProjectTarget>) -> Result<Config, ConfigError> {
        let data_dir = self.data_dir.clone().map(|value| Setting { value, origin: "--data-dir".to_owned() });
        let database = self.database.clone().map(|value| Setting { value, origin: "--database".to_owned() });
        let allow_readable =
            self.allow_readable.then(|| Setting { value: true, origin: "--allow-readable".to_owned() });
        let (file, target) = (self.config.clone(), target.cloned());
        Config::load(Overrides { file, target, data_dir, database, allow_readable }).map(describe_functions)
    }

    /// Opens the data of the project for a command that reads them. Fails if there are none yet.
    pub(crate) fn open_existing(&self) -> Result<App, CommandError> {
        match self.find_data()? {
            ExistingData::Open(app) => Ok(*app),
            ExistingData::Missing(message) => Err(CommandError::new(Code::RunNotFound, message)),
        }
    }

    /// Opens the data of the project for an operator who continues a run under the current configuration.
    pub(crate) fn open_accepting_config(&self) -> Result<App, CommandError> {
        let mut config = self.load_config()?;
        config.accepts_any_config = true;
        match find_data_of(config)? {
            ExistingData::Open(app) => Ok(*app),
            ExistingData::Missing(message) => Err(CommandError::new(Code::RunNotFound, message)),
        }
    }

    /// Opens the data of the project, if there are any.
    pub(crate) fn find_data(&self) -> Result<ExistingData, CommandError> {
        find_data_of(self.load_config()?)
    }
}

fn find_data_of(config: Config) -> Result<ExistingData, CommandError> {
    let folder = &config.data_dir.value;
    if !config.has_data() {
        let message = format!("there is nothing in {} yet; {}", folder.display(), advise_projects());
        return Ok(ExistingData::Missing(message));
    }
    Ok(ExistingData::Open(Box::new(App::open(config)?)))
}

/// The data of a project, for a command that only reads them.
pub(crate) enum ExistingData {
    /// They are open.
    Open(Box<App>),
    /// There are none yet, as this message reports.
    Missing(String),
}

/// Where the data of other projects is.
fn advise_projects() -> String {
    let options: Vec<String> = Project::list_below().iter().map(hint::project_options).collect();
    match options.is_empty() {
        true => {
            "data is kept for each project: change to its folder, or name it with --config or --data-dir".to_owned()
        }
        false => format!("there are projects in subfolders, use{}", options.join(" or")),
    }
}
