//! Stored definitions: workflows, and the blocks, agents and tools that they share.
//!
//! A definition has one current content; every content it ever had is stored as a numbered version. A batch of changes
//! is applied completely or not at all.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;

use crate::db::{Connection, Error, Row, params};
use crate::{Store, search};

/// User name under which definitions are stored that every user may use.
pub const SHARED: &str = "local";

/// Kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A workflow, which can be run.
    Workflow,
    /// A block of pipelines.
    Block,
    /// An agent of graphs.
    Agent,
    /// A tool of agents.
    Tool,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Workflow, Kind::Block, Kind::Agent, Kind::Tool];

    /// Name of the kind, in the database and for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Workflow => "workflow",
            Kind::Block => "block",
            Kind::Agent => "agent",
            Kind::Tool => "tool",
        }
    }

    fn parse(name: &str) -> Kind {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Workflow)
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
    /// User that owns it; [`SHARED`] if every user may use it.
    pub holder: String,
    /// Kind of the definition.
    pub kind: Kind,
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
    pub uses: Vec<(Kind, String)>,
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
pub enum Change {
    /// Creates or replaces the definition with this key.
    Put(NewDefinition),
    /// Deletes the definition with this key.
    Delete(DefinitionKey),
}

/// Result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
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

impl Changed {
    /// Name of the result.
    pub fn name(self) -> &'static str {
        match self {
            Changed::Created => "created",
            Changed::Updated => "updated",
            Changed::Unchanged => "unchanged",
            Changed::Deleted => "deleted",
            Changed::Missing => "missing",
        }
    }
}

const COLUMNS: &str = "holder, kind, id, version, hash, format, content, origin, created_at, updated_at";

impl Store {
    /// Applies all changes or none, and returns the result of each. Fails with `StillUsed` if a deleted definition is
    /// used by another one.
    pub async fn change_definitions(&self, changes: Vec<Change>, at: u64) -> Result<Vec<Changed>, StepError> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = told.clone();
        let job = move |connection: &Connection| {
            connection.one_at_a_time("definitions")?;
            let done: Result<Vec<Changed>, _> = changes.iter().map(|change| make(connection, change, at)).collect();
            *tell.lock().unwrap_or_else(PoisonError::into_inner) = done?;
            unused(connection, &changes)
        };
        self.writer.submit(Box::new(job)).await?;
        let told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(told)
    }

    /// A definition, if it exists.
    pub fn definition(&self, key: &DefinitionKey) -> Result<Option<DefinitionRow>, StepError> {
        let sql = format!("select {COLUMNS} from definition where holder = $1 and kind = $2 and id = $3");
        let DefinitionKey { holder, kind, id } = key;
        self.read_with(|db| db.first(&sql, params![holder, kind.name(), id], row_of))
    }

    /// All definitions of one kind and user, ordered by id.
    pub fn definitions(&self, holder: &str, kind: Kind) -> Result<Vec<DefinitionRow>, StepError> {
        let sql = format!("select {COLUMNS} from definition where holder = $1 and kind = $2 order by id");
        self.read_with(|db| db.query(&sql, params![holder, kind.name()], row_of))
    }

    /// All versions of a definition, newest first; also of a deleted definition.
    pub fn versions(&self, key: &DefinitionKey) -> Result<Vec<VersionRow>, StepError> {
        let sql = "select version, hash, at, content from definition_version \
                   where holder = $1 and kind = $2 and id = $3 order by version desc";
        let DefinitionKey { holder, kind, id } = key;
        let version = |row: &Row<'_>| {
            let version = row.count(0)? as u32;
            Ok(VersionRow { version, hash: row.get(1)?, at: row.count(2)?, content: row.get(3)? })
        };
        self.read_with(|db| db.query(sql, params![holder, kind.name(), id], version))
    }
}

fn row_of(row: &Row<'_>) -> Result<DefinitionRow, Error> {
    let kind = Kind::parse(&row.get::<String>(1)?);
    Ok(DefinitionRow {
        key: DefinitionKey { holder: row.get(0)?, kind, id: row.get(2)? },
        version: row.count(3)? as u32,
        hash: row.get(4)?,
        format: row.get(5)?,
        content: row.get(6)?,
        origin: Origin::parse(&row.get::<String>(7)?),
        created_at: row.count(8)?,
        updated_at: row.count(9)?,
    })
}

