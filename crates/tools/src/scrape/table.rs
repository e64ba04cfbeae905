//! Converts tables to Markdown without padding: a padded table can be as large as its rows times its widest cells.

use std::rc::Rc;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, Node};
use markup5ever_rcdom::NodeData;

/// A table's Markdown: rows of cells if it contains data; otherwise, because pages are laid out with tables too, one
/// cell below the other.
pub(super) fn convert_table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let mut table = HtmlTable::default();
    table.read_rows(handlers, element.node);
    let text = if table.is_data() { table.render_rows() } else { table.join_cells() };
    let text = text.trim();
    (!text.is_empty()).then(|| format!("\n\n{text}\n\n").into())
}

#[derive(Default)]
struct HtmlTable {
    caption: String,
    rows: Vec<Vec<String>>,
    has_header: bool,
}

impl HtmlTable {
    fn read_rows(&mut self, handlers: &dyn Handlers, node: &Rc<Node>) {
        for child in node.children.borrow().iter() {
            match tag_name(child) {
                Some("thead" | "tbody" | "tfoot") => self.read_rows(handlers, child),
                Some("tr") => {
                    let mut row = Vec::new();
                    for cell in child.children.borrow().iter() {
                        if let Some(name @ ("td" | "th")) = tag_name(cell) {
                            self.has_header |= name == "th" && self.rows.is_empty();
                            row.push(handlers.walk_children(cell).content.trim().to_owned());
                        }
                    }
                    self.rows.push(row);
                }
                Some("caption") => self.caption = handlers.walk_children(child).content.trim().to_owned(),
                _ => {}
            }
        }
    }

    /// Whether the rows form a data table: several columns, and either a header or cells of one line each.
    fn is_data(&self) -> bool {
        let several = self.rows.iter().any(|row| row.len() > 1);
        several && (self.has_header || self.rows.iter().flatten().all(|cell| !cell.contains('\n')))
    }

    fn render_rows(&self) -> String {
        let mut out = String::new();
        if !self.caption.is_empty() {
            out.push_str(&self.caption);
            out.push_str("\n\n");
        }
        for (i, row) in self.rows.iter().filter(|row| !row.is_empty()).enumerate() {
            for cell in row {
                let words: Vec<&str> = cell.split_whitespace().collect();
                out.push_str("| ");
                out.push_str(&words.join(" ").replace('|', "\\|"));
                out.push(' ');
            }
            out.push_str("|\n");
            if i == 0 {
                out.push_str(&"| --- ".repeat(row.len()));
                out.push_str("|\n");
            }
        }
        out
    }

    fn join_cells(&self) -> String {
        let filled = self.rows.iter().flatten().chain([&self.caption]).filter(|cell| !cell.is_empty());
        filled.map(String::as_str).collect::<Vec<_>>().join("\n\n")
    }
}

fn tag_name(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        NodeData::Document
        | NodeData::Doctype { .. }
        | NodeData::Text { .. }
        | NodeData::Comment { .. }
        | NodeData::ProcessingInstruction { .. } => None,
    }
}
