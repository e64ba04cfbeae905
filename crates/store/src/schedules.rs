//! Schedules. A due schedule is claimed in the database, so that only one of several servers starts its run. The claim
//! stores the id of the run: if the server dies before starting it, another one starts it under the same id.

use std::collections::HashMap;

use flowloom_core::id::RunId;
use serde_json::json;

use crate::audit::{Actor, AuditAction, AuditedChange};
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::quota::Quota;
use crate::quota_check::QuotaChecker;
use crate::store::Store;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Id, unique per user.
    pub id: String,
    /// User that owns the runs it starts.
    pub user: String,
    /// Id of the workflow.
    pub workflow: String,
    /// Cron expression with five or six fields.
    pub cron: String,
    /// Time zone of the expression, for example `Europe/Berlin`.
    pub timezone: String,
    /// Inputs of the runs, as JSON.
    pub inputs: String,
    /// Whether one run makes up for times that were missed while no server was running.
    pub catches_up: bool,
    /// Whether a run starts although the last one has not ended.
    pub allows_overlap: bool,
    /// Whether it starts no runs for now.
    pub is_paused: bool,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Next due time, in milliseconds since the Unix epoch.
    pub next_at: u64,
    /// Last due time, in milliseconds since the Unix epoch.
    pub last_at: Option<u64>,
    /// The run started for the last due time.
    pub last_run: Option<String>,
    /// Whether that run was claimed but is not known to have started.
    pub is_pending: bool,
    /// Why no run was started for the last due time.
    pub last_error: Option<String>,
    /// How many due times have passed without a run of their own.
    pub skipped: u64,
}

/// The key of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleKey {
    /// User that owns the runs it starts.
    pub user: String,
    /// Id, unique per user.
    pub id: String,
}

/// Size of inputs, in bytes, up to which lists contain them.
pub const MAX_LISTED_INPUTS_BYTES: usize = 4096;

const SCHEDULE_COLUMNS: &str = "id, user_id, workflow, cron, timezone, inputs, catches_up, created_at, next_at, last_at, last_run, \
                       is_pending, last_error, allows_overlap, is_paused, skipped";

impl Store {
    /// Creates or replaces the schedule with this id. If its times stay the same, so does the next one: it may be
    /// overdue. A schedule that is paused stays paused. Fails if the schedule is new and its user has as many as the
    /// quota allows, if the user's data has reached its quota, or if the database cannot be written.
    pub async fn put_schedule(&self, new: ScheduleRow, by: &Actor) -> Result<(), StoreError> {
        self.check_database_quota(&new.user, new.inputs.len(), new.created_at)?;
        let owner = self.owner_of(&new.user);
        let change = schedule_change(AuditAction::PutSchedule, &new.user, &new.id);
        let change = change.with_detail(json!({"workflow": new.workflow, "cron": new.cron, "timezone": new.timezone}));
        let quotas = self.quotas.clone();
        let put = move |connection: &DbConnection| {
            let sql = "insert into schedule (id, user_id, workflow, cron, timezone, inputs, catches_up, created_at, next_at, \
                       allows_overlap) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (user_id, id) do update set \
                       workflow = excluded.workflow, cron = excluded.cron, timezone = excluded.timezone, \
                       inputs = excluded.inputs, catches_up = excluded.catches_up, allows_overlap = excluded.allows_overlap, next_at = case \
                       when schedule.cron = excluded.cron and schedule.timezone = excluded.timezone \
                       then schedule.next_at else excluded.next_at end";
            let ScheduleRow {
                id,
                workflow,
                cron,
                timezone,
                inputs,
                catches_up,
                created_at,
                next_at,
                allows_overlap,
                ..
            } = &new;
            let (catches_up, allows_overlap) = (i64::from(*catches_up), i64::from(*allows_overlap));
            check_schedules(&quotas, connection, &new, &owner)?;
            let values = params![
                id,
                &owner,
                workflow,
                cron,
                timezone,
                inputs,
                catches_up,
                *created_at,
                *next_at,
                allows_overlap
            ];
            connection.execute_unchecked(sql, values)
        };
        self.submit_change(put, change, by).await
    }

    /// The schedules of one user, or of all users of the project, ordered by id. Inputs of more than
    /// [`MAX_LISTED_INPUTS_BYTES`] are `null`. Fails if the database cannot be read.
    pub fn list_schedules(&self, user: Option<&str>) -> Result<Vec<ScheduleRow>, StoreError> {
        self.list_schedules_after(user, None, u32::MAX)
    }

