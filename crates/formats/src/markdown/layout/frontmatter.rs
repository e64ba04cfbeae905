//! The order of the sections of the frontmatter: `title`, `system`, `data`, `input`, then others as they are written.
//!
//! Sections are moved as text, so comments and quotation stay. The order inside a section is the author's: it is the
//! order in which inputs are asked for.

use super::super::frontmatter::parse_yaml;
use crate::layout::find_line_end;

const SECTIONS: [&str; 4] = ["title", "system", "data", "input"];

/// The frontmatter with its sections in order and without empty lines between them; `None` if nothing changes, or it cannot be taken apart.
pub(super) fn sort_sections(yaml: &str) -> Option<String> {
    let plain = yaml.replace("\r\n", "\n");
    let mut sections: Vec<(usize, String)> = Vec::new();
    let mut above = String::new();
    for line in plain.lines() {
        let line = format!("{line}\n");
        match section_name(&line) {
            Some(name) => {
                let place = SECTIONS.iter().position(|known| *known == name).unwrap_or(SECTIONS.len());
                let above = std::mem::take(&mut above);
                sections.push((place, above.trim_start_matches('\n').to_owned() + &line));
            }
            None if line.starts_with([' ', '\t', '-']) => {
                let (_, section) = sections.last_mut()?;
                section.push_str(&std::mem::take(&mut above));
                section.push_str(&line);
            }
            // A comment or an empty line belongs to what follows.
            None if line.starts_with('#') || line.trim().is_empty() => above.push_str(&line),
            None => return None,
        }
    }
    sections.sort_by_key(|(place, _)| *place);
    let mut sorted: String = sections.into_iter().map(|(_, section)| section).collect();
    sorted.push_str(&above);
    sorted.truncate(sorted.trim_end_matches('\n').len());
    // References to values of other sections depend on the order.
    let is_same = parse_yaml(&plain).is_ok_and(|old| parse_yaml(&sorted).is_ok_and(|new| old == new));
    (is_same && sorted != plain && !plain.contains('\r')).then(|| sorted.replace('\n', find_line_end(yaml)))
}

/// The key of a line that starts a section.
fn section_name(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    (is_name && rest.starts_with([' ', '\n'])).then_some(name)
}
