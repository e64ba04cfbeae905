//! Terminal output: progress, reports, drawings, questions and problems of definitions.

pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod details;
pub(crate) mod diagnostics;
pub(crate) mod diff;
pub(crate) mod draw;
pub(crate) mod echo;
pub(crate) mod estimate;
mod excerpt;
pub(crate) mod family;
mod line_window;
pub(crate) mod log;
pub(crate) mod measure;
mod prompt;
pub(crate) mod report;
pub(crate) mod screen;
pub(crate) mod stages;
pub(crate) mod table;
pub(crate) mod test_report;
pub(crate) mod width;
mod window;
mod word_wrap;
