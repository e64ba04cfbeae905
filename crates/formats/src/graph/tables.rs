//! Definitions as CSV exports (RFC 4180) of database tables: one file per table, in one folder. They become the rows of
//! a JSON definition.
//!
//! The span of every value is the row in which it is; the files count as one text, in order.

use std::collections::HashSet;

use csv::{ReaderBuilder, StringRecord};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind};

use super::rows::{AGENT_TABLE, AGENT_TOOL_TABLE, EDGE_TABLE, NODE_TABLE, TOOL_TABLE, WORKFLOW_TABLE};
use crate::problems::Problems;
use crate::sources::Sources;

/// The tables with their required columns.
const REQUIRED_COLUMNS: [(&str, &[&str]); 6] = [
    (WORKFLOW_TABLE, &["id", "entrypoint_node_id"]),
    (NODE_TABLE, &["id", "node_type"]),
    (EDGE_TABLE, &["source_node_id", "target_node_id", "condition_type"]),
    (AGENT_TABLE, &["id", "system_prompt"]),
    (TOOL_TABLE, &["id", "tool_name"]),
    (AGENT_TOOL_TABLE, &["agent_id", "tool_id"]),
];

/// The tables that may be missing: agents can be in folders instead.
const OPTIONAL_TABLES: [&str; 3] = [AGENT_TABLE, TOOL_TABLE, AGENT_TOOL_TABLE];

/// Whether a file is the CSV export of the workflow table.
pub(crate) fn is_table(file: &str) -> bool {
    file.rsplit('/').next().is_some_and(|name| name.strip_suffix(".csv") == Some(WORKFLOW_TABLE))
}

/// Reads the tables into one object, in the shape of a JSON definition.
pub(super) fn read(file: &str, sources: &Sources, problems: &mut Problems, needs: &mut Vec<String>) -> Option<Node> {
    let folder = &file[..file.len() - WORKFLOW_TABLE.len() - ".csv".len()];
    let mut entries = Vec::new();
    let mut start = 0;
    for (table, columns) in REQUIRED_COLUMNS {
        let path = format!("{folder}{table}.csv");
        let Some(bytes) = sources.files.get(&path) else {
            if OPTIONAL_TABLES.contains(&table) {
                needs.push(path);
                continue;
            }
            let message = format!("the table {path} is missing");
            problems.add_error(Code::TableSyntax, Span::default(), message).help =
                Some("put the tables of workflows, nodes and edges into one folder".into());
            needs.push(path);
            continue;
        };
        if start > 0 {
            problems.start_file(start, &path);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Err(error) = std::str::from_utf8(bytes) {
            let span = Span { start: start + error.valid_up_to(), length: 1 };
            problems.add_error(Code::NotUtf8, span, format!("{table}.csv is not UTF-8 text from here on"));
        } else if bytes.len() as u64 > sources.source_bytes {
            let message = format!("{table}.csv has more than {} bytes", sources.source_bytes);
            problems.add_error(Code::SourceTooLarge, Span { start, length: 1 }, message);
        } else {
            let rows = TableReader { name: table, text: &text, start, problems: &mut *problems }.read_rows(columns);
            let span = Span { start, length: 0 };
            entries.push((table.to_owned(), span, Node { kind: NodeKind::List(rows?), span }));
        }
        start += bytes.len() + 1;
    }
    (!problems.has_errors()).then(|| Node { kind: NodeKind::Map(entries), span: Span::default() })
}

/// Reads one table.
struct TableReader<'a> {
    name: &'a str,
    text: &'a str,
    /// Offset of its text in the concatenated texts of all tables.
    start: usize,
    problems: &'a mut Problems,
}

impl TableReader<'_> {
    fn read_rows(mut self, columns: &[&str]) -> Option<Vec<Node>> {
        let text = self.text.trim_start_matches('\u{feff}');
        let skipped = self.text.len() - text.len();
        if text.bytes().filter(|b| *b == b'"').count() % 2 == 1 {
            let last = text.rfind('"').unwrap_or_default() + skipped;
            self.report_error(
                last,
                "a quote is not closed or not doubled",
                "write a quote inside a quoted value twice",
            );
            return None;
        }
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let header = reader.headers().cloned().unwrap_or_default();
        self.check_header(&header, columns)?;
        let mut rows = Vec::new();
        for record in reader.records() {
            // The reader fails only on bytes that are not UTF-8, which are excluded above.
            let Ok(record) = record else { continue };
            let at = skipped + record.position().map_or(0, |position| position.byte() as usize);
            // A record starts after the line breaks that precede it.
            let at = at + self.text[at..].len() - self.text[at..].trim_start_matches(['\r', '\n']).len();
            if record.len() != header.len() {
                let message = format!("this row has {} values, and the header has {}", record.len(), header.len());
                self.report_error(at, &message, "give every column a value, if only an empty one");
                continue;
            }
            rows.push(self.read_row(&header, &record, at));
        }
        Some(rows)
    }

    fn check_header(&mut self, header: &StringRecord, columns: &[&str]) -> Option<()> {
        let names: HashSet<&str> = header.iter().map(str::trim).collect();
        let missing: Vec<&str> = columns.iter().copied().filter(|column| !has_column(&names, column)).collect();
        if !missing.is_empty() {
            let message = format!("the table {} has no column {}", self.name, missing.join(" and no column "));
            let help = format!("its first row names the columns; it needs {}", columns.join(", "));
            self.report_error(0, &message, &help);
            return None;
        }
        if names.len() < header.len() {
            self.report_error(0, "a column is given twice", "keep one of them");
            return None;
        }
        Some(())
    }

    fn read_row(&self, header: &StringRecord, record: &StringRecord, at: usize) -> Node {
        let span = self.line_span(at);
        let value = |(name, text): (&str, &str)| {
            let kind = match text {
                "" | "\\N" => return None,
                "true" | "t" | "1" if is_flag(name) => NodeKind::Bool(true),
                "false" | "f" | "0" if is_flag(name) => NodeKind::Bool(false),
                text => NodeKind::String(text.to_owned()),
            };
            Some((name.trim().to_owned(), span, Node { kind, span }))
        };
        Node { kind: NodeKind::Map(header.iter().zip(record).filter_map(value).collect()), span }
    }

    /// The line that starts at `at`.
    fn line_span(&self, at: usize) -> Span {
        let length = self.text[at..].find(['\r', '\n']).unwrap_or(self.text.len() - at);
        Span { start: self.start + at, length }
    }

    fn report_error(&mut self, at: usize, message: &str, help: &str) {
        let span = self.line_span(at);
        self.problems.add_error(Code::TableSyntax, span, message).help = Some(help.to_owned());
    }
}

/// Whether a column holds Booleans.
fn is_flag(name: &str) -> bool {
    matches!(name.trim(), "is_conversational" | "isConversational")
}

/// Whether a column exists, in the spelling of tables or of files.
fn has_column(names: &HashSet<&str>, column: &str) -> bool {
    let mut camel = String::new();
    for (index, part) in column.split('_').enumerate() {
        let (first, rest) = part.split_at_checked(1).unwrap_or((part, ""));
        let first = if index == 0 { first.to_owned() } else { first.to_uppercase() };
        camel.push_str(&first);
        camel.push_str(rest);
    }
    names.contains(column) || names.contains(camel.as_str())
}
