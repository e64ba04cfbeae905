//! Stored definitions: workflows, and the blocks, agents and tools that they share.
//!
//! A definition has one current content; every content it ever had is stored as a numbered version. A batch of changes
//! is applied completely or not at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_runtime::journal::{scope_user, split_owner};
use parking_lot::Mutex;

use crate::audit::{Actor, AuditAction, AuditedChange};
use crate::db::{DbConnection, DbRow, params};
use crate::definition_condition::{DefinitionCondition, content_tag};
use crate::error::StoreError;
use crate::search;
use crate::store::Store;
use crate::users::SHARED_USER;

/// Kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    /// A workflow, which can be run.
    Workflow,
    /// A block of pipelines.
    Block,
    /// An agent of graphs.
    Agent,
    /// A tool of agents.
    Tool,
}

impl DefinitionKind {
    /// All kinds.
    pub const ALL: [DefinitionKind; 4] =
        [DefinitionKind::Workflow, DefinitionKind::Block, DefinitionKind::Agent, DefinitionKind::Tool];

    /// Name of the kind, in the database and for people.
    pub fn name(self) -> &'static str {
        match self {
            DefinitionKind::Workflow => "workflow",
            DefinitionKind::Block => "block",
            DefinitionKind::Agent => "agent",
            DefinitionKind::Tool => "tool",
        }
    }

    fn parse(name: &str) -> DefinitionKind {
        DefinitionKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(DefinitionKind::Workflow)
    }
}

/// How a definition was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By an API call.
    Api,
    /// By synchronising a folder.
    Sync,
    /// By a step of a run.
    Function,
}

impl Origin {
    /// Name of the origin, in the database.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Api => "api",
            Origin::Sync => "sync",
            Origin::Function => "function",
        }
    }

    fn parse(name: &str) -> Origin {
        [Origin::Sync, Origin::Function].into_iter().find(|origin| origin.name() == name).unwrap_or(Origin::Api)
    }
}

/// Key of a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionKey {
    /// User that owns it; [`SHARED_USER`] if every user may use it.
    pub user: String,
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Id, unique per user and kind.
    pub id: String,
}

/// A definition to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDefinition {
    /// Key of the definition.
    pub key: DefinitionKey,
    /// Format, for workflows.
    pub format: Option<String>,
    /// The content. This crate reads it only to index blocks.
    pub content: String,
    /// How it is stored.
    pub origin: Origin,
    /// Blocks, agents and tools that it uses, by kind and id.
    pub uses: Vec<(DefinitionKind, String)>,
}

/// A stored definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRow {
    /// Key of the definition.
    pub key: DefinitionKey,
    /// Number of the current version, from 1.
    pub version: u32,
    /// Hash of the content.
    pub hash: String,
    /// Format, for workflows.
    pub format: Option<String>,
    /// The content.
    pub content: String,
    /// How it was stored.
    pub origin: Origin,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of the last change of the content, in milliseconds since the Unix epoch.
    pub updated_at: u64,
}

/// A definition that was deleted. Its versions remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedDefinition {
    /// Its id.
    pub id: String,
    /// The number of its last version.
    pub last_version: u32,
    /// When that was stored, in milliseconds since the Unix epoch.
    pub stored_at: u64,
}

/// A current or former content of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow {
    /// Number of the version, from 1.
    pub version: u32,
    /// Hash of the content.
    pub hash: String,
    /// Time it was stored, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The content.
    pub content: String,
}

/// A change to a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionChange {
    /// Creates or replaces the definition with this key.
    Put(NewDefinition),
    /// Deletes the definition with this key.
    Delete(DefinitionKey),
}

impl DefinitionChange {
    fn as_put(&self) -> Option<&NewDefinition> {
        match self {
            DefinitionChange::Put(new) => Some(new),
            DefinitionChange::Delete(_) => None,
        }
    }

    fn key(&self) -> &DefinitionKey {
        match self {
            DefinitionChange::Put(NewDefinition { key, .. }) | DefinitionChange::Delete(key) => key,
        }
    }

