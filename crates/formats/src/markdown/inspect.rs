//! What an expression names, for editors. Nothing is checked, and an expression that cannot be parsed names nothing.

use std::ops::Range;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Argument, ArrowFunctionExpression, BindingIdentifier, CallExpression, Expression, Function, IdentifierReference,
    JSXFragment, ObjectExpression, ObjectPropertyKind, StaticMemberExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType};
use oxc_syntax::scope::ScopeFlags;

use super::check::byte_range;
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
    /// The field of it that is read.
    pub field: Option<(String, Range<usize>)>,
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

/// The names in the JavaScript expression `text`; `None` if it cannot be parsed.
pub fn inspect_expression(text: &str) -> Option<ExpressionNames> {
    let allocator = Allocator::default();
    let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
    let parser = Parser::new(&allocator, text, SourceType::mjs().with_jsx(true)).with_options(options);
    let expression = parser.parse_expression().ok()?;
    let mut inspector = Inspector::default();
    inspector.visit_expression(&expression);
    if let Expression::ObjectExpression(object) = &expression {
        inspector.names.keys = read_keys(object);
    }
    Some(inspector.names)
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
struct Inspector {
    names: ExpressionNames,
    /// Names bound by the functions around the present place.
    bound: Vec<String>,
}

impl Inspector {
    fn add_read(&mut self, name: &str, range: Range<usize>, field: Option<(String, Range<usize>)>) {
        if !self.bound.iter().any(|bound| bound == name) {
            self.names.reads.push(NameRead { name: name.to_owned(), range, field });
        }
    }

    fn visit_scope(&mut self, visit: impl FnOnce(&mut Inspector)) {
        let before = self.bound.len();
        visit(self);
        self.bound.truncate(before);
    }
}

impl<'a> Visit<'a> for Inspector {
    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.add_read(name.name.as_str(), byte_range(name.span), None);
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

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        match &member.object {
            Expression::Identifier(name) => {
                let property = &member.property;
                let field = (property.name.as_str().to_owned(), byte_range(property.span));
                self.add_read(name.name.as_str(), byte_range(name.span), Some(field));
            }
            _ => walk::walk_static_member_expression(self, member),
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
        let show = |read: &NameRead| match &read.field {
            Some((field, _)) => format!("{}.{field}", read.name),
            None => read.name.clone(),
        };
        names.reads.iter().map(show).collect()
    }

    #[test]
    fn names_are_found_at_every_place() {
        assert_eq!(reads("a + b.c + a[0].d"), ["a", "b.c", "a"]);
        assert_eq!(reads("list.map(x => x + y)"), ["list.map", "y"]);
        assert_eq!(reads("x.map(x => x) && x"), ["x.map", "x"]);
        assert_eq!(reads("{ text, review: r.t }"), ["text", "r.t"]);
    }

    #[test]
    fn objects_have_keys() {
        let names = inspect_expression("{ text, review: 1 }").expect("an object");
        let keys: Vec<_> = names.keys.iter().map(|key| (key.name.as_str(), key.is_shorthand)).collect();
        assert_eq!(keys, [("text", true), ("review", false)]);
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
