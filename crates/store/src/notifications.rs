//! What runs tell their users, to be read later.

use flowloom_core::error::StepError;
use rusqlite::{Row, params};

use crate::Store;
use crate::failure::failed;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationRow {
    /// Its number.
    pub id: i64,
    /// Whom it is for.
    pub holder: String,
    /// One line.
    pub title: String,
    /// The text.
    pub body: String,
    /// What else was given, as JSON.
    pub metadata: String,
    /// When it was made, in milliseconds since 1970.
    pub at: u64,
    /// Whether it was read.
    pub is_read: bool,
}

/// One that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotification {
    /// Made twice under one key, it is there once.
    pub key: String,
    /// Whom it is for.
    pub holder: String,
    /// One line.
    pub title: String,
    /// The text.
    pub body: String,
    /// What else is given, as JSON.
    pub metadata: String,
    /// When it is made, in milliseconds since 1970.
    pub at: u64,
}

impl Store {
    /// Makes a notification.
    pub async fn notify(&self, new: NewNotification) -> Result<(), StepError> {
        let sql = "insert into notification (key, holder, title, body, metadata, at) values (?1, ?2, ?3, ?4, ?5, ?6) \
                   on conflict do nothing";
        let job = move |connection: &rusqlite::Connection| {
            let NewNotification { key, holder, title, body, metadata, at } = &new;
            connection.prepare_cached(sql)?.execute(params![key, holder, title, body, metadata, *at as i64])?;
            Ok(Ok(()))
        };
        self.writer.submit(Box::new(job)).await
    }

    /// The newest notifications first; of one user, or of all.
    pub fn notifications(&self, holder: Option<&str>, limit: u32) -> Result<Vec<NotificationRow>, StepError> {
        let sql = "select id, holder, title, body, metadata, at, read_at from notification \
                   where ?1 is null or holder = ?1 order by id desc limit ?2";
        let reader = self.reader();
        let mut statement = reader.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map(params![holder, limit], row_of).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Marks one as read; `false` if there is none of this number and user.
    pub async fn read_notification(&self, holder: Option<&str>, id: i64, at: u64) -> Result<bool, StepError> {
        let sql =
            "update notification set read_at = coalesce(read_at, ?1) where id = ?2 and (?3 is null or holder = ?3)";
        let holder = holder.map(str::to_owned);
        let changed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = changed.clone();
        let job = move |connection: &rusqlite::Connection| {
            let rows = connection.prepare_cached(sql)?.execute(params![at as i64, id, holder])?;
            count.store(rows, std::sync::atomic::Ordering::Release);
            Ok(Ok(()))
        };
        self.writer.submit(Box::new(job)).await?;
        Ok(changed.load(std::sync::atomic::Ordering::Acquire) > 0)
    }
}

fn row_of(row: &Row<'_>) -> rusqlite::Result<NotificationRow> {
    Ok(NotificationRow {
        id: row.get(0)?,
        holder: row.get(1)?,
        title: row.get(2)?,
        body: row.get(3)?,
        metadata: row.get(4)?,
        at: row.get::<_, i64>(5)? as u64,
        is_read: row.get::<_, Option<i64>>(6)?.is_some(),
    })
}
