//! The front end of Markdown workflows.

use super::present::render_result;
use super::{FORMAT, compile};
use crate::answer_source;
use crate::front_end::FrontEnd;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "Markdown workflows end in .mdx or .md",
    recognises: |file, _| {
        let name = file.to_ascii_lowercase();
        name.ends_with(".mdx") || name.ends_with(".md")
    },
    find_answer_source: answer_source::of_only_answer,
    functions_for_models: |plan| plan.functions.iter().map(|(function, _)| &**function).collect(),
    ..FrontEnd::new(FORMAT, include_str!("frontmatter.schema.json"), compile, render_result)
};
