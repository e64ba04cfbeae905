//! Stores blocks: all that are given, or none.

use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{
    Actor, ChangeResult, ChangedDefinition, DefinitionChange, DefinitionCondition, DefinitionKey, DefinitionKind,
    NewDefinition, Origin,
};

use super::check::validate_block;
use super::error::BlockError;
use super::{BlockRegistry, find_built_in, id_of};
use crate::error::AppError;

impl BlockRegistry {
    /// Stores blocks for a user, replacing those with the same ids. Returns one outcome per block. Full-text search
    /// finds them immediately, search by embedding a little later. Fails with `PreconditionFailed` if a block does not
    /// meet the condition.
    pub async fn put_blocks(
        &self,
        user: &str,
        blocks: &[Value],
        condition: DefinitionCondition,
        by: &Actor,
    ) -> Result<Vec<ChangedDefinition>, AppError> {
        let join = |(block, of_source): (&Value, Option<String>)| {
            let problems: Vec<String> = validate_block(block).into_iter().chain(of_source).collect();
            (!problems.is_empty()).then(|| (id_of(block).to_owned(), problems))
        };
        let of_sources = self.find_source_problems(blocks).await;
        let wrong: Vec<(String, Vec<String>)> = blocks.iter().zip(of_sources).filter_map(join).collect();
        if !wrong.is_empty() {
            let messages =
                wrong.iter().map(|(id, problems)| format!("the block {id:?}: {}", problems.join("; "))).collect();
            let problems = wrong.into_iter().flat_map(|(_, problems)| problems).collect();
            return Err(BlockError::Incomplete { messages, problems }.into());
        }
        let change = |block: &Value| {
            let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Block, id: id_of(block).to_owned() };
            let content = render::to_json(block);
            DefinitionChange::Put(NewDefinition { key, format: None, content, origin: Origin::Api, uses: Vec::new() })
        };
        let changes = blocks.iter().map(change).collect();
        let changed = self.store.change_definitions_if(changes, condition, by, SystemClock.now_ms()).await?;
        self.notify_changed();
        Ok(changed)
    }

    /// The problem of each block's Python source; `None` if the source is valid or the block has no Python.
    async fn find_source_problems(&self, blocks: &[Value]) -> Vec<Option<String>> {
        let has_text = |block: &Value, key: &str, text: &str| block.get(key).and_then(Value::as_str) == Some(text);
        // The code of a trigger is never run.
        let is_python =
            |block: &Value| has_text(block, "execution_type", "python") && !has_text(block, "category", "trigger");
        let source = |block: &Value| {
            let source = block.get("source_code").and_then(Value::as_str).filter(|_| is_python(block))?;
            (!source.trim().is_empty()).then(|| source.to_owned())
        };
        let sources: Vec<Option<String>> = blocks.iter().map(source).collect();
        let given: Vec<&str> = sources.iter().flatten().map(String::as_str).collect();
        if given.is_empty() {
            return vec![None; blocks.len()];
        }
        let mut problems = self.syntax.find_problems(&given).await.into_iter();
        let describe = |source: &Option<String>| {
            let problem = source.as_ref().and_then(|_| problems.next().flatten())?;
            Some(format!("\"source_code\" {problem}"))
        };
        sources.iter().map(describe).collect()
    }

    /// Deletes a block of a user. Fails with `StillUsed` while a pipeline uses it, `NotMine` if it is built in,
    /// `NotThere` if there is none, `PreconditionFailed` if it does not meet the condition.
    pub async fn remove_block(
        &self,
        user: &str,
        id: &str,
        condition: DefinitionCondition,
        by: &Actor,
    ) -> Result<(), AppError> {
        let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Block, id: id.to_owned() };
        let changes = vec![DefinitionChange::Delete(key)];
        let changed = self.store.change_definitions_if(changes, condition, by, SystemClock.now_ms()).await?;
        if changed.iter().any(|changed| changed.result != ChangeResult::Missing) {
            return Ok(());
        }
        Err(match find_built_in(id) {
            Some(_) => BlockError::BuiltIn(id.to_owned()).into(),
            None => BlockError::NotFound(id.to_owned()).into(),
        })
    }
}
