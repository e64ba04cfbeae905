//! Puts the nodes of a drawing into rows, so that arrows lead downwards, and orders each row so that few of them cross.
//!
//! Nodes are in the even rows, the labels of arrows in the odd ones. An arrow that passes a row has a cell of its own
//! there, so it can never cross a box.

use super::{Drawing, NodeShape};

/// Number of times that the rows are ordered by their neighbours.
const ORDER_SWEEPS: usize = 16;

/// The rows of a drawing.
pub(super) struct Layers {
    pub(super) cells: Vec<Cell>,
    /// The cells of each row, from left to right.
    pub(super) rows: Vec<Vec<usize>>,
    pub(super) routes: Vec<Route>,
}

/// A place in a row.
pub(super) struct Cell {
    pub(super) kind: CellKind,
    pub(super) row: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    /// The box of a node.
    Node(usize),
    /// The label of an arrow.
    Label(usize),
    /// An arrow that passes.
    Bend,
}

/// The way of an arrow through the rows.
pub(super) struct Route {
    pub(super) arrow: usize,
    /// The cells from the upper end to the lower end.
    pub(super) cells: Vec<usize>,
    /// Whether the arrow leads upwards.
    pub(super) is_upward: bool,
}

/// Puts the nodes into rows. Arrows from a node to itself have no route.
pub(super) fn build_layers(drawing: &Drawing) -> Layers {
    let is_upward = find_upward_arrows(drawing);
    let ranks = rank_nodes(drawing, &is_upward);
    let last = ranks.iter().max().map_or(0, |rank| rank * 2);
    let node_cell = |(index, rank): (usize, &usize)| Cell { kind: CellKind::Node(index), row: rank * 2 };
    let cells: Vec<Cell> = ranks.iter().enumerate().map(node_cell).collect();
    let mut rows = vec![Vec::new(); last + 1];
    cells.iter().enumerate().for_each(|(index, cell)| rows[cell.row].push(index));
    let mut layers = Layers { cells, rows, routes: Vec::new() };
    for (index, arrow) in drawing.arrows.iter().enumerate().filter(|(_, arrow)| arrow.from != arrow.to) {
        let is_upward = is_upward[index];
        let (upper, lower) = if is_upward { (arrow.to, arrow.from) } else { (arrow.from, arrow.to) };
        // The label is next to the node where the arrow begins.
        let (first, last) = (layers.cells[upper].row + 1, layers.cells[lower].row - 1);
        let label_row = if is_upward { last } else { first };
        let mut route = vec![upper];
        for row in first..=last {
            let has_label = row == label_row && !arrow.label.is_empty();
            let kind = if has_label { CellKind::Label(index) } else { CellKind::Bend };
            layers.rows[row].push(layers.cells.len());
            route.push(layers.cells.len());
            layers.cells.push(Cell { kind, row });
        }
        route.push(lower);
        layers.routes.push(Route { arrow: index, cells: route, is_upward });
    }
    layers.order_rows();
    layers
}

/// Which arrows lead back to a node from which their own is reached. Drawn upwards, they close the loops.
fn find_upward_arrows(drawing: &Drawing) -> Vec<bool> {
    let mut leaving = vec![Vec::new(); drawing.nodes.len()];
    let mut has_entering = vec![false; drawing.nodes.len()];
    for (index, arrow) in drawing.arrows.iter().enumerate() {
        leaving[arrow.from].push(index);
        has_entering[arrow.to] |= arrow.from != arrow.to;
    }
    let mut is_upward = vec![false; drawing.arrows.len()];
    let (mut is_known, mut is_open) = (vec![false; drawing.nodes.len()], vec![false; drawing.nodes.len()]);
    let (starts, others): (Vec<usize>, Vec<usize>) = (0..drawing.nodes.len()).partition(|node| !has_entering[*node]);
    for start in starts.into_iter().chain(others) {
        if std::mem::replace(&mut is_known[start], true) {
            continue;
        }
        is_open[start] = true;
        let mut open = vec![(start, 0)];
        while let Some((node, next)) = open.last_mut() {
            let Some(arrow) = leaving[*node].get(*next) else {
                is_open[*node] = false;
                open.pop();
                continue;
            };
            *next += 1;
            let to = drawing.arrows[*arrow].to;
            if is_open[to] {
                is_upward[*arrow] = true;
            } else if !std::mem::replace(&mut is_known[to], true) {
                is_open[to] = true;
                open.push((to, 0));
            }
        }
    }
    is_upward
}

