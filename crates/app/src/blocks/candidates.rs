//! The existing blocks that the planner offers to the model that decomposes a goal.

use flowloom_author::candidates::MAX_CANDIDATE_BLOCKS;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;

use super::{BlockMatch, BlockRegistry, built_in_blocks, id_of};

impl BlockRegistry {
    /// The blocks that may serve a goal: the built-in ones, which are few, and the nearest stored ones. Without triggers,
    /// because nothing starts a pipeline in the middle. Fails if the store cannot be read.
    pub async fn list_candidate_blocks(&self, user: &str, intent: &str) -> Result<Vec<Value>, StepFailure> {
        let finding = self.search_blocks(user, intent, MAX_CANDIDATE_BLOCKS).await?;
        let mut candidates = Vec::new();
        for built_in in built_in_blocks() {
            // A stored block hides a built-in one with the same id.
            candidates.extend(self.find_block(user, id_of(built_in))?);
        }
        let is_stored = |found: &BlockMatch| !built_in_blocks().iter().any(|block| id_of(block) == id_of(&found.block));
        candidates.extend(finding.matches.into_iter().filter(is_stored).map(|found| found.block));
        candidates.retain(|block| block.get("category").and_then(Value::as_str) != Some("trigger"));
        candidates.truncate(MAX_CANDIDATE_BLOCKS);
        Ok(candidates)
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::block::BlockCard;
    use flowloom_core::json::parse_value;
    use flowloom_store::{Actor, DefinitionCondition};

    use super::*;
    use crate::blocks::find::tests::{build_schema, open_registry};

    /// Goals, and steps of them in other words than those of the blocks: a description, inputs, outputs, and the id of the
    /// block that does it.
    const PARAPHRASES: &str = include_str!("paraphrases.txt");

    /// Stored blocks that have nothing to do with the goals.
    async fn store_others(registry: &BlockRegistry) {
        let topics = ["tides", "chess", "recipes", "stars", "tax", "poems", "maps", "birds", "trains", "colours"];
        let verbs = ["Classifies", "Counts", "Sorts", "Compares", "Rates", "Dates"];
        let block = |(verb, topic): (&str, &str)| {
            let text = format!(
                r#"{{"id": "{verb}_{topic}", "name": "{verb} {topic}", "description": "{verb} {topic} by their kind", "category": "process",
                "execution_type": "python", "source_code": "async def execute(inputs, context):\n    return {{}}\n",
                "input_schema": {{"type": "object", "properties": {{"rows": {{"type": "array"}}}}}},
                "output_schema": {{"type": "object", "properties": {{"rows": {{"type": "array"}}}}}}}}"#
            );
            parse_value(&text).expect("JSON")
        };
        let all = verbs.iter().flat_map(|verb| topics.iter().map(|topic| block((*verb, *topic))));
        let all: Vec<Value> = all.collect();
        let by = Actor::command_line();
        registry.put_blocks("ann", &all, DefinitionCondition::default(), &by).await.expect("stored");
    }

    #[tokio::test]
    async fn what_a_goal_needs_is_a_candidate_among_many_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = crate::blocks::tests::open_registry(folder.path());
        store_others(&registry).await;
        for line in PARAPHRASES.lines() {
            let [goal, _, _, id] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else { panic!("{line}") };
            let candidates = registry.list_candidate_blocks("ann", goal).await.expect("listed");
            assert!(
                candidates.len() <= MAX_CANDIDATE_BLOCKS && candidates.iter().any(|block| id_of(block) == id),
                "{goal}"
            );
        }
        let candidates = registry
            .list_candidate_blocks("ann", "Which of these birds are rare? Rate the birds.")
            .await
            .expect("listed");
        assert!(candidates.iter().any(|block| id_of(block) == "Rates_birds"), "{candidates:?}");
        assert!(candidates.iter().all(|block| block.get("category").and_then(Value::as_str) != Some("trigger")));
    }

    /// A model that describes a step although it was offered a block for it. The search then finds the block, or nothing.
    #[tokio::test]
    async fn a_step_in_other_words_never_becomes_another_block() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(registry) = open_registry(folder.path()).await else { return };
        let mut found_count = 0;
        for line in PARAPHRASES.lines() {
            let [step, inputs, outputs, id] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let (inputs, outputs) = (build_schema(inputs), build_schema(outputs));
            let (description, execution_type) = (step.to_owned(), "python".to_owned());
            let card = BlockCard { description, execution_type, inputs, outputs, ..BlockCard::default() };
            let finding = registry.find_blocks("ann", &card, 5).await.expect("a search");
            let first = finding.matches.iter().find(|found| found.fit.is_usable()).map(|found| id_of(&found.block));
            assert!(first.is_none_or(|first| first == id), "{step}: {first:?}");
            found_count += usize::from(first.is_some());
        }
        assert!(found_count >= MIN_FOUND, "{found_count} of {} steps found", PARAPHRASES.lines().count());
    }

    /// How many of the steps the search finds by itself, at least.
    const MIN_FOUND: usize = 10;
}
