//! JSON Schemas of the formats, for editors and `flowloom schema`.

use flowloom_core::plan::Format;

/// The JSON Schema of a format; for Markdown, that of the frontmatter.
pub fn schema(format: Format) -> &'static str {
    match format {
        Format::Flow => include_str!("flow/schema.json"),
        Format::Steps => include_str!("steps/schema.json"),
        Format::Pipeline => include_str!("pipeline/schema.json"),
        Format::Graph => include_str!("graph/schema.json"),
        Format::Agent => include_str!("agent/schema.json"),
        Format::Markdown => include_str!("markdown/frontmatter.schema.json"),
    }
}
