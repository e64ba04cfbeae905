//! Tables next to the journal: bundles and the list of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::event::{MemoryWrite, Record, RunProject};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::profile_namespace;
use flowloom_runtime::memory_quota::MemoryUsage;

use crate::audit::{Actor, AuditAction, AuditedChange, DONE};
use crate::damage::Damage;
use crate::db::liveness::LivingWorkers;
use crate::db::{DbConnection, DbRow, Param, params};
use crate::error::{Corruption, StoreError};
use crate::journal::read_memory_entries;
use crate::memory_runs::MemoryRuns;
use crate::open_questions::{OpenQuestions, build_open_questions_sql};
use crate::rows;
use crate::run_row::{RUN_COLUMNS, RunFilter, RunRow, SUSPENDED_STATUSES, StoredRunRow, read_settled_rows};
use crate::store::Store;

/// Maximum number of keys that an entry of the audit log names.
const MAX_NAMED_KEYS: usize = 5;

/// Entries that a person writes to a user's memory or profile.
#[derive(Clone, Debug)]
pub struct PersonalWrites {
    /// The user.
    pub user: String,
    /// Whether it is the profile.
    pub is_profile: bool,
    /// The writes, all of which are stored, or none.
    pub writes: Vec<MemoryWrite>,
    /// Size that the memory may not exceed, if it is limited.
    pub limit_bytes: Option<u64>,
}

impl PersonalWrites {
    /// The keys, for the audit log; never a value.
    fn describe_object(&self) -> String {
        let keys: Vec<&str> = self.writes.iter().take(MAX_NAMED_KEYS).map(|write| write.key.as_str()).collect();
        let what = if self.is_profile { "profile" } else { "memory" };
        match self.writes.len().saturating_sub(MAX_NAMED_KEYS) {
            0 => format!("{what} {}", keys.join(", ")),
            more => format!("{what} {} and {more} more", keys.join(", ")),
        }
    }
}

/// The name of every unknown status.
const DAMAGED: &str = "damaged";

/// SQL condition of a [`RunFilter`], whose parameters [`FilterParams`] has. `{status}` is replaced by the expression of
/// the current status.
const FILTER_SQL: &str = "(user_id = $1 or $1 is null) and ({status} = $2 or $2 is null) and (name = $3 or $3 is null) \
                      and (coalesce(workflow, name) = $4 or $4 is null) and (format = $5 or $5 is null) \
                      and (thread_key = $6 or $6 is null) and (id < $7 or $7 is null) \
                      and coalesce(project, '') = $8 \
                      and (forked_from = $9 or $9 is null) and (created_at >= $10 or $10 is null) \
                      and (trigger_kind = $11 or $11 is null) and (trigger_id = $12 or $12 is null)";

/// Minimum length of the end of an id that names a run. Ids of the same minute begin alike, so lists show their ends.
const MIN_ID_END_CHARS: usize = 4;

/// The parameters of a filter, in the order of [`FILTER_SQL`].
pub(crate) struct FilterParams<'a> {
    filter: &'a RunFilter,
    project: &'a str,
    before: Option<String>,
    forked_from: Option<String>,
}

impl<'a> FilterParams<'a> {
    /// The parameters for runs of a project.
    pub(crate) fn new(filter: &'a RunFilter, project: &'a str) -> FilterParams<'a> {
        let [before, forked_from] = [filter.before, filter.forked_from].map(|id| id.map(|id| id.to_string()));
        FilterParams { filter, project, before, forked_from }
    }

    /// `$1` to `$12`: those of the condition.
    pub(crate) fn list_conditions(&self) -> Vec<Param<'_>> {
        let RunFilter { user, status, name, workflow, format, thread_key, since, .. } = self.filter;
        let (before, forked_from, since) = (&self.before, &self.forked_from, since.map(|time| time as i64));
        let (kind, id) = match &self.filter.trigger {
            Some(trigger) => (Some(&*trigger.kind), trigger.id.as_deref()),
            None => (None, None),
        };
        params![user, status, name, workflow, format, thread_key, before, self.project, forked_from, since, kind, id]
            .to_vec()
    }

    /// The same, and `$13` and `$14`: limit and offset.
    fn list_all(&self) -> Vec<Param<'_>> {
        let mut all = self.list_conditions();
        all.extend_from_slice(params![self.filter.limit, self.filter.offset]);
        all
    }
}

