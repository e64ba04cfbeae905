//! Stage 2: which required blocks exist already.

use flowloom_core::block::Thresholds;
use flowloom_core::error::StepFailure;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::choose::choose_candidate;
use crate::env::PlannerEnv;
use crate::event::{PlannerEvent, count_value};
use crate::model::FoundBlocks;
use crate::required::RequiredBlock;

/// The name of the stage.
pub const STAGE_NAME: &str = "search";

/// The results of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResults {
    /// Blocks that exist, in the order of the requirements.
    pub found: Vec<MatchedBlock>,
    /// Required blocks that do not exist.
    pub missing: Vec<RequiredBlock>,
    /// Ids that a new block must not have, among them those of all blocks considered.
    pub taken: Vec<String>,
}

/// A block of the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchedBlock {
    /// The id of the required block that it matches.
    pub suggested_id: String,
    /// The definition.
    pub block: Value,
}

impl SearchResults {
    /// Ids of the found blocks.
    pub fn found_ids(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter_map(|found| found.block.get("id").and_then(Value::as_str))
    }

    /// Suggested ids of the missing blocks.
    pub fn missing_ids(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|wanted| wanted.suggested_id.as_str())
    }
}

/// Searches the registry for every required block. Fails if the registry cannot be searched.
pub async fn search_blocks(
    world: &dyn PlannerEnv,
    wanted: &[RequiredBlock],
    thresholds: &Thresholds,
) -> Result<SearchResults, StepFailure> {
    let message = "searching for existing blocks".to_owned();
    world.emit_event(PlannerEvent::Stage { stage: STAGE_NAME, status: "running", message });
    let mut searched = SearchResults::default();
    for one in wanted {
        let FoundBlocks { candidates, taken } = world.find_blocks(one).await?;
        let ids = candidates.iter().filter_map(|found| found.block.get("id").and_then(Value::as_str));
        searched.taken.extend(ids.map(str::to_owned).chain(taken));
        let suggested_id = one.suggested_id.clone();
        match choose_candidate(one, &candidates, thresholds) {
            Some((place, similarity)) => {
                let (block, score) = (candidates[place].block.clone(), f64::from(similarity));
                searched.found.push(MatchedBlock { suggested_id: suggested_id.clone(), block: block.clone() });
                world.emit_event(PlannerEvent::SearchFound { suggested_id, block, score });
            }
            None => {
                searched.missing.push(one.clone());
                let (description, candidates_checked) = (one.description.clone(), candidates.len());
                world.emit_event(PlannerEvent::SearchMissing { suggested_id, description, candidates_checked });
            }
        }
    }
    let next = if searched.missing.is_empty() { "wire" } else { "create" };
    let details = Map::from_iter([
        ("matched".into(), count_value(searched.found.len())),
        ("missing".into(), count_value(searched.missing.len())),
        ("next".into(), next.into()),
    ]);
    world.emit_event(PlannerEvent::StageResult { stage: STAGE_NAME, status: "done", details });
    Ok(searched)
}
