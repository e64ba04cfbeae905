//! Compiles scopes, phases and steps: from nodes to a plan.

use std::ops::Range;
use std::sync::Arc;

use flowloom_core::chat::{Content, Role};
use flowloom_core::code::Code;
use flowloom_core::expr::js::Js;
use flowloom_core::expr::{Expr, Script, Template};
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{
    AppendMessage, Composite, Exhausted, FunctionCall, Leaf, Loop, LoopHelper, LoopOutput, LoopTest, ScopedSteps, Step,
    StepKind, Write,
};
use flowloom_core::value::Value;
use markdown::mdast::Node;

use super::MarkdownCompiler;
use super::actions::{Action, ActionValue, is_else, to_kebab_case};
use super::expression::{CompiledExpression, Paragraph, to_template};
use super::history::reads_history;
use super::index_limits::find_index_limits;
use super::nodes::{node_range, read_element};
use super::parse::TextPiece;
use super::provide::ProvidedValues;
use super::scope::{Meaning, ScopeNames};
use super::text::{TextContext, is_comment};

/// Maximum iterations of a loop that does not set them.
const DEFAULT_MAX_ITERATIONS: u64 = 1_000;

/// The kind of block that a scope is the content of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// The file. If it is described, its first phase is the description.
    File {
        is_described: bool,
    },
    Loop,
    Cond,
}

/// A compiled scope: one step for each phase.
pub(super) struct BuiltScope {
    pub(super) phases: Vec<Step>,
    /// The names of its actions.
    pub(super) gives: Vec<Arc<str>>,
}

/// A phase of a scope.
struct PhaseNodes<'n> {
    nodes: &'n [&'n Node],
    /// The number of the phase, from 1.
    number: usize,
    /// The kind of the scope.
    kind: ScopeKind,
}

/// The context of an action.
struct ActionContext<'n> {
    /// The name of its result.
    name: &'n str,
    /// The names that it can use.
    names: &'n ScopeNames,
    /// The conversation that it continues.
    thread: &'n Arc<str>,
}

/// The place of the value of an attribute whose name is at `start..end`; that of the name if the value is elsewhere.
fn find_value(text: &str, start: usize, end: usize, value: &str) -> (usize, usize) {
    let after = text.get(end..).unwrap_or_default();
    match after.find(value).filter(|gap| after[..*gap].chars().all(|c| "=\"'{ ".contains(c))) {
        Some(gap) => (end + gap, end + gap + value.len()),
        None => (start, end),
    }
}

