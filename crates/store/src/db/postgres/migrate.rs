//! Creates the tables of a Postgres database, or migrates them to the current schema.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use super::{Database, Error, Postgres};

/// Scripts that migrate the schema from each version to the next.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// Version of the schema; a database with a higher version is rejected.
const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Servers that start together migrate one after the other. The lock number is arbitrary, but the same for all.
const BEGIN: &str = "begin; select pg_advisory_xact_lock(7305803); \
    create table if not exists schema_version (version bigint not null)";

/// Migrates an empty or older database to [`SCHEMA`]. Fails with `StoreNewer` if the database has a higher version.
pub(crate) fn migrate(database: &Database) -> Result<(), Error> {
    let postgres = Postgres::open(database)?;
    let is_there = postgres.first("select to_regclass('schema_version') is not null", &[], |row| row.get::<bool>(0))?;
    if is_there == Some(true) && version(&postgres)? == Some(SCHEMA) {
        return Ok(());
    }
    postgres.run(BEGIN)?;
    let found = version(&postgres)?.unwrap_or(0);
    if found > SCHEMA {
        let message = format!(
            "{database} has schema version {found}, but this program supports at most {SCHEMA}; use a newer \
             flowloom or another database"
        );
        return Err(StepError::new(Code::StoreNewer, message).into());
    }
    let left = MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0));
    left.copied().try_for_each(|migration| postgres.run(migration))?;
    postgres.run(&format!("delete from schema_version; insert into schema_version values ({SCHEMA}); commit"))
}

fn version(postgres: &Postgres) -> Result<Option<i64>, Error> {
    postgres.first("select version from schema_version", &[], |row| row.get(0))
}
