//! Owners: projects that share a database have definitions, schedules, webhooks and memories of their own. In the tables,
//! the name of the project is part of the column that names the user.

use flowloom_runtime::journal::{scope_user, split_owner};

use crate::definitions::DefinitionKey;
use crate::store::Store;

impl Store {
    /// The name of the project of this process; empty if it has none.
    pub(crate) fn project_name(&self) -> &str {
        &self.recovery.project
    }

    /// The owner of what a user has in the project of this process.
    pub fn owner_of(&self, user: &str) -> String {
        scope_user(&self.recovery.project, user)
    }

    /// The user of a row of this project; `None` if it belongs to another one.
    pub(crate) fn own_user(&self, owner: &str) -> Option<String> {
        let (user, project) = split_owner(owner);
        (project == self.recovery.project).then(|| user.to_owned())
    }

    /// The key under which a definition of this project is stored.
    pub(crate) fn stored_key(&self, key: &DefinitionKey) -> DefinitionKey {
        DefinitionKey { user: self.owner_of(&key.user), ..key.clone() }
    }
}
