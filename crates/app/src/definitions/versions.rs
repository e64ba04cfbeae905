//! Versions of stored workflows, by number.

use flowloom_store::{DefinitionKey, DefinitionKind, Store};

use super::error::DefinitionError;
use super::source::{LoadedDefinition, Loader};
use super::stored::{self, DefinitionContent};
use crate::config::Config;
use crate::error::AppError;

/// A version as people write it: `NAME@2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionName {
    /// The id of the workflow.
    pub id: String,
    /// The number of the version, from 1.
    pub version: u32,
}

impl VersionName {
    /// Parses `NAME@2`; `None` if the text does not name a version.
    pub fn parse(text: &str) -> Option<VersionName> {
        let (id, version) = text.rsplit_once('@')?;
        let version = version.parse().ok().filter(|number| *number > 0)?;
        (!id.is_empty()).then(|| VersionName { id: id.to_owned(), version })
    }
}

/// The files of a version of a user's stored workflow, also of a deleted one. Fails with `NotThere`, and names the
/// versions that there are.
pub fn read_version(store: &Store, user: &str, named: &VersionName) -> Result<DefinitionContent, AppError> {
    let VersionName { id, version } = named;
    let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Workflow, id: id.clone() };
    let rows = store.list_versions(&key)?;
    match rows.iter().find(|row| row.version == *version) {
        Some(row) => Ok(DefinitionContent::parse(&row.content)?),
        None if rows.is_empty() => Err(DefinitionError::NotFound(id.clone()).into()),
        None => {
            let versions = rows.iter().rev().map(|row| row.version).collect();
            Err(DefinitionError::NoSuchVersion { id: id.clone(), version: *version, versions }.into())
        }
    }
}

/// Compiles a version of a user's stored workflow. Fails if there is no such workflow or version, or if its content
/// is damaged.
pub fn compile_version(
    store: &Store,
    config: &Config,
    user: &str,
    named: &VersionName,
) -> Result<LoadedDefinition, AppError> {
    let content = read_version(store, user, named)?;
    Ok(stored::compile_for_user(store, &Loader::new(config), user, &content)?.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_name_and_a_number() {
        let parse = |text: &str| VersionName::parse(text).map(|named| (named.id, named.version));
        assert_eq!(parse("poem@2"), Some(("poem".to_owned(), 2)));
        assert_eq!(parse("a@b@12"), Some(("a@b".to_owned(), 12)));
        assert_eq!([parse("poem"), parse("@2"), parse("poem@0"), parse("poem@x"), parse("poem@")], [const { None }; 5]);
    }
}
