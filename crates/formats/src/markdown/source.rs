//! Checks a text against limits before it is parsed, in one pass. Texts beyond anything that people write are rejected,
//! because the parser needs quadratic time for some of them.

/// Maximum size of a file, in bytes.
pub(super) const MAX_FILE_BYTES: usize = 256 << 10;

/// Maximum number of lines.
const MAX_LINES: usize = 8_000;

/// Maximum nesting of lists, quotes and brackets.
const MAX_NESTING: usize = 64;

/// Maximum number of attributes in one paragraph. An action has far fewer; the time to parse an element grows with
/// their number.
const MAX_PARAGRAPH_ATTRIBUTES: usize = 5_000;

/// Limit of the total work: for each paragraph, its length in bytes times the number of marks to which the parser may
/// backtrack.
const MAX_PARSE_WORK: usize = 40 << 20;

/// Checks a text; the error is a message.
pub(super) fn check_limits(text: &str) -> Result<(), String> {
    if text.len() > MAX_FILE_BYTES {
        return Err(format!("the text has {} bytes, and the limit is {MAX_FILE_BYTES}", text.len()));
    }
    let (mut work, mut length, mut marks, mut attributes) = (0usize, 0usize, 0usize, 0usize);
    // A carriage return alone ends a line, too.
    let lines = text.lines().flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    for (index, line) in lines.enumerate() {
        let line_number = index + 1;
        if line_number > MAX_LINES {
            return Err(format!("the text has more than {MAX_LINES} lines"));
        }
        if container_depth(line) > MAX_NESTING {
            return Err(format!("line {line_number} is nested more than {MAX_NESTING} levels deep"));
        }
        if line.trim().is_empty() {
            work += length * marks;
            (length, marks, attributes) = (0, 0, 0);
        }
        // White space is allowed between the sign and the value.
        attributes += line.split('=').skip(1).filter(|rest| starts_value(rest.trim_start())).count();
        if attributes > MAX_PARAGRAPH_ATTRIBUTES {
            return Err(format!(
                "the paragraph with line {line_number} has more than {MAX_PARAGRAPH_ATTRIBUTES} attributes"
            ));
        }
        length += line.len() + 1;
        marks += line
            .bytes()
            .filter(|byte| matches!(byte, b'[' | b']' | b'*' | b'_' | b'`' | b'<' | b'{' | b'}' | b'!'))
            .count();
        if work + length * marks > MAX_PARSE_WORK {
            return Err(format!(
                "the paragraph that ends at line {line_number} has too many marks of emphasis, links, code or expressions"
            ));
        }
    }
    Ok(())
}

/// Whether the value of an attribute may be at the start of the rest of a line, or below it.
fn starts_value(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['"', '\'', '{'])
}

/// The number of list and quote marks at the start of a line.
fn container_depth(line: &str) -> usize {
    let bytes = line.as_bytes();
    // A nested list is indented by at least two spaces.
    let indent = bytes.iter().take_while(|byte| **byte == b' ').count();
    let mut levels = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let is_alone = matches!(bytes.get(at + 1), None | Some(b' ' | b'\t'));
        match byte {
            b' ' | b'\t' | b'0'..=b'9' => {}
            b'>' => levels += 1,
            b'-' | b'+' | b'*' | b'.' | b')' if is_alone => levels += 1,
            _ => break,
        }
    }
    if levels == 0 { 0 } else { levels + indent / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_ending_counts() {
        for ending in ["\n", "\r", "\r\n"] {
            let line = format!("a{ending}");
            assert_eq!(check_limits(&line.repeat(MAX_LINES)), Ok(()), "{ending:?}");
            let message = format!("the text has more than {MAX_LINES} lines");
            assert_eq!(check_limits(&line.repeat(MAX_LINES + 1)), Err(message), "{ending:?}");
        }
    }
}