/// The rank of each node: one more than the highest rank above it. The end is below everything else.
fn rank_nodes(drawing: &Drawing, is_upward: &[bool]) -> Vec<usize> {
    let mut waiting = vec![0; drawing.nodes.len()];
    let mut below = vec![Vec::new(); drawing.nodes.len()];
    for (arrow, is_upward) in drawing.arrows.iter().zip(is_upward).filter(|(arrow, _)| arrow.from != arrow.to) {
        let (upper, lower) = if *is_upward { (arrow.to, arrow.from) } else { (arrow.from, arrow.to) };
        waiting[lower] += 1;
        below[upper].push(lower);
    }
    let mut ranks = vec![0; drawing.nodes.len()];
    let mut ready: Vec<usize> = (0..drawing.nodes.len()).filter(|node| waiting[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for lower in &below[node] {
            ranks[*lower] = ranks[*lower].max(ranks[node] + 1);
            waiting[*lower] -= 1;
            if waiting[*lower] == 0 {
                ready.push(*lower);
            }
        }
    }
    if let Some(end) = drawing.nodes.iter().position(|node| node.shape == NodeShape::End) {
        let others = ranks.iter().enumerate().filter(|(node, _)| *node != end).map(|(_, rank)| rank + 1);
        ranks[end] = others.max().unwrap_or(0);
    }
    ranks
}

impl Layers {
    /// The neighbours of each cell in the rows above and below.
    pub(super) fn list_neighbours(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let (mut above, mut below) = (vec![Vec::new(); self.cells.len()], vec![Vec::new(); self.cells.len()]);
        for pair in self.routes.iter().flat_map(|route| route.cells.windows(2)) {
            above[pair[1]].push(pair[0]);
            below[pair[0]].push(pair[1]);
        }
        (above, below)
    }

    /// Orders each row by the middle of its neighbours, down and up in turn, and keeps the order with the fewest
    /// crossings.
    fn order_rows(&mut self) {
        let (above, below) = self.list_neighbours();
        let mut places = self.list_places();
        let mut best = (self.count_crossings(&below, &places), self.rows.clone());
        for sweep in 0..ORDER_SWEEPS {
            if best.0 == 0 {
                break;
            }
            let is_down = sweep % 2 == 0;
            let neighbours = if is_down { &above } else { &below };
            let order: Vec<usize> =
                if is_down { (1..self.rows.len()).collect() } else { (0..self.rows.len() - 1).rev().collect() };
            for row in order {
                self.order_row(row, neighbours, &mut places);
            }
            let crossings = self.count_crossings(&below, &places);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    /// Orders a row, and updates the places of its cells.
    fn order_row(&mut self, row: usize, neighbours: &[Vec<usize>], places: &mut [usize]) {
        let middle = |cell: &usize| {
            let near = &neighbours[*cell];
            let sum: usize = near.iter().map(|near| places[*near]).sum();
            if near.is_empty() { places[*cell] as f64 } else { sum as f64 / near.len() as f64 }
        };
        let mut ordered: Vec<(f64, usize)> = self.rows[row].iter().map(|cell| (middle(cell), *cell)).collect();
        // The sort is stable: cells with the same middle keep their order.
        ordered.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        self.rows[row] = ordered.into_iter().map(|(_, cell)| cell).collect();
        for (place, cell) in self.rows[row].iter().enumerate() {
            places[*cell] = place;
        }
    }

    /// The place of each cell in its row.
    fn list_places(&self) -> Vec<usize> {
        let mut places = vec![0; self.cells.len()];
        for (place, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            places[*cell] = place;
        }
        places
    }

    fn count_crossings(&self, below: &[Vec<usize>], places: &[usize]) -> usize {
        let mut crossings = 0;
        for row in &self.rows {
            // The places below that arrows further left lead to, in order.
            let mut seen: Vec<usize> = Vec::new();
            for cell in row {
                let mut targets: Vec<usize> = below[*cell].iter().map(|lower| places[*lower]).collect();
                targets.sort_unstable();
                crossings +=
                    targets.iter().map(|target| seen.len() - seen.partition_point(|at| at <= target)).sum::<usize>();
                for target in targets {
                    seen.insert(seen.partition_point(|at| *at <= target), target);
                }
            }
        }
        crossings
    }
}
