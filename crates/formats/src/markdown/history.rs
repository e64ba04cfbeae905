//! Whether the expressions of a loop read its finished iterations, which are costly to provide.

/// The fields of a loop's helper whose cost does not depend on the number of iterations, and the schemas of `$.z`.
const CHEAP_FIELDS: [&str; 3] = ["index", "last", "z"];

/// Whether anything in `source` may read `self` of the helper of the loop `name`. An included file may read it, too.
pub(super) fn reads_history(source: &str, name: &str) -> bool {
    source.contains("include(") || source.match_indices('$').any(|(at, _)| reads_history_at(source, at, name))
}

/// Whether the `$` at a place starts a name of the helper, and more is read of it than a cheap field.
fn reads_history_at(source: &str, at: usize, name: &str) -> bool {
    let (before, from) = source.split_at(at);
    if before.ends_with(is_part_of_name) {
        return false;
    }
    let (word, rest) = split_word(from);
    let is_helper = word == "$" || word.strip_prefix('$') == Some(name);
    // In a template literal, `${` is no name.
    if !is_helper || (word == "$" && rest.starts_with('{')) {
        return false;
    }
    let field = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.')).map(split_word);
    !field.is_some_and(|(field, _)| CHEAP_FIELDS.contains(&field))
}

/// A name at the start of a text, and what follows it.
fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c| !is_part_of_name(c)).unwrap_or(text.len()))
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

#[cfg(test)]
mod tests {
    use super::reads_history;

    #[test]
    fn only_what_may_read_all_iterations_counts() {
        for cheap in [
            "until={$.index === 3}",
            "{$l.last?.x} and {$?.last.y}",
            "`${x}` costs $5",
            "schema={$.z.string()}",
            "{$other.self}",
            "{my$.self}",
        ] {
            assert!(!reads_history(cheap, "l"), "{cheap}");
        }
        for costly in [
            "{$.self.length}",
            "{$l.self}",
            "{$['self']}",
            "{JSON.stringify($)}",
            "{f($l)}",
            "{$.indexes}",
            "{include('a')}",
        ] {
            assert!(reads_history(costly, "l"), "{costly}");
        }
    }
}
