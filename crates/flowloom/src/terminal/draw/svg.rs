//! Drawings as SVG.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::super::measure::{count_char_columns, count_columns};
use super::layers::{CellKind, Layers, Route, build_layers};
use super::place::{Extent, Gaps, Places, place_cells};
use super::{Drawing, DrawnNode, NodeShape};

/// Width that five boxes next to each other must fit, in pixels.
const PAGE_WIDTH: f64 = 800.0;
const MARGIN: f64 = 16.0;
/// Distance between the name of the drawing and its first row, in pixels.
const NAME_GAP: f64 = 12.0;
/// Height of a line of the name of the drawing, in pixels.
const NAME_LINE: f64 = 20.0;
/// Average width of a character of the name of the drawing, in pixels.
const NAME_CHARACTER: f64 = 10.4;
const GAPS: Gaps = Gaps { between_cells: 20.0, between_rows: 20.0 };
const MIN_BOX_WIDTH: f64 = 72.0;
const MAX_BOX_WIDTH: f64 = 210.0;
/// Distance of the text from the edge of its box, in pixels.
const PADDING: f64 = 10.0;
/// Average width of a character of a title, in pixels.
const TITLE_CHARACTER: f64 = 8.7;
/// Average width of a character of small text, in pixels.
const SMALL_CHARACTER: f64 = 6.2;
const TITLE_LINE: f64 = 17.0;
const SMALL_LINE: f64 = 14.0;
/// Maximum characters of a line of a label.
const LABEL_CHARACTERS: usize = 26;
/// Width of the arrow from a node to itself, in pixels.
const SELF_LOOP_WIDTH: f64 = 30.0;
/// Greatest distance between arrows at a box, in pixels.
const MAX_PORT_GAP: f64 = 28.0;
/// Distance between arrows at a box for which it is widened, in pixels.
const PORT_GAP: f64 = 18.0;

const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2933}\
.t{font-size:13px;font-weight:600}.d{font-size:11px;fill:#52606d}.n{font-size:16px;font-weight:600}\
.e{fill:none;stroke:#616e7c;stroke-width:1.4}.b{stroke:#7b8794;stroke-width:1.2}";

/// A node with its text laid out.
struct NodeBox {
    title: Vec<String>,
    details: Vec<String>,
    width: f64,
    height: f64,
    /// The label of the arrow from the node to itself.
    self_label: Option<Vec<String>>,
}

/// A laid-out drawing.
struct Picture<'a> {
    drawing: &'a Drawing,
    layers: Layers,
    boxes: Vec<NodeBox>,
    /// The lines of the label of each arrow.
    labels: Vec<Vec<String>>,
    places: Places,
}

/// Renders a drawing as SVG with a background of its own, which dark pages need.
pub(super) fn render_svg(drawing: &Drawing) -> String {
    let picture = lay_out(drawing);
    let name = format!("{} ({})", drawing.title, drawing.format);
    let room = PAGE_WIDTH - 2.0 * MARGIN;
    let lines = wrap_text(&name, (room / NAME_CHARACTER) as usize, 2);
    let columns = lines.iter().map(|line| count_columns(line)).max().unwrap_or(0);
    let name_height = lines.len() as f64 * NAME_LINE + NAME_GAP;
    let width = (picture.places.width.max(columns as f64 * NAME_CHARACTER) + 2.0 * MARGIN).ceil();
    let height = (picture.places.height + name_height + 2.0 * MARGIN).ceil();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" \
         refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#616e7c\"/>\
         </marker></defs>\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#fff\"/>\n",
        escape(&name),
    );
    for (index, line) in lines.iter().enumerate() {
        let y = show(MARGIN + 14.0 + index as f64 * NAME_LINE);
        let _ = writeln!(out, "<text class=\"n\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(line));
    }
    let left = MARGIN + (width - 2.0 * MARGIN - picture.places.width) / 2.0;
    let _ = writeln!(out, "<g transform=\"translate({} {})\">", show(left), show(MARGIN + name_height));
    picture.draw_arrows(&mut out);
    picture.draw_boxes(&mut out);
    out.push_str("</g>\n</svg>\n");
    out
}

fn lay_out(drawing: &Drawing) -> Picture<'_> {
    let layers = build_layers(drawing);
    let is_box = |cell: &&usize| matches!(layers.cells[**cell].kind, CellKind::Node(_));
    let widest = layers.rows.iter().map(|row| row.iter().filter(is_box).count()).max().unwrap_or(1).max(1) as f64;
    let room = (PAGE_WIDTH - 2.0 * MARGIN - (widest - 1.0) * GAPS.between_cells) / widest;
    let max_width = room.clamp(MIN_BOX_WIDTH + 40.0, MAX_BOX_WIDTH);
    let labels: Vec<Vec<String>> =
        drawing.arrows.iter().map(|arrow| wrap_text(&arrow.label, LABEL_CHARACTERS, 3)).collect();
    let ports = count_ports(&layers, drawing.nodes.len());
    let boxes: Vec<NodeBox> = (drawing.nodes.iter().enumerate())
        .map(|(index, node)| {
            let own = drawing.arrows.iter().position(|arrow| arrow.from == index && arrow.to == index);
            let built = build_box(node, max_width, own.map(|own| labels[own].clone()));
            let needed = (ports[index] as f64 * PORT_GAP + 24.0).min(max_width);
            NodeBox { width: built.width.max(needed), ..built }
        })
        .collect();
    let extents: Vec<Extent> = layers
        .cells
        .iter()
        .map(|cell| match cell.kind {
            CellKind::Node(node) => boxes[node].extent(),
            CellKind::Label(arrow) => label_extent(&labels[arrow]),
            CellKind::Bend => Extent::default(),
        })
        .collect();
    let places = place_cells(&layers, &extents, GAPS);
    Picture { drawing, layers, boxes, labels, places }
}

