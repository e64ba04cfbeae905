//! Branches of a plan that run at the same time. What happens in one of them cannot depend on another one: a member of a
//! fan-out sees no variables of its siblings, and a node of a graph only those of the nodes before it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::path::{Path, drop_repetitions};
use flowloom_core::plan::{Composite, Dag, DagNode, Leaf, Plan, Step, StepKind, list_read_names};

/// The steps of a run that cannot depend on one of its steps, because they are in branches that run at the same time.
pub(crate) struct IndependentSteps {
    from: Path,
    /// The keys of independent branches, by the path of the step around them and around `from`.
    branches: HashMap<String, HashSet<String>>,
}

impl IndependentSteps {
    /// The steps that cannot depend on `from` in a run of a plan with these records.
    pub(crate) fn new(plan: &Plan, records: &[Arc<Record>], from: &Path) -> IndependentSteps {
        let mut found = Vec::new();
        add_branches(&plan.root, Path::root(), &mut found);
        let mut branches = HashMap::new();
        for place in from.ancestors() {
            let Some(key) = find_child_key(place, from.as_str()) else { continue };
            let plain = drop_repetitions(place);
            let around = found.iter().filter(|branches| branches.place.as_str() == plain);
            if let Some(independent) = around.into_iter().find_map(|one| list_independent(one, place, key, records)) {
                branches.insert(place.to_owned(), independent);
            }
        }
        IndependentSteps { from: from.clone(), branches }
    }

    /// Whether the step at `other` is one of them.
    pub(crate) fn has_step(&self, other: &Path) -> bool {
        let Some(fork) = find_fork(&self.from, other) else { return false };
        self.branches.get(fork.place).is_some_and(|keys| keys.contains(fork.other))
    }
}

/// A step whose children run at the same time.
struct Branches<'p> {
    /// Its path, without iterations and visits.
    place: Path,
    composite: &'p Composite,
}

/// The keys of the branches that cannot depend on the one with this key; `None` if there is none with it. `place` is the path
/// of the step around them in the run.
fn list_independent(
    branches: &Branches<'_>,
    place: &str,
    key: &str,
    records: &[Arc<Record>],
) -> Option<HashSet<String>> {
    match branches.composite {
        Composite::Parallel(members) => {
            let keys: HashSet<String> = members.iter().map(|member| member.key.as_str().to_owned()).collect();
            keys.contains(key).then(|| keys.into_iter().filter(|other| other != key).collect())
        }
        Composite::Dag(dag) => {
            let from = dag.nodes.iter().position(|node| node.step.key.as_str() == key)?;
            let following = list_following(dag, from, &list_memory_writers(dag, place, records));
            let independent = dag.nodes.iter().zip(following).filter(|(_, follows)| !follows);
            Some(independent.map(|(node, _)| node.step.key.as_str().to_owned()).collect())
        }
        _ => None,
    }
}

/// Whether each node of a graph may depend on the node `from`: it comes after it, or it may read what such a node writes.
fn list_following(dag: &Dag, from: usize, memory_writers: &[bool]) -> Vec<bool> {
    let users = NodeUsers::new(dag);
    let mut following = vec![false; dag.nodes.len()];
    let mut pending = vec![from];
    while let Some(index) = pending.pop() {
        if std::mem::replace(&mut following[index], true) {
            continue;
        }
        match list_written(&dag.nodes[index]).filter(|_| !memory_writers[index]) {
            Some(names) => pending.extend(users.list_users(index, &names)),
            // Any node may read the memory, or a variable with any name.
            None => return vec![true; dag.nodes.len()],
        }
    }
    following
}

/// Which nodes of a graph come after each node, and which read each variable.
struct NodeUsers {
    after: Vec<Vec<usize>>,
    readers: HashMap<Arc<str>, Vec<usize>>,
    /// Nodes that give all variables to a function.
    readers_of_all: Vec<usize>,
}

impl NodeUsers {
    fn new(dag: &Dag) -> NodeUsers {
        let mut users =
            NodeUsers { after: vec![Vec::new(); dag.nodes.len()], readers: HashMap::new(), readers_of_all: Vec::new() };
        for (index, node) in dag.nodes.iter().enumerate() {
            node.needs.iter().for_each(|need| users.after[*need].push(index));
            match list_reads(&node.step) {
                Some(names) => names.into_iter().for_each(|name| users.readers.entry(name).or_default().push(index)),
                None => users.readers_of_all.push(index),
            }
        }
        users
    }

