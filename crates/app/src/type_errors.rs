//! Messages about values of a wrong type, in words of JSON and TOML instead of the types of this program.

/// How serde writes that a type of this program is expected; the name of the type follows.
const TYPE_WORDS: [&str; 4] =
    ["expected struct ", "expected internally tagged enum ", "expected enum ", "expected tuple struct "];

/// The types and forms that serde expects, in our words.
const EXPECTED: [(&str, &str); 15] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of at least 0"),
    ("usize", "a whole number of at least 0"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("a string", "a text"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "an object"),
    ("a borrowed string", "a text"),
    ("path string", "a text"),
];

/// The kinds of values that serde found, in our words; the value follows, except for those without one.
const FOUND: [(&str, &str); 7] = [
    ("string ", "the text "),
    ("integer `", "the number "),
    ("floating point `", "the number "),
    ("boolean `", ""),
    ("map", "an object"),
    ("sequence", "a list"),
    ("unit value", "nothing"),
];

/// The message of serde about a value of a wrong type, in our words; other messages stay.
pub fn describe_type_error(message: &str) -> String {
    let plain = name_objects(message);
    let mismatch = ["invalid type: ", "invalid value: "].iter().find_map(|start| plain.strip_prefix(start));
    let reworded = mismatch.and_then(|mismatch| {
        let (found, rest) = mismatch.rsplit_once(", expected ")?;
        let (expected, place) = rest.find(" at line ").map_or((rest, ""), |at| rest.split_at(at));
        Some(format!("expected {}, found {}{place}", name_expected(expected), name_found(found)))
    });
    let variant = || {
        let (found, expected) = plain.strip_prefix("unknown variant ")?.split_once(", expected ")?;
        Some(format!("expected {expected}, found {found}"))
    };
    reworded.or_else(variant).unwrap_or(plain)
}

/// The message without the names of types of this program.
fn name_objects(message: &str) -> String {
    for words in TYPE_WORDS {
        if let Some((before, rest)) = message.split_once(words) {
            let name = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
            return format!("{before}expected an object{}", &rest[name..]);
        }
    }
    message.to_owned()
}

fn name_expected(expected: &str) -> &str {
    EXPECTED.iter().find(|(theirs, _)| *theirs == expected).map_or(expected, |(_, ours)| ours)
}

fn name_found(found: &str) -> String {
    let named = FOUND.iter().find_map(|(theirs, ours)| Some(format!("{ours}{}", found.strip_prefix(theirs)?)));
    let named = named.unwrap_or_else(|| found.to_owned());
    if found.ends_with('`') { named.trim_end_matches('`').to_owned() } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_program_are_named_as_people_know_them() {
        for (theirs, ours) in [
            ("invalid type: string \"x\", expected u64", "expected a whole number of at least 0, found the text \"x\""),
            (
                "invalid value: integer `-1`, expected u32",
                "expected a whole number from 0 to 4294967295, found the number -1",
            ),
            (
                "invalid type: map, expected a string at line 1 column 11",
                "expected a text, found an object at line 1 column 11",
            ),
            ("invalid type: boolean `true`, expected a sequence", "expected a list, found true"),
            (
                "invalid type: integer `3`, expected struct Limits at line 1",
                "expected an object, found the number 3 at line 1",
            ),
            ("unknown variant `x`, expected `a` or `b`", "expected `a` or `b`, found `x`"),
            ("missing field `a`", "missing field `a`"),
        ] {
            assert_eq!(describe_type_error(theirs), ours);
        }
    }
}
