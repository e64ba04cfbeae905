//! The front ends that there are, and the dispatch to them.

use std::sync::LazyLock;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node};
use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use crate::answer_source::AnswerSource;
use crate::detect::{Detected, detect_format, find_likely};
use crate::front_end::{Compiled, DefinitionSource, FrontEnd, RenderedResult};
use crate::jsonc::to_plain_json;
use crate::problems::Problems;
use crate::reader::read_text;
use crate::shape::DocumentShape;
use crate::sources::Sources;
use crate::{agent, flow, graph, markdown, pipeline, steps};

/// Front ends, each for a format of its own.
pub struct Registry {
    front_ends: Vec<FrontEnd>,
}

impl Registry {
    /// The formats of this crate.
    pub fn built_in() -> Registry {
        Registry {
            front_ends: vec![
                markdown::FRONT_END,
                flow::FRONT_END,
                pipeline::FRONT_END,
                graph::FRONT_END,
                steps::FRONT_END,
                agent::FRONT_END,
            ],
        }
    }

    /// Adds a format. It replaces an existing front end of the same format.
    pub fn with(mut self, front_end: FrontEnd) -> Registry {
        self.front_ends.retain(|known| known.format != front_end.format);
        self.front_ends.push(front_end);
        self
    }

    /// The front ends, in the order in which they were added.
    pub fn front_ends(&self) -> impl Iterator<Item = &FrontEnd> {
        self.front_ends.iter()
    }

    /// The front end of a format; `None` if there is none.
    pub fn find(&self, format: Format) -> Option<&FrontEnd> {
        self.front_ends().find(|front_end| front_end.format == format)
    }

    /// Compiles the file `entry` of `sources` in the given format; `None` detects the format.
    pub fn compile(&self, entry: &str, sources: &Sources, format: Option<Format>) -> Compiled {
        let mut problems = Problems::new(entry).with_stop(sources.stop.clone());
        let mut compiled = self.compile_with(entry, sources, format, &mut problems);
        if problems.is_stopped() {
            let message = "checking this definition took too long and was stopped";
            problems.add_error(Code::CompileStopped, Span::default(), message).help =
                Some("split it into smaller definitions".into());
            compiled.plan = None;
        }
        (compiled.diagnostics, compiled.omitted) = problems.into_list();
        compiled
    }

    /// Compiles the file `entry`. The problems are left in the list.
    fn compile_with(
        &self,
        entry: &str,
        sources: &Sources,
        format: Option<Format>,
        problems: &mut Problems,
    ) -> Compiled {
        let without_plan = Compiled { format, ..Compiled::default() };
        let Some(bytes) = sources.files.get(entry) else {
            problems.add_error(Code::Unreadable, Span::default(), format_args!("{entry} does not exist"));
            return Compiled { missing_files: vec![entry.to_owned()], ..Compiled::default() };
        };
        let Some(text) = read_text(bytes, sources.source_bytes, problems) else { return without_plan };
        let is_recognised = || self.front_ends.iter().any(|front_end| (front_end.recognises)(entry, text));
        let is_markdown = format == Some(markdown::FORMAT);
        if is_yaml(entry) && !text.trim_start().starts_with(['{', '[']) && !is_markdown && !is_recognised() {
            let span = Span { start: 0, length: text.lines().next().map_or(0, str::len) };
            problems.add_error(Code::UnknownFormat, span, "this is YAML, which is not read").help =
                Some("convert it to JSON, for example with yq -o=json FILE > FILE.json".into());
            return without_plan;
        }
        let text = &*to_plain_json(entry, text);
        let detected = match format {
            Some(format) => self.find(format).map(|front_end| Detected { front_end, tree: None }).or_else(|| {
                let message = format_args!("there is no format {format}");
                problems.add_error(Code::UnknownFormat, Span::default(), message);
                None
            }),
            None => detect_format(&self.front_ends, entry, text, problems),
        };
        let Some(Detected { front_end, tree }) = detected else { return without_plan };
        let source = DefinitionSource { file: entry, text, tree };
        let mut missing_files = Vec::new();
        let plan = (front_end.compile)(source, sources, problems, &mut missing_files);
        let plan = plan.filter(|_| !problems.has_errors());
        let required_servers = plan
            .as_ref()
            .map(|plan| sources.required_servers((front_end.functions_for_models)(plan)))
            .unwrap_or_default();
        Compiled { plan, format: Some(front_end.format), missing_files, required_servers, ..Compiled::default() }
    }

