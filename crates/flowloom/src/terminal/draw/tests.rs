//! Drawings keep their promises whatever the shape of the graph.

use super::layers::build_layers;
use super::place::{Extent, Gaps, place_cells};
use super::svg::render_svg;
use super::{Arrow, Drawing, DrawnNode, NodeShape};

/// A drawing with these arrows; the last node is the end.
fn drawing_of(nodes: usize, arrows: &[(usize, usize, &str)]) -> Drawing {
    let node = |index: usize| DrawnNode {
        title: if index + 1 == nodes { "END".to_owned() } else { format!("node {index} of the drawing") },
        details: vec!["model".to_owned()],
        shape: if index + 1 == nodes { NodeShape::End } else { NodeShape::Step },
    };
    let arrow = |(from, to, label): &(usize, usize, &str)| Arrow {
        from: *from,
        to: *to,
        label: (*label).to_owned(),
        is_dashed: false,
    };
    Drawing {
        title: "a drawing".to_owned(),
        format: "graph".to_owned(),
        nodes: (0..nodes).map(node).collect(),
        arrows: arrows.iter().map(arrow).collect(),
    }
}

/// Graphs with loops, long arrows, arrows back and arrows from a node to itself.
fn list_drawings() -> Vec<Drawing> {
    vec![
        drawing_of(1, &[]),
        drawing_of(2, &[(0, 1, "")]),
        drawing_of(3, &[(0, 0, "until it is done, at most 3 times"), (0, 1, ""), (1, 2, "")]),
        drawing_of(
            5,
            &[(0, 1, "a"), (0, 2, "b"), (1, 0, "back"), (2, 1, ""), (1, 3, ""), (3, 0, ""), (0, 4, ""), (3, 4, "")],
        ),
        drawing_of(6, &[(0, 5, ""), (1, 5, ""), (2, 5, ""), (3, 5, ""), (4, 5, "")]),
        drawing_of(
            7,
            &[
                (0, 1, ""),
                (1, 2, ""),
                (2, 3, ""),
                (3, 4, ""),
                (4, 5, ""),
                (5, 6, ""),
                (0, 6, "at once"),
                (4, 1, "again"),
            ],
        ),
    ]
}

#[test]
fn cells_of_a_row_never_overlap() {
    for drawing in list_drawings() {
        let layers = build_layers(&drawing);
        let extents = vec![Extent { left: 40.0, right: 60.0, height: 30.0 }; layers.cells.len()];
        let places = place_cells(&layers, &extents, Gaps { between_cells: 20.0, between_rows: 20.0 });
        for pair in layers.rows.iter().flat_map(|row| row.windows(2)) {
            let distance = places.x[pair[1]] - places.x[pair[0]];
            assert!(distance >= 119.9, "{distance} px between two cells of {:?}", drawing.arrows);
        }
    }
}

#[test]
fn an_arrow_passes_each_row_between_its_ends_at_a_place_of_its_own() {
    for drawing in list_drawings() {
        let layers = build_layers(&drawing);
        for route in &layers.routes {
            let rows: Vec<usize> = route.cells.iter().map(|cell| layers.cells[*cell].row).collect();
            assert!(rows.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{rows:?} of {:?}", drawing.arrows);
        }
        let proper = drawing.arrows.iter().filter(|arrow| arrow.from != arrow.to).count();
        assert_eq!(layers.routes.len(), proper);
    }
}

#[test]
fn five_nodes_fit_into_800_pixels() {
    for drawing in list_drawings() {
        let svg = render_svg(&drawing);
        let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a width");
        assert!(width.parse::<f64>().expect("a number") <= 800.0, "{width} px: {:?}", drawing.arrows);
    }
}

#[test]
fn a_long_name_of_a_drawing_is_broken_into_lines() {
    let drawing = Drawing { title: "a long name ".repeat(10), ..drawing_of(2, &[(0, 1, "")]) };
    let svg = render_svg(&drawing);
    assert_eq!(svg.matches("class=\"n\"").count(), 2, "{svg}");
    let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a width");
    assert!(width.parse::<f64>().expect("a number") <= 800.0, "{width} px");
}
