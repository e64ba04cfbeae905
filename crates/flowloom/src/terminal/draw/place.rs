//! Gives the cells of the rows coordinates: straight arrows where possible, and no two cells at the same place.

use super::layers::{CellKind, Layers};

/// Number of times that the cells are moved towards their neighbours.
const PLACE_SWEEPS: usize = 24;

/// The room that a cell needs, in pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// From its middle to the left.
    pub(super) left: f64,
    /// From its middle to the right.
    pub(super) right: f64,
    pub(super) height: f64,
}

/// The coordinates of a drawing, in pixels.
pub(super) struct Places {
    /// The middle of each cell.
    pub(super) x: Vec<f64>,
    /// The upper and the lower edge of each row.
    pub(super) rows: Vec<(f64, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The distances of a drawing, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    pub(super) between_cells: f64,
    pub(super) between_rows: f64,
}

/// Places the cells, given the room that each needs.
pub(super) fn place_cells(layers: &Layers, extents: &[Extent], gaps: Gaps) -> Places {
    let mut x = vec![0.0; layers.cells.len()];
    let (above, below) = layers.list_neighbours();
    for row in &layers.rows {
        let equal = vec![(0.0, 1.0); row.len()];
        settle_row(row, &equal, extents, gaps.between_cells, &mut x);
    }
    for sweep in 0..PLACE_SWEEPS {
        let is_down = sweep % 2 == 0;
        let neighbours = if is_down { &above } else { &below };
        let mut order: Vec<usize> = (0..layers.rows.len()).collect();
        if !is_down {
            order.reverse();
        }
        for row in order {
            let wanted: Vec<(f64, f64)> =
                layers.rows[row].iter().map(|cell| want_place(layers, *cell, &neighbours[*cell], &x)).collect();
            settle_row(&layers.rows[row], &wanted, extents, gaps.between_cells, &mut x);
        }
    }
    let left = (0..x.len()).map(|cell| x[cell] - extents[cell].left).fold(f64::INFINITY, f64::min);
    x.iter_mut().for_each(|x| *x -= left);
    let width = (0..x.len()).map(|cell| x[cell] + extents[cell].right).fold(0.0, f64::max);
    let mut rows: Vec<(f64, f64)> = Vec::new();
    for row in &layers.rows {
        let top = rows.last().map_or(0.0, |(_, bottom)| bottom + gaps.between_rows);
        let height = row.iter().map(|cell| extents[*cell].height).fold(0.0, f64::max);
        rows.push((top, top + height));
    }
    let height = rows.last().map_or(0.0, |(_, bottom)| *bottom);
    Places { x, rows, width, height }
}

/// Where a cell should be, and how much that counts. Arrows that pass count most, so that they are straight.
fn want_place(layers: &Layers, cell: usize, neighbours: &[usize], x: &[f64]) -> (f64, f64) {
    let is_node = |cell: usize| matches!(layers.cells[cell].kind, CellKind::Node(_));
    let weight = if is_node(cell) { 1.0 } else { 4.0 };
    if neighbours.is_empty() {
        return (x[cell], weight / 8.0);
    }
    let sum: f64 = neighbours.iter().map(|near| x[*near]).sum();
    (sum / neighbours.len() as f64, weight)
}

/// Places the cells of a row as near as possible to where they should be, without changing their order: the least squares
/// under the condition that each is far enough from the one before.
fn settle_row(row: &[usize], wanted: &[(f64, f64)], extents: &[Extent], gap: f64, x: &mut [f64]) {
    // Without the distances, the condition is that the places do not decrease.
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(row.len());
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            offset += extents[row[index - 1]].right + gap + extents[*cell].left;
        }
        offsets.push(offset);
    }
    // Groups of cells at the same place: the place, the weight, and the number of cells.
    let mut groups: Vec<(f64, f64, usize)> = Vec::new();
    for ((place, weight), offset) in wanted.iter().zip(&offsets) {
        let mut group = (place - offset, *weight, 1);
        while let Some(before) = groups.last().copied().filter(|before| before.0 > group.0) {
            let weight = before.1 + group.1;
            group = ((before.0 * before.1 + group.0 * group.1) / weight, weight, before.2 + group.2);
            groups.pop();
        }
        groups.push(group);
    }
    let settled = groups.iter().flat_map(|(place, _, count)| std::iter::repeat_n(*place, *count));
    for ((cell, place), offset) in row.iter().zip(settled).zip(&offsets) {
        x[*cell] = place + offset;
    }
}
