//! The names in an expression, for editors. Nothing is checked, and an expression that cannot be parsed has no names.

use std::ops::Range;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Argument, ArrowFunctionExpression, BindingIdentifier, CallExpression, ChainElement, ComputedMemberExpression,
    Expression, Function, IdentifierReference, JSXFragment, ObjectExpression, ObjectProperty, ObjectPropertyKind,
    StaticMemberExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType};
use oxc_syntax::scope::ScopeFlags;

use super::check::byte_range;
use super::expression::MAX_EXPRESSION_BYTES;
use super::native::static_key;

/// The names in an expression. Ranges are bytes of the expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpressionNames {
    /// The names that it reads from outside, at every place.
    pub reads: Vec<NameRead>,
    /// The keys of the object, if the expression is one.
    pub keys: Vec<ObjectKey>,
    /// The keys of the first object that it passes to a function, as in `$.z.object({…})`.
    pub argument_keys: Vec<(String, Range<usize>)>,
    /// The Markdown between `<>` and `</>`.
    pub fragments: Vec<Range<usize>>,
    /// The files that it includes.
    pub includes: Vec<(String, Range<usize>)>,
}

/// A name that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRead {
    /// The name.
    pub name: String,
    /// Its place.
    pub range: Range<usize>,
    /// The field of it that is read, the field of that one, and so on, as far as they are written: `a.b['c']`.
    pub fields: Vec<FieldRead>,
    /// Whether the name also is the key of an object, as in `{ text }`.
    pub is_shorthand: bool,
}

/// A field that an expression reads, and its place without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRead {
    /// The field.
    pub name: String,
    /// Its place.
    pub range: Range<usize>,
}

/// A key of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKey {
    /// The key.
    pub name: String,
    /// Its place.
    pub range: Range<usize>,
    /// Whether the key also names its value, as in `{ text }`.
    pub is_shorthand: bool,
}

/// The names in the JavaScript expression `text`; `None` if it cannot be parsed, or is longer than what a definition may
/// contain. Call it [within limits](super::read_within_limits).
pub fn inspect_expression(text: &str) -> Option<ExpressionNames> {
    if text.len() > MAX_EXPRESSION_BYTES {
        return None;
    }
    let allocator = Allocator::default();
    let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
    let parser = Parser::new(&allocator, text, SourceType::mjs().with_jsx(true)).with_options(options);
    let expression = parser.parse_expression().ok()?;
    let mut inspector = Inspector { text, ..Inspector::default() };
    inspector.visit_expression(&expression);
    if let Expression::ObjectExpression(object) = &expression {
        inspector.names.keys = read_keys(object);
    }
    Some(inspector.names)
}

/// The field after a dot, if it is written without escapes.
fn read_member(member: &StaticMemberExpression<'_>) -> Option<FieldRead> {
    let (name, range) = (member.property.name.as_str().to_owned(), byte_range(member.property.span));
    (name.len() == range.len()).then_some(FieldRead { name, range })
}

fn read_keys(object: &ObjectExpression<'_>) -> Vec<ObjectKey> {
    let read = |property: &ObjectPropertyKind<'_>| match property {
        ObjectPropertyKind::ObjectProperty(property) => Some(ObjectKey {
            name: static_key(&property.key)?,
            range: byte_range(property.key.span()),
            is_shorthand: property.shorthand,
        }),
        ObjectPropertyKind::SpreadProperty(_) => None,
    };
    object.properties.iter().filter_map(read).collect()
}

#[derive(Default)]
struct Inspector<'t> {
    text: &'t str,
    names: ExpressionNames,
    /// Names bound by the functions around the present place.
    bound: Vec<String>,
}

impl Inspector<'_> {
    fn add_read(&mut self, name: &IdentifierReference<'_>, fields: Vec<FieldRead>, is_shorthand: bool) {
        let (text, range) = (name.name.as_str(), byte_range(name.span));
        if !self.bound.iter().any(|bound| bound == text) {
            self.names.reads.push(NameRead { name: text.to_owned(), range, fields, is_shorthand });
        }
    }

    /// Adds the read of a name and of its fields; `false` if the expression is not one.
    fn add_fields(&mut self, object: &Expression<'_>, last: FieldRead) -> bool {
        let mut fields = vec![last];
        let mut object = object;
        let name = loop {
            let inner = match object {
                Expression::Identifier(name) => break name,
                Expression::ChainExpression(chain) => match &chain.expression {
                    ChainElement::StaticMemberExpression(member) => (&member.object, read_member(member)),
                    ChainElement::ComputedMemberExpression(member) => (&member.object, self.read_computed(member)),
                    _ => return false,
                },
                Expression::StaticMemberExpression(member) => (&member.object, read_member(member)),
                Expression::ComputedMemberExpression(member) => (&member.object, self.read_computed(member)),
                _ => return false,
            };
            let (Some(field), next) = (inner.1, inner.0) else { return false };
            fields.push(field);
            object = next;
        };
        fields.reverse();
        self.add_read(name, fields, false);
        true
    }

    /// The field in brackets, if it is written in quotes and without escapes.
    fn read_computed(&self, member: &ComputedMemberExpression<'_>) -> Option<FieldRead> {
        let name = member.static_property_name()?.as_str().to_owned();
        let written = byte_range(member.expression.span());
        let range = written.start + 1..written.end.checked_sub(1)?;
        (self.text.get(range.clone()) == Some(&name)).then_some(FieldRead { name, range })
    }

    fn visit_scope(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.bound.len();
        visit(self);
        self.bound.truncate(before);
    }
}