    fn with_key(self, replace: impl FnOnce(&DefinitionKey) -> DefinitionKey) -> DefinitionChange {
        match self {
            DefinitionChange::Put(new) => DefinitionChange::Put(NewDefinition { key: replace(&new.key), ..new }),
            DefinitionChange::Delete(key) => DefinitionChange::Delete(replace(&key)),
        }
    }

    fn to_audited(&self) -> AuditedChange {
        let action = match self {
            DefinitionChange::Put(_) => AuditAction::PutDefinition,
            DefinitionChange::Delete(_) => AuditAction::DeleteDefinition,
        };
        let key = self.key();
        AuditedChange::new(action, Some(key.user.clone()), format!("{} {}", key.kind.name(), key.id))
    }
}

/// Result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeResult {
    /// The definition is new.
    Created,
    /// The content changed.
    Updated,
    /// The content was the same already.
    Unchanged,
    /// The definition was deleted.
    Deleted,
    /// There was no definition to delete.
    Missing,
}

/// A change that was made.
#[derive(Clone, Debug)]
pub struct ChangedDefinition {
    /// Its result.
    pub result: ChangeResult,
    /// The definition right after the change, whatever others have stored since; `None` after a deletion.
    pub row: Option<DefinitionRow>,
}

impl ChangeResult {
    fn is_change(self) -> bool {
        matches!(self, ChangeResult::Created | ChangeResult::Updated | ChangeResult::Deleted)
    }

    /// Name of the result.
    pub fn name(self) -> &'static str {
        match self {
            ChangeResult::Created => "created",
            ChangeResult::Updated => "updated",
            ChangeResult::Unchanged => "unchanged",
            ChangeResult::Deleted => "deleted",
            ChangeResult::Missing => "missing",
        }
    }
}

const DEFINITION_COLUMNS: &str = "user_id, kind, id, version, hash, format, content, origin, created_at, updated_at";

impl Store {
    /// Applies all changes or none, records them, and returns the result of each. Fails with `StillUsed` if a deleted
    /// definition is used by another one, and with `QuotaExceeded` if a user would have too many.
    pub async fn change_definitions(
        &self,
        changes: Vec<DefinitionChange>,
        by: &Actor,
        at: u64,
    ) -> Result<Vec<ChangeResult>, StoreError> {
        let changed = self.change_definitions_if(changes, DefinitionCondition::default(), by, at).await?;
        Ok(changed.into_iter().map(|changed| changed.result).collect())
    }

    /// Does the same if the current content of each definition meets a condition. Fails with `PreconditionFailed`
    /// otherwise.
    pub async fn change_definitions_if(
        &self,
        changes: Vec<DefinitionChange>,
        condition: DefinitionCondition,
        by: &Actor,
        at: u64,
    ) -> Result<Vec<ChangedDefinition>, StoreError> {
        let attempted: Vec<AuditedChange> = changes.iter().map(DefinitionChange::to_audited).collect();
        for new in changes.iter().filter_map(DefinitionChange::as_put) {
            self.check_database_quota(&new.key.user, new.content.len(), at)?;
        }
        let changes: Vec<DefinitionChange> =
            changes.into_iter().map(|change| change.with_key(|key| self.stored_key(key))).collect();
        let (audited, actor, quotas) = (attempted.clone(), by.clone(), self.quotas.clone());
        let notified = Arc::new(Mutex::new(Vec::new()));
        let tell = notified.clone();
        let job = move |connection: &DbConnection| {
            connection.serialize_changes("definitions")?;
            changes.iter().try_for_each(|change| check_condition(connection, &condition, change.key()))?;
            let done: Result<Vec<ChangedDefinition>, _> =
                changes.iter().map(|change| make_change(connection, change, at)).collect();
            let done = done?;
            check_unused(connection, &changes)?;
            let created = changes.iter().zip(&done).filter(|(_, done)| done.result == ChangeResult::Created);
            let mut users: BTreeMap<&str, u64> = BTreeMap::new();
            created.for_each(|(change, _)| *users.entry(split_owner(&change.key().user).0).or_default() += 1);
            let mut counts = users.into_iter();
            counts.try_for_each(|(user, created)| quotas.check_definitions(connection, user, created, at))?;
            let mut recorded = audited.iter().zip(&done).filter(|(_, done)| done.result.is_change());
            recorded.try_for_each(|(change, done)| change.record_entry(connection, &actor, at, done.result.name()))?;
            *tell.lock() = done;
            Ok(())
        };
        self.submit_audited(Box::new(job), attempted, by, at).await?;
        let notified = std::mem::take(&mut *notified.lock());
        Ok(notified)
    }

