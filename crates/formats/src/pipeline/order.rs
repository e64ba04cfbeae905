//! Dependencies between nodes: both an edge and a reference make one node depend on another.

use super::NodeRows;

/// Maximum number of cycles that are reported. Each costs a look at the whole pipeline.
const MAX_CYCLES: usize = 10;
/// Maximum number of nodes of a cycle that are named.
const MAX_CYCLE_NAMES: usize = 20;

/// The dependencies of each node, without duplicates, in file order.
pub(super) fn node_dependencies(rows: &NodeRows<'_>, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); rows.nodes.len()];
    for (from, to) in edges {
        needs[*to].push(*from);
    }
    for (index, row) in rows.iter().enumerate() {
        for (_, data, _) in &row.inputs {
            data.visit(&mut |template| {
                let named = template.iter_refs().filter_map(|found| rows.find_index(&found.name));
                needs[index].extend(named);
            });
        }
    }
    for list in &mut needs {
        list.sort_unstable();
        list.dedup();
    }
    needs
}

/// The names of the nodes of a cycle; of a long one only the first.
pub(super) fn cycle_names(rows: &NodeRows<'_>, cycle: &[usize]) -> String {
    let mut names: Vec<&str> = cycle.iter().take(MAX_CYCLE_NAMES).map(|index| rows.nodes[*index].id).collect();
    if cycle.len() > MAX_CYCLE_NAMES {
        names.push("…");
    }
    names.join(" → ")
}

/// Cycles that have no node in common, up to [`MAX_CYCLES`].
pub(super) fn find_cycles(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut needs = needs.to_vec();
    let mut cycles: Vec<Vec<usize>> = Vec::new();
    while cycles.len() < MAX_CYCLES
        && let Some(cycle) = find_cycle(&needs)
    {
        // Without what its nodes wait for, the next one is another cycle.
        cycle.iter().for_each(|node| needs[*node].clear());
        cycles.push(cycle);
    }
    cycles
}

/// The nodes of a dependency cycle; the first one is repeated at the end.
fn find_cycle(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (index, list) in needs.iter().enumerate() {
        list.iter().for_each(|need| dependants[*need].push(index));
    }
    let mut ready: Vec<usize> = (0..needs.len()).filter(|index| open[*index] == 0).collect();
    while let Some(done) = ready.pop() {
        for dependant in &dependants[done] {
            open[*dependant] -= 1;
            if open[*dependant] == 0 {
                ready.push(*dependant);
            }
        }
    }
    // Every remaining node depends on a remaining one, so following dependencies leads into a cycle.
    let mut at = open.iter().position(|count| *count > 0)?;
    let mut trail = Vec::new();
    let mut place = vec![None; needs.len()];
    while place[at].is_none() {
        place[at] = Some(trail.len());
        trail.push(at);
        at = *needs[at].iter().find(|need| open[**need] > 0)?;
    }
    let start = place[at].unwrap_or_default();
    let mut circle: Vec<usize> = trail[start..].iter().rev().copied().collect();
    // The report starts with the node that is first in the file, and follows the direction of the edges.
    let first = circle.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(position, _)| position);
    circle.rotate_left(first);
    circle.push(circle[0]);
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_reported_in_the_direction_of_its_edges() {
        // 0 → 1 → 2 → 0 as dependencies: 1 needs 0, 2 needs 1, 0 needs 2; 3 is not part of the cycle.
        assert_eq!(find_cycle(&[vec![2], vec![0], vec![1], vec![0]]), Some(vec![0, 1, 2, 0]));
        assert_eq!(find_cycle(&[vec![0]]), Some(vec![0, 0]));
        assert_eq!(find_cycle(&[vec![], vec![0], vec![0, 1]]), None);
        assert_eq!(find_cycles(&[vec![1], vec![0], vec![0, 2]]), [vec![0, 1, 0], vec![2, 2]]);
    }
}
