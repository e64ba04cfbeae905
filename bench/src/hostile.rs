//! Markdown workflows of the maximum size, built to keep a parser busy.

use std::time::Instant;

use flowloom_formats::{Sources, compile};

use crate::measure::{ReportRow, SampleStats};

#[path = "../../crates/formats/tests/hostile/mod.rs"]
mod texts;

/// The slowest of them, whether it compiles or is rejected.
pub(crate) fn measure_hostile() -> Vec<ReportRow> {
    let mut times = Vec::new();
    let mut slowest = (0.0, "");
    for (name, text) in texts::hostile_texts() {
        let files = [("x.mdx".to_owned(), text.into_bytes())].into();
        let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
        let start = Instant::now();
        drop(compile("x.mdx", &sources, None));
        let took = start.elapsed().as_secs_f64();
        times.push(took);
        if took > slowest.0 {
            slowest = (took, name);
        }
    }
    let row = ReportRow::new("hostile", &format!("250 KB of Markdown, slowest: {}", slowest.1), 1);
    vec![row.with_samples(SampleStats::from_seconds(times), None, 1).with_maximum(slowest.0 * 1e3, 200.0, "ms")]
}
