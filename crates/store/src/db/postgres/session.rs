//! One session with a Postgres server. It owns a runtime that runs only while a caller waits for a result, so that it
//! can be used from blocking code. Statements are prepared once. Statements whose result is not needed are pipelined
//! with the next one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::address::Database;
use super::queued_writes::OwnedParams;
use super::tls::TlsConnection;
use crate::db::Param;
use crate::error::StoreError;

type PendingStatement = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send>>;

/// A session with a Postgres server.
pub(crate) struct PgSession {
    /// `None` only while the session is being dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    /// Hosts and ports of the server, for messages.
    server: Arc<str>,
    statements: RefCell<HashMap<String, Statement>>,
    /// Statements that were sent but not awaited.
    sent: RefCell<Vec<PendingStatement>>,
    /// Until when the next answers are awaited, and how long each at most.
    deadline: Cell<Option<Instant>>,
    answer_timeout: Cell<Option<Duration>>,
    /// Whether an answer did not come. Nothing more is expected of the session.
    is_hung: Cell<bool>,
}

impl PgSession {
    pub(crate) fn open(database: &Database) -> Result<PgSession, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| StoreError::Thread { purpose: "talks to the database", source })?;
        let connecting = async { database.within_timeout(database.config.connect(TlsConnection::new())).await };
        let (client, connection) = match runtime.block_on(connecting) {
            Ok(connected) => connected,
            Err(error) => {
                // A resolver that hangs holds a thread, for which dropping the runtime would wait.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        // The connection task ends with the client. Its errors surface in the calls that wait for results.
        runtime.spawn(connection);
        Ok(PgSession {
            runtime: Some(runtime),
            client: Arc::new(client),
            server: database.server.clone(),
            statements: RefCell::default(),
            sent: RefCell::default(),
            deadline: Cell::default(),
            answer_timeout: Cell::default(),
            is_hung: Cell::default(),
        })
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("a session has its runtime until it is dropped"),
        }
    }

    /// Limits how long answers are awaited from now on: until a time, and each for a while.
    pub(super) fn limit_waiting(&self, deadline: Option<Instant>, answer_timeout: Option<Duration>) {
        self.deadline.set(deadline);
        self.answer_timeout.set(answer_timeout);
    }

    /// Waits for an answer of the server. A session whose answer does not come is not used any more.
    fn wait_for<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, StoreError> {
        let unanswered = || StoreError::Unanswered { server: self.server.clone(), is_commit: false };
        if self.is_hung.get() {
            return Err(unanswered());
        }
        let latest = self.answer_timeout.get().map(|timeout| Instant::now() + timeout);
        let Some(until) = self.deadline.get().into_iter().chain(latest).min() else {
            return self.block_on(answer).map_err(|error| self.to_error(error));
        };
        // The timer belongs to the runtime, so it is made within.
        match self.block_on(async { tokio::time::timeout_at(until.into(), answer).await }) {
            Ok(answered) => answered.map_err(|error| self.to_error(error)),
            Err(_) => {
                self.is_hung.set(true);
                Err(unanswered())
            }
        }
    }

    /// Whether the server has ended the session, as far as its connection shows by now.
    pub(crate) fn is_closed(&self) -> bool {
        // The first pause reads what has arrived, the second lets the connection task handle it.
        self.block_on(async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
        self.client.is_closed()
    }

    fn prepare_statement(&self, sql: &str, params: &[Param<'_>]) -> Result<Statement, StoreError> {
        self.prepare_typed(sql, || params.iter().map(param_type).collect())
    }

    fn prepare_typed(&self, sql: &str, types: impl FnOnce() -> Vec<Type>) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.wait_for(self.client.prepare_typed(sql, &types()));
        let statement = prepared.or_else(|error| self.find_cause(error))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends a statement. Its error is reported by the next [`PgSession::flush_pending`].
    pub(crate) fn send_statement(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        let statement = self.prepare_statement(sql, params)?;
        let params: Vec<OwnedParam> = params.iter().map(OwnedParam::from).collect();
        let client = self.client.clone();
        self.start_sending(Box::pin(async move {
            let params: Vec<_> = params.iter().map(OwnedParam::bind_param).collect();
            client.execute(&statement, &params).await
        }))
    }

    /// Sends a statement whose SQL names the types of its parameters, like [`PgSession::send_statement`].
    pub(crate) fn send_owned(&self, sql: &'static str, params: OwnedParams) -> Result<(), StoreError> {
        let statement = self.prepare_typed(sql, Vec::new)?;
        let client = self.client.clone();
        self.start_sending(Box::pin(async move {
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
            client.execute(&statement, &params).await
        }))
    }

    /// Sends statements without parameters, like [`PgSession::send_statement`].
    pub(crate) fn send_plain(&self, sql: &'static str) -> Result<(), StoreError> {
        let client = self.client.clone();
        self.start_sending(Box::pin(async move { client.batch_execute(sql).await.map(|()| 0) }))
    }

    fn start_sending(&self, mut sending: PendingStatement) -> Result<(), StoreError> {
        // The first poll puts the statement into the connection's queue.
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done.map(drop).map_err(|error| self.to_error(error)),
            Poll::Pending => {
                self.sent.borrow_mut().push(sending);
                Ok(())
            }
        }
    }

    /// Waits for all sent statements and returns the first error, if any.
    pub(crate) fn flush_pending(&self) -> Result<(), StoreError> {
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
        self.wait_for(all)
    }

    fn to_error(&self, source: tokio_postgres::Error) -> StoreError {
        // Rust's strings are UTF-8, so the null character is the only one that can be wrong.
        if source.code() == Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) {
            return StoreError::NullCharacter;
        }
        StoreError::Postgres { server: self.server.clone(), is_connecting: false, source }
    }

    /// Returns the error that caused `later`: after a failure the server rejects the rest of a transaction.
    fn find_cause<T>(&self, later: StoreError) -> Result<T, StoreError> {
        self.flush_pending()?;
        Err(later)
    }

    pub(crate) fn execute_sql(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let statement = self.prepare_statement(sql, params)?;
        let params: Vec<_> = params.iter().map(bind_param).collect();
        self.wait_for(self.client.execute(&statement, &params)).or_else(|error| self.find_cause(error))
    }

    pub(crate) fn query_rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare_statement(sql, params)?;
        let params: Vec<_> = params.iter().map(bind_param).collect();
        self.wait_for(self.client.query(&statement, &params)).or_else(|error| self.find_cause(error))
    }

    /// Executes statements without parameters.
    pub(crate) fn run_script(&self, sql: &str) -> Result<(), StoreError> {
        self.wait_for(self.client.batch_execute(sql))
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        // Dropping a runtime normally blocks, which is not allowed in an async context.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn param_type(param: &Param<'_>) -> Type {
    match param {
        Param::Text(_) => Type::TEXT,
        Param::Int(_) => Type::INT8,
        Param::Bytes(_) => Type::BYTEA,
    }
}

fn bind_param<'a>(param: &'a Param<'_>) -> &'a (dyn ToSql + Sync) {
    match param {
        Param::Text(text) => text,
        Param::Int(number) => number,
        Param::Bytes(bytes) => bytes,
    }
}

/// A statement parameter that owns its value.
enum OwnedParam {
    Text(Option<String>),
    Int(Option<i64>),
    Bytes(Vec<u8>),
}

impl From<&Param<'_>> for OwnedParam {
    fn from(param: &Param<'_>) -> OwnedParam {
        match param {
            Param::Text(text) => OwnedParam::Text(text.map(ToOwned::to_owned)),
            Param::Int(number) => OwnedParam::Int(*number),
            Param::Bytes(bytes) => OwnedParam::Bytes(bytes.to_vec()),
        }
    }
}

impl OwnedParam {
    fn bind_param(&self) -> &(dyn ToSql + Sync) {
        match self {
            OwnedParam::Text(text) => text,
            OwnedParam::Int(number) => number,
            OwnedParam::Bytes(bytes) => bytes,
        }
    }
}
