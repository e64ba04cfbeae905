//! Stage 2: which required blocks exist already.

use flowloom_core::block::Thresholds;
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::choose::choose;
use crate::event::{Event, count};
use crate::wanted::Wanted;
use crate::world::World;

/// The name of the stage.
pub const STAGE: &str = "search";

/// The results of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// Blocks that exist, in the order of the requirements.
    pub found: Vec<Found>,
    /// Required blocks that do not exist.
    pub missing: Vec<Wanted>,
    /// Ids of all blocks considered; a new block must not have any of them.
    pub taken: Vec<String>,
}

/// A block of the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The id of the required block that it matches.
    pub suggested_id: String,
    /// The definition.
    pub block: Value,
}

impl Searched {
    /// Ids of the found blocks.
    pub fn found_ids(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter_map(|found| found.block.get("id").and_then(Value::as_str))
    }

    /// Suggested ids of the missing blocks.
    pub fn missing_ids(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|wanted| wanted.suggested_id.as_str())
    }
}

/// Searches the registry for every required block.
pub async fn search(world: &dyn World, wanted: &[Wanted], thresholds: &Thresholds) -> Result<Searched, StepError> {
    let message = "searching for existing blocks".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
    let mut searched = Searched::default();
    for one in wanted {
        let candidates = world.find(one).await?;
        let ids = candidates.iter().filter_map(|found| found.block.get("id").and_then(Value::as_str));
        searched.taken.extend(ids.map(str::to_owned));
        let suggested_id = one.suggested_id.clone();
        match choose(one, &candidates, thresholds) {
            Some((place, likeness)) => {
                let (block, score) = (candidates[place].block.clone(), f64::from(likeness));
                searched.found.push(Found { suggested_id: suggested_id.clone(), block: block.clone() });
                world.tell(Event::SearchFound { suggested_id, block, score });
            }
            None => {
                searched.missing.push(one.clone());
                let (description, candidates_checked) = (one.description.clone(), candidates.len());
                world.tell(Event::SearchMissing { suggested_id, description, candidates_checked });
            }
        }
    }
    let next = if searched.missing.is_empty() { "wire" } else { "create" };
    let details = Map::from_iter([
        ("matched".into(), count(searched.found.len())),
        ("missing".into(), count(searched.missing.len())),
        ("next".into(), next.into()),
    ]);
    world.tell(Event::StageResult { stage: STAGE, status: "done", details });
    Ok(searched)
}
