//! The part of a long line that is shown in a difference: prompts are often one line of thousands of characters.

/// Number of characters from which on a line is cut.
const MAX_LINE_CHARS: usize = 300;

/// Number of equal characters that are shown on each side of what differs.
const CONTEXT_CHARS: usize = 60;

/// The two sides of a changed line. Long ones are cut to what differs.
pub(super) fn cut_changed_lines(before: &str, after: &str) -> (String, String) {
    let (before, after): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
    if before.len().max(after.len()) <= MAX_LINE_CHARS {
        return (cut_from(&before, 0, 0), cut_from(&after, 0, 0));
    }
    let prefix = count_equal(before.iter(), after.iter());
    let suffix = count_equal(before[prefix..].iter().rev(), after[prefix..].iter().rev());
    let (start, rest) = (prefix.saturating_sub(CONTEXT_CHARS), suffix.saturating_sub(CONTEXT_CHARS));
    (cut_from(&before, start, rest), cut_from(&after, start, rest))
}

/// A line that is on one side only, or equal on both. A long one is cut at its end.
pub(super) fn cut_line(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}{}", &line[..end], describe_rest(line[end..].chars().count())),
        None => line.to_owned(),
    }
}

/// A line without its first `start` and its last `rest` characters, cut at its end if it is still long.
fn cut_from(line: &[char], start: usize, rest: usize) -> String {
    let end = (line.len() - rest).min(start + MAX_LINE_CHARS);
    let shown: String = line[start..end].iter().collect();
    let before = if start > 0 { "…" } else { "" };
    let cut = line.len() - end;
    // The end that both sides share is of no interest.
    let after = match cut.saturating_sub(rest) {
        0 if cut == 0 => String::new(),
        0 => "…".to_owned(),
        hidden => describe_rest(hidden),
    };
    format!("{before}{shown}{after}")
}

fn describe_rest(chars: usize) -> String {
    format!("… ({chars} more characters)")
}

fn count_equal<'c>(one: impl Iterator<Item = &'c char>, other: impl Iterator<Item = &'c char>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_changed_line_is_cut_to_its_difference() {
        let (head, tail) = ("h".repeat(1000), "t".repeat(1000));
        let (before, after) = cut_changed_lines(&format!("{head}rain{tail}"), &format!("{head}snow{tail}"));
        let (head, tail) = ("h".repeat(CONTEXT_CHARS), "t".repeat(CONTEXT_CHARS));
        assert_eq!(before, format!("…{head}rain{tail}…"));
        assert_eq!(after, format!("…{head}snow{tail}…"));
    }

    #[test]
    fn short_lines_and_ends_are_whole() {
        assert_eq!(cut_changed_lines("rain", "sun"), ("rain".to_owned(), "sun".to_owned()));
        let long = "é".repeat(1000);
        let (before, after) = cut_changed_lines(&long, &format!("{long}!"));
        assert_eq!(after, format!("{}!", before), "what is added at the end is shown");
    }

    #[test]
    fn what_has_nothing_in_common_is_cut_at_its_end() {
        let (before, after) = cut_changed_lines(&"a".repeat(1000), "b");
        assert_eq!(before, format!("{}… (700 more characters)", "a".repeat(MAX_LINE_CHARS)));
        assert_eq!(after, "b");
        assert_eq!(cut_line(&"a".repeat(1000)), before);
        assert_eq!(cut_line("a"), "a");
    }
}
