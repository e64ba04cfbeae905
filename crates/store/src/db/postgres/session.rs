//! One session with a Postgres server. It has a runtime of its own, which turns only while somebody waits for an answer,
//! so that it can be used like a file. Statements are prepared once, and those whose answer nobody waits for are sent
//! together with the next.

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

/// A session.
pub(crate) struct Session {
    /// Taken when the session is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    statements: RefCell<HashMap<String, Statement>>,
    /// What was sent and not waited for.
    sent: RefCell<Vec<Sent>>,
}

impl Session {
    pub(crate) fn open(database: &Database) -> Result<Session, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))?;
        let (client, connection) = runtime.block_on(database.config.connect(Tls::new()))?;
        // It ends with the client; what goes wrong with it is said to whoever waits for an answer.
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

    /// Sends a statement; how it ended is seen at the next [`Session::flush`].
    pub(crate) fn send(&self, sql: &str, params: &[Param<'_>]) -> Result<(), Error> {
        let statement = self.prepared(sql, params)?;
        let params: Vec<Owned> = params.iter().map(Owned::from).collect();
        let client = self.client.clone();
        self.begin(Box::pin(async move {
            let params: Vec<_> = params.iter().map(Owned::bound).collect();
            client.execute(&statement, &params).await
        }))
    }

    /// Sends statements without parameters, as [`Session::send`] does.
    pub(crate) fn send_plain(&self, sql: &'static str) -> Result<(), Error> {
        let client = self.client.clone();
        self.begin(Box::pin(async move { client.batch_execute(sql).await.map(|()| 0) }))
    }

    fn begin(&self, mut sending: Sent) -> Result<(), Error> {
        // Its first turn puts it into the connection's queue.
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Ok(done.map(drop)?),
            Poll::Pending => {
                self.sent.borrow_mut().push(sending);
                Ok(())
            }
        }
    }

    /// Waits for everything that was sent; the first failure, if there is one.
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

    /// The error that made the later one: after a failure the server refuses the rest of a transaction.
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

    /// Runs statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.wait(self.client.batch_execute(sql))?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The usual way waits, which is not allowed where other tasks run.
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

/// A parameter that outlives its statement's caller.
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
