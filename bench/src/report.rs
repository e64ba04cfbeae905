//! The table for people, and the JSON for programs.

use serde_json::{Value, json};

use crate::measure::{ReportRow, SampleStats};

const TABLE_HEAD: [&str; 10] =
    ["workload", "what", "n", "ours ms median [min..max]", "per unit µs", "floor µs", "x floor", "value", "goal", ""];

/// The rows as an aligned Markdown table.
pub(crate) fn format_table(rows: &[ReportRow]) -> String {
    let lines: Vec<[String; 10]> = rows.iter().map(format_cells).collect();
    let mut widths = TABLE_HEAD.map(|head| head.chars().count());
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let padded = |cells: &[String; 10]| {
        cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect()
    };
    let mut table = line(padded(&TABLE_HEAD.map(str::to_owned)));
    table.push_str(&line(widths.iter().map(|width| "-".repeat(*width)).collect()));
    lines.iter().for_each(|cells| table.push_str(&line(padded(cells))));
    table
}

fn format_cells(row: &ReportRow) -> [String; 10] {
    let per_unit = |sample: SampleStats| format_number(sample.median / row.units as f64 * 1e6);
    let spread = |ours: SampleStats| {
        format!(
            "{} [{}..{}]",
            format_number(ours.median * 1e3),
            format_number(ours.min * 1e3),
            format_number(ours.max * 1e3)
        )
    };
    [
        row.workload.clone(),
        row.what.clone(),
        row.n.to_string(),
        row.ours.map(spread).unwrap_or_default(),
        row.ours.map(per_unit).unwrap_or_default(),
        row.floor.map(per_unit).unwrap_or_default(),
        row.floor_ratio().map(format_number).unwrap_or_default(),
        row.value.map(format_number).unwrap_or_default(),
        row.goal.clone(),
        row.met.map(|met| if met { "ok" } else { "SHORT" }).unwrap_or_default().to_owned(),
    ]
}

/// Formats a number with three significant digits.
fn format_number(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

/// The rows as a JSON list.
pub(crate) fn to_json(rows: &[ReportRow]) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "workload": row.workload, "what": row.what, "n": row.n, "units": row.units,
            "seconds": row.ours, "floor_seconds": row.floor, "ratio": row.floor_ratio(),
            "value": row.value, "goal": row.goal, "met": row.met,
        })
    });
    Value::Array(rows.collect())
}
