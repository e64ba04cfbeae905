//! Stores blocks: all that are given, or none.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{ChangeResult, DefinitionChange, DefinitionKey, DefinitionKind, NewDefinition, Origin};

use super::check::validate_block;
use super::{BlockRegistry, find_built_in, id_of};

/// Why blocks were not stored.
#[derive(Debug)]
pub struct RejectedBlocks {
    /// The error, which names every problem.
    pub error: StepFailure,
    /// Every problem of the blocks, one sentence each.
    pub problems: Vec<String>,
}

impl From<StepFailure> for RejectedBlocks {
    fn from(error: StepFailure) -> RejectedBlocks {
        RejectedBlocks { error, problems: Vec::new() }
    }
}

impl BlockRegistry {
    /// Stores blocks for a user, replacing those with the same ids. Returns one outcome per block. Full-text search
    /// finds them at once, search by embedding a little later.
    pub async fn put_blocks(&self, user: &str, blocks: &[Value]) -> Result<Vec<ChangeResult>, RejectedBlocks> {
        let wrong = |block: &Value| {
            let problems = validate_block(block);
            (!problems.is_empty()).then(|| (id_of(block).to_owned(), problems))
        };
        let wrong: Vec<(String, Vec<String>)> = blocks.iter().filter_map(wrong).collect();
        if !wrong.is_empty() {
            let messages = wrong.iter().map(|(id, problems)| format!("the block {id:?}: {}", problems.join("; ")));
            let message = format!("no block was stored: {}", messages.collect::<Vec<_>>().join("; "));
            let problems = wrong.into_iter().flat_map(|(_, problems)| problems).collect();
            return Err(RejectedBlocks { error: StepFailure::new(Code::BlockIncomplete, message), problems });
        }
        let change = |block: &Value| {
            let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Block, id: id_of(block).to_owned() };
            let content = render::to_json(block);
            DefinitionChange::Put(NewDefinition { key, format: None, content, origin: Origin::Api, uses: Vec::new() })
        };
        let changes = blocks.iter().map(change).collect();
        let changed = self.store.change_definitions(changes, SystemClock.now_ms()).await.map_err(StepFailure::from)?;
        self.notify_changed();
        Ok(changed)
    }

    /// Deletes a block of a user. Fails with `StillUsed` while a pipeline uses it, `NotMine` if it is built in,
    /// `NotThere` if there is none.
    pub async fn remove_block(&self, user: &str, id: &str) -> Result<(), StepFailure> {
        let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Block, id: id.to_owned() };
        let changed = self.store.change_definitions(vec![DefinitionChange::Delete(key)], SystemClock.now_ms()).await?;
        if changed != [ChangeResult::Missing] {
            return Ok(());
        }
        Err(match find_built_in(id) {
            Some(_) => {
                let message = format!("the block {id} is built in; to replace it, store a block with the same id");
                StepFailure::new(Code::NotMine, message)
            }
            None => StepFailure::new(Code::NotThere, format!("there is no block {id}")),
        })
    }
}
