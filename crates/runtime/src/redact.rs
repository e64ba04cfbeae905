//! Removes secrets from what a run records and shows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::path::Path;
use flowloom_core::value::{Map, Value};
use parking_lot::Mutex;

use crate::effects::Deltas;

/// Replaces the values of secrets in text.
pub trait Redactor: Send + Sync {
    /// The text with every secret replaced. Borrows the text if it contains none.
    fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Starts redacting a text that arrives in pieces.
    fn start_stream(&self) -> Box<dyn RedactedStream>;
}

/// The redactors of users: the text shown to one user must not depend on the secrets of another.
pub trait Redactors: Send + Sync {
    /// The redactor for what the runs of a user record and show.
    fn redactor_for(&self, user: &str) -> Arc<dyn Redactor>;
}

/// A text that arrives in pieces, on its way to its readers. A secret may be split among the pieces.
pub trait RedactedStream: Send {
    /// Adds a piece. Returns the text that is now known to contain no part of a secret. How much is returned does not depend
    /// on secrets that the text does not contain: it would reveal to the author of the text how they begin.
    fn push_piece(&mut self, piece: &str) -> String;

    /// Ends the text. Returns the text that was held back.
    fn finish_text(&mut self) -> String;
}

/// Replaces the secrets in all texts of a value, including the keys of objects. A value without secrets is not copied.
pub fn redact_value(redactor: &dyn Redactor, value: Value) -> Value {
    match is_free_of_secrets(redactor, &value) {
        true => value,
        false => copy_redacted(redactor, &value),
    }
}

fn copy_redacted(redactor: &dyn Redactor, value: &Value) -> Value {
    match value {
        Value::String(text) => redactor.redact_text(text).as_ref().into(),
        Value::List(items) => Value::list(items.iter().map(|item| copy_redacted(redactor, item)).collect()),
        Value::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Value)| {
                (redactor.redact_text(key).as_ref().into(), copy_redacted(redactor, value))
            };
            map.iter().map(entry).collect::<Map>().into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Blob(_) => value.clone(),
    }
}

fn is_free_of_secrets(redactor: &dyn Redactor, value: &Value) -> bool {
    let is_free = |text: &str| matches!(redactor.redact_text(text), Cow::Borrowed(_));
    match value {
        Value::String(text) => is_free(text),
        Value::List(items) => items.iter().all(|item| is_free_of_secrets(redactor, item)),
        Value::Map(map) => map.iter().all(|(key, item)| is_free(key) && is_free_of_secrets(redactor, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Blob(_) => true,
    }
}

/// The sink of an effect's deltas, without secrets.
pub(crate) fn redact_deltas(redactor: Option<&Arc<dyn Redactor>>, inner: Arc<dyn Deltas>) -> Arc<dyn Deltas> {
    match redactor {
        Some(redactor) => Arc::new(RedactedDeltas { redactor: redactor.clone(), inner, streams: Mutex::default() }),
        None => inner,
    }
}

struct RedactedDeltas {
    redactor: Arc<dyn Redactor>,
    inner: Arc<dyn Deltas>,
    streams: Mutex<BTreeMap<(Path, u32), Box<dyn RedactedStream>>>,
}

impl Deltas for RedactedDeltas {
    fn push(&self, path: &Path, attempt: u32, text: &str) {
        let mut streams = self.streams.lock();
        let stream = streams.entry((path.clone(), attempt)).or_insert_with(|| self.redactor.start_stream());
        let safe = stream.push_piece(text);
        if !safe.is_empty() {
            self.inner.push(path, attempt, &safe);
        }
    }
}

impl Drop for RedactedDeltas {
    fn drop(&mut self) {
        let streams = std::mem::take(&mut *self.streams.lock());
        for ((path, attempt), mut stream) in streams {
            let rest = stream.finish_text();
            if !rest.is_empty() {
                self.inner.push(&path, attempt, &rest);
            }
        }
    }
}
