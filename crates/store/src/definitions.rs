//! Definitions that programs keep: workflows, and the blocks, agents and tools that they share.
//!
//! Each has one content in force, and every content it ever had as a numbered version. Changes are made together or
//! not at all.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::hash::Hash;

use crate::db::{Connection, Error, Row, params};
use crate::{Store, search};

/// Under whose name definitions are kept that everyone may use.
pub const SHARED: &str = "local";

/// What a definition is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something that can be run.
    Workflow,
    /// A block of pipelines.
    Block,
    /// An agent of graphs.
    Agent,
    /// A tool of agents.
    Tool,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::Workflow, Kind::Block, Kind::Agent, Kind::Tool];

    /// Its name, in the database and for people.
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

/// Who put a definition there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A call.
    Api,
    /// A folder that was taken over as a whole.
    Sync,
    /// A step of a run.
    Function,
}

impl Origin {
    /// Its name.
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

/// Which definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionKey {
    /// Whose it is; [`SHARED`] is everyone's.
    pub holder: String,
    /// What it is of.
    pub kind: Kind,
    /// Its id.
    pub id: String,
}

/// A definition that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDefinition {
    /// Which.
    pub key: DefinitionKey,
    /// A workflow's format.
    pub format: Option<String>,
    /// What is kept. This crate looks into it only for what a block is found by.
    pub content: String,
    /// Who puts it there.
    pub origin: Origin,
    /// The blocks, agents and tools that it needs, by kind and id.
    pub uses: Vec<(Kind, String)>,
}

/// A definition that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRow {
    /// Which.
    pub key: DefinitionKey,
    /// Counts the contents it has had, from 1.
    pub version: u32,
    /// Hash of the content.
    pub hash: String,
    /// A workflow's format.
    pub format: Option<String>,
    /// What is kept.
    pub content: String,
    /// Who put it there.
    pub origin: Origin,
    /// When it was first there, in milliseconds since 1970.
    pub created_at: u64,
    /// Since when its content is what it is.
    pub updated_at: u64,
}

/// A content that a definition has, or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow {
    /// Its number.
    pub version: u32,
    /// Hash of the content.
    pub hash: String,
    /// When it was put there, in milliseconds since 1970.
    pub at: u64,
    /// What was kept.
    pub content: String,
}

/// One of several changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Puts a definition in the place of the one with its key.
    Put(NewDefinition),
    /// Takes one away.
    Delete(DefinitionKey),
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// There was none before.
    Created,
    /// Its content is another.
    Updated,
    /// Its content was this already.
    Unchanged,
    /// It is gone.
    Deleted,
    /// There was none that could be taken away.
    Missing,
}

impl Changed {
    /// The word for it.
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
    /// Makes changes, all or none; what each of them did. `StillUsed` if something would be gone that another
    /// definition needs.
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

    /// A definition, if there is one.
    pub fn definition(&self, key: &DefinitionKey) -> Result<Option<DefinitionRow>, StepError> {
        let sql = format!("select {COLUMNS} from definition where holder = $1 and kind = $2 and id = $3");
        let DefinitionKey { holder, kind, id } = key;
        self.read_with(|db| db.first(&sql, params![holder, kind.name(), id], row_of))
    }

    /// Every definition of one kind and holder, by id.
    pub fn definitions(&self, holder: &str, kind: Kind) -> Result<Vec<DefinitionRow>, StepError> {
        let sql = format!("select {COLUMNS} from definition where holder = $1 and kind = $2 order by id");
        self.read_with(|db| db.query(&sql, params![holder, kind.name()], row_of))
    }

    /// Every content that a definition has had, the newest first; also of one that was taken away.
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

/// Only workflows need others.
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

/// Refuses changes after which a workflow would lack what it needs, or a schedule or a hook its workflow. What everyone
/// has may be needed by anyone.
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
