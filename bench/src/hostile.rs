//! Definitions of the maximum size, built to keep the compiler busy.

use std::time::Instant;

use flowloom_core::plan::Format;
use flowloom_formats::{Sources, compile, find_format};

use crate::measure::{ReportRow, SampleStats};

#[path = "../../crates/formats/tests/hostile/mod.rs"]
mod texts;

#[path = "../../crates/formats/tests/hostile/definitions.rs"]
mod definitions;

/// Default of `limits.source_bytes`.
const DEFINITION_BYTES: usize = 4 << 20;

/// The slowest of the Markdown texts and of the JSON definitions, whether they compile or are rejected.
pub(crate) fn measure_hostile() -> Vec<ReportRow> {
    let mut markdown = Slowest::default();
    for (name, text) in texts::hostile_texts() {
        markdown.measure(name, "x.mdx", text, None);
    }
    let mut json = Slowest::default();
    for definition in definitions::hostile_definitions() {
        let text = (definition.write)(DEFINITION_BYTES);
        json.measure(definition.name, "x.json", text, definition.format.and_then(find_format));
    }
    vec![markdown.into_row("250 KB of Markdown", 200.0), json.into_row("4 MiB of JSON", 300.0)]
}

/// The times of several definitions, and the longest of them.
#[derive(Default)]
struct Slowest {
    seconds: Vec<f64>,
    longest: f64,
    name: &'static str,
}

impl Slowest {
    fn measure(&mut self, name: &'static str, file: &str, text: String, format: Option<Format>) {
        let files = [(file.to_owned(), text.into_bytes())].into();
        let sources = Sources { files, source_bytes: 8 << 20, ..Sources::default() };
        let start = Instant::now();
        drop(compile(file, &sources, format));
        let took = start.elapsed().as_secs_f64();
        self.seconds.push(took);
        if took > self.longest {
            (self.longest, self.name) = (took, name);
        }
    }

    fn into_row(self, what: &str, limit_ms: f64) -> ReportRow {
        let row = ReportRow::new("hostile", &format!("{what}, slowest: {}", self.name), 1);
        let row = row.with_samples(SampleStats::from_seconds(self.seconds), None, 1);
        row.with_maximum(self.longest * 1e3, limit_ms, "ms")
    }
}
