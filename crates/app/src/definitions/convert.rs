//! Converts a loaded definition to another format, and describes what became of it.

use std::cmp::Reverse;

use flowloom_convert::{Conversion, ConversionSource, Fate, Finding, convert_definition};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, LineTable, Span};
use flowloom_core::plan::Format;
use flowloom_formats::{MAX_PROBLEMS, OmittedProblems, StopFlag};
use serde_json::{Value, json};

use super::source::LoadedDefinition;

/// A converted definition.
pub struct ConvertedDefinition {
    /// The definition, with what is not kept as its problems.
    pub source: LoadedDefinition,
    /// The text in the other format; `None` if that has nothing for it, or if losses are refused and there are some.
    pub text: Option<String>,
    /// Whether losses are refused, and there are some.
    pub is_refused: bool,
    conversion: Conversion,
}

/// How a definition is converted.
#[derive(Clone, Copy)]
pub struct ConversionOptions {
    /// The format of the result.
    pub to: Format,
    /// Whether losses are refused.
    pub is_strict: bool,
    /// Whether comments in the result say what is lost.
    pub has_comments: bool,
}

/// Converts a definition; gives it back if it does not compile, or if the conversion was stopped.
pub fn convert_loaded(
    mut source: LoadedDefinition,
    options: ConversionOptions,
    stop: &StopFlag,
) -> Result<ConvertedDefinition, Box<LoadedDefinition>> {
    let Some(plan) = &source.compiled.plan else { return Err(Box::new(source)) };
    let text = String::from_utf8_lossy(source.bytes());
    let given = ConversionSource { file: source.name(), text: &text, plan, stop };
    let conversion = convert_definition(&given, options.to, options.has_comments);
    if stop.is_stopped() {
        let message = "converting this definition took too long";
        let problem = Diagnostic::new_error(Code::CompileStopped, source.name(), Span::default(), message);
        source.compiled.diagnostics = vec![problem];
        return Err(Box::new(source));
    }
    let is_refused = conversion.text.is_none() || (options.is_strict && conversion.has_losses());
    let text = conversion.text.clone().filter(|_| !is_refused);
    let (problems, omitted) = limit_problems(conversion.diagnostics(source.name(), is_refused));
    (source.compiled.diagnostics, source.compiled.omitted) = (problems, omitted);
    Ok(ConvertedDefinition { source, text, is_refused, conversion })
}

/// At most [`MAX_PROBLEMS`] problems, errors and losses before others, and the number of those that are left out.
fn limit_problems(mut problems: Vec<Diagnostic>) -> (Vec<Diagnostic>, OmittedProblems) {
    problems.sort_by_key(|problem| (!problem.is_error(), problem.code != Code::ConversionLoss));
    let rest = problems.split_off(problems.len().min(MAX_PROBLEMS));
    problems.sort_by_key(|problem| problem.span.start);
    let errors = rest.iter().filter(|problem| problem.is_error()).count();
    (problems, OmittedProblems { errors, warnings: rest.len() - errors })
}

impl ConvertedDefinition {
    /// The number of constructs with this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.conversion.count(fate)
    }

    /// What became of each construct, as JSON: `{fate, line, column, start, length, message}`. At most
    /// [`MAX_PROBLEMS`], those that are lost before others.
    pub fn describe_findings(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(self.source.bytes());
        let lines = LineTable::new(&text);
        let describe = |finding: &&Finding| {
            let position = lines.find_position(&text, finding.span.start);
            json!({
                "fate": finding.fate.name(),
                "line": position.line,
                "column": position.column,
                "start": finding.span.start,
                "length": finding.span.length,
                "message": finding.message,
            })
        };
        let mut shown: Vec<&Finding> = self.conversion.findings.iter().collect();
        shown.sort_by_key(|finding| Reverse(finding.fate));
        shown.truncate(MAX_PROBLEMS);
        shown.sort_by_key(|finding| finding.span.start);
        shown.iter().map(describe).collect()
    }

    /// The number of constructs that [`ConvertedDefinition::describe_findings`] leaves out.
    pub fn count_omitted(&self) -> usize {
        self.conversion.findings.len().saturating_sub(MAX_PROBLEMS)
    }

    /// The counts in words.
    pub fn summarize(&self) -> String {
        let count = |fate| self.count(fate);
        format!(
            "{} kept, {} expressed differently, {} lost",
            count(Fate::Kept),
            count(Fate::Differently),
            count(Fate::Lost)
        )
    }
}
