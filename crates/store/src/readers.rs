//! Pool of read connections. A connection is opened when it is first needed and lent to one reader at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::db::{DbConnection, DbSource};
use crate::error::StoreError;

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
}

/// A borrowed connection, returned when its reader finishes or panics.
struct LentConnection<'a> {
    readers: &'a Readers,
    connection: Option<DbConnection>,
}

impl Readers {
    pub(crate) fn new(source: DbSource) -> Readers {
        Readers { max: source.max_readers(), source, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Runs a read, and repeats it on a new connection if an idle one turns out to be lost.
    pub(crate) fn run_read<T: Send>(
        &self,
        read: impl Fn(&DbConnection) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        self.source.run_blocking(move || self.lend_connection().run_read(&self.source, &read))
    }

    fn lock_state(&self) -> MutexGuard<'_, ReaderPool> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend_connection(&self) -> LentConnection<'_> {
        let mut state = self.lock_state();
        while state.lent == self.max {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        LentConnection { readers: self, connection: state.idle.pop() }
    }
}

impl LentConnection<'_> {
    fn run_read<T>(
        &mut self,
        source: &DbSource,
        read: impl Fn(&DbConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let is_new = self.connection.is_none();
        let answer = self.connect_if_needed(source).and_then(&read);
        if !answer.as_ref().is_err_and(StoreError::is_session_spoiled) {
            return answer;
        }
        self.connection = None;
        // An idle connection may have been lost long ago.
        if is_new { answer } else { self.connect_if_needed(source).and_then(read) }
    }

    fn connect_if_needed(&mut self, source: &DbSource) -> Result<&DbConnection, StoreError> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(source.connect()?)),
        }
    }
}

impl Drop for LentConnection<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.lock_state();
        state.lent -= 1;
        state.idle.extend(self.connection.take());
        self.readers.freed.notify_one();
    }
}
