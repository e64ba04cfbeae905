//! In which order nodes can run: an edge and a reference both mean that one needs the other.

use super::Row;

/// For each node the nodes it needs, each once, in the order of the file.
pub(super) fn needs(rows: &[Row<'_>], edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    for (from, to) in edges {
        needs[*to].push(*from);
    }
    for (index, row) in rows.iter().enumerate() {
        for (_, data, _) in &row.inputs {
            data.visit(&mut |template| {
                let named = template.refs().filter_map(|found| rows.iter().position(|row| row.id == &*found.name));
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

/// Nodes that wait for each other in a circle, the first one again at the end.
pub(super) fn cycle(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
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
    // Every node that is left needs one that is left: following needs comes round.
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
    // It is told from the node that comes first in the file, in the direction of the edges.
    let first = circle.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(position, _)| position);
    circle.rotate_left(first);
    circle.push(circle[0]);
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_told_in_the_direction_of_its_edges() {
        // 0 → 1 → 2 → 0 as needs: 1 needs 0, 2 needs 1, 0 needs 2; 3 only hangs on.
        assert_eq!(cycle(&[vec![2], vec![0], vec![1], vec![0]]), Some(vec![0, 1, 2, 0]));
        assert_eq!(cycle(&[vec![0]]), Some(vec![0, 0]));
        assert_eq!(cycle(&[vec![], vec![0], vec![0, 1]]), None);
    }
}
