//! Notifications that runs leave for their users.

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::store::Store;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationRow {
    /// Id, in ascending order of creation.
    pub id: i64,
    /// User that receives it.
    pub user: String,
    /// Title, one line.
    pub title: String,
    /// Text.
    pub body: String,
    /// Additional data, as JSON.
    pub metadata: String,
    /// Creation time, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Whether the user has read it.
    pub is_read: bool,
}

/// A notification to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotification {
    /// Idempotency key: a second notification with the same key is ignored.
    pub key: String,
    /// User that receives it.
    pub user: String,
    /// Title, one line.
    pub title: String,
    /// Text.
    pub body: String,
    /// Additional data, as JSON.
    pub metadata: String,
    /// Creation time, in milliseconds since the Unix epoch.
    pub at: u64,
}

const NOTIFICATION_COLUMNS: &str = "id, user_id, title, body, metadata, at, read_at";

/// Length of a text of a notification, in characters, up to which lists contain it.
const MAX_LISTED_CHARS: usize = 16_384;

impl Store {
    /// Creates a notification, unless one with its key exists. Fails if the database cannot be written.
    pub async fn create_notification(&self, new: NewNotification) -> Result<(), StoreError> {
        let sql = "insert into notification (key, user_id, title, body, metadata, at) values ($1, $2, $3, $4, $5, $6) \
                   on conflict do nothing";
        let job = move |connection: &DbConnection| {
            let NewNotification { key, user, title, body, metadata, at } = &new;
            connection.execute_unchecked(sql, params![key, user, title, body, metadata, *at])
        };
        self.writer.submit_job(Box::new(job)).await
    }

    /// Notifications of one user, or of all users, newest first. Long titles and bodies end with `…`, and large metadata are
    /// `null`: [`Store::find_notification`] has them whole. Fails if the database cannot be read.
    pub fn list_notifications(&self, user: Option<&str>, limit: u32) -> Result<Vec<NotificationRow>, StoreError> {
        let cut = |column: &str, otherwise: &str| {
            format!("case when length({column}) <= {MAX_LISTED_CHARS} then {column} else {otherwise} end")
        };
        let start = |column: &str| cut(column, &format!("substr({column}, 1, {MAX_LISTED_CHARS}) || '…'"));
        let (title, body, metadata) = (start("title"), start("body"), cut("metadata", "'null'"));
        let sql = format!(
            "select id, user_id, {title}, {body}, {metadata}, at, read_at from notification \
             where (user_id = $1 or $1 is null) order by id desc limit $2"
        );
        self.read_with(|db| db.query_rows(&sql, params![user, limit], parse_notification_row))
    }

    /// The notification with this id; `None` if the user has none. Fails if the database cannot be read.
    pub fn find_notification(&self, user: Option<&str>, id: i64) -> Result<Option<NotificationRow>, StoreError> {
        let sql =
            format!("select {NOTIFICATION_COLUMNS} from notification where id = $1 and (user_id = $2 or $2 is null)");
        self.read_with(|db| db.query_first(&sql, params![id, user], parse_notification_row))
    }

    /// The notifications with one of these keys, in the order of their creation. Fails if the database cannot be read.
    pub fn find_notifications(&self, keys: &[String]) -> Result<Vec<NotificationRow>, StoreError> {
        let sql = format!("select {NOTIFICATION_COLUMNS} from notification where key = $1");
        let mut found = Vec::new();
        for key in keys {
            found.extend(self.read_with(|db| db.query_first(&sql, params![key], parse_notification_row))?);
        }
        found.sort_by_key(|row| row.id);
        Ok(found)
    }

    /// Marks a notification as read. Fails with `NotThere` if the user has no notification with this id.
    pub async fn mark_notification_read(&self, user: Option<&str>, id: i64, at: u64) -> Result<(), StoreError> {
        let sql = "update notification set read_at = coalesce(read_at, $1) \
                   where id = $2 and (user_id = $3 or $3 is null)";
        let user = user.map(str::to_owned);
        let job = move |connection: &DbConnection| {
            let missing = StoreError::NotFound { kind: "notification", id: id.to_string() };
            connection.execute_required(sql, params![at, id, &user], missing)
        };
        self.writer.submit_job(Box::new(job)).await
    }
}

fn parse_notification_row(row: &DbRow<'_>) -> Result<NotificationRow, StoreError> {
    Ok(NotificationRow {
        id: row.get(0)?,
        user: row.get(1)?,
        title: row.get(2)?,
        body: row.get(3)?,
        metadata: row.get(4)?,
        at: row.get_count(5)?,
        is_read: row.get::<Option<i64>>(6)?.is_some(),
    })
}
