//! What is kept beside the journal: bundles, the list of runs, wishes, workflows.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{MemoryWrite, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_runtime::journal::Wish;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::failed;
use crate::{Store, rows, wishes};

/// A run as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// When it was created, in milliseconds since 1970.
    pub created_at: u64,
    /// When it ended.
    pub finished_at: Option<u64>,
    /// The format of its definition.
    pub format: String,
    /// The name of its definition.
    pub name: String,
    /// Whose run it is.
    pub holder: String,
    /// Its status; a run that says `running` and has no living owner was interrupted.
    pub status: String,
    /// Whether a living process drives it.
    pub is_driven: bool,
}

/// A workflow that was registered with `workflow::create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowRow {
    /// Its id.
    pub id: String,
    /// When it was registered, in milliseconds since 1970.
    pub created_at: u64,
    /// The definition's JSON text.
    pub definition: String,
}

/// Which runs a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Those of this user only.
    pub holder: Option<String>,
    /// Those that are in this status only.
    pub status: Option<String>,
    /// Those of definitions with this name only.
    pub name: Option<String>,
    /// Those that were created before this one only.
    pub before: Option<RunId>,
    /// So many at most.
    pub limit: u32,
}

const RUN_COLUMNS: &str = "id, created_at, finished_at, format, name, status, owner, holder";

impl Store {
    /// Keeps a bundle for the run that is about to start; it is stored with the run's first event.
    pub fn keep_bundle(&self, content: &str) -> Hash {
        let hash = Hash::of(content.as_bytes());
        self.keep_hashed(hash, &content.into());
        hash
    }

    /// The same for a bundle whose hash is known.
    pub fn keep_hashed(&self, hash: Hash, content: &Arc<str>) {
        self.bundles().insert(hash, content.clone());
    }

    /// The bundle of a run.
    pub fn bundle(&self, hash: Hash) -> Result<Arc<str>, StepError> {
        if let Some(waiting) = self.bundles().get(&hash) {
            return Ok(waiting.clone());
        }
        let reader = self.reader();
        let mut statement = reader.prepare_cached("select content from bundle where hash = ?").map_err(failed)?;
        let content: Option<String> =
            statement.query_row([hash.to_string()], |row| row.get(0)).optional().map_err(failed)?;
        content.map(Into::into).ok_or_else(|| StepError::new(Code::StoreCorrupt, format!("the bundle {hash} is gone")))
    }

    /// The newest runs first.
    pub fn runs(&self, limit: u32) -> Result<Vec<RunRow>, StepError> {
        self.runs_of(&RunFilter { limit, ..RunFilter::default() })
    }

