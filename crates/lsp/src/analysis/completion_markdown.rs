//! What can be written at a position of a Markdown workflow.

use flowloom_core::chat::MODEL_OPTIONS;
use flowloom_core::diagnostic::Span;

use super::completion::{Context, Proposal, ProposalKind, is_configured, is_word};
use super::completion_frontmatter::list_frontmatter;
use super::elements::{ELEMENTS, GLOBALS, SCHEMA_BUILDERS, find_element, find_members};
use super::json_place::touches_offset;
use super::known::{KnownName, write_element_name};
use super::mdx::{Element, MdxDocument, plain_name};
use super::member_chain::{ChainBase, ChainLink, MemberChain, read_chain};
use super::names::{Name, NameKind, Role, ValueField};

impl Context<'_> {
    pub(super) fn list_markdown(&self, document: &MdxDocument) -> Vec<Proposal> {
        if let Some(range) = &document.frontmatter
            && range.start <= self.offset
            && self.offset <= range.end
        {
            return list_frontmatter(self.text(), range.clone(), self.word_span());
        }
        let is_here = |span: Span| touches_offset(span, self.offset);
        if let Some(expression) = document.expressions.iter().find(|expression| is_here(expression.span)) {
            let attribute = expression.attribute.as_ref();
            let element = attribute.and_then(|(index, name)| Some((document.elements.get(*index)?, name.as_str())));
            let spot = ExpressionSpot { document, element: element.map(|(element, _)| element) };
            return match element {
                Some((_, "tools")) => self.list_tools(),
                Some((_, "options")) if self.is_at_key() => self.list_options(),
                _ => self.list_expression(&spot),
            };
        }
        let tag = document.elements.iter().find(|element| element.tag.start < self.offset && is_here(element.tag));
        match tag {
            Some(element) if is_here(element.name_span) => self.list_elements(element.name_span.start - 1),
            Some(element) if self.offset < element.tag.end() || !self.text()[..self.offset].ends_with('>') => {
                self.list_attributes(element)
            }
            _ => self.list_elements_at_word(),
        }
    }

    /// The elements that can begin here: after a `<`, or as the first word of a line.
    fn list_elements_at_word(&self) -> Vec<Proposal> {
        let start = self.word_span().start;
        let before = &self.text()[..start];
        let line = before.trim_end_matches([' ', '\t']);
        if before.ends_with('<') {
            self.list_elements(start - 1)
        } else if line.is_empty() || line.ends_with('\n') {
            self.list_elements(start)
        } else {
            Vec::new()
        }
    }

    fn list_elements(&self, start: usize) -> Vec<Proposal> {
        let end = self.word_span().end();
        let replaces = Span { start, length: end - start };
        let propose = |element: &super::elements::ElementKind| Proposal {
            meaning: element.meaning.to_owned(),
            insert: element.skeleton.to_owned(),
            is_snippet: true,
            ..Proposal::new(element.name, ProposalKind::Skeleton, replaces)
        };
        let configured = self.known.functions.iter().filter(|function| is_configured(&function.name));
        let propose_call = |function: &KnownName| {
            let name = write_element_name(&function.name);
            Proposal {
                insert: format!("<{name} as=\"${{1:name}}\" $2/>"),
                is_snippet: true,
                detail: function.detail.clone(),
                ..Proposal::new(&name, ProposalKind::Skeleton, replaces)
            }
        };
        ELEMENTS.iter().map(propose).chain(configured.map(propose_call)).collect()
    }

    /// The name that an element gives its result, which its own attributes cannot read.
    fn find_own_name(&self, element: &Element) -> &str {
        let own = element.attributes.iter().find(|attribute| attribute.name == "as");
        let span = own.filter(|own| !own.is_expression).and_then(|own| own.value);
        span.and_then(|span| self.text().get(span.start..span.end())).unwrap_or_default()
    }

    /// Whether a key of an object can be written at the position.
    fn is_at_key(&self) -> bool {
        self.text()[..self.word_span().start].trim_end().ends_with(['{', ','])
    }

    /// The functions that a model can call, as strings.
    fn list_tools(&self) -> Vec<Proposal> {
        let is_part = |c: char| is_word(c) || matches!(c, ':' | '-' | '.');
        let (before, after) = self.text().split_at(self.offset);
        let length: usize = before.chars().rev().take_while(|c| is_part(*c)).map(char::len_utf8).sum();
        let rest: usize = after.chars().take_while(|c| is_part(*c)).map(char::len_utf8).sum();
        let replaces = Span { start: self.offset - length, length: length + rest };
        let is_quoted = before[..replaces.start].ends_with(['\'', '"', '`']);
        let propose = |function: &KnownName| {
            let insert = if is_quoted { function.name.clone() } else { format!("\"{}\"", function.name) };
            let proposal = Proposal::new(&function.name, ProposalKind::Name(NameKind::Function), replaces);
            Proposal { insert, detail: function.detail.clone(), ..proposal }
        };
        self.known.functions.iter().filter(|function| is_configured(&function.name)).map(propose).collect()
    }

    fn list_options(&self) -> Vec<Proposal> {
        let word = self.whole_word_span();
        let propose = |option: &&str| Proposal {
            insert: format!("{option}: $1"),
            is_snippet: true,
            ..Proposal::new(option, ProposalKind::Key, word)
        };
        MODEL_OPTIONS.iter().map(propose).collect()
    }

    fn list_attributes(&self, element: &Element) -> Vec<Proposal> {
        let value = element.attributes.iter().find(|attribute| {
            attribute.value.is_some_and(|value| value.start <= self.offset && self.offset <= value.end())
        });
        if let Some(attribute) = value {
            let replaces = attribute.value.unwrap_or_default();
            if attribute.name != "model" {
                let choices = list_choices(&element.name, &attribute.name);
                return choices.map(|choice| Proposal::new(choice, ProposalKind::Value, replaces)).collect();
            }
            let propose = |known: &KnownName| Proposal {
                detail: known.detail.clone(),
                ..Proposal::new(&known.name, ProposalKind::Name(NameKind::Model), replaces)
            };
            return self.known.models.iter().map(propose).collect();
        }
        let replaces = self.word_span();
        let is_there = |name: &str| element.attributes.iter().any(|one| one.name == name && one.value.is_some());
        let Some(kind) = find_element(&element.name) else {
            let function = self.known.find_called_function(&element.name);
            let arguments = function.into_iter().flat_map(list_arguments);
            let propose = |argument: KnownName| Proposal {
                insert: format!("{}={}", argument.name, write_argument(&argument)),
                is_snippet: true,
                detail: argument.detail,
                ..Proposal::new(&argument.name, ProposalKind::Key, replaces)
            };
            return arguments.filter(|argument| !is_there(&argument.name)).map(propose).collect();
        };
        let propose = |attribute: &super::elements::AttributeKind| Proposal {
            meaning: attribute.meaning.to_owned(),
            insert: format!("{}={}", attribute.name, attribute.value),
            is_snippet: true,
            ..Proposal::new(attribute.name, ProposalKind::Key, replaces)
        };
        kind.attributes.iter().filter(|attribute| !is_there(attribute.name)).map(propose).collect()
    }

    /// What an expression can name, except the result of its own element.
    fn list_expression(&self, spot: &ExpressionSpot<'_>) -> Vec<Proposal> {
        if let Some(replaces) = self.find_included() {
            let propose = |known: &KnownName| Proposal {
                detail: known.detail.clone(),
                ..Proposal::new(&known.name, ProposalKind::Value, replaces)
            };
            return self.known.texts.iter().map(propose).collect();
        }
        let word = self.whole_word_span();
        let before = &self.text()[..word.start];
        let mut names = self.definition.list_visible(self.file, self.offset, NameKind::Variable);
        let own = spot.element.map(|element| self.find_own_name(element)).unwrap_or_default();
        names.retain(|name| name.text != own);
        if let Some(object) = before.strip_suffix('.') {
            return read_chain(object).map(|chain| self.list_members(&chain, spot, &names, word)).unwrap_or_default();
        }
        let own = names.iter().map(|name| Proposal::of_name(name, word));
        let globals = GLOBALS.iter().map(|name| Proposal::new(name, ProposalKind::Member, word));
        own.chain(globals).collect()
    }

    /// The name between the quotes of an `include('…')`, if the position is in one.
    fn find_included(&self) -> Option<Span> {
        let (before, after) = self.text().split_at(self.offset);
        let quote = ['\'', '"', '`'].into_iter().filter_map(|quote| Some((before.rfind(quote)?, quote)));
        let (open, quote) = quote.max_by_key(|(at, _)| *at)?;
        let (written, rest) = (&before[open + 1..], after.find([quote, '\n', ')']).unwrap_or(0));
        let is_name = written.chars().all(|c| is_word(c) || matches!(c, '-' | '.' | '/'));
        let is_included = before[..open].trim_end().ends_with("include(");
        (is_included && is_name).then_some(Span { start: open + 1, length: written.len() + rest })
    }

    /// The members of a value.
    fn list_members(
        &self,
        chain: &MemberChain<'_>,
        spot: &ExpressionSpot<'_>,
        names: &[Name],
        replaces: Span,
    ) -> Vec<Proposal> {
        let propose = |member: &str, detail: &str| Proposal {
            detail: detail.to_owned(),
            ..Proposal::new(member, ProposalKind::Member, replaces)
        };
        let value = match (chain.base, chain.links.as_slice()) {
            (ChainBase::Text, []) => ValueField { type_name: "text".to_owned(), ..ValueField::default() },
            (ChainBase::Text, _) => return Vec::new(),
            (ChainBase::Name(helper), links) if helper.starts_with('$') => match links {
                [] => {
                    let helpers = self.list_helpers(helper, spot);
                    return helpers.iter().map(|known| propose(&known.name, &known.detail)).collect();
                }
                [ChainLink::Field("z")] => return SCHEMA_BUILDERS.iter().map(|name| propose(name, "")).collect(),
                [ChainLink::Field(field), rest @ ..] => {
                    let Some(iterations) = self.find_loop(helper, spot).and_then(|own| self.describe_loop(own)) else {
                        return Vec::new();
                    };
                    let value = match *field {
                        "self" => Some(iterations),
                        "last" => iterations.to_item(),
                        "index" => Some(ValueField { type_name: "number".to_owned(), ..ValueField::default() }),
                        _ => None,
                    };
                    match value.and_then(|value| follow_links(value, rest)) {
                        Some(value) => value,
                        None => return Vec::new(),
                    }
                }
                [ChainLink::Item, ..] => return Vec::new(),
            },
            (ChainBase::Name(object), links) => match names.iter().find(|name| name.text == object) {
                Some(name) => match follow_links(self.describe_value(name), links) {
                    Some(value) => value,
                    None => return Vec::new(),
                },
                None if links.is_empty() => ValueField { type_name: object.to_owned(), ..ValueField::default() },
                None => return Vec::new(),
            },
        };
        let fields = value.fields.iter().filter(|_| !value.is_list()).map(|field| propose(&field.name, "field"));
        let members = find_members(&value.type_name).iter().map(|(member, meaning)| propose(member, meaning));
        fields.chain(members).collect()
    }

    /// The value of a name, with the fields that the definition declares, or those of its last value.
    fn describe_value(&self, name: &Name) -> ValueField {
        let declared = self.definition.list_fields(name);
        let last = || self.list_value_fields(name).iter().map(|field| ValueField::new(field)).collect();
        let fields = if declared.is_empty() { last() } else { declared };
        ValueField { type_name: name.about.type_name.clone(), fields, ..ValueField::new(&name.text) }
    }

    /// The members of `$`, or of `$` with the name of a loop.
    fn list_helpers(&self, helper: &str, spot: &ExpressionSpot<'_>) -> Vec<KnownName> {
        let of_element = spot.element.filter(|element| helper == "$" || &helper[1..] == self.find_own_name(element));
        if let Some(element) = of_element {
            if plain_name(&element.name) == "genobject" {
                return vec![KnownName::new("z", "builds the schema of generated data")];
            }
            if let Some(function) = self.known.find_called_function(&element.name) {
                return function.helpers.clone();
            }
        }
        let members = if self.find_loop(helper, spot).is_some() { find_members("$") } else { &[] };
        members.iter().map(|(name, meaning)| KnownName::new(*name, *meaning)).collect()
    }

    /// The loop that `$`, or `$` with the name of a loop, belongs to.
    fn find_loop<'d>(&self, helper: &str, spot: &ExpressionSpot<'d>) -> Option<&'d Element> {
        let is_meant = |element: &&Element| {
            plain_name(&element.name) == "loop" && (helper == "$" || &helper[1..] == self.find_own_name(element))
        };
        // The attributes of other actions have a `$` of their own.
        if helper == "$" && spot.element.is_some_and(|element| plain_name(&element.name) != "loop") {
            return None;
        }
        let innermost = spot.document.find_element(self.offset).and_then(|index| spot.document.elements.get(index));
        let around = |element: &&'d Element| spot.document.elements.get(element.parent?);
        std::iter::successors(spot.element.or(innermost), around).find(is_meant)
    }

    /// The result of a loop.
    fn describe_loop(&self, element: &Element) -> Option<ValueField> {
        let name = Name::new(NameKind::Variable, self.find_own_name(element), Span::default(), Role::Read);
        let wanted = Name { scope: element.scope, ..name };
        Some(self.describe_value(self.definition.find_origin(&wanted)?))
    }
}

