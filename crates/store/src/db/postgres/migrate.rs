//! Creates the tables of a Postgres database, or migrates them to the current schema.

use super::{Database, Postgres};
use crate::error::StoreError;
use crate::migrate_checksums::migrate_checksums;

/// Scripts that migrate the schema from each version to the next.
const MIGRATION_SCRIPTS: [&str; 16] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
    include_str!("schema-8.sql"),
    include_str!("schema-9.sql"),
    include_str!("schema-10.sql"),
    include_str!("schema-11.sql"),
    include_str!("schema-12.sql"),
    include_str!("schema-13.sql"),
    include_str!("schema-14.sql"),
    include_str!("schema-15.sql"),
    include_str!("schema-16.sql"),
];

/// Version since which rows have checksums.
const CHECKSUMS_VERSION: i64 = 4;

/// Version of the schema; a database with a higher version is rejected.
const SCHEMA_VERSION: i64 = MIGRATION_SCRIPTS.len() as i64;

/// Servers that start together migrate one after the other. The lock number is arbitrary, but the same for all.
const BEGIN_MIGRATION_SQL: &str = "begin; select pg_advisory_xact_lock(7305803); \
    create table if not exists schema_version (version bigint not null)";

/// Migrates an empty or older database to [`SCHEMA_VERSION`]. Fails with `StoreNewer` if the database has a higher version.
pub(super) fn migrate_schema(database: &Database) -> Result<(), StoreError> {
    let postgres = Postgres::open_for_migration(database)?;
    let is_there =
        postgres.query_first("select to_regclass('schema_version') is not null", &[], |row| row.get::<bool>(0))?;
    if is_there == Some(true) && read_version(&postgres)? == Some(SCHEMA_VERSION) {
        return Ok(());
    }
    postgres.run_script(BEGIN_MIGRATION_SQL)?;
    let found = read_version(&postgres)?.unwrap_or(0);
    if found > SCHEMA_VERSION {
        return Err(StoreError::Newer {
            database: database.to_string(),
            found,
            supported: SCHEMA_VERSION,
            is_file: false,
        });
    }
    let left = MIGRATION_SCRIPTS.iter().skip(usize::try_from(found).unwrap_or(0));
    left.copied().try_for_each(|migration| postgres.run_script(migration))?;
    if (1..CHECKSUMS_VERSION).contains(&found) {
        migrate_checksums(&postgres)?;
    }
    postgres.run_script(&format!(
        "delete from schema_version; insert into schema_version values ({SCHEMA_VERSION}); commit"
    ))
}

fn read_version(postgres: &Postgres) -> Result<Option<i64>, StoreError> {
    postgres.query_first("select version from schema_version", &[], |row| row.get(0))
}