    /// The result of a run of `plan` that left `env` behind; empty for a format that is not there.
    pub fn render_result(&self, plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
        match self.find(plan.format) {
            Some(front_end) => (front_end.render_result)(plan, state, env),
            None => RenderedResult { result: Value::Null, output: Value::Null },
        }
    }
}

/// Whether the name of a file is that of a YAML file.
fn is_yaml(file: &str) -> bool {
    [".yaml", ".yml"].iter().any(|ending| file.ends_with(ending))
}

static BUILT_IN_FORMATS: LazyLock<Registry> = LazyLock::new(Registry::built_in);

/// The formats of this crate, in the order of their registration.
pub fn formats() -> impl Iterator<Item = Format> {
    BUILT_IN_FORMATS.front_ends().map(|front_end| front_end.format)
}

/// The format of this crate that is called `name`.
pub fn find_format(name: &str) -> Option<Format> {
    formats().find(|format| format.name() == name)
}

/// The format that a document which may be incomplete looks like: by its name, or by the tree of its JSON.
pub fn recognise(file: &str, text: &str, tree: Option<&Node>) -> Option<Format> {
    let front_ends = &BUILT_IN_FORMATS.front_ends;
    let by_name = front_ends.iter().find(|front_end| (front_end.recognises)(file, text));
    let found = by_name.or_else(|| find_likely(front_ends, &DocumentShape::from_node(tree?)));
    found.map(|front_end| front_end.format)
}

/// Whether a text is a test of a workflow (docs/testing.md), and not a definition.
pub fn is_test(text: &str) -> bool {
    // Most formats are recognised without parsing the definition.
    let may_be = ["\"definition\"", "\"expect\"", "\"workflow\""].iter().any(|key| text.contains(key));
    may_be && parse_node(text).is_ok_and(|(tree, _)| DocumentShape::from_node(&tree).is_test())
}

/// Whether a text may be meant as a test of a workflow: it is one, it has misspelt keys of one, or it is no JSON.
pub fn may_be_test(text: &str) -> bool {
    parse_node(text).map_or(true, |(tree, _)| DocumentShape::from_node(&tree).resembles_test())
}

/// The JSON Schema of a format of this crate; of Markdown, that of the frontmatter.
pub fn format_schema(format: Format) -> Option<&'static str> {
    BUILT_IN_FORMATS.find(format).map(|front_end| front_end.schema)
}

/// Files next to a definition of this format that belong to it, as patterns; `*` matches a name.
pub fn related_file_patterns(format: Format) -> &'static [&'static str] {
    BUILT_IN_FORMATS.find(format).map(|front_end| front_end.related_file_patterns).unwrap_or_default()
}

/// Compiles the file `entry` of `sources` in the given format; `None` detects the format.
///
/// # Examples
///
/// ```
/// use flowloom_formats::{Sources, compile, markdown};
///
/// let files = [("greet.mdx".to_owned(), b"Say hello.\n\n<GenText as=\"greeting\" model=\"local:smollm2\" />\n".to_vec())];
/// let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
/// let compiled = compile("greet.mdx", &sources, None);
/// assert_eq!(compiled.format, Some(markdown::FORMAT));
/// assert!(compiled.plan.is_some(), "{:?}", compiled.diagnostics);
/// ```
pub fn compile(entry: &str, sources: &Sources, format: Option<Format>) -> Compiled {
    BUILT_IN_FORMATS.compile(entry, sources, format)
}

/// The result of a run of `plan`. `env` holds the run's final variables.
pub fn render_result(plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
    BUILT_IN_FORMATS.render_result(plan, state, env)
}

/// The step whose text is the output of every successful run of `plan` with these inputs; `None` if that depends on the
/// course of the run.
pub fn find_answer_source(plan: &Plan, inputs: &Value) -> Option<AnswerSource> {
    let front_end = BUILT_IN_FORMATS.find(plan.format)?;
    (front_end.find_answer_source)(plan, inputs)
}
