//! JSON Schemas of the formats, for editors and `flowloom schema`.

use flowloom_core::plan::Format;

/// The schema of a format, if it is a JSON format of this version.
pub fn schema(format: Format) -> Option<&'static str> {
    match format {
        Format::Flow => Some(include_str!("flow/schema.json")),
        Format::Steps => Some(include_str!("steps/schema.json")),
        Format::Pipeline => Some(include_str!("pipeline/schema.json")),
        Format::Graph => Some(include_str!("graph/schema.json")),
        Format::Markdown => None,
    }
}
