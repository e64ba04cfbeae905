//! Looks at a text before it is parsed, in one pass: what is larger, deeper or more tangled than anything that a person
//! writes is refused, because the parser's work grows with the square of it.

/// Bytes of a file at most.
pub(super) const BYTES: usize = 256 << 10;

/// Lines of a file at most.
const LINES: usize = 8_000;

/// Levels of lists, quotes and brackets at most.
const NESTING: usize = 64;

/// Attributes in one paragraph at most; an action has far fewer, and no element is read faster than its attributes.
const ATTRIBUTES: usize = 5_000;

/// For each paragraph: its length times the number of marks in it that the parser may go back to; in all.
const WORK: usize = 40 << 20;

/// Why a text is refused; nothing if it is not.
pub(super) fn scan(text: &str) -> Result<(), String> {
    if text.len() > BYTES {
        return Err(format!("the text has {} bytes, and the limit is {BYTES}", text.len()));
    }
    let (mut work, mut length, mut marks, mut attributes) = (0usize, 0usize, 0usize, 0usize);
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line_number > LINES {
            return Err(format!("the text has more than {LINES} lines"));
        }
        if containers(line) > NESTING {
            return Err(format!("line {line_number} is nested more than {NESTING} levels deep"));
        }
        if line.trim().is_empty() {
            work += length * marks;
            (length, marks, attributes) = (0, 0, 0);
        }
        attributes += line.as_bytes().windows(2).filter(|pair| matches!(pair, [b'=', b'"' | b'\'' | b'{'])).count();
        if attributes > ATTRIBUTES {
            return Err(format!("the paragraph with line {line_number} has more than {ATTRIBUTES} attributes"));
        }
        length += line.len() + 1;
        marks += line
            .bytes()
            .filter(|byte| matches!(byte, b'[' | b']' | b'*' | b'_' | b'`' | b'<' | b'{' | b'}' | b'!'))
            .count();
        if work + length * marks > WORK {
            return Err(format!(
                "the paragraph that ends at line {line_number} has too many marks of emphasis, links, code or expressions"
            ));
        }
    }
    Ok(())
}

/// Marks of lists and quotes at the start of a line.
fn containers(line: &str) -> usize {
    let bytes = line.as_bytes();
    // A list inside a list is indented by two blanks at least.
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