    /// The nodes that come after the node at `index`, or read one of these variables.
    fn list_users<'a>(&'a self, index: usize, names: &'a [Arc<str>]) -> impl Iterator<Item = usize> + 'a {
        let readers = names.iter().filter_map(|name| self.readers.get(name)).flatten();
        let of_all = if names.is_empty() { &[] } else { self.readers_of_all.as_slice() };
        self.after[index].iter().chain(readers).chain(of_all).copied()
    }
}

/// The variables that a node writes; `None` if they can be any.
fn list_written(node: &DagNode) -> Option<Vec<Arc<str>>> {
    node.step.writes.iter().flat_map(|write| &write.names).map(|name| name.as_literal().map(Arc::from)).collect()
}

/// Whether each node of the graph at `place` has written to the memory.
fn list_memory_writers(dag: &Dag, place: &str, records: &[Arc<Record>]) -> Vec<bool> {
    let writes =
        |record: &&Arc<Record>| matches!(&record.event, Event::StepFinished { memory, .. } if !memory.is_empty());
    let written: HashSet<&str> =
        records.iter().filter(writes).filter_map(|record| find_child_key(place, record.path.as_str())).collect();
    dag.nodes.iter().map(|node| written.contains(node.step.key.as_str())).collect()
}

/// The variables that a step reads; `None` if it gives all variables to a function.
fn list_reads(step: &Step) -> Option<Vec<Arc<str>>> {
    let mut gives_all = false;
    step.visit(&mut |step| {
        gives_all |= matches!(&step.kind, StepKind::Leaf(Leaf::Call(call)) if call.arguments.is_none());
    });
    (!gives_all).then(|| list_read_names(step))
}

/// The key of the child of the step at `place` that is, or is around, the step at `path`.
fn find_child_key<'a>(place: &str, path: &'a str) -> Option<&'a str> {
    let below = if place == "/" { path } else { path.strip_prefix(place)? };
    let rest = below.strip_prefix('/')?;
    Some(&rest[..rest.find(['/', '[', '#']).unwrap_or(rest.len())]).filter(|key| !key.is_empty())
}

fn add_branches<'p>(step: &'p Step, place: Path, found: &mut Vec<Branches<'p>>) {
    let StepKind::Composite(composite) = &step.kind else { return };
    match composite {
        // The body has the path of the iteration.
        Composite::Loop(looped) => return add_branches(&looped.body, place, found),
        Composite::Return(inner) => return add_branches(inner, place, found),
        Composite::Parallel(_) | Composite::Dag(_) => found.push(Branches { place: place.clone(), composite }),
        _ => {}
    }
    for child in composite.children() {
        add_branches(child, place.child_path(&child.key), found);
    }
}

/// Where the paths of two steps begin to differ.
#[derive(Debug, PartialEq)]
struct PathFork<'a> {
    /// The innermost step around both.
    place: &'a str,
    /// The key of its child that is, or is around, the second step.
    other: &'a str,
}

/// Where two paths begin to differ; `None` if one of the steps is around the other, or if they are in different iterations or
/// visits.
fn find_fork<'a>(from: &'a Path, other: &'a Path) -> Option<PathFork<'a>> {
    let (from, other) = (from.as_str(), other.as_str());
    let common = from.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let place = &from[..from.get(..common)?.rfind('/')?];
    let place = if place.is_empty() { "/" } else { place };
    let (from, other) = (find_child_key(place, from)?, find_child_key(place, other)?);
    (from != other).then_some(PathFork { place, other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_differ_in_a_key_or_in_an_iteration() {
        let fork = |from: &str, other: &str| {
            let (from, other) = (Path::parse(from).expect("a path"), Path::parse(other).expect("a path"));
            find_fork(&from, &other).map(|fork| format!("{} {}", fork.place, fork.other))
        };
        assert_eq!(fork("/a", "/b").as_deref(), Some("/ b"));
        assert_eq!(fork("/loop[0]/p/ab/x", "/loop[0]/p/ac").as_deref(), Some("/loop[0]/p ac"));
        assert_eq!(fork("/p/a", "/p/ab[1]/x").as_deref(), Some("/p ab"));
        for (from, other) in
            [("/p/a", "/p"), ("/p", "/p/a"), ("/loop[0]/p/a", "/loop[1]/p/b"), ("/", "/a"), ("/a", "/a[1]")]
        {
            assert_eq!(fork(from, other), None, "{from} {other}");
        }
    }
}