impl<'a> Visit<'a> for Inspector<'_> {
    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.add_read(name, Vec::new(), false);
    }

    fn visit_binding_identifier(&mut self, name: &BindingIdentifier<'a>) {
        self.bound.push(name.name.as_str().to_owned());
    }

    fn visit_arrow_function_expression(&mut self, function: &ArrowFunctionExpression<'a>) {
        self.visit_scope(|inspector| walk::walk_arrow_function_expression(inspector, function));
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        self.visit_scope(|inspector| walk::walk_function(inspector, function, flags));
    }

    fn visit_object_property(&mut self, property: &ObjectProperty<'a>) {
        match &property.value {
            Expression::Identifier(name) if property.shorthand => self.add_read(name, Vec::new(), true),
            _ => walk::walk_object_property(self, property),
        }
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        let is_read = read_member(member).is_some_and(|field| self.add_fields(&member.object, field));
        if !is_read {
            walk::walk_static_member_expression(self, member);
        }
    }

    fn visit_computed_member_expression(&mut self, member: &ComputedMemberExpression<'a>) {
        let is_read = self.read_computed(member).is_some_and(|field| self.add_fields(&member.object, field));
        if !is_read {
            walk::walk_computed_member_expression(self, member);
        }
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let (Expression::Identifier(name), [Argument::StringLiteral(path)]) =
            (&call.callee, call.arguments.as_slice())
            && name.name == "include"
        {
            self.names.includes.push((path.value.as_str().to_owned(), byte_range(path.span)));
            return;
        }
        if let (Some(Argument::ObjectExpression(object)), true) =
            (call.arguments.first(), self.names.argument_keys.is_empty())
        {
            self.names.argument_keys = read_keys(object).into_iter().map(|key| (key.name, key.range)).collect();
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_jsx_fragment(&mut self, fragment: &JSXFragment<'a>) {
        let start = fragment.opening_fragment.span.end as usize;
        self.names.fragments.push(start..fragment.closing_fragment.span.start as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> Vec<String> {
        let names = inspect_expression(text).expect("an expression");
        let show = |read: &NameRead| {
            let fields = read.fields.iter().map(|field| {
                assert_eq!(text[field.range.clone()], field.name);
                format!(".{}", field.name)
            });
            read.name.clone() + &fields.collect::<String>()
        };
        names.reads.iter().map(show).collect()
    }

    #[test]
    fn names_are_found_at_every_place() {
        assert_eq!(reads("a + b.c + a[0].d"), ["a", "b.c", "a"]);
        assert_eq!(reads("a['b'].c + d?.[`e`] + (f?.g).h"), ["a.b.c", "d.e", "f.g.h"]);
        assert_eq!(reads("a[b].c + d['\\x65'] + e().f"), ["a", "b", "d", "e"]);
        assert_eq!(reads("typeof a.b + `${c.d}` + (({e}) => e + f)(g)"), ["a.b", "c.d", "f", "g"]);
        assert_eq!(reads("list.map(x => x + y)"), ["list.map", "y"]);
        assert_eq!(reads("x.map(x => x) && x"), ["x.map", "x"]);
        assert_eq!(reads("{ text, review: r.t }"), ["text", "r.t"]);
    }

    #[test]
    fn objects_have_keys() {
        let names = inspect_expression("{ text, review: 1 }").expect("an object");
        let keys: Vec<_> = names.keys.iter().map(|key| (key.name.as_str(), key.is_shorthand)).collect();
        assert_eq!(keys, [("text", true), ("review", false)]);
        let names = inspect_expression("f({ text, list: [{ text }] }, text)").expect("a call");
        let shorthands: Vec<_> = names.reads.iter().map(|read| read.is_shorthand).collect();
        assert_eq!(shorthands, [false, true, true, false]);
        let names = inspect_expression("$.z.object({ score: $.z.number(), ok: true }).strict()").expect("a schema");
        let keys: Vec<_> = names.argument_keys.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["score", "ok"]);
    }

    #[test]
    fn fragments_and_files_are_found() {
        let text = "ready ? <>Dear {name}</> : include('style')";
        let names = inspect_expression(text).expect("an expression");
        assert_eq!(&text[names.fragments[0].clone()], "Dear {name}");
        assert_eq!(names.includes[0].0, "style");
    }
}