/// The number of arrows at the side of each node where there are most.
fn count_ports(layers: &Layers, nodes: usize) -> Vec<usize> {
    let mut sides = vec![(0, 0); nodes];
    for route in &layers.routes {
        sides[route.cells[0]].0 += 1;
        sides[route.cells[route.cells.len() - 1]].1 += 1;
    }
    sides.into_iter().map(|(lower, upper): (usize, usize)| lower.max(upper)).collect()
}

fn build_box(node: &DrawnNode, max_width: f64, self_label: Option<Vec<String>>) -> NodeBox {
    let inset = PADDING + if node.shape == NodeShape::Choice { PADDING } else { 0.0 };
    let room = max_width - 2.0 * inset;
    let title = wrap_text(&node.title, (room / TITLE_CHARACTER) as usize, 3);
    let details: Vec<String> =
        node.details.iter().flat_map(|line| wrap_text(line, (room / SMALL_CHARACTER) as usize, 2)).collect();
    let width_of = |lines: &[String], character: f64| {
        lines.iter().map(|line| count_columns(line)).max().unwrap_or(0) as f64 * character
    };
    let text = width_of(&title, TITLE_CHARACTER).max(width_of(&details, SMALL_CHARACTER));
    let width = (text + 2.0 * inset).clamp(MIN_BOX_WIDTH, max_width);
    let height = title.len() as f64 * TITLE_LINE + details.len() as f64 * SMALL_LINE + 2.0 * PADDING - 4.0;
    NodeBox { title, details, width, height, self_label }
}

impl NodeBox {
    fn extent(&self) -> Extent {
        let half = self.width / 2.0;
        let own = self.self_label.as_ref().map_or(0.0, |lines| SELF_LOOP_WIDTH + 2.0 * label_extent(lines).right);
        let lines = self.self_label.as_ref().map_or(0, Vec::len);
        Extent { left: half, right: half + own, height: self.height.max(lines as f64 * SMALL_LINE) }
    }
}

fn label_extent(lines: &[String]) -> Extent {
    let half = lines.iter().map(|line| count_columns(line)).max().unwrap_or(0) as f64 * SMALL_CHARACTER / 2.0 + 3.0;
    Extent { left: half, right: half, height: lines.len() as f64 * SMALL_LINE + 2.0 }
}