    /// A definition, if it exists. Fails if the database cannot be read.
    pub fn get_definition(&self, key: &DefinitionKey) -> Result<Option<DefinitionRow>, StoreError> {
        let key = self.stored_key(key);
        self.read_with(|db| read_row(db, &key))
    }

    /// All definitions of one kind and user, ordered by id. Fails if the database cannot be read.
    pub fn list_definitions(&self, user: &str, kind: DefinitionKind) -> Result<Vec<DefinitionRow>, StoreError> {
        let sql = format!("select {DEFINITION_COLUMNS} from definition where user_id = $1 and kind = $2 order by id");
        self.read_with(|db| db.query_rows(&sql, params![&self.owner_of(user), kind.name()], parse_definition_row))
    }

    /// The users who have a definition of a kind, in order; only those who have the one called `id`, if it is given.
    /// Fails if the database cannot be read.
    pub fn list_owners(&self, kind: DefinitionKind, id: Option<&str>) -> Result<Vec<String>, StoreError> {
        let sql = "select distinct user_id from definition where kind = $1 and ($2 = '' or id = $2) order by user_id";
        let owners: Vec<String> =
            self.read_with(|db| db.query_rows(sql, params![kind.name(), id.unwrap_or_default()], |row| row.get(0)))?;
        Ok(owners.iter().filter_map(|owner| self.own_user(owner)).collect())
    }

    /// The ids with this beginning that other users than `user` have given to definitions of a kind. Fails if the database
    /// cannot be read.
    pub fn list_foreign_ids(
        &self,
        kind: DefinitionKind,
        user: &str,
        start: &str,
    ) -> Result<HashSet<String>, StoreError> {
        let sql = "select user_id, id from definition where kind = $1 and substr(id, 1, length($2)) = $2";
        let read = |row: &DbRow<'_>| Ok(OwnedId { owner: row.get(0)?, id: row.get(1)? });
        let found = self.read_with(|db| db.query_rows(sql, params![kind.name(), start], read))?;
        let is_foreign = |found: &OwnedId| self.own_user(&found.owner).is_some_and(|owner| owner != user);
        Ok(found.into_iter().filter(is_foreign).map(|found| found.id).collect())
    }

    /// All versions of a definition, newest first; also of a deleted definition. Fails if the database cannot be read.
    pub fn list_versions(&self, key: &DefinitionKey) -> Result<Vec<VersionRow>, StoreError> {
        let sql = "select version, hash, at, content from definition_version \
                   where user_id = $1 and kind = $2 and id = $3 order by version desc";
        let DefinitionKey { user, kind, id } = &self.stored_key(key);
        let version = |row: &DbRow<'_>| {
            let version = row.get_count(0)? as u32;
            Ok(VersionRow { version, hash: row.get(1)?, at: row.get_count(2)?, content: row.get(3)? })
        };
        self.read_with(|db| db.query_rows(sql, params![user, kind.name(), id], version))
    }

    /// The definitions of a kind that a user has deleted, the one that was stored last first. Fails if the database
    /// cannot be read.
    pub fn list_deleted(&self, user: &str, kind: DefinitionKind) -> Result<Vec<DeletedDefinition>, StoreError> {
        let sql = "select id, max(version), max(at) from definition_version as version \
                   where user_id = $1 and kind = $2 and not exists (select 1 from definition \
                   where user_id = version.user_id and kind = version.kind and id = version.id) \
                   group by id order by 3 desc, id";
        let read = |row: &DbRow<'_>| {
            let last_version = row.get_count(1)? as u32;
            Ok(DeletedDefinition { id: row.get(0)?, last_version, stored_at: row.get_count(2)? })
        };
        self.read_with(|db| db.query_rows(sql, params![&self.owner_of(user), kind.name()], read))
    }

    /// The ids of the stored workflows of a user, and of those that everyone has, that use a block, agent or tool.
    /// Fails if the database cannot be read.
    pub fn list_uses(&self, user: &str, kind: DefinitionKind, id: &str) -> Result<Vec<String>, StoreError> {
        let sql = "select distinct id from definition_use where used_kind = $1 and used_id = $2 \
                   and (user_id = $3 or user_id = $4) order by id";
        let (user, everyone) = (self.owner_of(user), self.owner_of(SHARED_USER));
        self.read_with(|db| db.query_rows(sql, params![kind.name(), id, &user, &everyone], |row| row.get(0)))
    }
}

