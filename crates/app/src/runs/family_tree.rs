//! The family of a run: all runs that were forked from the same first run, directly or not.

use std::collections::{HashMap, HashSet, VecDeque};

use flowloom_core::event::Event;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_store::{RunFilter, RunRow, Store};
use serde::Serialize;

use crate::error::AppError;

/// Maximum number of members; those nearest to the first run count.
pub const MAX_MEMBERS: usize = 200;

/// Maximum number of generations between a run and the first one.
const MAX_GENERATIONS: usize = 200;

/// The runs of a family.
#[derive(Debug, Serialize)]
pub struct FamilyTree {
    /// The runs: each comes after the run that it was forked from, and forks of one run come in their order in time.
    pub members: Vec<FamilyMember>,
    /// Whether there are further runs.
    pub has_more: bool,
}

/// A run of a family.
#[derive(Debug, Serialize)]
pub struct FamilyMember {
    /// Its id.
    pub run_id: RunId,
    /// The run of the family that it was forked from; `None` for the first one.
    pub forked_from: Option<RunId>,
    /// The step from which it performed everything. `None`: the first step whose request differed.
    pub at: Option<Path>,
    /// The name of its definition.
    pub name: String,
    /// Its status.
    pub status: String,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// End time, in milliseconds since the Unix epoch; `None` while it is unfinished.
    pub finished_at: Option<u64>,
}

/// Finds the family of a run. Runs of other users are none of it. Fails if the store cannot be read.
pub fn find_family_tree(store: &Store, run: RunId) -> Result<FamilyTree, AppError> {
    let Some(first) = find_first(store, run)? else { return Ok(FamilyTree { members: Vec::new(), has_more: false }) };
    let mut children: HashMap<RunId, Vec<RunRow>> = HashMap::new();
    let (mut count, mut has_more) = (1, false);
    let mut open = VecDeque::from([first.id]);
    while let Some(parent) = open.pop_front() {
        let room = MAX_MEMBERS - count;
        let filter = RunFilter {
            forked_from: Some(parent),
            user: Some(first.user.clone()),
            limit: u32::try_from(room + 1).unwrap_or(u32::MAX),
            ..RunFilter::default()
        };
        let mut forks = store.list_runs_matching(&filter)?;
        has_more |= forks.len() > room;
        forks.truncate(room);
        // The store lists the newest ones first.
        forks.reverse();
        count += forks.len();
        open.extend(forks.iter().map(|fork| fork.id));
        children.insert(parent, forks);
    }
    let mut members = Vec::with_capacity(count);
    let mut path = vec![first];
    while let Some(row) = path.pop() {
        path.extend(children.remove(&row.id).unwrap_or_default().into_iter().rev());
        members.push(describe_member(store, row)?);
    }
    if let Some(first) = members.first_mut() {
        // A run whose origin was deleted, or belongs to another user, is the first of its family.
        first.forked_from = None;
    }
    Ok(FamilyTree { members, has_more })
}

/// The run of the same user from which all others of the family come.
fn find_first(store: &Store, run: RunId) -> Result<Option<RunRow>, AppError> {
    let Some(mut first) = store.get_run(run)? else { return Ok(None) };
    let mut seen = HashSet::from([first.id]);
    while let Some(origin) = first.forked_from
        && seen.len() < MAX_GENERATIONS
    {
        match store.get_run(origin)? {
            Some(row) if row.user == first.user && seen.insert(row.id) => first = row,
            _ => break,
        }
    }
    Ok(Some(first))
}

fn describe_member(store: &Store, row: RunRow) -> Result<FamilyMember, AppError> {
    let begin = match row.forked_from {
        Some(_) => store.read_events(row.id, 0, 1)?,
        None => Vec::new(),
    };
    let at = begin.first().and_then(|record| match &record.event {
        Event::RunCreated(created) => created.fork.as_ref()?.at.clone(),
        _ => None,
    });
    Ok(FamilyMember {
        run_id: row.id,
        forked_from: row.forked_from,
        at,
        status: row.current_status().to_owned(),
        name: row.name,
        created_at: row.created_at,
        finished_at: row.finished_at,
    })
}
