//! SQL that reads fields of stored events, for each database.

use crate::db::DbConnection;

/// Expressions over the table `event`.
#[derive(Clone, Copy)]
pub(crate) struct EventSql {
    /// The event as a JSON text, called `data` by the expressions below.
    pub(crate) data: &'static str,
    /// Whether the outcome in `data` was not reused from another run.
    pub(crate) is_own: &'static str,
    usage_field: &'static str,
}

impl EventSql {
    /// The expressions for the database of a connection.
    pub(crate) fn for_database(connection: &DbConnection) -> EventSql {
        match connection {
            DbConnection::Sqlite(_) => EventSql {
                data: "event.data",
                is_own: "json_extract(data, '$.reused') is null",
                usage_field: "json_extract(data, '$.usage.FIELD')",
            },
            // Postgres fails to read any part of a JSON text with an escaped null character, wherever that is.
            DbConnection::Postgres(_) => EventSql {
                data: r"replace(event.data, '\u0000', '\u0001')",
                is_own: "data::json ->> 'reused' is null",
                usage_field: "(data::json -> 'usage' ->> 'FIELD')::bigint",
            },
        }
    }

    /// A field of the usage in `data`.
    pub(crate) fn usage_field(self, name: &str) -> String {
        self.usage_field.replace("FIELD", name)
    }
}
