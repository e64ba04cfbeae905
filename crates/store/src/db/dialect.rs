//! Parts of statements that databases write differently.

/// Expressions that read fields of stored events, over the table `event`.
#[derive(Clone, Copy)]
pub(crate) struct EventSql {
    /// The event as a JSON text, called `data` by the expressions below.
    pub(crate) data: &'static str,
    /// Whether the outcome in `data` was not reused from another run.
    pub(crate) is_own: &'static str,
    /// The kind of the step in `started`, the data of a `step_started` event.
    pub(crate) started_kind: &'static str,
    /// The target of the step in `started`.
    pub(crate) started_target: &'static str,
    /// A field of the usage in `data`, called `FIELD`.
    pub(super) usage_field: &'static str,
}

impl EventSql {
    /// A field of the usage in `data`.
    pub(crate) fn usage_field(self, name: &str) -> String {
        self.usage_field.replace("FIELD", name)
    }
}

/// A search for words in the index of blocks.
pub(crate) struct WordSearch {
    /// Selects `user_id`, `id` and `score` of each row `card` that matches `$1`, and ends in its condition.
    pub(crate) matching: &'static str,
    /// The value of `$1`.
    pub(crate) asked: String,
}
