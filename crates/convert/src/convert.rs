//! The conversion of a definition: from its plan, through a draft, to the text of another format.

use std::collections::{HashMap, HashSet};

use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::json::{NodeKind, parse_node};
use flowloom_core::plan::{Format, Plan};
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::{StopFlag, blank_comments, flow, format_source, markdown, pipeline, steps, to_plain_json};

use crate::draft::{Body, read_body};
use crate::emit::{AnswerReads, Emitter, emit_plan};
use crate::names::{Names, declared_inputs};
use crate::report::{Fate, Finding, Report};

/// A definition to convert.
pub struct ConversionSource<'a> {
    /// Its file.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its plan.
    pub plan: &'a Plan,
    /// Ends the conversion when it is set. What it gives is of no use then.
    pub stop: &'a StopFlag,
}

/// The result of a conversion.
#[derive(Debug)]
pub struct Conversion {
    /// The definition in the other format; `None` if that format has nothing for it.
    pub text: Option<String>,
    /// The outcome of each construct, in source order.
    pub findings: Vec<Finding>,
}

impl Conversion {
    /// The number of constructs with this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.findings.iter().filter(|finding| finding.fate == fate).count()
    }

    /// The number of constructs that are kept, by their kind.
    pub fn count_kept(&self) -> Vec<(&'static str, usize)> {
        let mut kinds: Vec<(&'static str, usize)> = Vec::new();
        for finding in self.findings.iter().filter(|finding| finding.fate == Fate::Kept) {
            match kinds.iter_mut().find(|(kind, _)| *kind == finding.construct) {
                Some((_, count)) => *count += 1,
                None => kinds.push((finding.construct, 1)),
            }
        }
        kinds
    }

    /// Whether something is lost.
    pub fn has_losses(&self) -> bool {
        self.text.is_none() || self.count(Fate::Lost) > 0
    }

    /// The constructs that are not kept, as problems of the source file. Losses are errors if they are refused.
    pub fn diagnostics(&self, file: &str, is_strict: bool) -> Vec<Diagnostic> {
        self.findings.iter().filter_map(|finding| finding.to_diagnostic(file, is_strict)).collect()
    }
}

/// Converts a definition. `has_comments`: comments in the result name the losses; in JSON, only files whose name ends
/// with `.jsonc` may hold them. A definition that is in the format already is laid out.
///
/// # Examples
///
/// ```
/// use flowloom_convert::{ConversionSource, Fate, convert_definition};
/// use flowloom_formats::{Sources, StopFlag, compile, flow, markdown};
///
/// let text = "Say hello.\n\n<GenText as=\"greeting\" model=\"local:smollm2\" />\n";
/// let files = [("greet.mdx".to_owned(), text.as_bytes().to_vec())].into();
/// let compiled = compile("greet.mdx", &Sources { files, source_bytes: 1 << 20, ..Sources::default() }, None);
/// let plan = compiled.plan.expect("no errors");
/// let source = ConversionSource { file: "greet.mdx", text, plan: &plan, stop: &StopFlag::default() };
///
/// let laid_out = convert_definition(&source, markdown::FORMAT, true);
/// assert!(!laid_out.has_losses() && laid_out.count(Fate::Kept) > 0);
/// assert!(convert_definition(&source, flow::FORMAT, true).text.expect("a flow").contains("Say hello."));
/// ```
pub fn convert_definition(source: &ConversionSource<'_>, to: Format, has_comments: bool) -> Conversion {
    let plan = source.plan;
    let mut report = Report::default();
    let further = if plan.format == steps::FORMAT { steps::list_further_calls(source.text) } else { Vec::new() };
    further.iter().for_each(|call| report.add_loss(*call, "a further definition of the file"));
    if plan.format == to && steps::is_script(source.text) {
        report.add_kept("definition", Span::default(), "the definition, as JSON");
        report.add_change(Span::default(), "the JavaScript around the definition, and its comments: they are left out");
        let definition = Value::from(steps::read_definition(source.text));
        let text = format_source(to, "converted.json", &render::to_json(&definition)).ok();
        return Conversion { text, findings: report.into_findings() };
    }
    if plan.format == to {
        report.add_kept("definition", Span::default(), "the definition, in its canonical layout");
        let text = format_source(to, source.file, source.text).ok();
        let text = if has_comments || to == markdown::FORMAT { text } else { lay_out_json(source, text, &mut report) };
        return Conversion { text, findings: report.into_findings() };
    }
    let has_comments = has_comments || to == markdown::FORMAT;
    let mut emitter = Emitter {
        plan,
        source: source.text,
        report,
        names: Names::default(),
        inputs: declared_inputs(plan).into_iter().map(|input| input.name).collect(),
        fixed: HashMap::new(),
        added_inputs: (to == markdown::FORMAT).then(Vec::new),
        stop: source.stop,
        has_comments,
        variables: HashSet::new(),
        is_member: false,
        has_later_members: false,
        is_unrolled: false,
        is_input_replaced: false,
        kept_parts: Vec::new(),
        has_other_text: false,
        reads: if to == pipeline::FORMAT { AnswerReads::Whole } else { AnswerReads::Parts },
    };
    if matches!(read_body(plan), Body::Items(_)) {
        emitter.report.add_kept("name", Span::default(), "the name and the description");
    }
    if plan.format == pipeline::FORMAT {
        // What only pipelines load before their first node.
        ["user", "memory"].into_iter().for_each(|name| emitter.names.lose(name));
    }
    report_unplanned(source, &mut emitter.report);
    if [(flow::FORMAT, steps::FORMAT), (steps::FORMAT, flow::FORMAT)].contains(&(plan.format, to)) {
        let message =
            "the output of a run that fails: of a flow, the last output; of a step list, the input of the step";
        emitter.report.add_difference(plan.root.span, message);
    }
    let text = emit_plan(&mut emitter, to);
    Conversion { text, findings: emitter.report.into_findings() }
}

/// The laid out text of a definition without its comments, which are reported as lost, if it has some.
fn lay_out_json(source: &ConversionSource<'_>, laid_out: Option<String>, report: &mut Report) -> Option<String> {
    let plain = blank_comments(source.text);
    let Some(start) = find_comment(source.text, &plain) else { return laid_out };
    let message =
        "the comments: only files whose names end with .jsonc have some; name the result like that to keep them";
    report.add_loss(Span { start, length: 1 }, message);
    format_source(source.plan.format, source.file, &plain).ok()
}

/// Reports the parts of the text of a definition that its plan does not contain.
fn report_unplanned(source: &ConversionSource<'_>, report: &mut Report) {
    const COMMENTS: &str = "the comments: they are not carried over";
    if source.plan.format == markdown::FORMAT {
        if source.text.lines().any(|line| line.trim_start().starts_with('>')) {
            report.add_change(Span::default(), COMMENTS);
        }
        return;
    }
    let plain = to_plain_json(source.file, source.text);
    if let Some(start) = find_comment(source.text, &plain) {
        report.add_change(Span { start, length: 1 }, COMMENTS);
    }
    let active = parse_node(&plain).ok().and_then(|(node, _)| node.get("active").cloned());
    if let Some(active) = active.filter(|active| matches!(active.kind, NodeKind::Bool(false))) {
        report.add_loss(active.span, "that the flow is switched off: no other format has a switch");
    }
}

/// Where the first comment of a text begins whose comments are blank in `plain`.
fn find_comment(text: &str, plain: &str) -> Option<usize> {
    text.bytes().zip(plain.bytes()).position(|(written, left)| written == b'/' && left != b'/')
}
