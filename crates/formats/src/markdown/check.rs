//! Checks the content of an expression: its names, and everything that is not allowed.

use std::collections::HashSet;
use std::ops::Range;

use flowloom_core::code::Code;
use oxc_ast::AstKind;
use oxc_ast::ast::{
    Argument, ArrowFunctionExpression, CallExpression, Expression, Function, FunctionType, JSXFragment, Statement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::GetSpan;
use oxc_syntax::scope::ScopeFlags;

use super::name_rule::is_restricted;

/// Two adjacent pieces of an expression to swap, given by their three boundaries, and the title of that fix.
pub(super) struct Swap {
    pub(super) title: String,
    pub(super) start: usize,
    pub(super) middle: usize,
    pub(super) end: usize,
}

/// A problem in an expression, at a byte range of its text.
pub(super) struct Finding {
    pub(super) code: Code,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// A fix that swaps two adjacent pieces.
    pub(super) swap: Option<Swap>,
}

/// A part of an expression that is Markdown.
pub(super) struct MarkdownPart {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) what: MarkdownKind,
    /// Names bound by the functions around it.
    pub(super) locals: Vec<String>,
}

/// The kind of Markdown.
pub(super) enum MarkdownKind {
    /// An included file.
    Include(String),
    /// A fragment: the range between `<>` and `</>`.
    Fragment(usize, usize),
}

/// The findings in an expression.
#[derive(Default)]
pub(super) struct ExpressionCheck {
    pub(super) findings: Vec<Finding>,
    /// Free names, each with its first occurrence.
    pub(super) free: Vec<(String, Range<usize>)>,
    pub(super) parts: Vec<MarkdownPart>,
    scopes: Vec<Vec<String>>,
    free_names: HashSet<String>,
}

/// The bytes of a syntax node.
pub(super) fn byte_range(span: oxc_span::Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

impl ExpressionCheck {
    /// Checks an expression that is inside functions with the names `locals`.
    pub(super) fn check_expression(expression: &Expression<'_>, locals: &[String]) -> ExpressionCheck {
        let mut seen = ExpressionCheck { scopes: vec![locals.to_vec()], ..ExpressionCheck::default() };
        seen.visit_expression(expression);
        seen
    }

    fn add_finding(&mut self, code: Code, span: oxc_span::Span, message: String, help: &str) {
        let (start, end) = (span.start as usize, span.end as usize);
        // One part can be refused for several reasons that read the same.
        if self.findings.iter().any(|known| known.start == start && known.message == message) {
            return;
        }
        let help = Some(help.to_owned());
        self.findings.push(Finding { code, start, end, message, help, swap: None });
    }

    fn report_unsupported(&mut self, span: oxc_span::Span, name: &str) {
        let message = format!("{name} is not allowed in an expression");
        let help = match name {
            "NewExpression" => "expressions have no new; Date.now() and Date.parse('…') give times in milliseconds",
            _ => "expressions have values, operators, calls and functions, not statements, classes, patterns or new",
        };
        self.add_finding(Code::ExpressionUnsupported, span, message, help);
    }

    fn check_name(&mut self, name: &str, span: oxc_span::Span) {
        if is_restricted(name)
            && !self.findings.iter().any(|f| f.code == Code::RestrictedName && f.start == span.start as usize)
        {
            let message = format!("the name {name} is restricted and cannot be used in an expression");
            self.add_finding(
                Code::RestrictedName,
                span,
                message,
                "an expression reaches only its variables, not the host",
            );
        }
    }

    fn note_reference(&mut self, name: &str, span: oxc_span::Span) {
        let is_bound = self.scopes.iter().any(|scope| scope.iter().any(|bound| bound == name));
        if !is_bound && self.free_names.insert(name.to_owned()) {
            self.free.push((name.to_owned(), byte_range(span)));
        }
    }

    fn bound_names(&self) -> Vec<String> {
        self.scopes.concat()
    }

    fn check_method(&mut self, call: &CallExpression<'_>) {
        const OF_LISTS: [&str; 7] = ["map", "filter", "flatMap", "sort", "reverse", "forEach", "reduce"];
        let Expression::StaticMemberExpression(outer) = &call.callee else { return };
        let Expression::CallExpression(join) = &outer.object else { return };
        let Expression::StaticMemberExpression(inner) = &join.callee else { return };
        let method = outer.property.name.as_str();
        if inner.property.name != "join" || !OF_LISTS.contains(&method) {
            return;
        }
        let span = outer.property.span;
        let (start, end) = (span.start as usize, span.end as usize);
        let message = format!("join() returns a string, and a string has no {method}()");
        let swap = OF_LISTS[..5].contains(&method).then(|| Swap {
            title: format!("call {method}() before join()"),
            start: inner.object.span().end as usize,
            middle: join.span.end as usize,
            end: call.span.end as usize,
        });
        let help = Some(format!("call {method}() on the list, and join() on the result"));
        self.findings.push(Finding { code: Code::NotAMethod, start, end, message, help, swap });
    }

    fn note_include(&mut self, call: &CallExpression<'_>) {
        let (start, end) = (call.span.start as usize, call.span.end as usize);
        match call.arguments.as_slice() {
            [Argument::StringLiteral(path)] => {
                let what = MarkdownKind::Include(path.value.as_str().to_owned());
                self.parts.push(MarkdownPart { start, end, what, locals: self.bound_names() });
            }
            _ => {
                let message = "include() needs one string literal, the name of a file".to_owned();
                let help = "files are included before the run; choose between them with a condition: \
                            {x ? include('a') : include('b')}";
                self.add_finding(Code::IncludeFailed, call.span, message, help);
            }
        }
    }

    fn enter_scope(&mut self, names: Vec<String>) {
        self.scopes.push(names);
    }
}

impl<'a> Visit<'a> for ExpressionCheck {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::IdentifierReference(name) => {
                self.check_name(name.name.as_str(), name.span);
                self.note_reference(name.name.as_str(), name.span);
            }
            AstKind::IdentifierName(name) => self.check_name(name.name.as_str(), name.span),
            AstKind::BindingIdentifier(name) => self.check_name(name.name.as_str(), name.span),
            kind => {
                if let Some(name) = forbidden_syntax(&kind) {
                    self.report_unsupported(kind.span(), name);
                }
            }
        }
    }

    fn visit_jsx_fragment(&mut self, fragment: &JSXFragment<'a>) {
        let (start, end) = (fragment.span.start as usize, fragment.span.end as usize);
        let inner = (fragment.opening_fragment.span.end as usize, fragment.closing_fragment.span.start as usize);
        let what = MarkdownKind::Fragment(inner.0, inner.1);
        self.parts.push(MarkdownPart { start, end, what, locals: self.bound_names() });
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        match &call.callee {
            Expression::Identifier(name) if name.name == "include" => self.note_include(call),
            _ => {
                self.check_method(call);
                walk::walk_call_expression(self, call);
            }
        }
    }

    fn visit_arrow_function_expression(&mut self, function: &ArrowFunctionExpression<'a>) {
        if function.r#async {
            self.report_async(function.span);
        }
        let mut names = parameter_names(&function.params);
        if let Some(body) = function.body.as_function_body() {
            collect_declared_names(&body.statements, &mut names);
        }
        self.enter_scope(names);
        walk::walk_arrow_function_expression(self, function);
        self.scopes.pop();
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        if function.r#async {
            self.report_async(function.span);
        }
        let mut names = parameter_names(&function.params);
        names.extend(function.id.as_ref().map(|id| id.name.to_string()));
        names.push("arguments".into());
        if let Some(body) = &function.body {
            collect_declared_names(&body.statements, &mut names);
        }
        self.enter_scope(names);
        walk::walk_function(self, function, flags);
        self.scopes.pop();
    }
}

