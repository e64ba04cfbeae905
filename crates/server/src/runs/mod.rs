//! `/api/v1/runs`: runs are started, read, followed, and told what to do.

pub(crate) mod answer;
pub(crate) mod events;
pub(crate) mod read;
pub(crate) mod shown;
pub(crate) mod signals;
pub(crate) mod start;
