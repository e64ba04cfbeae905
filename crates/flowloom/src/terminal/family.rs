//! Draws the family of a run: which run was forked from which.

use std::collections::HashMap;

use flowloom_app::runs::family_tree::{FamilyMember, FamilyTree};
use flowloom_core::id::RunId;

use super::report::paint_status;
use crate::style::{Style, paint_text};

/// Renders the family of a run as a tree; nothing for a run without relatives.
pub(crate) fn render_family(family: &FamilyTree, shown: RunId) -> String {
    if family.members.len() < 2 {
        return String::new();
    }
    let mut last_fork: HashMap<Option<RunId>, RunId> = HashMap::new();
    for member in &family.members {
        last_fork.insert(member.forked_from, member.run_id);
    }
    let is_last = |member: &FamilyMember| last_fork.get(&member.forked_from) == Some(&member.run_id);
    let mut out = "\nfamily\n".to_owned();
    // The indentation of the forks of each run.
    let mut indents: HashMap<RunId, String> = HashMap::new();
    for member in &family.members {
        let (lead, own) = match member.forked_from.and_then(|origin| indents.get(&origin)) {
            None => (String::new(), String::new()),
            Some(indent) if is_last(member) => (format!("{indent}└─ "), format!("{indent}   ")),
            Some(indent) => (format!("{indent}├─ "), format!("{indent}│  ")),
        };
        let at = member.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        let mark = if member.run_id == shown { paint_text(Style::Heading, " ←") } else { String::new() };
        out += &format!("  {lead}{} {}{at}{mark}\n", member.run_id, paint_status(&member.status));
        indents.insert(member.run_id, own);
    }
    if family.has_more {
        out += "  … and further runs\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use flowloom_core::path::Path;

    use super::*;
    use crate::style::apply_styles;

    fn new_member(number: u128, origin: Option<u128>) -> FamilyMember {
        let id = |number: u128| RunId(uuid::Uuid::from_u128(number));
        FamilyMember {
            run_id: id(number),
            forked_from: origin.map(id),
            at: origin.and_then(|_| Path::parse("/answer")),
            name: "poem".to_owned(),
            status: "succeeded".to_owned(),
            created_at: 0,
            finished_at: None,
        }
    }

    #[test]
    fn forks_stand_below_the_run_they_come_from() {
        let members = vec![
            new_member(1, None),
            new_member(2, Some(1)),
            new_member(3, Some(2)),
            new_member(4, Some(2)),
            new_member(5, Some(1)),
        ];
        let shown = members[2].run_id;
        let drawn = render_family(&FamilyTree { members, has_more: true }, shown);
        insta::assert_snapshot!(apply_styles(&drawn, false));
        let alone = FamilyTree { members: vec![new_member(1, None)], has_more: false };
        assert_eq!(render_family(&alone, shown), "");
    }
}