    /// At most `limit` of the schedules that [`Store::list_schedules`] returns, from the one after `last` on. Fails if
    /// the database cannot be read.
    pub fn list_schedules_after(
        &self,
        user: Option<&str>,
        last: Option<&ScheduleKey>,
        limit: u32,
    ) -> Result<Vec<ScheduleRow>, StoreError> {
        let listed = format!("case when octet_length(inputs) <= {MAX_LISTED_INPUTS_BYTES} then inputs else 'null' end");
        let columns = SCHEDULE_COLUMNS.replacen("inputs", &listed, 1);
        let sql = format!(
            "select {columns} from schedule where (user_id = $1 or $1 is null) \
             and ($2 is null or id > $2 or (id = $2 and user_id > $3)) order by id, user_id limit $4"
        );
        let owner = user.map(|user| self.owner_of(user));
        let (id, owner_of_last) = (last.map(|key| key.id.clone()), last.map(|key| self.owner_of(&key.user)));
        let values = params![&owner, &id, &owner_of_last, limit];
        let rows = self.read_with(|db| db.query_rows(&sql, values, parse_schedule_row))?;
        Ok(rows.into_iter().filter_map(|row| self.own_schedule(row)).collect())
    }

    /// The schedule with this key; `None` if there is none. Fails if the database cannot be read.
    pub fn find_schedule(&self, user: &str, id: &str) -> Result<Option<ScheduleRow>, StoreError> {
        let sql = format!("select {SCHEDULE_COLUMNS} from schedule where user_id = $1 and id = $2");
        let owner = self.owner_of(user);
        let row = self.read_with(|db| db.query_first(&sql, params![&owner, id], parse_schedule_row))?;
        Ok(row.and_then(|row| self.own_schedule(row)))
    }

    /// Schedules that are due at `now` and not paused, or whose claimed run has not started. The users take turns; the
    /// schedules of a user are in the order of their due times. Only indexes are read. Fails if the database cannot be
    /// read.
    pub fn list_due_schedules(&self, now: u64) -> Result<Vec<ScheduleKey>, StoreError> {
        let sql = "select user_id, id, next_at from schedule where next_at <= $1 and is_paused = 0 \
                   union select user_id, id, next_at from schedule where is_pending = 1 order by next_at, user_id, id";
        let read = |row: &DbRow<'_>| Ok(ScheduleKey { user: row.get(0)?, id: row.get(1)? });
        let rows = self.read_with(|db| db.query_rows(sql, params![now], read))?;
        let own = |key: ScheduleKey| Some(ScheduleKey { user: self.own_user(&key.user)?, ..key });
        Ok(take_turns(rows.into_iter().filter_map(own)))
    }

    /// A row as this project sees it; `None` if it belongs to another one.
    fn own_schedule(&self, row: ScheduleRow) -> Option<ScheduleRow> {
        Some(ScheduleRow { user: self.own_user(&row.user)?, ..row })
    }

    /// Claims a due schedule: its next due time becomes `next_at`, `skipped` what it is in `seen`, and `run` is recorded as
    /// the run for its due time, if given. Fails with `ScheduleClaimed` if another server has claimed it already, or if it was paused.
    pub async fn claim_schedule(
        &self,
        seen: &ScheduleRow,
        next_at: u64,
        run: Option<(RunId, u64)>,
    ) -> Result<(), StoreError> {
        let (user, id, skipped, seen) = (self.owner_of(&seen.user), seen.id.clone(), seen.skipped, seen.next_at);
        let claim = move |connection: &DbConnection| {
            let quicker = StoreError::ScheduleClaimed;
            match run {
                Some((run, at)) => {
                    let sql = "update schedule set next_at = $1, last_run = $2, last_at = $3, skipped = $4, is_pending = 1 \
                               where user_id = $5 and id = $6 and next_at = $7 and is_paused = 0";
                    let run = run.to_string();
                    let values = params![next_at, &run, at, skipped, &user, &id, seen];
                    connection.execute_required(sql, values, quicker)
                }
                None => {
                    let sql = "update schedule set next_at = $1, skipped = $2 where user_id = $3 and id = $4 and next_at = $5";
                    connection.execute_required(sql, params![next_at, skipped, &user, &id, seen], quicker)
                }
            }
        };
        self.writer.submit_job(Box::new(claim)).await
    }

    /// Lets the due time of a schedule pass without a run, for a reason; `skipped` becomes what it is in `seen`. Fails with `ScheduleClaimed` if another server has
    /// claimed it already, or if it was paused.
    pub async fn skip_due_time(&self, seen: &ScheduleRow, next_at: u64, reason: String) -> Result<(), StoreError> {
        let (user, id, skipped, seen) = (self.owner_of(&seen.user), seen.id.clone(), seen.skipped, seen.next_at);
        let skip = move |connection: &DbConnection| {
            let sql = "update schedule set next_at = $1, last_error = $2, skipped = $3 \
                       where user_id = $4 and id = $5 and next_at = $6 and is_paused = 0";
            let values = params![next_at, &reason, skipped, &user, &id, seen];
            connection.execute_required(sql, values, StoreError::ScheduleClaimed)
        };
        self.writer.submit_job(Box::new(skip)).await
    }