    /// The newest runs that a filter lets through.
    pub fn runs_of(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StepError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.runs_of(filter).into_iter().map(|row| self.driven(row)).collect());
        }
        let sql = format!(
            "select {RUN_COLUMNS} from run where (?1 is null or holder = ?1) and (?2 is null or status = ?2) \
             and (?3 is null or name = ?3) and (?4 is null or id < ?4) order by id desc limit ?5"
        );
        let before = filter.before.map(|id| id.to_string());
        self.select_runs(&sql, params![filter.holder, filter.status, filter.name, before, filter.limit])
    }

    /// The run with this id, if there is one.
    pub fn run(&self, id: RunId) -> Result<Option<RunRow>, StepError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.run(id).map(|row| self.driven(row)));
        }
        let sql = format!("select {RUN_COLUMNS} from run where id = ?");
        Ok(self.select_runs(&sql, [id.to_string()])?.pop())
    }

    /// The events of a run after number `after`, until they have more than `enough` bytes; at least one, if there is one.
    pub fn events(&self, run: RunId, after: u64, enough: usize) -> Result<Vec<Arc<Record>>, StepError> {
        match &self.runs {
            // They are shared, so that many of them cost no more than one.
            Some(runs) => runs.read(run, after),
            None => rows::read(&self.reader(), run, after, enough),
        }
    }

    /// How many runs there are, by status.
    pub fn counts(&self) -> Result<Vec<(String, u64)>, StepError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.counts());
        }
        let reader = self.reader();
        let sql = "select status, count(*) from run group by status order by status";
        let mut statement = reader.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)));
        rows.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
    }

    /// The run that a person means: an id, a unique prefix of one, or `last`.
    pub fn find(&self, name: &str) -> Result<RunRow, StepError> {
        let sql = match name {
            "last" => format!("select {RUN_COLUMNS} from run where ? is not null order by id desc limit 1"),
            _ => format!("select {RUN_COLUMNS} from run where substr(id, 1, length(?1)) = ?1 order by id limit 4"),
        };
        let found = self.select_runs(&sql, [name.to_lowercase()])?;
        match found.as_slice() {
            [] if name == "last" => Err(StepError::new(Code::RunNotFound, "there are no runs yet")),
            [] => Err(StepError::new(Code::RunNotFound, format!("there is no run {name}; see flowloom runs"))),
            [run] => Ok(run.clone()),
            several => {
                let ids: Vec<_> = several.iter().map(|run| run.id.to_string()).collect();
                let message = format!("{name} fits several runs: {}", ids.join(", "));
                Err(StepError::new(Code::RunAmbiguous, message))
            }
        }
    }

    /// A run in memory, with whether it is driven.
    fn driven(&self, row: RunRow) -> RunRow {
        let is_driven = row.finished_at.is_none() && self.owner.drives(self.owner.name(), row.id);
        RunRow { is_driven, ..row }
    }

    fn select_runs(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<Vec<RunRow>, StepError> {
        let reader = self.reader();
        let mut statement = reader.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map(parameters, |row| self.run_row(row)).map_err(failed)?;
        let rows: Vec<Option<RunRow>> = rows.collect::<Result<_, _>>().map_err(failed)?;
        Ok(rows.into_iter().flatten().collect())
    }

    fn run_row(&self, row: &Row<'_>) -> rusqlite::Result<Option<RunRow>> {
        let Some(id) = RunId::parse(&row.get::<_, String>(0)?) else { return Ok(None) };
        let finished_at: Option<i64> = row.get(2)?;
        let owner: Option<String> = row.get(6)?;
        let is_driven = finished_at.is_none() && owner.is_some_and(|owner| self.owner.drives(&owner, id));
        Ok(Some(RunRow {
            id,
            created_at: row.get::<_, i64>(1)? as u64,
            finished_at: finished_at.map(|at| at as u64),
            format: row.get(3)?,
            name: row.get(4)?,
            holder: row.get(7)?,
            status: row.get(5)?,
            is_driven,
        }))
    }

    /// Leaves a wish for the process that drives a run.
    pub async fn leave_wish(&self, run: RunId, wish: Wish) -> Result<(), StepError> {
        let body = wishes::encode(wish).map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))?;
        self.writer
            .submit(Box::new(move |connection| {
                connection.execute("insert into wish (run, body) values (?, ?)", params![run.to_string(), body])?;
                Ok(Ok(()))
            }))
            .await
    }

    /// Registers a workflow, in the place of one with the same id.
    pub async fn put_workflow(&self, workflow: WorkflowRow) -> Result<(), StepError> {
        self.writer
            .submit(Box::new(move |connection| {
                let sql = "insert into workflow values (?, ?, ?) \
                           on conflict do update set created_at = excluded.created_at, definition = excluded.definition";
                let created = workflow.created_at as i64;
                connection.execute(sql, params![workflow.id, created, workflow.definition])?;
                Ok(Ok(()))
            }))
            .await
    }

    /// Keeps values for `holder`, as a step that writes to the memory would.
    pub async fn remember(&self, holder: String, writes: Vec<MemoryWrite>) -> Result<(), StepError> {
        let remember = move |connection: &Connection| {
            writes.iter().try_for_each(|write| crate::journal::remember(connection, &holder, write)).map(Ok)
        };
        self.writer.submit(Box::new(remember)).await
    }

    /// Every registered workflow, the oldest first.
    pub fn workflows(&self) -> Result<Vec<WorkflowRow>, StepError> {
        let reader = self.reader();
        let sql = "select id, created_at, definition from workflow order by created_at, id";
        let mut statement = reader.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| {
            let created_at = row.get::<_, i64>(1)? as u64;
            Ok(WorkflowRow { id: row.get(0)?, created_at, definition: row.get(2)? })
        });
        rows.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
    }
}
