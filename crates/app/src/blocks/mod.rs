//! The block registry of the server and the commands: stored and built-in blocks, and search. How a block runs is in
//! `formats` and `runtime`.

mod candidates;
mod check;
mod embeddings;
mod error;
mod find;
mod persist;
pub(crate) mod syntax;
mod vectors;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flowloom_core::block::Thresholds;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_store::{DefinitionKind, Store};
use tokio::sync::{Notify, OnceCell};

use crate::config::Config;
use crate::definitions::stored;
use crate::error::AppError;
use embeddings::BlockEmbedder;
pub use error::BlockError;
pub use find::BlockMatch;
pub use flowloom_formats::pipeline::built_in_blocks;
pub use syntax::PythonSyntax;

/// The blocks of one installation.
pub struct BlockRegistry {
    store: Arc<Store>,
    embeddings: BlockEmbedder,
    /// Parses the sources of blocks before they are stored.
    syntax: PythonSyntax,
    /// Notified after blocks were stored that may lack an embedding.
    blocks_changed: Notify,
    /// Set once the search index contains the built-in blocks.
    indexed_built_in: OnceCell<()>,
    /// Whether every block had its embedding once.
    is_embedded_once: AtomicBool,
}

impl BlockRegistry {
    /// A registry over a store, with the embeddings that are configured. `syntax` parses the sources of blocks.
    pub fn new(store: Arc<Store>, config: &Arc<Config>, syntax: PythonSyntax) -> BlockRegistry {
        BlockRegistry {
            store,
            syntax,
            embeddings: BlockEmbedder::new(config),
            blocks_changed: Notify::new(),
            indexed_built_in: OnceCell::new(),
            is_embedded_once: AtomicBool::new(false),
        }
    }

    /// The parser of the sources of blocks.
    pub fn python_syntax(&self) -> &PythonSyntax {
        &self.syntax
    }

    /// Every block of a user: stored blocks (the user's or everyone's) and the built-in ones. A stored block hides a
    /// built-in one with the same id. Fails if the store cannot be read.
    pub fn list_blocks(&self, user: &str) -> Result<Vec<Value>, AppError> {
        let stored_blocks = self.list_stored(user)?;
        let is_hidden = |block: &&Value| stored_blocks.iter().any(|other| id_of(block) == id_of(other));
        let mut all: Vec<Value> = built_in_blocks().iter().filter(|block| !is_hidden(block)).cloned().collect();
        all.extend(stored_blocks);
        Ok(all)
    }

    /// The stored blocks among them. Fails if the store cannot be read.
    pub fn list_stored(&self, user: &str) -> Result<Vec<Value>, AppError> {
        let stored_blocks = stored::list_definitions(&self.store, user, DefinitionKind::Block)?;
        Ok(stored_blocks.iter().filter_map(|row| parse_value(&row.content).ok()).collect())
    }

    /// The blocks that a user has stored, without those of everyone. Fails if the store cannot be read.
    pub fn list_own(&self, user: &str) -> Result<Vec<Value>, AppError> {
        let own = self.store.list_definitions(user, DefinitionKind::Block)?;
        Ok(own.iter().filter_map(|row| parse_value(&row.content).ok()).collect())
    }

    /// Whether a block called `id` is stored. Fails if the store cannot be read.
    pub fn is_stored(&self, user: &str, id: &str) -> Result<bool, AppError> {
        Ok(stored::find_definition(&self.store, user, DefinitionKind::Block, id)?.is_some())
    }

    /// The block called `id` that is effective for the user: stored first, then built in. Fails if the store cannot be
    /// read.
    pub fn find_block(&self, user: &str, id: &str) -> Result<Option<Value>, AppError> {
        match stored::find_definition(&self.store, user, DefinitionKind::Block, id)? {
            Some(row) => Ok(parse_value(&row.content).ok()),
            None => Ok(find_built_in(id).cloned()),
        }
    }

    /// The minimum similarities at which a block matches.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.embeddings.thresholds()
    }

    /// Wakes the background task that computes missing embeddings.
    pub fn notify_changed(&self) {
        self.blocks_changed.notify_one();
    }

    /// Adds the built-in blocks to the search index once.
    async fn index_built_in(&self) -> Result<(), AppError> {
        let bring = || {
            let blocks = built_in_blocks().iter().map(|block| (id_of(block).to_owned(), render::to_json(block)));
            self.store.index_builtin_blocks(blocks.collect())
        };
        self.indexed_built_in.get_or_try_init(bring).await?;
        Ok(())
    }

    /// Runs database work on a blocking thread.
    async fn run_blocking<T: Send + 'static, E: Into<AppError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, E> + Send + 'static,
    ) -> Result<T, AppError> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done?.map_err(E::into)
    }
}

/// The built-in block called `id`.
pub fn find_built_in(id: &str) -> Option<&'static Value> {
    built_in_blocks().iter().find(|block| id_of(block) == id)
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
    pub(super) fn open_registry(folder: &std::path::Path) -> BlockRegistry {
        let data_dir = Setting { value: folder.to_owned(), origin: "the test".to_owned() };
        let overrides = Overrides { data_dir: Some(data_dir), ..Overrides::default() };
        let store = Store::open(folder, Durability::Off).expect("a store");
        let config = Config::load(overrides).expect("a configuration");
        let syntax = PythonSyntax::with_system_python(&config);
        BlockRegistry::new(store, &Arc::new(config), syntax)
    }
}
