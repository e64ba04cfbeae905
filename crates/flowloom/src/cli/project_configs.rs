//! The configurations of the projects that a command meets.

use std::path::Path;
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::config::error::ConfigError;
use flowloom_app::config::project::{Project, ProjectTarget};

use super::Global;

/// The configurations that were read. Each file counts for the project around it, and one folder can contain several.
pub(crate) struct ProjectConfigs<'a> {
    global: &'a Global,
    loaded: Vec<Arc<Config>>,
}

impl<'a> ProjectConfigs<'a> {
    pub(crate) fn new(global: &'a Global) -> ProjectConfigs<'a> {
        ProjectConfigs { global, loaded: Vec::new() }
    }

    /// The configuration of the project around a file or folder. Fails if it is invalid.
    pub(crate) fn load_around(&mut self, path: &Path) -> Result<Arc<Config>, ConfigError> {
        let target = ProjectTarget::Definition(path.to_owned());
        let project = self.global.find_project(Some(&target))?;
        match self.find_loaded(&project) {
            Some(config) => Ok(config),
            None => {
                let config = Arc::new(self.global.load_config_for(Some(&target))?);
                self.loaded.push(config.clone());
                Ok(config)
            }
        }
    }

    fn find_loaded(&self, project: &Project) -> Option<Arc<Config>> {
        self.loaded.iter().find(|config| config.project == *project).cloned()
    }
}