fn make(connection: &Connection, change: &Change, at: u64) -> Result<Changed, Error> {
    match change {
        Change::Put(new) => put(connection, new, at),
        Change::Delete(key) => {
            forget_uses(connection, key)?;
            search::forget(connection, key)?;
            let sql = "delete from definition where holder = $1 and kind = $2 and id = $3";
            let count = connection.execute(sql, params![&key.holder, key.kind.name(), &key.id])?;
            Ok(if count == 0 { Changed::Missing } else { Changed::Deleted })
        }
    }
}

fn put(connection: &Connection, new: &NewDefinition, at: u64) -> Result<Changed, Error> {
    let DefinitionKey { holder, kind, id } = &new.key;
    let (kind, hash) = (kind.name(), Hash::of(new.content.as_bytes()).to_string());
    let sql = "select hash from definition where holder = $1 and kind = $2 and id = $3";
    let before: Option<String> = connection.first(sql, params![holder, kind, id], |row| row.get(0))?;
    keep_uses(connection, new)?;
    if before.as_deref() == Some(hash.as_str()) {
        return Ok(Changed::Unchanged);
    }
    let sql =
        "select coalesce(max(version), 0) + 1 from definition_version where holder = $1 and kind = $2 and id = $3";
    let version: i64 = connection.first(sql, params![holder, kind, id], |row| row.get(0))?.unwrap_or(1);
    let sql = "insert into definition_version values ($1, $2, $3, $4, $5, $6, $7)";
    connection.put(sql, params![holder, kind, id, version, &hash, &new.content, at])?;
    let sql = "insert into definition values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) \
               on conflict (holder, kind, id) do update set version = excluded.version, hash = excluded.hash, \
               format = excluded.format, content = excluded.content, origin = excluded.origin, \
               updated_at = excluded.updated_at";
    let origin = new.origin.name();
    connection.put(sql, params![holder, kind, id, version, &hash, &new.format, &new.content, origin, at])?;
    search::keep(connection, &new.key, &new.content)?;
    Ok(if before.is_some() { Changed::Updated } else { Changed::Created })
}

/// Stores which definitions a workflow uses. Other kinds use none.
fn keep_uses(connection: &Connection, new: &NewDefinition) -> Result<(), Error> {
    forget_uses(connection, &new.key)?;
    let sql = "insert into definition_use values ($1, $2, $3, $4) on conflict do nothing";
    let DefinitionKey { holder, id, .. } = &new.key;
    new.uses.iter().try_for_each(|(kind, used)| connection.put(sql, params![holder, id, kind.name(), used]))
}

fn forget_uses(connection: &Connection, key: &DefinitionKey) -> Result<(), Error> {
    if key.kind == Kind::Workflow {
        let sql = "delete from definition_use where holder = $1 and id = $2";
        connection.put(sql, params![&key.holder, &key.id])?;
    }
    Ok(())
}

/// Fails with `StillUsed` if a deleted definition is used by a workflow, or a deleted workflow by a schedule or
/// webhook. A shared definition may be used by any user.
fn unused(connection: &Connection, changes: &[Change]) -> Result<(), Error> {
    for change in changes {
        let Change::Delete(DefinitionKey { holder, kind, id }) = change else { continue };
        let users: Vec<String> = if *kind == Kind::Workflow {
            let sql = "select 'the schedule ' || id as used from schedule where workflow = $1 and ($2 = $3 or holder = $2) \
                       union select 'the hook ' || id from hook where workflow = $1 and ($2 = $3 or holder = $2) \
                       order by used";
            connection.query(sql, params![id, holder, SHARED], |row| row.get(0))?
        } else {
            let sql = "select id from definition_use where used_kind = $1 and used_id = $2 \
                       and ($3 = $4 or holder = $3) order by id";
            connection.query(sql, params![kind.name(), id, holder, SHARED], |row| row.get(0))?
        };
        if !users.is_empty() {
            let message = format!("the {} {id} is used by {}", kind.name(), users.join(", "));
            return Err(StepError::new(Code::StillUsed, message).into());
        }
    }
    Ok(())
}