impl Picture<'_> {
    fn draw_arrows(&self, out: &mut String) {
        let ports = self.place_ports();
        for (index, route) in self.layers.routes.iter().enumerate() {
            let path = self.trace_route(route, ports[&(index, true)], ports[&(index, false)]);
            self.draw_path(out, &path, self.drawing.arrows[route.arrow].is_dashed);
        }
        for (index, node) in self.boxes.iter().enumerate() {
            let Some(lines) = &node.self_label else { continue };
            let (x, y) = (self.places.x[index] + node.width / 2.0, self.middle_of_row(self.layers.cells[index].row));
            let (reach, spread) = (x + SELF_LOOP_WIDTH, (node.height / 2.0 - 6.0).clamp(6.0, 14.0));
            let path =
                format!("M{0} {1}C{2} {1} {2} {3} {0} {3}", show(x), show(y + spread), show(reach), show(y - spread));
            self.draw_path(out, &path, false);
            let middle = x + SELF_LOOP_WIDTH * 0.85 + label_extent(lines).left;
            draw_lines(out, "d", lines, middle, y);
        }
        for (index, cell) in self.layers.cells.iter().enumerate() {
            let CellKind::Label(arrow) = cell.kind else { continue };
            let (lines, x, y) = (&self.labels[arrow], self.places.x[index], self.middle_of_row(cell.row));
            let extent = label_extent(lines);
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#fff\"/>",
                show(x - extent.left),
                show(y - extent.height / 2.0),
                show(extent.left * 2.0),
                show(extent.height)
            );
            draw_lines(out, "d", lines, x, y);
        }
    }

    fn draw_path(&self, out: &mut String, path: &str, is_dashed: bool) {
        let dash = if is_dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        let _ = writeln!(out, "<path class=\"e\" d=\"{path}\" marker-end=\"url(#a)\"{dash}/>");
    }

    fn middle_of_row(&self, row: usize) -> f64 {
        let (top, bottom) = self.places.rows[row];
        f64::midpoint(top, bottom)
    }

    /// Where each route meets its boxes, by route and whether it is the upper end: next to each other, in the order of the
    /// cells that they lead to.
    fn place_ports(&self) -> HashMap<(usize, bool), f64> {
        let mut sides: HashMap<(usize, bool), Vec<(f64, usize)>> = HashMap::new();
        for (index, route) in self.layers.routes.iter().enumerate() {
            let cells = &route.cells;
            let (first, last) = (cells[0], cells[cells.len() - 1]);
            sides.entry((first, true)).or_default().push((self.places.x[cells[1]], index));
            sides.entry((last, false)).or_default().push((self.places.x[cells[cells.len() - 2]], index));
        }
        let mut ports = HashMap::new();
        let mut sides: Vec<_> = sides.into_iter().collect();
        sides.sort_by_key(|(side, _)| *side);
        for ((node, is_upper), mut met) in sides {
            met.sort_by(|left, right| left.0.total_cmp(&right.0));
            let gap = ((self.boxes[node].width - 24.0) / met.len() as f64).min(MAX_PORT_GAP);
            let first = self.places.x[node] - gap * (met.len() - 1) as f64 / 2.0;
            for (place, (_, route)) in met.into_iter().enumerate() {
                ports.insert((route, is_upper), first + gap * place as f64);
            }
        }
        ports
    }

    /// The path of an arrow: straight through the rows, curved between them.
    fn trace_route(&self, route: &Route, upper: f64, lower: f64) -> String {
        let edge = |cell: usize, is_lower: bool| {
            let middle = self.middle_of_row(self.layers.cells[cell].row);
            let half = self.boxes[cell].height / 2.0;
            if is_lower { middle + half } else { middle - half }
        };
        let mut points = vec![(upper, edge(route.cells[0], true))];
        points.push((upper, self.places.rows[self.layers.cells[route.cells[0]].row].1));
        for cell in &route.cells[1..route.cells.len() - 1] {
            let (top, bottom) = self.places.rows[self.layers.cells[*cell].row];
            points.extend([(self.places.x[*cell], top), (self.places.x[*cell], bottom)]);
        }
        let last = route.cells[route.cells.len() - 1];
        points.push((lower, self.places.rows[self.layers.cells[last].row].0));
        points.push((lower, edge(last, false)));
        if route.is_upward {
            points.reverse();
        }
        let mut path = format!("M{} {}", show(points[0].0), show(points[0].1));
        for pair in points.windows(2) {
            let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
            if (x - next_x).abs() < 0.5 {
                // A segment without a length has no direction, and an arrowhead at its end would point anywhere.
                if (y - next_y).abs() < 0.05 {
                    continue;
                }
                let _ = write!(path, "L{} {}", show(next_x), show(next_y));
                continue;
            }
            let middle = f64::midpoint(y, next_y);
            let _ = write!(path, "C{} {2} {} {2} {1} {3}", show(x), show(next_x), show(middle), show(next_y));
        }
        path
    }

    fn draw_boxes(&self, out: &mut String) {
        for (index, (node, node_box)) in self.drawing.nodes.iter().zip(&self.boxes).enumerate() {
            let (x, y) = (self.places.x[index], self.middle_of_row(self.layers.cells[index].row));
            draw_shape(out, node.shape, node_box, x, y);
            let details = node_box.details.len() as f64 * SMALL_LINE;
            let titles = node_box.title.len() as f64 * TITLE_LINE;
            draw_lines(out, "t", &node_box.title, x, y - details / 2.0);
            draw_lines(out, "d", &node_box.details, x, y + titles / 2.0);
        }
    }
}