/// An expression of a document.
struct ExpressionSpot<'d> {
    document: &'d MdxDocument,
    /// The element in whose attribute it is.
    element: Option<&'d Element>,
}

/// The value to which fields and items of a value lead.
fn follow_links(value: ValueField, links: &[ChainLink<'_>]) -> Option<ValueField> {
    links.iter().try_fold(value, |value, link| match link {
        ChainLink::Field(name) => value.fields.iter().find(|field| field.name == *name && !value.is_list()).cloned(),
        ChainLink::Item => value.to_item(),
    })
}

/// The values of an attribute, if it has only some.
fn list_choices(element: &str, attribute: &str) -> impl Iterator<Item = &'static str> {
    let attributes = find_element(element).map(|kind| kind.attributes).unwrap_or_default();
    let value = attributes.iter().find(|one| one.name == attribute).map(|one| one.value);
    value.and_then(|value| value.split('|').nth(1)).into_iter().flat_map(|choices| choices.split(','))
}

/// The attributes of an element that calls a function.
fn list_arguments(function: &KnownName) -> impl Iterator<Item = KnownName> {
    std::iter::once(KnownName::new("as", "the name of the result")).chain(function.inputs.iter().cloned())
}

/// The value of an attribute of a call, as a snippet.
fn write_argument(argument: &KnownName) -> &'static str {
    let is_text = argument.name == "as" || argument.detail.starts_with("string");
    if is_text { "\"$1\"" } else { "{$1}" }
}
