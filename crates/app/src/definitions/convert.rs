//! Converts a loaded definition to another format, and describes what became of it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use flowloom_convert::{Conversion, ConversionSource, Fate, Finding, convert_definition};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, LineTable, Position, Span};
use flowloom_core::plan::Format;
use flowloom_formats::{MAX_PROBLEMS, OmittedProblems, graph, markdown};
use serde_json::{Value, json};

use crate::listing::count_noun;

use super::source::{LoadedDefinition, Loader};

/// The name of a result in JSON, for its checks and its layout.
const JSON_NAME: &str = "converted.json";

/// A converted definition.
pub struct ConvertedDefinition {
    /// The definition; its problems are the parts that are not kept.
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
    /// Whether comments in the result name the losses.
    pub has_comments: bool,
}

/// Converts a definition. Fails with the definition if it does not compile, or if the conversion was stopped.
pub fn convert_loaded(
    mut source: LoadedDefinition,
    options: ConversionOptions,
    loader: &Loader<'_>,
) -> Result<ConvertedDefinition, Box<LoadedDefinition>> {
    let Some(plan) = &source.compiled.plan else { return Err(Box::new(source)) };
    let stop = &loader.stop.cloned().unwrap_or_default();
    let is_graph = options.to == graph::FORMAT;
    let tables = is_graph.then(|| graph::write_tables(source.name(), source.files())).flatten();
    let text = tables.as_deref().map_or_else(|| String::from_utf8_lossy(source.bytes()), Cow::from);
    let file = if tables.is_some() { JSON_NAME } else { source.name() };
    let given = ConversionSource { file, text: &text, plan, stop };
    let mut conversion = convert_definition(&given, options.to, options.has_comments);
    if plan.format == options.to {
        // The result contains the tables.
        let is_needed = |file: &Path| tables.is_none() || file.extension().is_none_or(|name| name != "csv");
        conversion.findings.extend(list_needed_files(&source, is_needed));
        conversion.findings.sort_by_key(|finding| finding.span.start);
    } else {
        refuse_invalid_result(&mut conversion, options, loader);
    }
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

/// Takes a result back that has errors, and reports the first of them as a loss.
fn refuse_invalid_result(conversion: &mut Conversion, options: ConversionOptions, loader: &Loader<'_>) {
    let Some(text) = &conversion.text else { return };
    let name = match options.has_comments {
        _ if options.to == markdown::FORMAT => "converted.mdx",
        true => "converted.jsonc",
        false => JSON_NAME,
    };
    let files = [(name.to_owned(), text.clone().into_bytes())].into();
    let checked = Loader { format: Some(options.to), ..*loader }.compile_files(name, files);
    let Some(error) = checked.compiled.diagnostics.iter().find(|problem| problem.is_error()) else { return };
    let message = format!("the definition: {} cannot express it, {}", options.to, error.message);
    let loss = Finding { fate: Fate::Lost, construct: "", span: Span::default(), message, is_restored: false };
    conversion.findings.insert(0, loss);
    conversion.text = None;
}

/// The files that a laid out definition still reads, such as blocks and included texts, each with the place of its name.
fn list_needed_files(source: &LoadedDefinition, is_needed: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let text = String::from_utf8_lossy(source.bytes());
    let folder = Path::new(source.name()).parent().unwrap_or(Path::new(""));
    let others = source.files().keys().filter(|file| *file != source.name()).map(Path::new);
    let describe = |file: &Path| {
        let shown = file.strip_prefix(folder).unwrap_or(file).display();
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        // An agent has the name of its folder.
        let parent = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let names = [Some(stem), parent].into_iter().flatten().filter(|name| !name.is_empty());
        let place = names.filter_map(|name| Some(Span { start: text.find(&name)?, length: name.len() })).next();
        let message =
            format!("{shown} is read from the folder of the definition: copy it to the same place next to the result");
        let span = place.unwrap_or_default();
        Finding { fate: Fate::Differently, construct: "", span, message, is_restored: true }
    };
    others.filter(|file| is_needed(file)).map(describe).collect()
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

    /// The outcome of each construct, as JSON: `{fate, construct, line, column, start, length, message}`. At most
    /// [`MAX_PROBLEMS`], those that are lost before others.
    pub fn describe_findings(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(self.source.bytes());
        let lines = LineTable::new(&text);
        let describe = |finding: &&Finding| {
            let position = lines.find_position(&text, finding.span.start);
            json!({
                "fate": finding.fate.name(),
                "construct": finding.construct,
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

    /// The number of constructs that are kept, by their kind.
    pub fn count_kept_by_kind(&self) -> BTreeMap<&'static str, usize> {
        self.conversion.count_kept().into_iter().collect()
    }

    /// The kept constructs, in source order: its line and column, and the construct.
    pub fn list_kept(&self) -> Vec<(Position, &str)> {
        let text = String::from_utf8_lossy(self.source.bytes());
        let lines = LineTable::new(&text);
        let kept = self.conversion.findings.iter().filter(|finding| finding.fate == Fate::Kept);
        kept.map(|finding| (lines.find_position(&text, finding.span.start), finding.message.as_str())).collect()
    }

    /// The counts in words; kept constructs by kind.
    pub fn summarize(&self) -> String {
        let kinds: Vec<String> =
            self.conversion.count_kept().into_iter().map(|(kind, count)| count_noun(count, kind)).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        format!(
            "{} kept{kinds}, {} expressed differently, {} lost",
            self.count(Fate::Kept),
            self.count(Fate::Differently),
            self.count(Fate::Lost)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    #[test]
    fn files_that_a_laid_out_definition_needs_are_named() {
        let place = tempfile::tempdir().expect("a folder");
        let text = "Hi. {include('house')}\n\n<GenText as=\"t\" model=\"m:x\" />\n";
        std::fs::write(place.path().join("house.mdx"), "Be kind.\n").expect("written");
        std::fs::write(place.path().join("a.mdx"), text).expect("written");
        let config = Config::load(Overrides::default()).expect("the defaults");
        let loaded = Loader::new(&config).compile(&place.path().join("a.mdx"));
        let options = ConversionOptions { to: markdown::FORMAT, is_strict: true, has_comments: true };
        let converted = convert_loaded(loaded, options, &Loader::new(&config)).map_err(|_| ()).expect("a plan");
        let problems = &converted.source.compiled.diagnostics;
        let found: Vec<(usize, &str)> =
            problems.iter().map(|problem| (problem.span.start, problem.message.as_str())).collect();
        let message =
            "house.mdx is read from the folder of the definition: copy it to the same place next to the result";
        assert_eq!(found, [(text.find("house").expect("the name"), message)]);
        assert!(converted.text.is_some(), "it is no loss");
    }

    #[test]
    fn a_result_with_errors_is_taken_back() {
        let config = Config::load(Overrides::default()).expect("the defaults");
        let options = ConversionOptions { to: markdown::FORMAT, is_strict: false, has_comments: true };
        let made = |text: &str| {
            let text = Some(text.to_owned());
            let mut conversion = Conversion { text, findings: Vec::new() };
            refuse_invalid_result(&mut conversion, options, &Loader::new(&config));
            conversion
        };
        let valid = made("Hi {'there'}\n\n<GenText as=\"t\" model=\"m:x\" />\n");
        assert!(!valid.has_losses(), "{:?}", valid.findings);
        let refused = made("Hi {window}\n\n<GenText as=\"t\" model=\"m:x\" />\n");
        assert!(refused.text.is_none() && refused.findings[0].message.contains("window is restricted"));
    }
}
