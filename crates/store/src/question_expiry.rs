//! Questions that expire: when runs that wait for a person must continue without an answer.

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;

use crate::abandoned::IN_SCOPE_SQL;
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
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

/// The expiry of the question that a record asks; `None` if it asks none with a time limit.
pub(crate) fn find_expiry(record: &Record) -> Option<QuestionExpiry> {
    match &record.event {
        Event::Asked(question) => Some(QuestionExpiry { expires_at: question.expires_at?, run: record.run }),
        _ => None,
    }
}

/// Notes when the question expires that a record asks.
pub(crate) fn insert_expiry(db: &DbConnection, record: &Record) -> Result<(), StoreError> {
    let Some(QuestionExpiry { expires_at, run }) = find_expiry(record) else { return Ok(()) };
    let sql = "insert into question_expiry (run, expires_at) values ($1, $2) on conflict do nothing";
    db.execute_unchecked(sql, params![&run.to_string(), expires_at])
}

impl Store {
    /// Questions that have expired by `now`, the earliest first; at most `limit`. They stay listed until
    /// [`Store::forget_expiry`]. Runs outside of the scope of this process are left out.
    pub fn list_expired_questions(&self, now: u64, limit: u32) -> Result<Vec<QuestionExpiry>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.list_expired_questions(now, limit));
        }
        let RecoveryScope { project, config } = &self.recovery;
        let sql = format!(
            "select question_expiry.run, expires_at from question_expiry join run on run.id = question_expiry.run \
             where expires_at <= $1 and {IN_SCOPE_SQL} order by expires_at limit $4"
        );
        let read = |row: &DbRow<'_>| {
            let run = RunId::parse(&row.get::<String>(0)?);
            let expires_at = row.get_count(1)?;
            Ok(run.map(|run| QuestionExpiry { expires_at, run }))
        };
        let found = self.read_with(|db| db.query_rows(&sql, params![now, project, config, limit], read))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Forgets when a question expires, because its run continues.
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