/// Names of this program as a list of SQL literals; never empty, because SQL has no empty list.
pub(crate) fn list_literals(names: &[String]) -> String {
    let is_name = |name: &&String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let literals: Vec<String> = names.iter().filter(is_name).map(|name| format!("'{name}'")).collect();
    if literals.is_empty() { "null".to_owned() } else { literals.join(", ") }
}

impl Store {
    /// Holds a bundle for a run that is about to start. It is stored in the transaction of the run's first event.
    pub fn hold_bundle(&self, content: &str) -> Hash {
        let hash = Hash::of_bytes(content.as_bytes());
        self.hold_hashed_bundle(hash, &content.into());
        hash
    }

    /// Same as [`Store::hold_bundle`], for a bundle whose hash is already known.
    pub fn hold_hashed_bundle(&self, hash: Hash, content: &Arc<str>) {
        self.bundles.hold_bundle(hash, content);
    }

    /// Reads a bundle by its hash. Fails with `StoreCorrupt` if it is missing or damaged.
    pub fn read_bundle(&self, hash: Hash) -> Result<Arc<str>, StoreError> {
        if let Some(held) = self.bundles.find_bundle(hash) {
            return Ok(held);
        }
        let sql = "select content from bundle where hash = $1";
        let content: Option<String> =
            self.read_with(|db| db.query_first(sql, params![&hash.to_string()], |row| row.get(0)))?;
        let content = content.ok_or(StoreError::Corrupt(Corruption::MissingBundle(hash)))?;
        match Hash::of_bytes(content.as_bytes()) == hash {
            true => Ok(content.into()),
            false => Err(StoreError::Corrupt(Corruption::Bundle(hash))),
        }
    }

    /// The `limit` newest runs of this project, newest first. Fails if the database cannot be read, or if the row of one of
    /// them is damaged.
    pub fn list_runs(&self, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        self.list_runs_matching(&RunFilter { limit, ..RunFilter::default() })
    }

    /// The runs of this project that match a filter, newest first, without those that are damaged, and the damage to the list
    /// of runs. Fails if the database cannot be read.
    pub fn list_intact_runs(&self, filter: &RunFilter) -> Result<(Vec<RunRow>, Vec<Damage>), StoreError> {
        if self.runs.is_some() {
            return Ok((self.list_runs_matching(filter)?, Vec::new()));
        }
        // Sorted without the index, which may be damaged. The check reads every row anyway.
        let condition = self.build_condition(filter)?;
        let sql =
            format!("select {RUN_COLUMNS} from run where {condition} order by id || '' desc limit $13 offset $14");
        let params = FilterParams::new(filter, self.project_name());
        let rows = self.read_with(|db| {
            let living = self.worker.living_workers(db)?;
            db.query_rows(&sql, &params.list_all(), |row| Ok(self.parse_run_row(row, &living).ok()))
        })?;
        Ok((rows.into_iter().flatten().collect(), self.check_run_list()?))
    }

    /// The runs of this project that match a filter, newest first. Fails with `StoreCorrupt` if one of them is damaged.
    pub fn list_runs_matching(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        if let Some(runs) = &self.runs {
            return self.list_memory_runs(runs, filter);
        }
        let condition = self.build_condition(filter)?;
        let sql = format!("select {RUN_COLUMNS} from run where {condition} order by id desc limit $13 offset $14");
        self.select_runs(&sql, &FilterParams::new(filter, self.project_name()).list_all())
    }