fn parse_definition_row(row: &DbRow<'_>) -> Result<DefinitionRow, StoreError> {
    let kind = DefinitionKind::parse(&row.get::<String>(1)?);
    Ok(DefinitionRow {
        key: DefinitionKey { user: split_owner(&row.get::<String>(0)?).0.to_owned(), kind, id: row.get(2)? },
        version: row.get_count(3)? as u32,
        hash: row.get(4)?,
        format: row.get(5)?,
        content: row.get(6)?,
        origin: Origin::parse(&row.get::<String>(7)?),
        created_at: row.get_count(8)?,
        updated_at: row.get_count(9)?,
    })
}

impl DefinitionRow {
    /// The tag of its content.
    pub fn content_tag(&self) -> String {
        content_tag(&self.hash, self.version)
    }
}

/// The id of a definition and its user.
struct OwnedId {
    owner: String,
    id: String,
}

/// Fails with `ConditionFailed` unless the content that is effective for the user meets the condition.
fn check_condition(
    connection: &DbConnection,
    condition: &DefinitionCondition,
    key: &DefinitionKey,
) -> Result<(), StoreError> {
    if *condition == DefinitionCondition::default() {
        return Ok(());
    }
    let tag = match read_tag(connection, key, &key.user)? {
        None => read_tag(connection, key, &scope_user(split_owner(&key.user).1, SHARED_USER))?,
        own => own,
    };
    match condition.is_met(tag.as_deref()) {
        true => Ok(()),
        false => Err(condition.to_error(key.kind.name(), &key.id)),
    }
}

fn read_tag(connection: &DbConnection, key: &DefinitionKey, user: &str) -> Result<Option<String>, StoreError> {
    let sql = "select hash, version from definition where user_id = $1 and kind = $2 and id = $3";
    connection.query_first(sql, params![user, key.kind.name(), &key.id], |row| {
        Ok(content_tag(&row.get::<String>(0)?, row.get_count(1)? as u32))
    })
}

fn make_change(connection: &DbConnection, change: &DefinitionChange, at: u64) -> Result<ChangedDefinition, StoreError> {
    let result = apply_change(connection, change, at)?;
    let row = change.as_put().map(|new| read_row(connection, &new.key)).transpose()?.flatten();
    Ok(ChangedDefinition { result, row })
}

fn read_row(connection: &DbConnection, key: &DefinitionKey) -> Result<Option<DefinitionRow>, StoreError> {
    let sql = format!("select {DEFINITION_COLUMNS} from definition where user_id = $1 and kind = $2 and id = $3");
    connection.query_first(&sql, params![&key.user, key.kind.name(), &key.id], parse_definition_row)
}

fn apply_change(connection: &DbConnection, change: &DefinitionChange, at: u64) -> Result<ChangeResult, StoreError> {
    match change {
        DefinitionChange::Put(new) => store_definition(connection, new, at),
        DefinitionChange::Delete(key) => {
            delete_uses(connection, key)?;
            search::remove_block(connection, key)?;
            let sql = "delete from definition where user_id = $1 and kind = $2 and id = $3";
            let count = connection.execute_sql(sql, params![&key.user, key.kind.name(), &key.id])?;
            Ok(if count == 0 { ChangeResult::Missing } else { ChangeResult::Deleted })
        }
    }
}

