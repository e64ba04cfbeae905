//! What SQLite writes differently.

use crate::db::dialect::{EventSql, WordSearch};

/// Reads fields of stored events.
pub(crate) const EVENT_SQL: EventSql = EventSql {
    data: "event.data",
    is_own: "json_extract(data, '$.reused') is null",
    started_kind: "json_extract(started, '$[0]')",
    started_target: "json_extract(started, '$[1]')",
    usage_field: "json_extract(data, '$.usage.FIELD')",
};

/// A search for blocks with any of these words.
pub(crate) fn search_words(words: &[String]) -> WordSearch {
    WordSearch {
        matching: "select card.user_id, card.id, -block_words.rank as score from block_words \
             join block_card card on card.number = block_words.rowid where block_words match $1",
        // A quoted word has no special meaning.
        asked: words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR "),
    }
}
