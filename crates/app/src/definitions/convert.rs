//! Converts a loaded definition to another format, and describes what became of it.

use flowloom_convert::{Conversion, ConversionSource, Fate, convert_definition};
use flowloom_core::diagnostic::find_position;
use flowloom_core::plan::Format;
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

/// Converts a definition; gives it back if it does not compile.
pub fn convert_loaded(
    mut source: LoadedDefinition,
    options: ConversionOptions,
) -> Result<ConvertedDefinition, Box<LoadedDefinition>> {
    let Some(plan) = &source.compiled.plan else { return Err(Box::new(source)) };
    let text = String::from_utf8_lossy(source.bytes());
    let given = ConversionSource { file: source.name(), text: &text, plan };
    let conversion = convert_definition(&given, options.to, options.has_comments);
    let is_refused = conversion.text.is_none() || (options.is_strict && conversion.has_losses());
    let text = conversion.text.clone().filter(|_| !is_refused);
    source.compiled.diagnostics = conversion.diagnostics(source.name(), is_refused);
    Ok(ConvertedDefinition { source, text, is_refused, conversion })
}

impl ConvertedDefinition {
    /// The number of constructs with this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.conversion.count(fate)
    }

    /// What became of each construct, as JSON: `{fate, line, column, start, length, message}`.
    pub fn describe_findings(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(self.source.bytes());
        let describe = |finding: &flowloom_convert::Finding| {
            let position = find_position(&text, finding.span.start);
            json!({
                "fate": finding.fate.name(),
                "line": position.line,
                "column": position.column,
                "start": finding.span.start,
                "length": finding.span.length,
                "message": finding.message,
            })
        };
        self.conversion.findings.iter().map(describe).collect()
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
