//! Stage 2: which of the blocks exist already.

use flowloom_core::block::Thresholds;
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::choose::choose;
use crate::event::{Event, count};
use crate::wanted::Wanted;
use crate::world::World;

/// The stage's name.
pub const STAGE: &str = "search";

/// What the registry has, and what it has not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// Blocks that are there, in the order in which they are wanted.
    pub found: Vec<Found>,
    /// Blocks that are not.
    pub missing: Vec<Wanted>,
    /// Ids of all blocks that were looked at; a new block gets none of them.
    pub taken: Vec<String>,
}

/// A block of the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// For what it was found.
    pub suggested_id: String,
    /// Its definition.
    pub block: Value,
}

impl Searched {
    /// Ids of the blocks that were found.
    pub fn found_ids(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter_map(|found| found.block.get("id").and_then(Value::as_str))
    }

    /// Names of those that were not.
    pub fn missing_ids(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|wanted| wanted.suggested_id.as_str())
    }
}

/// Looks for every block in the registry.
pub async fn search(world: &dyn World, wanted: &[Wanted], thresholds: &Thresholds) -> Result<Searched, StepError> {
    let message = "looking for blocks that are there already".to_owned();
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
