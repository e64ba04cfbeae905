//! What can be written at a position of a Markdown workflow.

use flowloom_core::diagnostic::Span;
use flowloom_formats::markdown::MODEL_OPTIONS;

use super::completion::{Context, Proposal, ProposalKind, is_configured, is_word};
use super::completion_frontmatter::list_frontmatter;
use super::elements::{ELEMENTS, GLOBALS, SCHEMA_BUILDERS, find_element, find_members};
use super::json_place::touches_offset;
use super::known::KnownName;
use super::mdx::{Element, MdxDocument};
use super::names::{Name, NameKind};

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
            return match element {
                Some((_, "tools")) => self.list_tools(),
                Some((_, "options")) if self.is_at_key() => self.list_options(),
                Some((element, _)) => self.list_expression(self.find_own_name(element)),
                None => self.list_expression(""),
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
            let models = if attribute.name == "model" { self.known.models.as_slice() } else { &[] };
            let propose = |known: &KnownName| Proposal {
                detail: known.detail.clone(),
                ..Proposal::new(&known.name, ProposalKind::Name(NameKind::Model), replaces)
            };
            return models.iter().map(propose).collect();
        }
        let replaces = self.word_span();
        let Some(kind) = find_element(&element.name) else { return Vec::new() };
        let is_there = |name: &str| element.attributes.iter().any(|one| one.name == name && one.value.is_some());
        let propose = |attribute: &super::elements::AttributeKind| Proposal {
            meaning: attribute.meaning.to_owned(),
            insert: format!("{}={}", attribute.name, attribute.value),
            is_snippet: true,
            ..Proposal::new(attribute.name, ProposalKind::Key, replaces)
        };
        kind.attributes.iter().filter(|attribute| !is_there(attribute.name)).map(propose).collect()
    }

    /// What an expression can name, except `own`.
    fn list_expression(&self, own: &str) -> Vec<Proposal> {
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
        names.retain(|name| name.text != own);
        if let Some(object) = before.strip_suffix('.') {
            // An item of a list has the fields of the list.
            let (list, is_item) = match object.strip_suffix(']').and_then(find_open_bracket) {
                Some(at) => (&object[..at], true),
                None => (object, false),
            };
            if list.ends_with("$.z") {
                let propose = |name: &&str| Proposal::new(name, ProposalKind::Member, word);
                return SCHEMA_BUILDERS.iter().map(propose).collect();
            }
            let length: usize = list.chars().rev().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
            return self.list_members(&list[list.len() - length..], is_item, &names, word);
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

    /// The members of a value, or of an item of it if it is a list.
    fn list_members(&self, object: &str, is_item: bool, names: &[Name], replaces: Span) -> Vec<Proposal> {
        let propose = |(member, meaning): &(&str, &str)| Proposal {
            detail: (*meaning).to_owned(),
            ..Proposal::new(member, ProposalKind::Member, replaces)
        };
        let name = names.iter().find(|name| name.text == object);
        let is_list = name.is_some_and(|name| name.about.type_name == "list");
        let fields = name.filter(|_| is_list == is_item).map(|name| self.list_value_fields(name)).unwrap_or_default();
        let fields = fields.iter().map(|field| Proposal {
            detail: "field".to_owned(),
            ..Proposal::new(field, ProposalKind::Member, replaces)
        });
        let is_helper = object.starts_with('$');
        let members = match name {
            _ if is_item => &[],
            Some(name) => find_members(&name.about.type_name),
            None if is_helper => find_members("$"),
            None => find_members(object),
        };
        fields.chain(members.iter().map(propose)).collect()
    }
}

/// The element that calls a function: its words, each with a capital letter.
fn write_element_name(function: &str) -> String {
    let words = function.split([':', '_', '.', '-']).filter(|word| !word.is_empty());
    let capitalise = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}", first.to_uppercase())
    };
    words.map(capitalise).collect()
}

/// The innermost bracket at the end of a text that has no end there; `None` if there are others after it.
fn find_open_bracket(text: &str) -> Option<usize> {
    text.rfind('[').filter(|at| !text[*at..].contains(']'))
}
