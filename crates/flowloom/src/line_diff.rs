//! The difference between two texts as a unified diff.

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Largest table of compared lines; texts with more changed lines are shown as replaced as a whole.
const MAX_TABLE_CELLS: usize = 4_000_000;

/// A line of the difference.
#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The unified diff of a file; empty if nothing differs.
pub(crate) fn write_diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let lines =
        compare_lines(&old.split_inclusive('\n').collect::<Vec<_>>(), &new.split_inclusive('\n').collect::<Vec<_>>());
    let mut out = format!("--- {name}\n+++ {name}\n");
    let mut at = 0;
    while let Some(first) = lines[at..].iter().position(|line| !matches!(line, Line::Both(_))) {
        let start = (at + first).saturating_sub(CONTEXT_LINES).max(at);
        let mut end = at + first;
        let mut unchanged = 0;
        while end < lines.len() && unchanged <= 2 * CONTEXT_LINES {
            unchanged = if matches!(lines[end], Line::Both(_)) { unchanged + 1 } else { 0 };
            end += 1;
        }
        end -= unchanged.saturating_sub(CONTEXT_LINES);
        push_hunk(&lines, start..end, &mut out);
        at = end;
    }
    out
}

fn push_hunk(lines: &[Line<'_>], range: std::ops::Range<usize>, out: &mut String) {
    let count = |part: &[Line<'_>], side: fn(&Line<'_>) -> bool| part.iter().filter(|line| side(line)).count();
    let is_old = |line: &Line<'_>| !matches!(line, Line::New(_));
    let is_new = |line: &Line<'_>| !matches!(line, Line::Old(_));
    let (before, part) = (&lines[..range.start], &lines[range]);
    let place = |start: usize, count: usize| format!("{},{count}", start + usize::from(count > 0));
    let old = place(count(before, is_old), count(part, is_old));
    let new = place(count(before, is_new), count(part, is_new));
    out.push_str(&format!("@@ -{old} +{new} @@\n"));
    for line in part {
        let (mark, text) = match line {
            Line::Both(text) => (' ', text),
            Line::Old(text) => ('-', text),
            Line::New(text) => ('+', text),
        };
        out.push(mark);
        out.push_str(text);
        if !text.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The lines of both texts in order: a shortest way from the old lines to the new ones.
fn compare_lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(same).count();
    let (middle_old, middle_new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut lines: Vec<Line<'a>> = old[..start].iter().map(|line| Line::Both(line)).collect();
    if middle_old.len().saturating_mul(middle_new.len()) > MAX_TABLE_CELLS {
        lines.extend(middle_old.iter().map(|line| Line::Old(line)));
        lines.extend(middle_new.iter().map(|line| Line::New(line)));
    } else {
        compare_middle(middle_old, middle_new, &mut lines);
    }
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Both(line)));
    lines
}

fn compare_middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    // The length of the longest common part of the rests from each pair of lines.
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Both(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10";
        let expected = "--- a\n+++ a\n@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+10\n\
                        \\ No newline at end of file\n";
        assert_eq!(write_diff("a", old, new), expected);
        assert_eq!(write_diff("a", old, old), "");
        assert_eq!(write_diff("a", "", "x\n"), "--- a\n+++ a\n@@ -0,0 +1,1 @@\n+x\n");
    }
}
