//! Expressions: checked, and compiled into native or sandboxed evaluation. Markdown inside them (included files,
//! fragments) becomes text with expressions of its own.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::js::{ExpressionPlace, Js};
use flowloom_core::expr::{Expr, Script, Template, TemplatePart};
use flowloom_core::value::Value;
use oxc_allocator::Allocator;
use oxc_ast::ast::Expression;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType};

use super::check::{ExpressionCheck, Finding, MarkdownKind, byte_range};
use super::native::NativeConverter;
use super::paragraphs::{MARKDOWN_WRAPPER, native_markdown, script_markdown};
use super::parse::TextPiece;
use super::scope::{Meaning, ScopeNames};
use super::{MarkdownCompiler, lex};

/// Maximum size of an expression, in bytes.
pub(super) const MAX_EXPRESSION_BYTES: usize = 32 << 10;

/// Maximum number of undeclared names that a fix declares as inputs.
const MAX_PROPOSED_INPUTS: usize = 100;

/// The field of `$` that builds schemas, which other programs import under this name.
const SCHEMA_BUILDER: &str = "z";

/// Global names of JavaScript that expressions may use.
pub(super) const ALLOWED_GLOBALS: [&str; 13] = [
    "undefined",
    "NaN",
    "Infinity",
    "Object",
    "Array",
    "String",
    "Number",
    "Boolean",
    "Date",
    "Math",
    "JSON",
    "RegExp",
    "Error",
];

/// A checked expression.
#[derive(Clone, Debug)]
pub(super) struct CheckedExpression {
    /// The JavaScript source, with Markdown inserted.
    pub(super) js: String,
    pub(super) native: Option<Js>,
    /// The variables that it reads.
    pub(super) names: Vec<Arc<str>>,
    has_markdown: bool,
    pub(super) place: Arc<ExpressionPlace>,
    span: Span,
}

/// Markdown inside an expression: an included file or a fragment.
struct CompiledPart {
    /// The bytes of the expression that it replaces.
    range: Range<usize>,
    blocks: Vec<Paragraph>,
}

/// The free names of an expression.
#[derive(Default)]
pub(super) struct FreeNames {
    /// Variables.
    read: Vec<Arc<str>>,
    /// Names with a constant value.
    constants: Vec<(String, Value)>,
    /// Names for which expressions are inserted.
    inserted: Vec<(String, Arc<CheckedExpression>)>,
}

/// A paragraph.
pub(super) type Paragraph = Vec<ParagraphPart>;

/// A part of a paragraph.
#[derive(Clone, Debug)]
pub(super) enum ParagraphPart {
    Text(String),
    Value(CheckedExpression),
}

/// The result of compiling an expression.
pub(super) enum CompiledExpression {
    /// Empty, or only a comment.
    Empty,
    Value(CheckedExpression),
    /// Entirely Markdown.
    Blocks(Vec<Paragraph>),
}

impl CheckedExpression {
    /// The same expression, which reads its variables under other names.
    pub(super) fn rename_names(&self, names: &[(Arc<str>, Arc<str>)]) -> CheckedExpression {
        let bound: Vec<_> = names.iter().map(|(own, other)| (own.to_string(), other.to_string())).collect();
        let names = names.iter().map(|(_, other)| other.clone()).collect();
        CheckedExpression { js: bind_names(&self.js, &bound), names, native: None, ..self.clone() }
    }

    /// A constant value.
    pub(super) fn from_constant(value: Value) -> CheckedExpression {
        CheckedExpression {
            js: flowloom_core::render::to_json(&value),
            native: Some(Js::Literal(value)),
            names: Vec::new(),
            has_markdown: false,
            place: Arc::default(),
            span: Span::default(),
        }
    }

    /// The native form; `None` if the expression needs the sandbox.
    pub(super) fn native_form(&self) -> Option<&Js> {
        self.native.as_ref()
    }

    /// The value, if it is constant.
    pub(super) fn constant_value(&self) -> Option<Value> {
        let native = self.native.as_ref().filter(|_| self.names.is_empty())?;
        native.evaluate(&flowloom_core::value::Map::new()).ok().map(Option::unwrap_or_default)
    }