impl ExpressionCheck {
    fn report_async(&mut self, span: oxc_span::Span) {
        let message = "an asynchronous function cannot be used in an expression".to_owned();
        self.add_finding(Code::AsyncFunction, span, message, "expressions are synchronous; remove async and await");
    }
}

fn parameter_names(params: &oxc_ast::ast::FormalParameters<'_>) -> Vec<String> {
    params.items.iter().filter_map(|item| item.pattern.get_identifier_name()).map(|name| name.to_string()).collect()
}

/// Adds the names that statements declare.
fn collect_declared_names(statements: &[Statement<'_>], names: &mut Vec<String>) {
    for statement in statements {
        match statement {
            Statement::VariableDeclaration(declaration) => {
                let ids = declaration.declarations.iter().filter_map(|one| one.id.get_identifier_name());
                names.extend(ids.map(|name| name.to_string()));
            }
            Statement::BlockStatement(block) => collect_declared_names(&block.body, names),
            _ => {}
        }
    }
}

/// The name of a syntax element that is not allowed in expressions.
fn forbidden_syntax(kind: &AstKind<'_>) -> Option<&'static str> {
    Some(match kind {
        AstKind::ThisExpression(_) => "ThisExpression",
        AstKind::NewExpression(_) => "NewExpression",
        AstKind::AwaitExpression(_) => "AwaitExpression",
        AstKind::YieldExpression(_) => "YieldExpression",
        AstKind::SequenceExpression(_) => "SequenceExpression",
        AstKind::ImportExpression(_) => "ImportExpression",
        AstKind::ImportMeta(_) | AstKind::NewTarget(_) => "MetaProperty",
        AstKind::Super(_) => "Super",
        AstKind::Class(_) => "ClassExpression",
        AstKind::ObjectPattern(_) | AstKind::ObjectAssignmentTarget(_) => "ObjectPattern",
        AstKind::ArrayPattern(_) | AstKind::ArrayAssignmentTarget(_) => "ArrayPattern",
        AstKind::AssignmentPattern(_) => "AssignmentPattern",
        AstKind::FormalParameter(parameter) if parameter.initializer.is_some() => "AssignmentPattern",
        AstKind::FormalParameterRest(_) | AstKind::BindingRestElement(_) => "RestElement",
        AstKind::Function(function) if function.r#type != FunctionType::FunctionExpression => "FunctionDeclaration",
        AstKind::IfStatement(_) => "IfStatement",
        AstKind::ForStatement(_) => "ForStatement",
        AstKind::ForInStatement(_) => "ForInStatement",
        AstKind::ForOfStatement(_) => "ForOfStatement",
        AstKind::WhileStatement(_) => "WhileStatement",
        AstKind::DoWhileStatement(_) => "DoWhileStatement",
        AstKind::SwitchStatement(_) => "SwitchStatement",
        AstKind::TryStatement(_) => "TryStatement",
        AstKind::ThrowStatement(_) => "ThrowStatement",
        AstKind::BreakStatement(_) => "BreakStatement",
        AstKind::ContinueStatement(_) => "ContinueStatement",
        AstKind::LabeledStatement(_) => "LabeledStatement",
        AstKind::DebuggerStatement(_) => "DebuggerStatement",
        AstKind::WithStatement(_) => "WithStatement",
        AstKind::EmptyStatement(_) => "EmptyStatement",
        AstKind::PrivateInExpression(_) | AstKind::PrivateFieldExpression(_) => "PrivateName",
        AstKind::JSXElement(_) => "JSXElement",
        _ => return None,
    })
}
