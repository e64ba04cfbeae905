//! JSON Schemas of the formats, for editors and `flowloom schema`.

use flowloom_core::plan::Format;

/// The schema of a format, if it is a JSON format of this version.
pub fn schema(format: Format) -> Option<&'static str> {
    match format {
        Format::Flow => Some(include_str!("flow/schema.json")),
        Format::Steps => Some(include_str!("steps/schema.json")),
        Format::Markdown | Format::Pipeline | Format::Graph => None,
    }
}
