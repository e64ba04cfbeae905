//! Pool of read connections. A connection is opened when it is first needed and lent to one reader at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use flowloom_core::error::StepError;

use crate::db::{Connection, Error, Source};

/// Read connections of one database.
pub(crate) struct Readers {
    source: Source,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    lent: usize,
}

/// A borrowed connection, returned when its reader finishes or panics.
struct Lent<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Readers {
    pub(crate) fn new(source: Source) -> Readers {
        Readers { source, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Runs a read, and repeats it on a new connection if an idle one turns out to be lost.
    pub(crate) fn read<T: Send>(&self, read: impl Fn(&Connection) -> Result<T, Error> + Send) -> Result<T, StepError> {
        Ok(self.source.wait(move || self.lend().read(&self.source, &read))?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self) -> Lent<'_> {
        let mut state = self.state();
        while state.lent == self.source.readers() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        Lent { readers: self, connection: state.idle.pop() }
    }
}

impl Lent<'_> {
    fn read<T>(&mut self, source: &Source, read: impl Fn(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let is_new = self.connection.is_none();
        let answer = self.connection(source).and_then(&read);
        if !answer.as_ref().is_err_and(Error::is_lost) {
            return answer;
        }
        self.connection = None;
        // An idle connection may have been lost long ago.
        if is_new { answer } else { self.connection(source).and_then(read) }
    }

    fn connection(&mut self, source: &Source) -> Result<&Connection, Error> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(source.connect()?)),
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.state();
        state.lent -= 1;
        state.idle.extend(self.connection.take());
        self.readers.freed.notify_one();
    }
}
