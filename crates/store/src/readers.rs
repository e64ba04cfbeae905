//! Pool of read connections. A connection is opened when it is first needed and lent to one reader at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::db::{DbConnection, DbSource};
use crate::error::StoreError;

/// How long a read may take that looks at many rows.
pub(crate) const LONG_READ_TIMEOUT: Duration = Duration::from_mins(10);

/// How long a read of the whole journal of a run may take.
pub(crate) const JOURNAL_READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Read connections of one database.
pub(crate) struct Readers {
    source: DbSource,
    /// Maximum number of lent connections.
    max: usize,
    state: Mutex<ReaderPool>,
    freed: Condvar,
}

#[derive(Default)]
struct ReaderPool {
    idle: Vec<DbConnection>,
    lent: usize,
    /// Why the last read failed, if the database hangs.
    hang: Option<Arc<StoreError>>,
    /// Whether a read finds out if the database still hangs.
    is_probed: bool,
}

/// A borrowed connection, returned when its reader finishes or panics.
struct LentConnection<'a> {
    readers: &'a Readers,
    connection: Option<DbConnection>,
    is_probe: bool,
}

impl Readers {
    pub(crate) fn new(source: DbSource) -> Readers {
        Readers { max: source.max_readers(), source, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Runs a read, and repeats it on a new connection if an idle one turns out to be lost. One of a server must end soon. While
    /// the server hangs, one read at a time waits for it, and the others fail immediately.
    pub(crate) fn run_read<T: Send>(
        &self,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        self.run_within(self.source.answer_timeout(), read)
    }

    /// Same as [`Readers::run_read`] for a read that may take longer.
    pub(crate) fn run_within<T: Send>(
        &self,
        max_wait: Duration,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let wait = ReadWait { started_at: Instant::now(), max_wait };
        self.source.run_blocking(move || {
            let answer = self.lend_connection(wait)?.run_read(&self.source, wait, &read);
            self.note_answer(wait, answer)
        })
    }

    fn lock_state(&self) -> MutexGuard<'_, ReaderPool> {
        self.state.lock()
    }

    /// Fails if the database hangs and another read waits for it, and if no connection to a server is free in time.
    fn lend_connection(&self, wait: ReadWait) -> Result<LentConnection<'_>, StoreError> {
        let mut state = self.lock_state();
        loop {
            if let Some(hang) = state.hang.as_ref().filter(|_| state.is_probed || wait.is_long(&self.source)) {
                return Err(StoreError::Outage(hang.clone()));
            }
            if state.lent < self.max {
                break;
            }
            match self.source.describe_hang() {
                None => self.freed.wait(&mut state),
                Some(unanswered) => match wait.remaining_time() {
                    left if left.is_zero() => return Err(unanswered),
                    left => drop(self.freed.wait_for(&mut state, left)),
                },
            }
        }
        state.lent += 1;
        let is_probe = state.hang.is_some();
        state.is_probed |= is_probe;
        Ok(LentConnection { readers: self, connection: state.idle.pop(), is_probe })
    }

    /// Notes whether the database hangs. A read that was slow, or that met a lock, does not indicate that.
    fn note_answer<T>(&self, wait: ReadWait, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let (hang, answer) = match answer {
            Err(error) if error.is_hang() => {
                let is_hanging = !wait.is_long(&self.source) && self.source.is_hanging();
                let cause = Arc::new(error);
                (is_hanging.then(|| cause.clone()), Err(StoreError::Outage(cause)))
            }
            answer => (None, answer),
        };
        let mut state = self.lock_state();
        let is_news = hang.is_some();
        state.hang = hang;
        if is_news {
            self.freed.notify_all();
        }
        answer
    }
}

/// How long a read waits.
#[derive(Clone, Copy)]
struct ReadWait {
    started_at: Instant,
    max_wait: Duration,
}

impl ReadWait {
    fn remaining_time(self) -> Duration {
        self.max_wait.saturating_sub(self.started_at.elapsed())
    }

    /// Whether it may take so long that it does not help to find out if the database still hangs.
    fn is_long(self, source: &DbSource) -> bool {
        self.max_wait > source.answer_timeout()
    }
}

impl LentConnection<'_> {
    fn run_read<T>(
        &mut self,
        source: &DbSource,
        wait: ReadWait,
        read: impl Fn(&DbConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let is_new = self.connection.is_none();
        let answer = self.connect_if_needed(source, wait).and_then(&read);
        if !answer.as_ref().is_err_and(StoreError::is_session_spoiled) {
            return answer;
        }
        self.connection = None;
        // An idle connection may have been lost long ago.
        if is_new || answer.as_ref().is_err_and(StoreError::is_hang) {
            return answer;
        }
        let answer = self.connect_if_needed(source, wait).and_then(read);
        if answer.as_ref().is_err_and(StoreError::is_session_spoiled) {
            self.connection = None;
        }
        answer
    }

    fn connect_if_needed(&mut self, source: &DbSource, wait: ReadWait) -> Result<&DbConnection, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(source.connect()?),
        };
        connection.set_deadline(wait.started_at + wait.max_wait);
        Ok(connection)
    }
}

impl Drop for LentConnection<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.lock_state();
        state.lent -= 1;
        state.is_probed &= !self.is_probe;
        state.idle.extend(self.connection.take());
        self.readers.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::postgres::Database;

    fn query_count(db: &DbConnection, sql: &str) -> Result<Option<u64>, StoreError> {
        db.query_first(sql, &[], |row| row.get_count(0))
    }

    /// A report may take longer than a read that a caller waits for, and its failure does not affect other reads.
    #[test]
    fn a_slow_read_has_its_time_and_stops_no_other() {
        let Some(place) = test_postgres::TestDatabase::create_database() else { return };
        let database = Database::parse(&place.url).expect("an address").with_answer_timeout(Duration::from_millis(300));
        let readers = Readers::new(DbSource::Postgres(database));
        let slow = "select count(*) from pg_sleep(0.6)";
        let report = readers.run_within(Duration::from_secs(60), |db| query_count(db, slow));
        assert_eq!(report.expect("it has a minute"), Some(1));
        let refused = readers.run_read(|db| query_count(db, slow)).expect_err("it has 0.3 s");
        assert!(refused.code().is_store_outage(), "{refused}");
        assert_eq!(
            readers.run_read(|db| query_count(db, "select count(*) from pg_class where false")).expect("quick"),
            Some(0)
        );
    }
}
