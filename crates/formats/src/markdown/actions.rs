//! Elements as actions: names and attributes.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Span, find_similar_name};
use markdown::mdast::{AttributeContent, AttributeValue, Node};

use super::MarkdownCompiler;
use super::nodes::{node_range, read_element};
use super::parse::TextPiece;
use super::text::is_comment;

/// The built-in actions, as they are written.
pub(super) const BUILT_IN_ACTIONS: [&str; 4] = ["GenText", "GenObject", "Loop", "Cond"];

/// Maximum number of attributes of an action.
const MAX_ATTRIBUTES: usize = 64;

/// An action in the source.
pub(super) struct Action<'n> {
    /// The name in kebab case.
    pub(super) name: String,
    /// The name as written.
    pub(super) written: &'n str,
    pub(super) attributes: Vec<Attribute<'n>>,
    pub(super) children: &'n [Node],
    /// The range of the name in the opening tag.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// An attribute.
pub(super) struct Attribute<'n> {
    /// The name in camel case.
    pub(super) name: String,
    pub(super) value: ActionValue<'n>,
    /// The range of the name in the text.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The value of an attribute.
pub(super) enum ActionValue<'n> {
    /// No value.
    Bare,
    /// A string literal.
    Text(&'n str),
    /// An expression.
    Expression(TextPiece<'n>),
}

/// The name in kebab case: `GenText` and `genText` become `gen-text`.
pub(super) fn to_kebab_case(name: &str) -> String {
    let mut out = String::new();
    let mut before = '-';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_alphanumeric() && !before.is_ascii_uppercase() {
            out.push('-');
        }
        if matches!(c, '_' | ':' | '.' | '-') {
            if before != '-' {
                out.push('-');
            }
            before = '-';
            continue;
        }
        out.push(c.to_ascii_lowercase());
        before = c;
    }
    out
}

/// Whether an element has the name of an `<Else>`.
pub(super) fn is_else(name: &str) -> bool {
    to_kebab_case(name) == "else"
}

