//! Warns about actions that do not run: there are none, or a code block that is not closed hides them.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::plan::{Composite, Step, StepKind};
use markdown::mdast::Node;

use super::MarkdownCompiler;
use super::actions::to_kebab_case;
use super::nodes::node_range;
use super::parse::TextPiece;

impl MarkdownCompiler<'_> {
    /// Warns if no model is asked.
    pub(super) fn warn_without_action(&mut self, nodes: &[&Node], root: &Step, text: &TextPiece<'_>) {
        let has_hidden = self.warn_unclosed_fences(nodes.iter().copied(), text);
        let mut has_action = false;
        root.visit(&mut |step| {
            has_action |=
                !matches!(step.kind, StepKind::Composite(Composite::Sequence(_) | Composite::AppendMessage(_)));
        });
        if !has_action && !has_hidden && !self.problems.has_errors() {
            let message = "no action: no model is asked, and the output is the text of the file";
            self.problems.add_warning(Code::NoAction, Span::default(), message).help =
                Some("write an action below a prompt: <GenText as=\"answer\" model=\"…\" />".into());
        }
    }

    /// Warns about code blocks that last to the end of the text and contain an action. Returns whether there are any.
    fn warn_unclosed_fences<'n>(&mut self, nodes: impl Iterator<Item = &'n Node>, text: &TextPiece<'_>) -> bool {
        let mut has_hidden = false;
        for node in nodes {
            let range = node_range(node);
            let source = &text.text[range.clone()];
            let hidden = matches!(node, Node::Code(_)).then(|| self.find_hidden_action(source)).flatten();
            if let Some(action) = hidden {
                has_hidden = true;
                let line_end = range.start + source.find('\n').unwrap_or(source.len());
                let message =
                    format_args!("this code block is not closed, so the action <{action}> below is only text");
                let fence = source.trim_start().chars().take_while(|c| matches!(c, '`' | '~')).collect::<String>();
                let span = text.file_span(range.start, line_end);
                self.problems.add_warning(Code::UnclosedFence, span, message).help =
                    Some(format!("write {fence} on a line of its own where the code ends"));
            }
            has_hidden |= self.warn_unclosed_fences(node.children().into_iter().flatten(), text);
        }
        has_hidden
    }

    /// The first action in the source of a fenced code block that is not closed.
    fn find_hidden_action<'s>(&self, source: &'s str) -> Option<&'s str> {
        let mark = source.trim_start().chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let fence = source.trim_start().chars().take_while(|c| *c == mark).count();
        let closes = |line: &str| line.trim().len() >= fence && line.trim().chars().all(|c| c == mark);
        if source.lines().skip(1).last().is_some_and(closes) {
            return None;
        }
        let names = source.split('<').skip(1).map(|rest| {
            let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
            &rest[..length]
        });
        names.filter(|name| !name.is_empty()).find(|name| self.is_action(&to_kebab_case(name)))
    }
}
