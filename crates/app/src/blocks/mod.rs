//! The block registry of the server and the commands: stored and built-in blocks, and search. How a block runs is in
//! `formats` and `runtime`.

mod check;
mod embeddings;
mod find;
mod keep;
mod vectors;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flowloom_core::block::Thresholds;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_store::{Kind, Store};
use tokio::sync::{Notify, OnceCell};

use crate::config::Config;
use crate::definitions::stored;
use embeddings::Embeddings;
pub use find::Found;
pub use flowloom_formats::pipeline::built_in;
pub use keep::Refused;

/// The blocks of one installation.
pub struct Registry {
    store: Arc<Store>,
    embeddings: Embeddings,
    /// Notified after blocks were stored that may lack an embedding.
    changed: Notify,
    /// Set once the search index contains the built-in blocks.
    brought: OnceCell<()>,
    /// Whether every block had its embedding once.
    is_embedded: AtomicBool,
}

impl Registry {
    /// A registry over a store, with the embeddings that are configured.
    pub fn new(store: Arc<Store>, config: &Config) -> Registry {
        Registry {
            store,
            embeddings: Embeddings::new(config),
            changed: Notify::new(),
            brought: OnceCell::new(),
            is_embedded: AtomicBool::new(false),
        }
    }

    /// Every block of a user: stored blocks (the user's or everyone's) and the built-in ones. A stored block hides a
    /// built-in one with the same id.
    pub fn list(&self, holder: &str) -> Result<Vec<Value>, StepError> {
        let kept = self.kept(holder)?;
        let is_hidden = |block: &&Value| kept.iter().any(|other| id_of(block) == id_of(other));
        let mut all: Vec<Value> = built_in().iter().filter(|block| !is_hidden(block)).cloned().collect();
        all.extend(kept);
        Ok(all)
    }

    /// The stored blocks among them.
    pub fn kept(&self, holder: &str) -> Result<Vec<Value>, StepError> {
        let kept = stored::list(&self.store, holder, Kind::Block)?;
        Ok(kept.iter().filter_map(|row| parse_value(&row.content).ok()).collect())
    }

    /// Whether a block called `id` is stored.
    pub fn is_kept(&self, holder: &str, id: &str) -> Result<bool, StepError> {
        Ok(stored::find(&self.store, holder, Kind::Block, id)?.is_some())
    }

    /// The block called `id` that is effective for the user: stored first, then built in.
    pub fn get(&self, holder: &str, id: &str) -> Result<Option<Value>, StepError> {
        match stored::find(&self.store, holder, Kind::Block, id)? {
            Some(row) => Ok(parse_value(&row.content).ok()),
            None => Ok(built_in_block(id).cloned()),
        }
    }

    /// The minimum similarities at which a block matches.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.embeddings.thresholds()
    }

    /// Wakes the background task that computes missing embeddings.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Adds the built-in blocks to the search index once.
    async fn bring(&self) -> Result<(), StepError> {
        let bring = || {
            let blocks = built_in().iter().map(|block| (id_of(block).to_owned(), render::json(block)));
            self.store.bring_blocks(blocks.collect())
        };
        self.brought.get_or_try_init(bring).await.copied()
    }

    /// Runs database work on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StepError> + Send + 'static,
    ) -> Result<T, StepError> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.map_err(|error| StepError::new(Code::StoreFailed, format!("the database task failed: {error}")))?
    }
}

/// The built-in block called `id`.
pub fn built_in_block(id: &str) -> Option<&'static Value> {
    built_in().iter().find(|block| id_of(block) == id)
}

/// The id of a block; empty if it has none.
pub fn id_of(block: &Value) -> &str {
    block.get("id").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flowloom_store::Durability;

    use super::*;
    use crate::config::{Overrides, Setting};

    /// A registry with its store in a folder.
    pub(super) fn registry(folder: &std::path::Path) -> Registry {
        let data_dir = Setting { value: folder.to_owned(), origin: "the test".to_owned() };
        let overrides = Overrides { data_dir: Some(data_dir), ..Overrides::default() };
        let store = Store::open(folder, Durability::Off).expect("a store");
        Registry::new(store, &Config::load(overrides).expect("a configuration"))
    }
}
