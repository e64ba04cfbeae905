//! What Postgres writes differently.

use crate::db::dialect::{EventSql, WordSearch};

/// Reads fields of stored events. Postgres fails to read any part of a JSON text with an escaped null character, wherever
/// that is.
pub(crate) const EVENT_SQL: EventSql = EventSql {
    data: r"replace(event.data, '\u0000', '\u0001')",
    is_own: "data::json ->> 'reused' is null",
    started_kind: "started::json ->> 0",
    started_target: "started::json ->> 1",
    usage_field: "(data::json -> 'usage' ->> 'FIELD')::bigint",
};

/// A search for blocks with any of these words.
pub(crate) fn search_words(words: &[String]) -> WordSearch {
    WordSearch {
        matching: "select card.user_id, card.id, ts_rank(card.words, asked)::float8 as score \
             from to_tsquery('english', $1) asked, block_card card where card.words @@ asked",
        asked: words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | "),
    }
}