    /// Number of runs of this project that match a filter, ignoring its `limit` and `offset`. Fails if the database cannot be
    /// read.
    pub fn count_runs(&self, filter: &RunFilter) -> Result<u64, StoreError> {
        if let Some(runs) = &self.runs {
            let all = RunFilter { limit: u32::MAX, offset: 0, ..filter.clone() };
            return Ok(self.list_memory_runs(runs, &all)?.len() as u64);
        }
        let sql = format!("select count(*) from run where {}", self.build_condition(filter)?);
        let params = FilterParams::new(filter, self.project_name());
        let count = self.read_with(|db| db.query_first(&sql, &params.list_conditions(), |row| row.get_count(0)))?;
        Ok(count.unwrap_or_default())
    }

    /// The run with this id, if it exists. Fails if the database cannot be read, or if the row of the run is damaged.
    pub fn get_run(&self, id: RunId) -> Result<Option<RunRow>, StoreError> {
        if let Some(runs) = &self.runs {
            let read = || Ok(runs.get_run(id).map(|row| self.with_is_driven(row)).into_iter().collect());
            return Ok(read_settled_rows(read)?.pop());
        }
        let sql = format!("select {RUN_COLUMNS} from run where id = $1");
        Ok(self.select_runs(&sql, params![&id.to_string()])?.pop())
    }