fn store_definition(connection: &DbConnection, new: &NewDefinition, at: u64) -> Result<ChangeResult, StoreError> {
    let DefinitionKey { user, kind, id } = &new.key;
    let (kind, hash) = (kind.name(), Hash::of_bytes(new.content.as_bytes()).to_string());
    let sql = "select hash from definition where user_id = $1 and kind = $2 and id = $3";
    let before: Option<String> = connection.query_first(sql, params![user, kind, id], |row| row.get(0))?;
    store_uses(connection, new)?;
    if before.as_deref() == Some(hash.as_str()) {
        return Ok(ChangeResult::Unchanged);
    }
    let sql =
        "select coalesce(max(version), 0) + 1 from definition_version where user_id = $1 and kind = $2 and id = $3";
    let version: i64 = connection.query_first(sql, params![user, kind, id], |row| row.get(0))?.unwrap_or(1);
    let sql = "insert into definition_version values ($1, $2, $3, $4, $5, $6, $7)";
    connection.execute_unchecked(sql, params![user, kind, id, version, &hash, &new.content, at])?;
    let sql = "insert into definition values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) \
               on conflict (user_id, kind, id) do update set version = excluded.version, hash = excluded.hash, \
               format = excluded.format, content = excluded.content, origin = excluded.origin, \
               updated_at = excluded.updated_at";
    let origin = new.origin.name();
    connection
        .execute_unchecked(sql, params![user, kind, id, version, &hash, &new.format, &new.content, origin, at])?;
    search::index_block(connection, &new.key, &new.content)?;
    Ok(if before.is_some() { ChangeResult::Updated } else { ChangeResult::Created })
}

/// Stores which definitions a workflow uses. Other kinds use none.
fn store_uses(connection: &DbConnection, new: &NewDefinition) -> Result<(), StoreError> {
    delete_uses(connection, &new.key)?;
    let sql = "insert into definition_use values ($1, $2, $3, $4) on conflict do nothing";
    let DefinitionKey { user, id, .. } = &new.key;
    new.uses.iter().try_for_each(|(kind, used)| connection.execute_unchecked(sql, params![user, id, kind.name(), used]))
}

fn delete_uses(connection: &DbConnection, key: &DefinitionKey) -> Result<(), StoreError> {
    if key.kind == DefinitionKind::Workflow {
        let sql = "delete from definition_use where user_id = $1 and id = $2";
        connection.execute_unchecked(sql, params![&key.user, &key.id])?;
    }
    Ok(())
}

/// Fails with `StillUsed` if a deleted definition is used by a workflow, or a deleted workflow by a schedule or
/// webhook. A shared definition may be used by any user.
fn check_unused(connection: &DbConnection, changes: &[DefinitionChange]) -> Result<(), StoreError> {
    for change in changes {
        let DefinitionChange::Delete(DefinitionKey { user, kind, id }) = change else { continue };
        let read = |row: &DbRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let used: Vec<(String, String)> = if *kind == DefinitionKind::Workflow {
            let sql = "select 'the schedule ' || id as used, user_id from schedule where workflow = $1 \
                       union select 'the hook ' || id, user_id from hook where workflow = $1 order by used";
            connection.query_rows(sql, params![id], read)?
        } else {
            let sql = "select id, user_id from definition_use where used_kind = $1 and used_id = $2 order by id";
            connection.query_rows(sql, params![kind.name(), id], read)?
        };
        let (owner, project) = split_owner(user);
        let may_use = |by: &str| by == user || (owner == SHARED_USER && split_owner(by).1 == project);
        let mut users: Vec<String> = used.into_iter().filter(|(_, by)| may_use(by)).map(|(name, _)| name).collect();
        users.dedup();
        if !users.is_empty() {
            return Err(StoreError::StillUsed { kind: kind.name(), id: id.clone(), users });
        }
    }
    Ok(())
}
