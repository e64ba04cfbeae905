//! `workflow::runs`: one page of a workflow's runs (docs/formats/steps.md).

use flowloom_core::render;
use flowloom_core::value::Value;

/// Entries of a page that does not say how many.
const DEFAULT_LIMIT: i64 = 100;
/// Entries of a page at most.
const MAX_LIMIT: i64 = 1000;

/// A page's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries at most, 1 to 1000.
    pub limit: i64,
    /// Entries left out first.
    pub offset: i64,
}

impl Bounds {
    /// Which of `total` entries are on the page.
    pub fn range(self, total: u64) -> std::ops::Range<u64> {
        let start = total.min(self.offset.unsigned_abs());
        start..total.min(start.saturating_add(self.limit.unsigned_abs()))
    }
}

/// Reads a page's bounds as JavaScript reads numbers: text is accepted, and what is out of range is moved into it.
pub fn bounds(limit: Option<&Value>, offset: Option<&Value>) -> Bounds {
    let number = |value: Option<&Value>| {
        let value = value.filter(|value| !matches!(value, Value::Null))?;
        let number: f64 = render::text(value, render::Style::Json).trim().parse().ok()?;
        number.is_finite().then_some(number as i64)
    };
    Bounds {
        limit: number(limit).unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        offset: number(offset).unwrap_or(0).max(0),
    }
}

/// One page of the runs of a workflow that has `total` of them.
pub fn page(runs: Vec<Value>, total: u64, bounds: Bounds) -> Value {
    Value::map([
        ("runs", Value::list(runs)),
        ("total", (total as i64).into()),
        ("limit", bounds.limit.into()),
        ("offset", bounds.offset.into()),
    ])
}
