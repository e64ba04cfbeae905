//! Stores blocks: all that are given, or none.

use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{
    Actor, ChangeResult, DefinitionChange, DefinitionCondition, DefinitionKey, DefinitionKind, NewDefinition, Origin,
};

use super::check::validate_block;
use super::error::BlockError;
use super::{BlockRegistry, find_built_in, id_of};
use crate::error::AppError;

impl BlockRegistry {
    /// Stores blocks for a user, replacing those with the same ids. Returns one outcome per block. Full-text search
    /// finds them at once, search by embedding a little later. Fails with `PreconditionFailed` if a block does not meet the
    /// condition.
    pub async fn put_blocks(
        &self,
        user: &str,
        blocks: &[Value],
        condition: DefinitionCondition,
        by: &Actor,
    ) -> Result<Vec<ChangeResult>, AppError> {
        let wrong = |block: &Value| {
            let problems = validate_block(block);
            (!problems.is_empty()).then(|| (id_of(block).to_owned(), problems))
        };
        let mut wrong: Vec<(String, Vec<String>)> = blocks.iter().filter_map(wrong).collect();
        if wrong.is_empty() {
            wrong = self.find_syntax_errors(blocks).await;
        }
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

    /// The ids of blocks whose source is not Python, with the reason.
    async fn find_syntax_errors(&self, blocks: &[Value]) -> Vec<(String, Vec<String>)> {
        let is_python = |block: &&Value| block.get("execution_type").and_then(Value::as_str) == Some("python");
        let source = |block| Some((id_of(block), Value::as_str(Value::get(block, "source_code")?)?));
        let (ids, sources): (Vec<&str>, Vec<&str>) = blocks.iter().filter(is_python).filter_map(source).unzip();
        if sources.is_empty() {
            return Vec::new();
        }
        let problems = self.syntax.find_problems(&sources).await;
        let wrong = |(id, problem): (&str, Option<String>)| {
            Some((id.to_owned(), vec![format!("\"source_code\" is not Python: {}", problem?)]))
        };
        ids.into_iter().zip(problems).filter_map(wrong).collect()
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
        if changed != [ChangeResult::Missing] {
            return Ok(());
        }
        Err(match find_built_in(id) {
            Some(_) => BlockError::BuiltIn(id.to_owned()).into(),
            None => BlockError::NotFound(id.to_owned()).into(),
        })
    }
}