fn draw_shape(out: &mut String, shape: NodeShape, node: &NodeBox, x: f64, y: f64) {
    let (width, height) = (node.width, node.height);
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    if shape == NodeShape::Choice {
        let tip = PADDING;
        let _ = writeln!(
            out,
            "<polygon class=\"b\" fill=\"#fff8e1\" points=\"{0},{1} {2},{3} {4},{3} {5},{1} {4},{6} {2},{6}\"/>",
            show(left),
            show(y),
            show(left + tip),
            show(top),
            show(left + width - tip),
            show(left + width),
            show(top + height)
        );
        return;
    }
    let (fill, radius, dash) = match shape {
        NodeShape::Person => ("#e3f2fd", 6.0, ""),
        NodeShape::Tools => ("#f5f7fa", 6.0, " stroke-dasharray=\"4 3\""),
        NodeShape::Start | NodeShape::End => ("#e4e7eb", height / 2.0, ""),
        NodeShape::Step | NodeShape::Choice => ("#fff", 6.0, ""),
    };
    let _ = writeln!(
        out,
        "<rect class=\"b\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{fill}\"{dash}/>",
        show(left),
        show(top),
        show(width),
        show(height),
        show(radius)
    );
}

/// Draws lines of text around a point.
fn draw_lines(out: &mut String, class: &str, lines: &[String], x: f64, y: f64) {
    let height = if class == "t" { TITLE_LINE } else { SMALL_LINE };
    let first = y - height * (lines.len() as f64 - 1.0) / 2.0 + 4.0;
    for (index, line) in lines.iter().enumerate() {
        let y = show(first + height * index as f64);
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
            show(x),
            escape(line)
        );
    }
}

/// Breaks a text into at most `max_lines` lines of `width` columns, between words where possible.
fn wrap_text(text: &str, width: usize, max_lines: usize) -> Vec<String> {
    let width = width.max(4);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(line) = lines.last_mut().filter(|line| count_columns(line) + 1 + count_columns(word) <= width) {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        let mut rest: &str = word;
        while count_columns(rest) > width {
            let cut = find_cut(rest, width);
            lines.push(rest[..cut].to_owned());
            rest = &rest[cut..];
        }
        lines.push(rest.to_owned());
    }
    if lines.len() > max_lines {
        lines.truncate(max_lines);
        if let Some(last) = lines.last_mut() {
            last.truncate(find_cut(last, width - 1));
            last.push('…');
        }
    }
    lines
}

/// The end of what fits into `width` columns, after a sign where a word may break if there is one.
fn find_cut(text: &str, width: usize) -> usize {
    let mut columns = 0;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        columns += count_char_columns(c);
        if columns > width {
            end = at;
            break;
        }
    }
    if end == text.len() {
        return end;
    }
    let is_break = |c: char| "/_-.:?&=,".contains(c);
    let after = text[..end].char_indices().filter(|(_, c)| is_break(*c)).map(|(at, c)| at + c.len_utf8()).next_back();
    after.filter(|after| after * 2 > end).unwrap_or(end).max(text.chars().next().map_or(0, char::len_utf8))
}

fn escape(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(clean).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A coordinate with one decimal.
fn show(number: f64) -> String {
    let rounded = (number * 10.0).round() / 10.0;
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}
