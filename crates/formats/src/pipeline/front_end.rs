//! The front end of pipelines.

use super::present::render_result;
use super::{FORMAT, compile};
use crate::front_end::FrontEnd;

/// The front end.
pub(crate) const FRONT_END: FrontEnd = FrontEnd {
    hint: "a pipeline has \"nodes\" with \"block_id\"",
    related_file_patterns: &["blocks/*.json"],
    score_shape: |shape| if shape.has(&["nodes"]) { 4 } else { 0 },
    ..FrontEnd::new(FORMAT, include_str!("schema.json"), compile, render_result)
};