/// The name in camel case: `schema-name` becomes `schemaName`.
fn to_camel_case(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in name.chars() {
        match c {
            '-' | '_' => upper = !out.is_empty(),
            c if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}

/// The start of the name of an action is taken for the action from this length on.
const MIN_START_CHARS: usize = 3;

/// Words of other languages for actions.
const SYNONYMS: [(&str, &str); 4] = [
    ("Cond", "if when switch branch"),
    ("Loop", "for for-each foreach while repeat each map"),
    ("GenText", "generate prompt llm text ask chat"),
    ("GenObject", "object json generate-json"),
];

impl<'n> Action<'n> {
    /// The attribute called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&Attribute<'n>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

impl MarkdownCompiler<'_> {
    /// Whether an element of this name (in kebab case) is an action.
    pub(super) fn is_action(&self, name: &str) -> bool {
        BUILT_IN_ACTIONS.iter().any(|known| to_kebab_case(known) == name) || self.find_function(name).is_some()
    }

    /// The declared function that an action with this name calls.
    pub(super) fn find_function(&self, name: &str) -> Option<String> {
        let configured = self.sources.functions.iter().find(|function| to_kebab_case(function) == name).cloned();
        configured.or_else(|| self.find_tool(name))
    }

    /// The MCP tool that an action with this name calls. If the server has not been queried, any tool is assumed to
    /// exist, in snake case.
    fn find_tool(&self, name: &str) -> Option<String> {
        self.sources.servers.iter().find_map(|server| {
            let rest = name.strip_prefix(&to_kebab_case(&server.name))?.strip_prefix('-')?;
            let tool = match &server.tools {
                Some(tools) => tools.iter().find(|tool| to_kebab_case(&tool.name) == rest)?.name.clone(),
                None => rest.replace('-', "_"),
            };
            Some(format!("{}::{tool}", server.name))
        })
    }

    /// The action that an unknown element may be a misspelling of.
    pub(super) fn suggest_action(&self, name: &str) -> Option<String> {
        let starts_large = name.starts_with(|c: char| c.is_ascii_uppercase());
        let (plain, all) = (to_kebab_case(name), || BUILT_IN_ACTIONS.iter().copied());
        let is_start = |known: &str| plain.len() >= MIN_START_CHARS && known.starts_with(&plain);
        let is_part = |known: &&str| plain.starts_with(&to_kebab_case(known)) || is_start(&to_kebab_case(known));
        let synonym = SYNONYMS.iter().find(|(_, words)| words.split(' ').any(|word| word == plain));
        let meant = find_similar_name(name, all()).or_else(|| synonym.map(|(action, _)| *action));
        meant.or_else(|| all().find(is_part)).filter(|_| starts_large).map(str::to_owned)
    }

    /// The action of a block element; `None` for every other node.
    pub(super) fn read_action<'n>(&mut self, node: &'n Node, text: &'n TextPiece<'n>) -> Option<Action<'n>> {
        let (written, _) = read_element(node)?;
        if !self.is_action(&to_kebab_case(written?)) {
            return None;
        }
        self.read_block(node, text)
    }

    /// A block element as an action, whatever its name.
    pub(super) fn read_block<'n>(&mut self, node: &'n Node, text: &'n TextPiece<'n>) -> Option<Action<'n>> {
        let Node::MdxJsxFlowElement(flow) = node else { return None };
        let (written, children) = read_element(node)?;
        let written = written?;
        let name = to_kebab_case(written);
        let start = node_range(node).start + 1;
        let end = start + written.len();
        let attributes = self.read_attributes(&flow.attributes, text, end);
        let has_content = children.iter().any(|child| !is_comment(child, text.text));
        let children = if has_content { children } else { &[] };
        Some(Action { name, written, attributes, children, start, end })
    }

    fn read_attributes<'n>(
        &mut self,
        contents: &'n [AttributeContent],
        text: &'n TextPiece<'n>,
        from: usize,
    ) -> Vec<Attribute<'n>> {
        let mut at = from;
        let mut attributes: Vec<Attribute<'n>> = Vec::new();
        if contents.len() > MAX_ATTRIBUTES {
            let message = format!("an action has more than {MAX_ATTRIBUTES} attributes");
            self.report_error(text, Code::TooComplex, from, from + 1, message);
            return attributes;
        }
        for content in contents {
            match content {
                AttributeContent::Expression(spread) if self.recover_missing_equals(text, at, attributes.last()) => {
                    at = spread.stops.last().map_or(at, |(from, to)| to + spread.value.len() - from);
                    if let Some(last) = attributes.last_mut() {
                        last.value = ActionValue::Expression(text.expression_piece(&spread.value, &spread.stops));
                    }
                }
                AttributeContent::Expression(spread) => {
                    let end = spread.stops.last().map_or(at, |(from, to)| to + spread.value.len() - from);
                    let message = "an attribute must be a name with a value; {...} is not allowed on an action";
                    self.report_error(
                        text,
                        Code::AttributeSyntax,
                        find_brace(text.text, at),
                        end + 1,
                        message.to_owned(),
                    )
                    .help = Some("write each attribute by itself: name=\"text\" or name={expression}".into());
                    at = end;
                }
                AttributeContent::Property(property) => {
                    let start = text.text[at..].find(&property.name).map_or(at, |found| at + found);
                    let end = start + property.name.len();
                    at = end;
                    let value = match &property.value {
                        None => ActionValue::Bare,
                        Some(AttributeValue::Literal(literal)) => {
                            at = literal_end(text.text, end);
                            ActionValue::Text(literal)
                        }
                        Some(AttributeValue::Expression(expression)) => {
                            let stops = &expression.stops;
                            at = stops.last().map_or(at, |(from, to)| to + expression.value.len() - from);
                            ActionValue::Expression(text.expression_piece(&expression.value, stops))
                        }
                    };
                    let name = to_camel_case(&property.name);
                    if attributes.iter().any(|other| other.name == name) {
                        let message = format!("the attribute {name} is given twice");
                        self.report_error(text, Code::ActionAttribute, start, end, message);
                        continue;
                    }
                    attributes.push(Attribute { name, value, start, end });
                }
            }
        }
        attributes
    }

    /// Whether an expression directly follows the name of an attribute. That is reported, and the expression is then
    /// used as the value.
    fn recover_missing_equals(&mut self, text: &TextPiece<'_>, at: usize, last: Option<&Attribute<'_>>) -> bool {
        let Some(last) = last.filter(|last| matches!(last.value, ActionValue::Bare)) else { return false };
        if last.end != at || !text.text[at..].starts_with('{') {
            return false;
        }
        let message = format!("an equals sign is missing between {} and its value", last.name);
        let title = format!("write {}={{…}} with an equals sign", last.name);
        let span = text.file_span(at, at);
        let diagnostic = self.report_error(text, Code::MarkdownSyntax, at, at + 1, message);
        diagnostic.help = Some(title.clone());
        diagnostic.fix = Some(Fix::new_safe(title, vec![(span, "=".to_owned())]));
        true
    }

    /// Reports a missing or invalid attribute.
    pub(super) fn attribute_error(
        &mut self,
        action: &Action<'_>,
        name: &str,
        problem: &str,
        text: &TextPiece<'_>,
    ) -> &mut Diagnostic {
        let (start, end) = action.get(name).map_or((action.start, action.end), |given| (given.start, given.end));
        let message = format!("the attribute {name} of <{}> {problem}", action.written);
        self.report_error(text, Code::ActionAttribute, start, end, message)
    }

    /// A required string literal.
    pub(super) fn read_literal<'n>(
        &mut self,
        action: &Action<'n>,
        name: &str,
        text: &TextPiece<'_>,
    ) -> Option<&'n str> {
        let problem = match action.get(name).map(|attribute| &attribute.value) {
            Some(ActionValue::Text(literal)) if !literal.trim().is_empty() => return Some(literal),
            None => "is required",
            Some(ActionValue::Text(_) | ActionValue::Bare) => "is empty",
            Some(ActionValue::Expression(_)) => "must be a string in quotes, not an expression",
        };
        self.attribute_error(action, name, problem, text).help = Some(format!("write {name}=\"…\""));
        None
    }

    /// Warns about attributes without effect.
    pub(super) fn warn_unused_attributes(&mut self, action: &Action<'_>, known: &[&str], text: &TextPiece<'_>) {
        for attribute in &action.attributes {
            if known.contains(&attribute.name.as_str()) {
                continue;
            }
            let message = format!("the attribute {} of <{}> has no effect", attribute.name, action.written);
            let meant = self.problems.find_similar(&attribute.name, known.iter().copied());
            let span: Span = text.file_span(attribute.start, attribute.end);
            let diagnostic = self.problems.add_warning(Code::IgnoredKey, span, message);
            let help = || match known {
                [] => format!("<{}> has no attributes", action.written),
                known => format!("<{}> has {}", action.written, known.join(", ")),
            };
            diagnostic.suggest_or_help(meant.map(str::to_owned), help);
        }
    }
}

fn find_brace(text: &str, from: usize) -> usize {
    text.get(from..).and_then(|rest| rest.find('{')).map_or(from, |found| from + found)
}

/// The end of the first string literal after `from`.
fn literal_end(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let Some(open) = rest.find(['"', '\'']) else { return from };
    let quote = rest[open..].chars().next().unwrap_or('"');
    rest[open + 1..].find(quote).map_or(from, |close| from + open + close + 2)
}
