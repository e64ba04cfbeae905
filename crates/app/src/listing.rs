//! Lists and counts in messages.

use std::fmt::Display;

/// The first items of a list, and the number of the others.
pub fn list_first(items: impl ExactSizeIterator<Item: Display>, max_items: usize) -> String {
    let more = items.len().saturating_sub(max_items);
    let shown = items.take(max_items).map(|item| item.to_string()).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// A number of things, such as "1 step" and "2 steps".
pub fn count_noun(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_beyond_the_limit_are_counted() {
        let list = |count: u32| list_first((0..count).map(|item| item + 1).collect::<Vec<_>>().iter(), 2);
        assert_eq!([list(0), list(2), list(4)], ["", "1, 2", "1, 2 and 2 more"]);
    }

    #[test]
    fn nouns_have_a_plural() {
        let counted = [(0, "step"), (1, "access"), (2, "access")].map(|(count, noun)| count_noun(count, noun));
        assert_eq!(counted, ["0 steps", "1 access", "2 accesses"]);
    }
}