    /// The expression to evaluate; scripts are appended to `scripts`.
    pub(super) fn into_expr(self, slots: &mut usize, scripts: &mut Vec<Arc<Script>>) -> Expr {
        if let Some(native) = self.native {
            return Expr::Js(Arc::new(Js::Placed(Box::new(native), self.place)));
        }
        let source = match self.has_markdown {
            true => [MARKDOWN_WRAPPER.0, &self.js, MARKDOWN_WRAPPER.1].concat(),
            false if self.js.trim_start().starts_with(['{', 'f']) => format!("(\n{}\n)", self.js),
            false => self.js,
        };
        *slots += 1;
        let slot = format!("expression~{slots}").into();
        let (names, span, place) = (self.names, self.span, self.place);
        let script = Arc::new(Script { slot, source: source.into(), names, span, place });
        scripts.push(script.clone());
        Expr::Script(script)
    }
}

/// JavaScript in which names have values, which are JavaScript too.
fn bind_names(js: &str, values: &[(String, String)]) -> String {
    if values.is_empty() {
        return js.to_owned();
    }
    let (names, values): (Vec<&str>, Vec<&str>) = values.iter().map(|(name, value)| (&**name, &**value)).unzip();
    format!("(({})=>(\n{js}\n))({})", names.join(","), values.join(","))
}

/// A paragraph as a template.
pub(super) fn to_template(block: Paragraph, slots: &mut usize, scripts: &mut Vec<Arc<Script>>) -> Template {
    let part = |chunk| match chunk {
        ParagraphPart::Text(text) => TemplatePart::Text(text.into()),
        ParagraphPart::Value(source) => TemplatePart::Expr(Arc::new(source.into_expr(slots, scripts))),
    };
    Template { parts: block.into_iter().map(part).collect() }
}

/// Joins paragraphs with blank lines.
pub(super) fn join_blocks(blocks: Vec<Paragraph>) -> Paragraph {
    let mut whole = Paragraph::new();
    for block in blocks {
        if !whole.is_empty() {
            whole.push(ParagraphPart::Text("\n\n".into()));
        }
        whole.extend(block);
    }
    whole
}

