//! One session with a Postgres server. It owns a runtime that runs only while a caller waits for a result, so that it
//! can be used from blocking code. Statements are prepared once. Statements whose result is not needed are pipelined
//! with the next one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::address::Database;
use super::tls::Tls;
use crate::db::{Error, Param};

type Sent = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send>>;

/// A session with a Postgres server.
pub(crate) struct Session {
    /// `None` only while the session is being dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    statements: RefCell<HashMap<String, Statement>>,
    /// Statements that were sent but not awaited.
    sent: RefCell<Vec<Sent>>,
}

impl Session {
    pub(crate) fn open(database: &Database) -> Result<Session, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))?;
        let (client, connection) = runtime.block_on(database.config.connect(Tls::new()))?;
        // The connection task ends with the client. Its errors surface in the calls that wait for results.
        runtime.spawn(connection);
        Ok(Session {
            runtime: Some(runtime),
            client: Arc::new(client),
            statements: RefCell::default(),
            sent: RefCell::default(),
        })
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("a session has its runtime until it is dropped"),
        }
    }

    fn prepared(&self, sql: &str, params: &[Param<'_>]) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let types: Vec<Type> = params.iter().map(kind).collect();
        let statement = self.wait(self.client.prepare_typed(sql, &types)).or_else(|error| self.cause(error))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends a statement. Its error is reported by the next [`Session::flush`].
    pub(crate) fn send(&self, sql: &str, params: &[Param<'_>]) -> Result<(), Error> {
        let statement = self.prepared(sql, params)?;
        let params: Vec<Owned> = params.iter().map(Owned::from).collect();
        let client = self.client.clone();
        self.begin(Box::pin(async move {
            let params: Vec<_> = params.iter().map(Owned::bound).collect();
            client.execute(&statement, &params).await
        }))
    }

    /// Sends statements without parameters, like [`Session::send`].
    pub(crate) fn send_plain(&self, sql: &'static str) -> Result<(), Error> {
        let client = self.client.clone();
        self.begin(Box::pin(async move { client.batch_execute(sql).await.map(|()| 0) }))
    }

    fn begin(&self, mut sending: Sent) -> Result<(), Error> {
        // The first poll puts the statement into the connection's queue.
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Ok(done.map(drop)?),
            Poll::Pending => {
                self.sent.borrow_mut().push(sending);
                Ok(())
            }
        }
    }

    /// Waits for all sent statements and returns the first error, if any.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let sent = std::mem::take(&mut *self.sent.borrow_mut());
        let all = async {
            let mut first = Ok(());
            for one in sent {
                let done = one.await;
                if first.is_ok() {
                    first = done.map(drop);
                }
            }
            first
        };
        Ok(self.wait(all)?)
    }

    /// Returns the error that caused `later`: after a failure the server rejects the rest of a transaction.
    fn cause<T>(&self, later: tokio_postgres::Error) -> Result<T, Error> {
        self.flush()?;
        Err(later.into())
    }

    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepared(sql, params)?;
        let params: Vec<_> = params.iter().map(bound).collect();
        self.wait(self.client.execute(&statement, &params)).or_else(|error| self.cause(error))
    }

    pub(crate) fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql, params)?;
        let params: Vec<_> = params.iter().map(bound).collect();
        self.wait(self.client.query(&statement, &params)).or_else(|error| self.cause(error))
    }

    /// Executes statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.wait(self.client.batch_execute(sql))?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Dropping a runtime normally blocks, which is not allowed in an async context.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn kind(param: &Param<'_>) -> Type {
    match param {
        Param::Text(_) => Type::TEXT,
        Param::Int(_) => Type::INT8,
        Param::Bytes(_) => Type::BYTEA,
    }
}

fn bound<'a>(param: &'a Param<'_>) -> &'a (dyn ToSql + Sync) {
    match param {
        Param::Text(text) => text,
        Param::Int(number) => number,
        Param::Bytes(bytes) => bytes,
    }
}

/// A statement parameter that owns its value.
enum Owned {
    Text(Option<String>),
    Int(Option<i64>),
    Bytes(Vec<u8>),
}

impl From<&Param<'_>> for Owned {
    fn from(param: &Param<'_>) -> Owned {
        match param {
            Param::Text(text) => Owned::Text(text.map(ToOwned::to_owned)),
            Param::Int(number) => Owned::Int(*number),
            Param::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
        }
    }
}

impl Owned {
    fn bound(&self) -> &(dyn ToSql + Sync) {
        match self {
            Owned::Text(text) => text,
            Owned::Int(number) => number,
            Owned::Bytes(bytes) => bytes,
        }
    }
}
