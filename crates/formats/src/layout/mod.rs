//! One canonical layout for the definitions of each format.
//!
//! JSON is read into a tree that keeps comments and the text of every scalar (`tree`), its keys are put into the order
//! of the format (`keys`), and it is written again (`write`). Markdown is laid out next to its compiler
//! (`crate::markdown`). Files that are neither, such as the tables of graphs, stay as they are.

mod keys;
mod tree;
mod write;

use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::json::parse_node;
use flowloom_core::plan::Format;

use crate::jsonc::to_plain_json;
use crate::problems::Problems;
use crate::reader::read_json;
use crate::{graph, markdown, steps};

/// Lays out the text of a definition: the same plan and the same comments in one canonical form.
///
/// The result of a second call is equal to that of the first. Line ends stay as they are in the first line of the text; a
/// byte order mark is removed. A text that does not parse is refused with its problems.
///
/// # Examples
///
/// ```
/// use flowloom_formats::{find_format, format_source};
///
/// let text = r#"{"steps": [], "name": "Nothing"}"#;
/// let format = find_format("flow").expect("a format");
/// let laid_out = format_source(format, "flow.json", text).expect("valid JSON");
/// assert_eq!(laid_out, "{\n  \"name\": \"Nothing\",\n  \"steps\": []\n}\n");
/// ```
pub fn format_source(format: Format, file: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut problems = Problems::new(file);
    let laid_out = if format == markdown::FORMAT {
        markdown::lay_out(file, text, &mut problems)
    } else if graph::is_table(file) || steps::is_script(text) {
        Some(text.to_owned())
    } else {
        lay_out_json(format, file, text, &mut problems)
    };
    match laid_out {
        Some(laid_out) if !problems.has_errors() => Ok(laid_out),
        _ => Err(problems.into_list().0),
    }
}

/// Lays out a file that is a part of definitions and none itself: a block in `blocks/`, or the record of an agent in
/// `agents/NAME/`. `None` if the file is neither.
pub fn format_part(file: &str, text: &str) -> Option<String> {
    let plain = to_plain_json(file, text);
    let (tree, _) = parse_node(&plain).ok()?;
    Some(write_in_shape(keys::shape_of_part(file, &tree)?, text))
}

fn lay_out_json(format: Format, file: &str, text: &str, problems: &mut Problems) -> Option<String> {
    // The parser of definitions decides what is valid; the tree that keeps comments is only read after it.
    let plain = to_plain_json(file, text);
    read_json(&plain, parse_node(&plain), problems)?;
    (!problems.has_errors()).then(|| write_in_shape(keys::shape_of(format), text))
}

/// Writes valid JSON with the keys of a shape in their order.
fn write_in_shape(shape: &'static keys::ValueShape, text: &str) -> String {
    let unmarked = text.trim_start_matches('\u{feff}');
    // Whatever the parser accepts, this reader accepts; a text that it cannot read stays as it is.
    let Some(mut document) = tree::read_document(unmarked) else { return text.to_owned() };
    keys::sort_keys(&mut document.root, shape);
    let laid_out = write::write_document(&document, shape);
    match find_line_end(unmarked) {
        "\n" => laid_out,
        other => laid_out.replace('\n', other),
    }
}

/// The line end of a text: CR LF if all of its lines have it, otherwise LF, also where lines differ. A second layout finds the
/// same one.
pub(crate) fn find_line_end(text: &str) -> &'static str {
    let lines = text.matches('\n').count();
    if lines > 0 && text.matches("\r\n").count() == lines { "\r\n" } else { "\n" }
}