impl MarkdownCompiler<'_> {
    /// Compiles an expression; `None`, with an error, if it is not valid.
    pub(super) fn compile_expression(
        &mut self,
        text: &TextPiece<'_>,
        names: &ScopeNames,
        locals: &[String],
    ) -> Option<CompiledExpression> {
        if lex::scan_expression(text.text).is_blank {
            return Some(CompiledExpression::Empty);
        }
        if text.text.len() > MAX_EXPRESSION_BYTES {
            let message = format!("an expression has more than {MAX_EXPRESSION_BYTES} bytes");
            self.report_error(text, Code::TooComplex, 0, 1, message);
            return None;
        }
        self.warn_lost_indentation(text);
        let allocator = Allocator::default();
        let expression = self.parse_expression(text, &allocator)?;
        let seen = ExpressionCheck::check_expression(&expression, locals);
        let found = self.read_free_names(text, &seen, names);
        let parts = self.compile_parts(text, &seen, names);
        let (found, parts) = (found?, parts?);
        if let [CompiledPart { range, blocks }] = parts.as_slice()
            && *range == byte_range(expression.span())
        {
            return Some(CompiledExpression::Blocks(blocks.clone()));
        }
        Some(CompiledExpression::Value(self.build_expression(text, &expression, found, parts)))
    }

    /// Parses an expression.
    pub(super) fn parse_expression<'s>(
        &mut self,
        text: &TextPiece<'s>,
        allocator: &'s Allocator,
    ) -> Option<Expression<'s>> {
        let options = ParseOptions { preserve_parens: false, ..ParseOptions::default() };
        let parser = Parser::new(allocator, text.text, SourceType::mjs().with_jsx(true)).with_options(options);
        match parser.parse_expression() {
            Ok(expression) => Some(expression),
            Err(errors) => {
                for error in errors.into_vec().into_iter().take(1) {
                    let label = error.labels.first();
                    let at = label.map_or(0, |label| label.offset() as usize).min(text.text.len());
                    let length = label.map_or(1, |label| label.len() as usize);
                    let message = format!("this is not a JavaScript expression: {}", error.message);
                    let diagnostic = self.report_error(text, Code::ExpressionSyntax, at, at + length, message);
                    diagnostic.help =
                        Some("write one expression between braces; write \\{ for a brace that is plain text".into());
                }
                None
            }
        }
    }

    /// Reports parts that are not allowed, and returns the free names of the expression.
    pub(super) fn read_free_names(
        &mut self,
        text: &TextPiece<'_>,
        seen: &ExpressionCheck,
        names: &ScopeNames,
    ) -> Option<FreeNames> {
        for finding in &seen.findings {
            self.report_finding(text, finding);
        }
        let mut is_fine = seen.findings.is_empty();
        let mut free = FreeNames::default();
        for (name, range) in &seen.free {
            match names.find_meaning(name) {
                Some(Meaning::Variable | Meaning::Helper) => free.read.push(name.as_str().into()),
                Some(Meaning::Constant(value)) => free.constants.push((name.clone(), value)),
                Some(Meaning::Inserted(source)) => free.inserted.push((name.clone(), source)),
                None if ALLOWED_GLOBALS.contains(&name.as_str()) || name == "dedent" => {}
                None if is_fine => {
                    self.report_unknown_name(text, name, range.clone(), names);
                    is_fine = false;
                }
                None => {
                    if seen.findings.is_empty() {
                        self.report_unknown_name(text, name, range.clone(), names);
                    }
                }
            }
        }
        is_fine.then_some(free)
    }

    fn report_finding(&mut self, text: &TextPiece<'_>, finding: &Finding) {
        let fix = finding.swap.as_ref().map(|swap| {
            let (first, second) = (&text.text[swap.start..swap.middle], &text.text[swap.middle..swap.end]);
            let edits = vec![
                (text.file_span(swap.start, swap.middle), second.to_owned()),
                (text.file_span(swap.middle, swap.end), first.to_owned()),
            ];
            Fix::new_safe(swap.title.clone(), edits)
        });
        let diagnostic = self.report_error(text, finding.code, finding.start, finding.end, finding.message.clone());
        diagnostic.help.clone_from(&finding.help);
        diagnostic.fix = fix;
    }

    fn report_unknown_name(&mut self, text: &TextPiece<'_>, name: &str, range: Range<usize>, names: &ScopeNames) {
        let meant = self.problems.find_similar(name, names.all_names()).map(str::to_owned);
        if self.problems.distrusts_name(name) && meant.is_none() {
            return;
        }
        let use_ = text.text.get(range.end..).unwrap_or_default();
        let is_list =
            use_.starts_with('[') || [".length", ".map", ".join", ".filter"].iter().any(|m| use_.starts_with(m));
        let field = use_
            .strip_prefix('.')
            .map(|rest| rest.split(|next: char| !next.is_alphanumeric() && next != '_').next().unwrap_or_default());
        let field = field.filter(|field| names.find_meaning(field).is_some());
        let span = text.file_span(range.start, range.end);
        let message = format!("{name} is not known here: no input, data or earlier result has this name");
        let diagnostic = self.report_error(text, Code::UnknownName, range.start, range.end, message);
        if let Some(read) = names.find_inside(name) {
            diagnostic.suggest_text(read);
            diagnostic.help = Some(format!("{name} is a result inside of a block: read it as {read}"));
            return;
        }
        match meant {
            _ if names.is_later(name) => {
                diagnostic.help = Some(format!("the action {name} is further down; use its result after it"));
            }
            _ if names.is_outside(name) => {
                diagnostic.help =
                    Some(format!("a block sees only provided values: add {name} to its provide={{{{ … }}}}"));
            }
            // As in other formats, where a variable is a field of the input.
            _ if field.is_some() => {
                let field = field.unwrap_or_default();
                diagnostic.suggest_text_at(field, Some(text.file_span(range.start, range.end + 1 + field.len())));
            }
            Some(meant) => {
                diagnostic.suggest_text(&meant);
            }
            None if name == SCHEMA_BUILDER && use_.starts_with('.') => {
                diagnostic.help = Some("schemas are built with $.z".to_owned());
                diagnostic.fix = Some(Fix::new_suggestion("write $.z", vec![(span, "$.z".to_owned())]));
            }
            None if UNAVAILABLE_GLOBALS.contains(&name) => {
                diagnostic.help =
                    Some(format!("of JavaScript's own names, expressions have {}", ALLOWED_GLOBALS.join(", ")));
            }
            None if name.starts_with('$') => {
                let help = "a name that begins with $ belongs to a block: use it inside of that block, and its result after it";
                diagnostic.help = Some(help.to_owned());
            }
            None => {
                let kind = if is_list { "array" } else { "text" };
                diagnostic.help = Some(format!("declare it in the frontmatter: input: {{{name}: {{type: {kind}}}}}"));
                if names.is_root()
                    && text.file == self.entry
                    && is_identifier(name)
                    && self.undeclared.len() < MAX_PROPOSED_INPUTS
                {
                    self.undeclared.push((name.to_owned(), is_list));
                }
            }
        }
    }

    /// The included files and fragments of an expression.
    fn compile_parts(
        &mut self,
        text: &TextPiece<'_>,
        seen: &ExpressionCheck,
        names: &ScopeNames,
    ) -> Option<Vec<CompiledPart>> {
        let mut parts = Some(Vec::new());
        for part in &seen.parts {
            let range = part.start..part.end;
            let blocks = match &part.what {
                MarkdownKind::Include(path) => self.include_file(text, path, range.clone(), names, &part.locals),
                MarkdownKind::Fragment(start, end) => {
                    self.compile_fragment(&text.slice(*start, *end), names, &part.locals)
                }
            };
            match (blocks, &mut parts) {
                (Some(blocks), Some(parts)) => parts.push(CompiledPart { range, blocks }),
                _ => parts = None,
            }
        }
        parts
    }

    fn build_expression(
        &mut self,
        text: &TextPiece<'_>,
        expression: &Expression<'_>,
        FreeNames { read: mut names, constants, inserted }: FreeNames,
        mut parts: Vec<CompiledPart>,
    ) -> CheckedExpression {
        let read: HashSet<Arc<str>> = names.iter().cloned().collect();
        let resolve = |name: &str| match name {
            name if read.contains(name) => Some(Js::Name(name.into())),
            "undefined" => Some(Js::Undefined),
            "NaN" => Some(Js::Special(f64::NAN)),
            "Infinity" => Some(Js::Special(f64::INFINITY)),
            name => {
                constants.iter().find(|(constant, _)| constant == name).map(|(_, value)| Js::Literal(value.clone()))
            }
        };
        let known = |expression: &Expression<'_>| {
            let found = parts.iter().find(|part| part.range == byte_range(expression.span()));
            found.and_then(|part| native_markdown(&part.blocks))
        };
        let native = NativeConverter { names: &resolve, known: &known }.convert_expression(expression);
        let mut js = String::new();
        let mut at = 0;
        parts.sort_by_key(|part| part.range.start);
        for CompiledPart { range, blocks } in &parts {
            js.push_str(&text.text[at..range.start]);
            js.push_str(&script_markdown(blocks, &mut names));
            at = range.end;
        }
        js.push_str(&text.text[at..]);
        let constants = constants.into_iter().map(|(name, value)| (name, flowloom_core::render::to_json(&value)));
        let sources = inserted.iter().map(|(name, source)| (name.clone(), source.js.clone()));
        js = bind_names(&js, &constants.chain(sources).collect::<Vec<_>>());
        let mut known: HashSet<Arc<str>> = names.iter().cloned().collect();
        let read = inserted.iter().flat_map(|(_, source)| &source.names);
        names.extend(read.filter(|name| known.insert((*name).clone())).cloned());
        let has_markdown = !parts.is_empty() || inserted.iter().any(|(_, source)| source.has_markdown);
        let range = byte_range(expression.span());
        let span = text.file_span(range.start, range.end);
        let position = self.lines.find_position(text, span.start);
        let source = text.text.get(range).unwrap_or_default().to_owned();
        let place = Arc::new(ExpressionPlace { at: format!("{}:{position}", text.file), source });
        CheckedExpression { js, native, names, has_markdown, place, span }
    }

    /// Markdown as a value.
    pub(super) fn markdown_value(&mut self, blocks: Vec<Paragraph>, text: &TextPiece<'_>) -> CheckedExpression {
        let mut names = Vec::new();
        let js = script_markdown(&blocks, &mut names);
        for source in blocks
            .iter()
            .flatten()
            .filter_map(|chunk| if let ParagraphPart::Value(source) = chunk { Some(source) } else { None })
        {
            let new: Vec<_> = source.names.iter().filter(|name| !names.contains(name)).cloned().collect();
            names.extend(new);
        }
        let span = text.file_span(0, text.text.len());
        let position = self.lines.find_position(text, span.start);
        let place = Arc::new(ExpressionPlace { at: format!("{}:{position}", text.file), source: text.text.to_owned() });
        CheckedExpression { js, native: native_markdown(&blocks), names, has_markdown: true, place, span }
    }

    /// Adds an error at a part of an expression.
    pub(super) fn report_error(
        &mut self,
        text: &TextPiece<'_>,
        code: Code,
        start: usize,
        end: usize,
        message: String,
    ) -> &mut flowloom_core::diagnostic::Diagnostic {
        let span = text.file_span(start, end);
        let diagnostic = self.problems.add_error(code, span, message);
        diagnostic.file = text.file.to_owned();
        diagnostic
    }
}

/// Global names of JavaScript that people expect and that are not available.
const UNAVAILABLE_GLOBALS: [&str; 12] = [
    "Map",
    "Set",
    "Symbol",
    "Intl",
    "console",
    "parseInt",
    "parseFloat",
    "isNaN",
    "isFinite",
    "fetch",
    "BigInt",
    "encodeURIComponent",
];

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit() || c == '_' || c == '$')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
