//! Lists in messages, which name their first items.

use std::fmt::Display;

/// The first items of a list, and how many there are besides.
pub(crate) fn list_first(items: impl ExactSizeIterator<Item: Display>, max_items: usize) -> String {
    let more = items.len().saturating_sub(max_items);
    let shown = items.take(max_items).map(|item| item.to_string()).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_beyond_the_limit_are_counted() {
        let list = |count: u32| list_first((0..count).map(|item| item + 1).collect::<Vec<_>>().iter(), 2);
        assert_eq!([list(0), list(2), list(4)], ["", "1, 2", "1, 2 and 2 more"]);
    }
}
