//! `workflow::runs`: one page of a workflow's runs (docs/formats/steps.md).

use flowloom_core::render;
use flowloom_core::value::Value;

/// Default number of entries per page.
const DEFAULT_LIMIT: i64 = 100;
/// Maximum number of entries per page.
const MAX_LIMIT: i64 = 1000;

/// The bounds of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBounds {
    /// Maximum number of entries, 1 to 1000.
    pub limit: i64,
    /// Number of entries to skip.
    pub offset: i64,
}

impl PageBounds {
    /// The indexes of the entries on the page, of `total` in all.
    pub fn page_range(self, total: u64) -> std::ops::Range<u64> {
        let start = total.min(self.offset.unsigned_abs());
        start..total.min(start.saturating_add(self.limit.unsigned_abs()))
    }
}

/// Reads the bounds of a page with JavaScript's number conversion: strings are accepted, and values out of range are
/// clamped.
pub fn read_bounds(limit: Option<&Value>, offset: Option<&Value>) -> PageBounds {
    let number = |value: Option<&Value>| {
        let value = value.filter(|value| !matches!(value, Value::Null))?;
        let number: f64 = render::render_text(value, render::TextStyle::Json).trim().parse().ok()?;
        number.is_finite().then_some(number as i64)
    };
    PageBounds {
        limit: number(limit).unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        offset: number(offset).unwrap_or(0).max(0),
    }
}

/// One page of the runs of a workflow with `total` runs.
pub fn render_page(runs: Vec<Value>, total: u64, bounds: PageBounds) -> Value {
    Value::map([
        ("runs", Value::list(runs)),
        ("total", (total as i64).into()),
        ("limit", bounds.limit.into()),
        ("offset", bounds.offset.into()),
    ])
}