    /// Pauses a schedule. Fails with `NotThere` if the user has no schedule with this id.
    pub async fn pause_schedule(&self, user: &str, id: &str, by: &Actor) -> Result<(), StoreError> {
        let change = schedule_change(AuditAction::PauseSchedule, user, id);
        let (user, id) = (self.owner_of(user), id.to_owned());
        let pause = move |connection: &DbConnection| {
            let missing = StoreError::NotFound { kind: "schedule", id: id.clone() };
            let sql = "update schedule set is_paused = 1 where user_id = $1 and id = $2";
            connection.execute_required(sql, params![&user, &id], missing)
        };
        self.submit_change(pause, change, by).await
    }

    /// Resumes a schedule, which is due at `next_at` then. One that is not paused keeps its due time: it may be overdue. Fails
    /// with `NotThere` if the user has no schedule with this id.
    pub async fn resume_schedule(&self, user: &str, id: &str, next_at: u64, by: &Actor) -> Result<(), StoreError> {
        let change = schedule_change(AuditAction::ResumeSchedule, user, id);
        let (user, id) = (self.owner_of(user), id.to_owned());
        let resume = move |connection: &DbConnection| {
            let missing = StoreError::NotFound { kind: "schedule", id: id.clone() };
            let sql = "update schedule set next_at = case when is_paused = 1 then $1 else next_at end, is_paused = 0 \
                       where user_id = $2 and id = $3";
            connection.execute_required(sql, params![next_at, &user, &id], missing)
        };
        self.submit_change(resume, change, by).await
    }

    /// Records that the claimed run has started, or why it cannot start; then no run belongs to the due time, which is skipped.
    pub async fn settle_claim(&self, seen: &ScheduleRow, error: Option<String>) -> Result<(), StoreError> {
        let (user, id, claimed) = (self.owner_of(&seen.user), seen.id.clone(), seen.last_run.clone());
        let run = claimed.clone().filter(|_| error.is_none());
        let settle = move |connection: &DbConnection| {
            let sql = "update schedule set is_pending = 0, last_run = $1, last_error = $2, skipped = skipped + $3 \
                       where user_id = $4 and id = $5 and last_run = $6";
            let skipped = u64::from(error.is_some());
            connection.execute_unchecked(sql, params![&run, &error, skipped, &user, &id, &claimed])
        };
        self.writer.submit_job(Box::new(settle)).await
    }

    /// Deletes a schedule. Fails with `NotThere` if the user has no schedule with this id.
    pub async fn delete_schedule(&self, user: &str, id: &str, by: &Actor) -> Result<(), StoreError> {
        let change = schedule_change(AuditAction::DeleteSchedule, user, id);
        let (user, id) = (self.owner_of(user), id.to_owned());
        let delete = move |connection: &DbConnection| {
            let missing = StoreError::NotFound { kind: "schedule", id: id.clone() };
            connection.execute_required(
                "delete from schedule where user_id = $1 and id = $2",
                params![&user, &id],
                missing,
            )
        };
        self.submit_change(delete, change, by).await
    }
}

/// Orders keys so that every user has one among the first, then a second one, and so on.
fn take_turns(keys: impl Iterator<Item = ScheduleKey>) -> Vec<ScheduleKey> {
    let mut turns: HashMap<String, usize> = HashMap::new();
    let mut numbered: Vec<(usize, ScheduleKey)> = Vec::new();
    for key in keys {
        let turn = turns.entry(key.user.clone()).or_default();
        numbered.push((*turn, key));
        *turn += 1;
    }
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, key)| key).collect()
}

/// Fails with `QuotaExceeded` if the schedule is a new one and its user has as many as the quota allows.
fn check_schedules(quotas: &QuotaChecker, db: &DbConnection, new: &ScheduleRow, owner: &str) -> Result<(), StoreError> {
    if quotas.limits.find_limit(&new.user, Quota::Schedules).is_none() {
        return Ok(());
    }
    db.serialize_changes("schedules")?;
    let sql = "select id from schedule where user_id = $1 and id = $2";
    let stored: Option<String> = db.query_first(sql, params![owner, &new.id], |row| row.get(0))?;
    if stored.is_some() {
        return Ok(());
    }
    quotas.check(db, &new.user, Quota::Schedules, new.created_at)
}

fn schedule_change(action: AuditAction, user: &str, id: &str) -> AuditedChange {
    AuditedChange::new(action, Some(user.to_owned()), format!("schedule {id}"))
}

fn parse_schedule_row(row: &DbRow<'_>) -> Result<ScheduleRow, StoreError> {
    Ok(ScheduleRow {
        id: row.get(0)?,
        user: row.get(1)?,
        workflow: row.get(2)?,
        cron: row.get(3)?,
        timezone: row.get(4)?,
        inputs: row.get(5)?,
        catches_up: row.get::<i64>(6)? != 0,
        created_at: row.get_count(7)?,
        next_at: row.get_count(8)?,
        last_at: row.get::<Option<i64>>(9)?.map(|at| at as u64),
        last_run: row.get(10)?,
        is_pending: row.get::<i64>(11)? != 0,
        last_error: row.get(12)?,
        allows_overlap: row.get::<i64>(13)? != 0,
        is_paused: row.get::<i64>(14)? != 0,
        skipped: row.get_count(15)?,
    })
}
