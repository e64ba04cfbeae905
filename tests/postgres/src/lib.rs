//! A real Postgres for tests. All test processes share one server. The first one starts it; a watcher process stops it
//! shortly after the last one has ended, however it ended. Each test has its own database.

mod server;

use std::sync::OnceLock;

use server::{Durability, PostgresServer};

/// The server that this process uses, held until the process ends.
static SHARED_SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();

/// The same for the server that waits for the disk.
static DURABLE_SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();

/// The database of one test.
pub struct TestDatabase {
    /// URL of the database.
    pub url: String,
    admin: String,
}

impl TestDatabase {
    /// Creates an empty database. Without a Postgres installation it prints the reason and returns `None`, or panics if
    /// `FLOWLOOM_REQUIRE_POSTGRES` is set.
    pub fn create_database() -> Option<TestDatabase> {
        TestDatabase::create_on(&SHARED_SERVER, Durability::None)
    }

    /// Creates an empty database on a server that waits for the disk, for measurements.
    pub fn create_durable_database() -> Option<TestDatabase> {
        TestDatabase::create_on(&DURABLE_SERVER, Durability::Full)
    }

    fn create_on(server: &OnceLock<Option<PostgresServer>>, durability: Durability) -> Option<TestDatabase> {
        let server = server.get_or_init(|| match PostgresServer::shared_server(durability) {
            Ok(server) => Some(server),
            Err(why) if std::env::var_os("FLOWLOOM_REQUIRE_POSTGRES").is_some() => panic!("{why}"),
            Err(why) => {
                print_skip(&why);
                None
            }
        });
        let server = server.as_ref()?;
        let name = format!("t{}", uuid::Uuid::new_v4().simple());
        let admin = server.database_url("postgres");
        run_sql(&admin, &format!("create database {name}"));
        Some(TestDatabase { url: server.database_url(&name), admin })
    }

    /// Runs statements in this database.
    pub fn run_sql(&self, sql: &str) {
        run_sql(&self.url, sql);
    }

    /// The first column of a query's rows.
    pub fn query_texts(&self, sql: &str) -> Vec<String> {
        run_sql(&self.url, sql)
    }

    /// Closes every connection to this database, as a restart of the server would.
    pub fn close_connections(&self) {
        let name = self.name();
        run_sql(
            &self.admin,
            &format!("select pg_terminate_backend(pid)::text from pg_stat_activity where datname = '{name}'"),
        );
    }

    /// Changes a property of this database with `alter database`, from a session with another one.
    pub fn alter_database(&self, change: &str) {
        run_sql(&self.admin, &format!("alter database {} {change}", self.name()));
    }

    fn name(&self) -> &str {
        let path = self.url.split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// Path of the server's socket.
    pub fn socket_path(&self) -> String {
        let folder = self.url.rsplit("host=").next().unwrap_or_default();
        format!("{folder}/.s.PGSQL.5432")
    }
}

#[allow(clippy::print_stderr)]
fn print_skip(why: &str) {
    eprintln!("SKIP: {why}");
}

/// Runs statements on a thread of its own, because the test may be an async task.
pub fn run_sql(url: &str, sql: &str) -> Vec<String> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("it answers");
            let connection = tokio::spawn(connection);
            let rows = client.simple_query(&sql).await.expect("statements that work");
            drop(client);
            let _ = connection.await;
            let text = |message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            };
            rows.into_iter().filter_map(text).collect()
        })
    });
    thread.join().expect("the statements work")
}
