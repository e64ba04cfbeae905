//! Questions that expire: when runs that wait for a person must continue without an answer.

use flowloom_core::code::Code;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;

use crate::abandoned::IN_SCOPE_SQL;
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::event_row::MAX_EVENTS_PER_RUN;
use crate::settings::RecoveryScope;
use crate::store::Store;

/// A question with a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionExpiry {
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// The run that asks.
    pub run: RunId,
}

/// A question with a time limit that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingQuestion {
    /// When it expires.
    pub expiry: QuestionExpiry,
    /// The time of the last event of its run, in milliseconds since the Unix epoch: it was not asked later.
    pub last_event_at: u64,
}

/// The change that a record makes to the questions that expire.
pub(crate) enum ExpiryChange<'a> {
    /// A question is asked.
    Added(QuestionExpiry),
    /// The question of a step is closed.
    Closed(&'a Path),
    /// The run continues after its end, and with it the questions that were open then.
    Reopened,
}

/// The change that a record makes to the questions that expire; `None` if it makes none.
pub(crate) fn find_expiry_change(record: &Record) -> Option<ExpiryChange<'_>> {
    match &record.event {
        Event::Asked(question) => {
            Some(ExpiryChange::Added(QuestionExpiry { expires_at: question.expires_at?, run: record.run }))
        }
        Event::Answered { .. } => Some(ExpiryChange::Closed(&record.path)),
        Event::StepFailed { error, .. } if error.code == Code::StepTimeout => Some(ExpiryChange::Closed(&record.path)),
        Event::RunReopened { .. } => Some(ExpiryChange::Reopened),
        _ => None,
    }
}

/// Stores what a record changes about the questions that expire.
pub(crate) fn write_expiry(db: &DbConnection, record: &Record) -> Result<(), StoreError> {
    let run = record.run.to_string();
    match find_expiry_change(record) {
        None => Ok(()),
        Some(ExpiryChange::Added(QuestionExpiry { expires_at, .. })) => {
            let sql = "insert into question_expiry (run, path, expires_at) values ($1, $2, $3) on conflict do nothing";
            db.execute_unchecked(sql, params![&run, record.path.as_str(), expires_at])
        }
        Some(ExpiryChange::Closed(path)) => db.execute_unchecked(
            "delete from question_expiry where run = $1 and path = $2",
            params![&run, path.as_str()],
        ),
        Some(ExpiryChange::Reopened) => {
            let sql = "update question_expiry set expires_at = -expires_at where run = $1 and expires_at < 0";
            db.execute_unchecked(sql, params![&run])
        }
    }
}

impl Store {
    /// Questions that have expired by `now`, the earliest first; at most `limit`. They stay listed until they are closed, or
    /// until [`Store::forget_expiry`] or [`Store::suspend_expiry`]. Runs outside of the scope of this process, and those in
    /// quarantine, are left out. Fails if the database cannot be read.
    pub fn list_expired_questions(&self, now: u64, limit: u32) -> Result<Vec<QuestionExpiry>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.list_expired_questions(now, limit));
        }
        let RecoveryScope { project, config } = &self.recovery;
        // The value of a subquery: databases join in whatever order, and could begin with all runs.
        let sql = format!(
            "select run, expires_at from question_expiry where expires_at between 0 and $1 and (select 1 from run \
             where run.id = question_expiry.run and {IN_SCOPE_SQL} and status <> 'quarantined') = 1 \
             order by expires_at limit $4"
        );
        let read = |row: &DbRow<'_>| {
            let run = RunId::parse(&row.get::<String>(0)?);
            let expires_at = row.get_count(1)?;
            Ok(run.map(|run| QuestionExpiry { expires_at, run }))
        };
        let found = self.read_with(|db| db.query_rows(&sql, params![now, project, config, limit], read))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Questions with a time limit that wait, those that expire first first; at most `limit`. The same runs are left
    /// out. Fails if the database cannot be read.
    pub fn list_waiting_questions(&self, limit: u32) -> Result<Vec<WaitingQuestion>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.list_waiting_questions(limit));
        }
        let RecoveryScope { project, config } = &self.recovery;
        let sql = format!(
            "select question_expiry.run, expires_at, (select at from event where id > number * {MAX_EVENTS_PER_RUN} \
             and id < (number + 1) * {MAX_EVENTS_PER_RUN} order by id desc limit 1) \
             from question_expiry join run on run.id = question_expiry.run \
             where expires_at between 0 and $1 and {IN_SCOPE_SQL} and status <> 'quarantined' order by expires_at limit $4"
        );
        let read = |row: &DbRow<'_>| {
            let run = RunId::parse(&row.get::<String>(0)?);
            let (expires_at, last_event_at) = (row.get_count(1)?, row.get_count(2)?);
            Ok(run.map(|run| WaitingQuestion { expiry: QuestionExpiry { expires_at, run }, last_event_at }))
        };
        let params = params![i64::MAX, project, config, limit];
        let found = self.read_long_with(|db| db.query_rows(&sql, params, read))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Removes the question of a run that has ended from the lists until the run is reopened, when the question may be open
    /// again. The database stores the time of such a question as a negative number. Does nothing if the run has not ended.
    /// Fails if the database cannot be written.
    pub async fn suspend_expiry(&self, expiry: QuestionExpiry) -> Result<(), StoreError> {
        if let Some(runs) = &self.runs {
            runs.suspend_expiry(expiry);
            return Ok(());
        }
        let job = move |db: &DbConnection| {
            let sql = "update question_expiry set expires_at = -expires_at where expires_at = $1 and run = $2 \
                       and exists (select 1 from run where id = $2 and finished_at is not null)";
            db.execute_unchecked(sql, params![expiry.expires_at, &expiry.run.to_string()])
        };
        self.writer.submit_job(Box::new(job)).await
    }

    /// Forgets when a question expires, because it is not open any more. Fails if the database cannot be written.
    pub async fn forget_expiry(&self, expiry: QuestionExpiry) -> Result<(), StoreError> {
        if let Some(runs) = &self.runs {
            runs.forget_expiry(expiry);
            return Ok(());
        }
        let job = move |db: &DbConnection| {
            let sql = "delete from question_expiry where expires_at = $1 and run = $2";
            db.execute_unchecked(sql, params![expiry.expires_at, &expiry.run.to_string()])
        };
        self.writer.submit_job(Box::new(job)).await
    }
}
