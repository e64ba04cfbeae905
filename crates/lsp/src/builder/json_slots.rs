//! The items of a list, or the entries of an object, as they are written: each with the comments around it.

use flowloom_core::json::{Node, NodeKind};

use super::json_write::find_indent;

/// Characters of a first entry that stays on the line of its brackets.
const MAX_INLINE_CHARS: usize = 40;

/// The content of a list or an object between its brackets.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) slots: Vec<Slot>,
    /// Whether a comma follows the last one.
    has_last_comma: bool,
    /// The text between the last item and the closing bracket.
    rest: String,
    first_lead: Option<String>,
    other_lead: String,
}

/// An item or an entry.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The white space and the comments above it.
    pub(super) lead: String,
    /// The text of the item.
    pub(super) body: String,
    /// The comments behind it, on the same line.
    pub(super) tail: String,
}

impl Slots {
    /// The slots of a list or an object; `None` for another value.
    pub(super) fn read(text: &str, container: &Node, unit: &str) -> Option<Slots> {
        let places: Vec<(usize, usize)> = match &container.kind {
            NodeKind::List(items) => items.iter().map(|item| (item.span.start, item.span.end())).collect(),
            NodeKind::Map(entries) => entries.iter().map(|(_, key, value)| (key.start, value.span.end())).collect(),
            _ => return None,
        };
        let close = container.span.end() - 1;
        let (mut slots, mut has_last_comma) = (Vec::new(), false);
        let mut at = container.span.start + 1;
        at += measure_line_comment(&text[at..close]);
        let opening = text[container.span.start + 1..at].to_owned();
        for (start, end) in places {
            let lead = text[at..start].to_owned();
            let gap = measure_gap(&text[end..close]);
            has_last_comma = text[end + gap..close].starts_with(',');
            let between = if has_last_comma { gap } else { 0 };
            let after = end + between + usize::from(has_last_comma);
            let behind = measure_line_comment(&text[after..close]);
            let tail = format!("{}{}", text[end..end + between].trim_end(), &text[after..after + behind]);
            slots.push(Slot { lead, body: text[start..end].to_owned(), tail });
            at = after + behind;
        }
        let rest = text[at..close].to_owned();
        if let Some(first) = slots.first_mut() {
            first.lead.insert_str(0, &opening);
        }
        let is_blank = |lead: &&Slot| lead.lead.trim().is_empty();
        let last_line = |lead: &str| lead.rfind('\n').map(|at| lead[at..].to_owned());
        let broken = slots.iter().find_map(|slot| last_line(&slot.lead));
        let other_lead = slots.get(1).filter(is_blank).map(|slot| slot.lead.clone());
        let other_lead = broken.or(other_lead).unwrap_or_else(|| match slots.is_empty() {
            true => format!("\n{}{unit}", find_indent(text, container.span.start)),
            false => " ".to_owned(),
        });
        let first_lead = slots.first().filter(is_blank).map(|slot| slot.lead.clone());
        let rest = if slots.is_empty() { format!("{opening}{rest}") } else { rest };
        Some(Slots { slots, has_last_comma, rest, first_lead, other_lead })
    }

    /// Adds a new one.
    pub(super) fn insert(&mut self, at: usize, body: String, indent: &str) {
        let at = at.min(self.slots.len());
        if self.slots.is_empty() && self.rest.trim().is_empty() {
            let is_short = !body.contains('\n') && body.chars().count() <= MAX_INLINE_CHARS;
            let lead = if is_short { String::new() } else { self.other_lead.clone() };
            self.rest = if is_short { String::new() } else { format!("\n{indent}") };
            self.slots.push(Slot { lead, body, tail: String::new() });
            return;
        }
        let was_first = self.slots.first().map(|slot| slot.lead.clone());
        self.slots.insert(at, Slot { lead: self.other_lead.clone(), body, tail: String::new() });
        self.repair_first(was_first.as_deref());
    }

    /// Moves one to another position.
    pub(super) fn move_slot(&mut self, from: usize, to: usize) {
        let was_first = self.slots.first().map(|slot| slot.lead.clone());
        let slot = self.slots.remove(from);
        self.slots.insert(to.min(self.slots.len()), slot);
        self.repair_first(was_first.as_deref());
    }

    /// Removes one.
    pub(super) fn remove(&mut self, at: usize) {
        let was_first = self.slots.first().map(|slot| slot.lead.clone());
        self.slots.remove(at);
        self.repair_first(was_first.as_deref());
    }

    /// Gives the first one the lead of a first one, and the one that was first that of the others.
    fn repair_first(&mut self, was_first: Option<&str>) {
        let Some(first_lead) = self.first_lead.clone() else { return };
        let other_lead = self.other_lead.clone();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_blank = slot.lead.trim().is_empty();
            if is_blank && index == 0 {
                slot.lead.clone_from(&first_lead);
            } else if is_blank && Some(slot.lead.as_str()) == was_first && first_lead != other_lead {
                slot.lead.clone_from(&other_lead);
            }
        }
    }

    /// The content between the brackets.
    pub(super) fn write(&self) -> String {
        let mut out = String::new();
        let mut is_in_comment = false;
        for (index, slot) in self.slots.iter().enumerate() {
            push_after(&mut out, is_in_comment, &slot.lead);
            out.push_str(&slot.body);
            if index + 1 < self.slots.len() || self.has_last_comma {
                out.push(',');
            }
            out.push_str(&slot.tail);
            is_in_comment = slot.tail.contains("//");
        }
        if !self.slots.is_empty() || !self.rest.trim().is_empty() {
            push_after(&mut out, is_in_comment, &self.rest);
        }
        out
    }
}

/// Adds a piece; after a comment to the end of a line it begins a new one.
fn push_after(out: &mut String, is_in_comment: bool, piece: &str) {
    if is_in_comment && !piece.trim_start_matches([' ', '\t', '\r']).starts_with('\n') {
        out.push('\n');
    }
    out.push_str(piece);
}

/// Bytes of white space and comments at the start of a text.
fn measure_gap(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        let rest = &rest[blank..];
        let comment = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            return at + blank;
        };
        at += blank + comment;
    }
}

/// Bytes of the comment that ends the line at the start of a text, with the blanks before it; 0 if there is none.
fn measure_line_comment(text: &str) -> usize {
    let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
    let rest = &text[blank..];
    if rest.starts_with("//") {
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
        return blank + line.trim_end_matches('\r').len();
    }
    let Some(end) = rest.starts_with("/*").then(|| rest.find("*/")).flatten() else { return 0 };
    let ends_line = rest[end + 2..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
    if ends_line && !rest[..end].contains('\n') { blank + end + 2 } else { 0 }
}
