//! The fields of a leaf under the names that people know: what it reads, and what makes it differ from another one.

use std::sync::Arc;

use super::http::{BodySpec, HttpSpec};
use super::leaf::{Block, BlockCode, Generate};
use crate::chat::Role;
use crate::expr::{Data, Expr, Template};
use crate::value::Value;

/// A field of a leaf.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'static str,
    /// The content of the field.
    pub content: FieldContent<'a>,
    /// Whether its names are variables of the run; those of a block's prompt are the block's own inputs.
    pub reads_variables: bool,
}

/// The content of a field.
#[derive(Clone, Debug)]
pub enum FieldContent<'a> {
    /// A fixed text.
    Fixed(String),
    /// A text with references.
    Text(&'a Template),
    /// A value with references.
    Data(&'a Data),
    /// The entries of an object.
    Entries(&'a Data),
    /// An expression.
    Expr(&'a Expr),
    /// A JSON Schema.
    Schema(&'a Value),
    /// Messages of a conversation.
    Messages(&'a [(Role, Data)]),
    /// Pairs of texts, for example headers.
    TextPairs(&'a [(Template, Template)]),
    /// Arguments: names and expressions.
    Arguments(&'a [(Arc<str>, Expr)]),
    /// Names, each with the variable that is its value.
    Variables(&'a [(Arc<str>, Arc<str>)]),
}

impl FieldContent<'_> {
    /// Calls `visit` with each name that it refers to.
    pub fn visit_names(&self, visit: &mut dyn FnMut(&Arc<str>)) {
        match self {
            FieldContent::Fixed(_) | FieldContent::Schema(_) => {}
            FieldContent::Text(text) => text.visit_names(visit),
            FieldContent::Data(data) | FieldContent::Entries(data) => data.visit_names(visit),
            FieldContent::Expr(expr) => expr.visit_names(visit),
            FieldContent::Messages(messages) => messages.iter().for_each(|(_, data)| data.visit_names(visit)),
            FieldContent::TextPairs(pairs) => {
                pairs.iter().flat_map(|(name, value)| [name, value]).for_each(|text| text.visit_names(visit));
            }
            FieldContent::Arguments(arguments) => arguments.iter().for_each(|(_, value)| value.visit_names(visit)),
            FieldContent::Variables(rows) => rows.iter().for_each(|(_, variable)| visit(variable)),
        }
    }
}

impl Generate {
    /// The fields of the model call, in the order in which people read them.
    pub fn list_fields(&self) -> Vec<Field<'_>> {
        let mut fields = FieldList::default();
        fields.add_if("model", self.model.as_ref().map(FieldContent::Text));
        fields.add_if("system", self.system.as_ref().map(FieldContent::Data));
        fields.add_field("prompt", FieldContent::Messages(&self.messages));
        fields.add_if("schema", self.schema.as_ref().map(FieldContent::Schema));
        fields.add_fixed("options", self.options.list_given().join("\n"));
        fields.add_if("computed options", self.computed.as_ref().map(FieldContent::Expr));
        fields.add_if("conversation", self.thread.as_ref().map(|thread| FieldContent::Fixed(thread.to_string())));
        fields.0
    }
}

/// The fields of a leaf, as they are collected.
#[derive(Default)]
pub(super) struct FieldList<'a>(pub(super) Vec<Field<'a>>);

impl<'a> FieldList<'a> {
    pub(super) fn add_field(&mut self, name: &'static str, content: FieldContent<'a>) {
        self.0.push(Field { name, content, reads_variables: true });
    }

    pub(super) fn add_if(&mut self, name: &'static str, content: Option<FieldContent<'a>>) {
        content.into_iter().for_each(|content| self.add_field(name, content));
    }

    pub(super) fn add_fixed(&mut self, name: &'static str, text: impl Into<String>) {
        self.add_field(name, FieldContent::Fixed(text.into()));
    }

    pub(super) fn add_http(&mut self, http: &'a HttpSpec) {
        match http.method.parts.is_empty() {
            true => self.add_fixed("method", "GET"),
            false => self.add_field("method", FieldContent::Text(&http.method)),
        }
        self.add_field("url", FieldContent::Text(&http.url));
        self.add_field("headers", FieldContent::TextPairs(&http.headers));
        match &http.body {
            BodySpec::None => {}
            BodySpec::JsonText(text) => self.add_field("body", FieldContent::Text(text)),
            BodySpec::Text(text) => self.add_field("text body", FieldContent::Text(text)),
            BodySpec::JsonValue(data) => self.add_field("body", FieldContent::Data(data)),
            BodySpec::Form(rows) => self.add_field("body", FieldContent::TextPairs(rows)),
        }
    }

    pub(super) fn add_block(&mut self, block: &'a Block) {
        self.add_fixed("block", &*block.id);
        match &block.code {
            BlockCode::Python { source, .. } => self.add_fixed("code", &**source),
            // The prompt of a block sees its inputs only.
            BlockCode::Prompt { generate, .. } => {
                let inner = generate.list_fields().into_iter();
                self.0.extend(inner.map(|field| Field { reads_variables: false, ..field }));
            }
            BlockCode::Function(function) => self.add_fixed("function", &**function),
        }
        self.add_field("inputs", FieldContent::Entries(&block.inputs));
        self.add_if("input schema", block.input_schema.as_ref().map(FieldContent::Schema));
        self.add_if("output schema", block.output_schema.as_ref().map(FieldContent::Schema));
    }
}