    /// Creation time of the oldest unfinished run, in milliseconds since the Unix epoch. Fails if the database cannot
    /// be read.
    pub fn oldest_unfinished_at(&self) -> Result<Option<u64>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.oldest_unfinished_at());
        }
        self.read_with(|db| {
            let status = self.build_status_expression(db)?;
            let sql = format!(
                "select created_at from run where finished_at is null and {status} not in ('waiting', 'uncertain') \
                 order by created_at limit 1"
            );
            db.query_first(&sql, &[], |row| row.get_count(0))
        })
    }

    /// The open questions of all runs. Fails if the database cannot be read.
    pub fn count_open_questions(&self) -> Result<OpenQuestions, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.count_open_questions());
        }
        self.read_with(|db| {
            let sql = build_open_questions_sql(&self.build_status_expression(db)?);
            let found = db.query_first(&sql, &[], |row| {
                let oldest_at = row.get::<Option<i64>>(1)?.map(|at| at as u64);
                Ok(OpenQuestions { count: row.get_count(0)?, oldest_at })
            })?;
            Ok(found.unwrap_or_default())
        })
    }

    /// Events of a run with a sequence number above `after`, at most `most`. Fails if there is no such run, if one of
    /// the events is damaged, or if the database cannot be read.
    pub fn read_events(&self, run: RunId, after: u64, most: u32) -> Result<Vec<Arc<Record>>, StoreError> {
        match &self.runs {
            // Records are shared, so returning all of them costs no more than returning one.
            Some(runs) => runs.read_records(run, after),
            None => {
                let read = |db: &DbConnection| rows::read_events(db, run, after, most);
                let events = match most {
                    u32::MAX => self.read_journal_with(read)?,
                    _ => self.read_with(read)?,
                };
                rows::parse_records(events, run, after)
            }
        }
    }

    /// Number of runs by status. Runs with an unreadable status are counted as `damaged`. Fails if the database cannot
    /// be read.
    pub fn count_by_status(&self) -> Result<Vec<(String, u64)>, StoreError> {
        if let Some(runs) = &self.runs {
            let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for row in self.list_memory_runs(runs, &all)? {
                *counts.entry(row.current_status().to_owned()).or_default() += 1;
            }
            return Ok(counts.into_iter().collect());
        }
        let rows: Vec<(String, u64)> = self.read_long_with(|db| {
            let sql = format!("select {}, count(*) from run group by 1", self.build_status_expression(db)?);
            db.query_rows(&sql, &[], |row| Ok((row.get(0)?, row.get_count(1)?)))
        })?;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (status, count) in rows {
            *counts.entry(Status::parse(&status).map_or(DAMAGED, Status::name)).or_default() += count;
        }
        Ok(counts.into_iter().map(|(status, count)| (status.to_owned(), count)).collect())
    }

    /// Finds a run by id, by a unique start or end of an id, or by the word `last`: the newest run of this project. Fails with
    /// `RunNotFound` or `RunAmbiguous`.
    pub fn find_run(&self, name: &str) -> Result<RunRow, StoreError> {
        let mut found = match name {
            "last" => self.list_runs(1)?,
            _ => {
                let condition = "substr(id, 1, length($1)) = $1";
                let sql = format!("select {RUN_COLUMNS} from run where {condition} order by id limit 4");
                self.select_runs(&sql, params![&name.to_lowercase()])?
            }
        };
        if found.is_empty() && name.len() >= MIN_ID_END_CHARS {
            let sql = format!("select {RUN_COLUMNS} from run where id like '%' || $1 order by id limit 4");
            found = self.select_runs(&sql, params![&name.to_lowercase().replace(['%', '_', '\\'], "?")])?;
        }
        // Damage can hide runs.
        if (found.is_empty() || name == "last")
            && let Some(damage) = self.check_run_pages()?
        {
            return Err(StoreError::Corrupt(Corruption::File(damage)));
        }
        match found.as_slice() {
            [] if name == "last" => Err(StoreError::NoRuns),
            [] => Err(StoreError::NoRunMatches(name.to_owned())),
            [run] => Ok(run.clone()),
            several => {
                let runs = several.iter().map(|run| run.id.to_string()).collect();
                Err(StoreError::RunAmbiguous { prefix: name.to_owned(), runs })
            }
        }
    }

    /// Sets `is_driven` on a row of a run in memory.
    fn with_is_driven(&self, row: RunRow) -> RunRow {
        RunRow { is_driven: row.finished_at.is_none() && self.worker.is_driving(row.id), ..row }
    }

    /// Runs in memory that match a filter, with their current status.
    fn list_memory_runs(&self, runs: &MemoryRuns, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let any_status = RunFilter { status: None, limit: u32::MAX, offset: 0, ..filter.clone() };
        let read =
            || Ok(runs.list_runs_matching(&any_status).into_iter().map(|row| self.with_is_driven(row)).collect());
        let rows = read_settled_rows(read)?.into_iter();
        let rows = rows.filter(|row| filter.status.as_deref().is_none_or(|status| status == row.current_status()));
        Ok(rows.skip(filter.offset as usize).take(filter.limit as usize).collect())
    }

    /// The condition of a filter. Only one for a status needs to know which workers live.
    pub(crate) fn build_condition(&self, filter: &RunFilter) -> Result<String, StoreError> {
        let status = match &filter.status {
            None => "status".to_owned(),
            Some(_) => self.read_with(|db| self.build_status_expression(db))?,
        };
        Ok(FILTER_SQL.replace("{status}", &status))
    }

    /// The SQL expression of the current status of a run: one that must continue and has no living worker was interrupted, as
    /// [`RunRow::current_status`] returns.
    pub(crate) fn build_status_expression(&self, db: &DbConnection) -> Result<String, StoreError> {
        let sql = "select distinct worker from run where status = 'running' and worker is not null";
        let mut dead: Vec<String> = db.query_rows(sql, &[], |row| row.get(0))?;
        // Afterwards, so that a worker that has just started counts as living.
        let living = self.worker.living_workers(db)?;
        dead.retain(|worker| !self.worker.is_alive(worker, &living));
        let sql = "select id from run where status = 'running' and worker = $1";
        let mut left: Vec<String> = db.query_rows(sql, params![self.worker.name()], |row| row.get(0))?;
        left.retain(|id| RunId::parse(id).is_none_or(|id| !self.worker.is_driving(id)));
        let interrupted = format!(
            "status = '{}' and (worker is null or worker in ({}) or id in ({}))",
            Status::Running.name(),
            list_literals(&dead),
            list_literals(&left)
        );
        let left_alone = self.build_left_condition();
        Ok(format!("case when {interrupted} or {left_alone} then '{}' else status end", Status::Interrupted.name()))
    }

    /// The SQL condition of a run that is left to a process with its configuration, as in [`RunRow::is_left`].
    fn build_left_condition(&self) -> String {
        let Some(config) = &self.recovery.config else { return "false".to_owned() };
        let suspended = SUSPENDED_STATUSES.map(|status| format!("'{}'", status.name())).join(", ");
        let config = config.replace('\'', "''");
        format!("worker is null and pending_commands > 0 and status in ({suspended}) and config <> '{config}'")
    }

    /// Whether this process leaves runs of a configuration to others.
    fn is_other_config(&self, project: Option<&RunProject>) -> bool {
        self.recovery.config.as_ref().zip(project).is_some_and(|(own, project)| project.config != *own)
    }

    fn select_runs(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<RunRow>, StoreError> {
        read_settled_rows(|| {
            self.read_with(|db| {
                let living = self.worker.living_workers(db)?;
                db.query_rows(sql, params, |row| self.parse_run_row(row, &living))
            })
        })
    }

    fn parse_run_row(&self, row: &DbRow<'_>, living: &LivingWorkers) -> Result<RunRow, StoreError> {
        let StoredRunRow { row, worker, has_commands, .. } = StoredRunRow::read(row)?;
        let is_left =
            has_commands && worker.is_none() && row.is_suspended() && self.is_other_config(row.project.as_ref());
        let is_driven =
            row.finished_at.is_none() && worker.is_some_and(|worker| self.worker.is_driven_by(&worker, row.id, living));
        Ok(RunRow { is_driven, is_left, ..row })
    }

    /// Writes to a namespace, as a step with memory writes does. Fails if the database cannot be written.
    pub async fn write_memory(&self, namespace: String, writes: Vec<MemoryWrite>) -> Result<(), StoreError> {
        let remember = move |connection: &DbConnection| {
            writes.iter().try_for_each(|write| crate::batch::write_memory(connection, &namespace, write))
        };
        self.writer.submit_job(Box::new(remember)).await
    }

    /// Writes to a user's memory or profile on behalf of a person, and records it. Fails with `MemoryFull` if the memory would
    /// exceed its limit, with `QuotaExceeded` if a value is written and the user's data has reached its quota, or if the database
    /// cannot be written.
    pub async fn write_memory_as(&self, written: PersonalWrites, by: &Actor, at: u64) -> Result<(), StoreError> {
        if written.writes.iter().any(|write| write.value.is_some()) {
            let sizes = written.writes.iter().filter_map(|write| write.value.as_ref());
            let bytes = sizes.map(|value| flowloom_core::json::write_json(value).len()).sum();
            self.check_database_quota(&written.user, bytes, at)?;
        }
        let object = written.describe_object();
        let PersonalWrites { user, is_profile, writes, limit_bytes } = written;
        let owner = self.owner_of(&user);
        let namespace = if is_profile { profile_namespace(&owner) } else { owner };
        let change = AuditedChange::new(AuditAction::WriteMemory, Some(user), object);
        let (attempted, actor) = (vec![change.clone()], by.clone());
        let job = move |connection: &DbConnection| {
            if let Some(limit_bytes) = limit_bytes {
                // Servers cannot exceed the limit together.
                connection.serialize_changes("memory")?;
                let mut usage = MemoryUsage::of_memories(&read_memory_entries(connection, &namespace)?);
                usage.add_writes(&writes, limit_bytes).map_err(JournalError::Failed)?;
            }
            writes.iter().try_for_each(|write| crate::batch::write_memory(connection, &namespace, write))?;
            change.record_entry(connection, &actor, at, DONE)
        };
        self.submit_audited(Box::new(job), attempted, by, at).await
    }
}