impl MarkdownCompiler<'_> {
    /// Compiles a scope from its nodes.
    pub(super) fn compile_scope(
        &mut self,
        nodes: &[&Node],
        text: &TextPiece<'_>,
        mut names: ScopeNames,
        kind: ScopeKind,
    ) -> BuiltScope {
        let mut built = BuiltScope { phases: Vec::new(), gives: Vec::new() };
        names.set_later(self.action_names(nodes));
        let phases = split_phases(nodes, text.text);
        let is_described = kind == ScopeKind::File { is_described: true };
        for phase in phases.into_iter().skip(usize::from(is_described)) {
            let number = built.phases.len() + 1;
            let phase = PhaseNodes { nodes: &phase, number, kind };
            let steps = self.compile_phase(&phase, text, &mut names, &mut built.gives);
            if !steps.is_empty() {
                built.phases.push(Step::new(Key::numbered_key("phase", number), Composite::Sequence(steps)));
            }
        }
        built
    }

    /// The names that the actions among the nodes set.
    fn action_names(&self, nodes: &[&Node]) -> Vec<String> {
        let named = nodes.iter().filter_map(|node| {
            let Node::MdxJsxFlowElement(flow) = node else { return None };
            let is_action = flow.name.as_deref().is_some_and(|name| self.is_action(&to_kebab_case(name)));
            let name = flow.attributes.iter().find_map(|attribute| match attribute {
                markdown::mdast::AttributeContent::Property(property) if property.name == "as" => match &property.value
                {
                    Some(markdown::mdast::AttributeValue::Literal(name)) => Some(name.clone()),
                    _ => None,
                },
                _ => None,
            });
            name.filter(|_| is_action)
        });
        named.collect()
    }

    fn compile_phase(
        &mut self,
        phase: &PhaseNodes<'_>,
        text: &TextPiece<'_>,
        names: &mut ScopeNames,
        gives: &mut Vec<Arc<str>>,
    ) -> Vec<Step> {
        let PhaseNodes { nodes, number, kind } = *phase;
        let thread: Arc<str> = format!("phase~{number}").into();
        let mut siblings = Siblings::default();
        let mut steps = Vec::new();
        let mut waiting: Vec<&Node> = Vec::new();
        for node in nodes.iter().copied() {
            let Some(action) = self.read_action(node, text) else {
                waiting.push(node);
                continue;
            };
            let text_steps = self.compile_text(&std::mem::take(&mut waiting), text, names, kind);
            steps.push(self.message_step(text_steps, &thread, &mut siblings));
            let name = self.read_literal(&action, "as", text);
            if let Some(name) = name
                && names.find_meaning(name).is_some()
            {
                let (start, end) = action
                    .get("as")
                    .map_or((action.start, action.end), |given| find_value(text.text, given.start, given.end, name));
                let message = format!("the name {name} is used already in this scope");
                self.report_error(text, Code::RepeatedName, start, end, message).help =
                    Some("every input, data entry, provided value and action of a scope has a name of its own".into());
            }
            let context = ActionContext { name: name.unwrap_or("result"), names, thread: &thread };
            let added = self.compile_action(&action, text, &context, &mut siblings);
            steps.extend(added.unwrap_or_default());
            if let Some(name) = name {
                names.add_name(name, Meaning::Variable);
                if matches!(action.name.as_str(), "loop" | "cond") {
                    let content: Vec<&Node> = action.children.iter().collect();
                    names.add_inside(name, self.action_names(&content), action.name == "loop");
                }
                gives.push(name.into());
            }
        }
        let text_steps = self.compile_text(&waiting, text, names, kind);
        if !text_steps.is_empty() {
            steps.push(self.message_step(text_steps, &thread, &mut siblings));
        }
        steps
    }

    fn compile_text(
        &mut self,
        nodes: &[&Node],
        text: &TextPiece<'_>,
        names: &ScopeNames,
        kind: ScopeKind,
    ) -> Vec<Paragraph> {
        let has_else = kind == ScopeKind::Cond;
        self.compile_blocks(
            nodes,
            text,
            &TextContext { names, locals: &[], is_inserted: false, has_else, is_stray_else: false },
        )
    }

    /// A step that appends text to the conversation.
    fn message_step(&mut self, blocks: Vec<Paragraph>, thread: &Arc<str>, siblings: &mut Siblings) -> Step {
        let mut scripts = Vec::new();
        let blocks = blocks.into_iter().map(|block| to_template(block, &mut self.slots, &mut scripts)).collect();
        let content = Content::Blocks(blocks);
        let message = AppendMessage { thread: Some(thread.clone()), role: Role::User, content, in_transcript: true };
        Step {
            scripts,
            ..Step::new(siblings.next_key(None, "text"), StepKind::Composite(Composite::AppendMessage(message)))
        }
    }

    /// The steps of an action.
    fn compile_action(
        &mut self,
        action: &Action<'_>,
        text: &TextPiece<'_>,
        context: &ActionContext<'_>,
        siblings: &mut Siblings,
    ) -> Option<Vec<Step>> {
        let ActionContext { name, names, thread } = *context;
        let mut scripts = Vec::new();
        let has_scope = !action.children.is_empty();
        let is_block = matches!(action.name.as_str(), "loop" | "cond");
        if has_scope && !is_block {
            let message =
                format!("the content of <{}> is not used, and its result is left out of the output", action.written);
            let span = text.file_span(action.start, action.end);
            self.problems.add_warning(Code::IgnoredContent, span, message).help =
                Some(format!("put the text before <{} … />", action.written));
        }
        let kind = match action.name.as_str() {
            "gen-text" | "gen-object" => self.compile_generate(action, thread, names, text, &mut scripts)?,
            "loop" => self.compile_loop(action, name, names, text)?,
            "cond" => self.compile_cond(action, name, names, text, &mut scripts)?,
            _ => self.compile_call(action, names, text, &mut scripts)?,
        };
        let span = text.file_span(action.start - 1, action.end);
        let key = siblings.next_key(Some(name), kind.name());
        let writes = vec![Write::to_variable(name)];
        let step = Step { title: name.to_owned(), span, scripts, writes, ..Step::new(key, kind) };
        let value = Expr::Js(Arc::new(Js::Name(name.into())));
        let is_json = action.name == "gen-object";
        let content = if is_json { Content::Json(value) } else { Content::Value(value) };
        let is_in_thread =
            matches!(step.kind, StepKind::Leaf(Leaf::Generate(_)) | StepKind::Composite(Composite::Agent(_)));
        let result = AppendMessage {
            thread: (!is_in_thread).then(|| thread.clone()),
            role: Role::Assistant,
            content,
            in_transcript: !has_scope,
        };
        let result = Step::new(siblings.next_key(None, "result"), Composite::AppendMessage(result));
        Some(vec![step, result])
    }

    /// `<Loop>`.
    fn compile_loop(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
    ) -> Option<StepKind> {
        self.warn_unused_attributes(action, &["as", "until", "provide", "max"], text);
        let own = names.with_own(name, Meaning::Helper);
        if action.get("until").is_none() {
            self.attribute_error(action, "until", "is required: nothing ends the loop", text).help =
                Some("write until={$.index === 3}, or another condition that becomes true".into());
        }
        let until = action.get("until").and_then(|_| self.read_condition(action, "until", &own, text));
        let index_limits = match action.get("until").map(|attribute| &attribute.value) {
            Some(ActionValue::Expression(condition)) if until.is_some() => {
                // A block inside of others has variables of its own, so their names say nothing.
                let is_variable =
                    |name: &str| names.is_root() && matches!(names.find_meaning(name), Some(Meaning::Variable));
                find_index_limits(condition.text, name, is_variable)
            }
            _ => Vec::new(),
        };
        let max = self.read_max(action, &own, text);
        let provided = self.read_provide(action, &own, text);
        let (inner, provided) = self.inner_names(names, name, Meaning::Helper, provided, text);
        let built = self.compile_scope(&action.children.iter().collect::<Vec<_>>(), text, inner, ScopeKind::Loop);
        let mut scripts = Vec::new();
        let until = until?.into_expr(&mut self.slots, &mut scripts);
        // Only the loop itself, from its attributes to the end of its content, can name its helper.
        let source = action.children.last().and_then(|last| text.text.get(action.start..node_range(last).end));
        let history = source.is_none_or(|source| reads_history(source, name));
        let helper = LoopHelper { names: vec!["$".into(), format!("${name}").into()], history };
        let provided = provided?;
        let scoped = ScopedSteps {
            body: built.phases,
            provide: provided.provide,
            sees: helper.names.clone(),
            gives: built.gives,
            helper: Some(helper.clone()),
        };
        // Without content an iteration has no result.
        let has_content = !action.children.is_empty();
        let body = if has_content { Composite::Scoped(scoped) } else { Composite::Sequence(Vec::new()) };
        let body = Step { scripts: provided.scripts, ..Step::new(Key::numbered_key("scope", 1), body) };
        Some(StepKind::Composite(Composite::Loop(Loop {
            body: Box::new(body),
            until: Some(until),
            test: LoopTest::Before,
            max: max?,
            index_limits,
            exhausted: Exhausted::Fail,
            counter: None,
            helper: Some(helper),
            scripts,
            output: LoopOutput::All,
        })))
    }

    /// The iteration limit of a loop.
    fn read_max(&mut self, action: &Action<'_>, names: &ScopeNames, text: &TextPiece<'_>) -> Option<u64> {
        let value = match action.get("max").map(|attribute| &attribute.value) {
            None => return Some(DEFAULT_MAX_ITERATIONS),
            Some(ActionValue::Text(literal)) => literal.trim().parse::<i64>().ok(),
            Some(ActionValue::Bare) => None,
            Some(ActionValue::Expression(_)) => {
                self.read_value_attribute(action, "max", names, text)?.constant_value().as_ref().and_then(Value::as_i64)
            }
        };
        match value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0) {
            Some(value) => Some(value),
            None => {
                self.attribute_error(action, "max", "must be a whole number of at least 1", text).help =
                    Some("write max={20}; put a limit that depends on a value into until".into());
                None
            }
        }
    }

    /// `<Cond>`, including its `<Else>`.
    fn compile_cond(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<StepKind> {
        self.warn_unused_attributes(action, &["as", "if", "provide"], text);
        let own = names.with_own(name, Meaning::empty_helper());
        let condition = self.read_value_attribute(action, "if", &own, text);
        let is_else_block = |node: &&Node| {
            matches!(node, Node::MdxJsxFlowElement(_))
                && read_element(node).and_then(|(name, _)| name).is_some_and(is_else)
        };
        let mut others = action.children.iter().filter(is_else_block);
        let otherwise = others.next();
        if let Some(written) = otherwise.and_then(|node| self.read_block(node, text)) {
            self.warn_unused_attributes(&written, &[], text);
        }
        let otherwise = otherwise.and_then(read_element);
        for extra in others {
            let Range { start, end } = node_range(extra);
            let message = format!("<{}> has an <Else> already; this one is left out", action.written);
            let span = text.file_span(start, (start + 5).min(end));
            self.problems.add_warning(Code::IgnoredContent, span, message).help =
                Some("put both into one, or choose with a <Cond> inside of it".into());
        }
        let content_nodes: Vec<&Node> = action.children.iter().filter(|node| !is_else_block(node)).collect();
        let provided = self.read_provide(action, &own, text);
        let (inner, provided) = self.inner_names(names, name, Meaning::empty_helper(), provided, text);
        let mut arm = |nodes: &[&Node], key: &str| {
            let built = self.compile_scope(nodes, text, inner.clone(), ScopeKind::Cond);
            let ProvidedValues { provide, scripts, .. } = provided.clone()?;
            let scoped =
                ScopedSteps { body: built.phases, provide, sees: Vec::new(), gives: built.gives, helper: None };
            Some(Step {
                scripts,
                ..Step::new(Key::numbered_key(key, 1), StepKind::Composite(Composite::Scoped(scoped)))
            })
        };
        let then = arm(&content_nodes, "then");
        let otherwise = match otherwise {
            Some((_, children)) => Some(Box::new(arm(&children.iter().collect::<Vec<_>>(), "else")?)),
            None => None,
        };
        let condition = condition?.into_expr(&mut self.slots, scripts);
        Some(StepKind::Composite(Composite::Branch { arms: vec![(condition, then?)], otherwise }))
    }

    /// An action that calls a configured function.
    fn compile_call(
        &mut self,
        action: &Action<'_>,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<StepKind> {
        let function = self.find_function(&action.name)?;
        let name =
            action.get("as").and_then(|name| if let ActionValue::Text(name) = name.value { Some(name) } else { None });
        let helpers =
            self.sources.helpers.get(&function).cloned().map_or_else(Meaning::empty_helper, Meaning::Constant);
        let own = names.with_own(name.unwrap_or_default(), helpers);
        let mut arguments = Vec::new();
        for attribute in action.attributes.iter().filter(|attribute| attribute.name != "as") {
            let value = match &attribute.value {
                ActionValue::Bare => Expr::Constant(true.into()),
                ActionValue::Text(literal) => Expr::Constant((*literal).into()),
                ActionValue::Expression(expression) => match self.compile_expression(expression, &own, &[])? {
                    CompiledExpression::Value(source) => source.into_expr(&mut self.slots, scripts),
                    CompiledExpression::Blocks(_) | CompiledExpression::Empty => continue,
                },
            };
            arguments.push((attribute.name.as_str().into(), value));
        }
        self.functions.push((function.as_str().into(), text.file_span(action.start, action.end)));
        let call = FunctionCall {
            function: function.into(),
            prompt: Template::default(),
            has_default_prompt: true,
            extra: Vec::new(),
            arguments: Some(arguments),
        };
        Some(StepKind::Leaf(Leaf::Call(call)))
    }
}

/// Groups nodes into phases, separated by thematic breaks; comments and empty phases are left out.
pub(super) fn split_phases<'n>(nodes: &[&'n Node], text: &str) -> Vec<Vec<&'n Node>> {
    let content_nodes = nodes.iter().copied().filter(|node| !is_comment(node, text));
    let mut phases = vec![Vec::new()];
    for node in content_nodes {
        match (node, phases.last_mut()) {
            (Node::ThematicBreak(_), _) => phases.push(Vec::new()),
            (node, Some(phase)) => phase.push(node),
            (_, None) => {}
        }
    }
    phases.retain(|phase| !phase.is_empty());
    phases
}
