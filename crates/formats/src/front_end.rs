//! The interface between the program and a format: the functions of its front end, their arguments and results.

use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::json::Node;
use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use crate::answer_source::AnswerSource;
use crate::problems::Problems;
use crate::shape::DocumentShape;
use crate::sources::Sources;

/// Compiles a definition. `None`, with an error in the problems, if that fails; files that the definition names and the
/// sources lack are added to the list.
pub(crate) type Compile = fn(DefinitionSource<'_>, &Sources, &mut Problems, &mut Vec<String>) -> Option<Plan>;

/// Builds the result of a run from its plan, its state and its final variables.
pub(crate) type RenderResult = fn(&Plan, &RunState, &Env) -> RenderedResult;

/// A format: how its definitions are recognised and compiled, and how its runs are presented.
///
/// A front end is pure. Everything that the engine knows of a format is in the plans that it makes.
#[derive(Clone, Copy)]
pub struct FrontEnd {
    /// The format's id.
    pub format: Format,
    /// JSON Schema of a definition, or of its head, for editors.
    pub schema: &'static str,
    /// Files next to a definition that belong to it, as patterns; `*` stands for a name.
    pub related_file_patterns: &'static [&'static str],
    /// Whether the name of a file or the start of its text shows that it is of this format.
    pub recognises: fn(file: &str, text: &str) -> bool,
    /// How people recognise a definition of this format, for the message about a file in no known format.
    pub hint: &'static str,
    /// The reason why a document is nearly a definition of this format, for the same message.
    pub near_miss: fn(&DocumentShape<'_>) -> Option<&'static str>,
    /// How much a JSON document looks like a definition of this format: 0 for not at all; the format with the highest
    /// score wins.
    pub score_shape: fn(&DocumentShape<'_>) -> u8,
    /// Compiles a definition.
    pub compile: Compile,
    /// Builds the result of a run.
    pub render_result: RenderResult,
    /// The step whose text is the output of every successful run of a plan with these inputs; `None` if that depends on
    /// the course of the run.
    pub find_answer_source: fn(&Plan, inputs: &Value) -> Option<AnswerSource>,
    /// The functions that a plan offers to models.
    pub functions_for_models: fn(&Plan) -> Vec<&str>,
}

impl FrontEnd {
    /// A front end that recognises nothing by itself and offers no functions.
    pub const fn new(format: Format, schema: &'static str, compile: Compile, render_result: RenderResult) -> FrontEnd {
        FrontEnd {
            format,
            schema,
            related_file_patterns: &[],
            recognises: |_, _| false,
            hint: "",
            near_miss: |_| None,
            score_shape: |_| 0,
            compile,
            render_result,
            find_answer_source: |_, _| None,
            functions_for_models: |_| Vec::new(),
        }
    }
}

/// A definition file to compile.
pub struct DefinitionSource<'a> {
    /// Its path, as definitions write paths.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The parsed tree of the text, if it is available already.
    pub tree: Option<Node>,
}

/// The result of compiling a definition.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The plan; `None` if there are errors.
    pub plan: Option<Plan>,
    /// The format, if it was detected.
    pub format: Option<Format>,
    /// The problems, at most [`MAX_PROBLEMS`](crate::MAX_PROBLEMS).
    pub diagnostics: Vec<Diagnostic>,
    /// The number of further problems.
    pub omitted: OmittedProblems,
    /// Files that the definition refers to and `Sources` lacks.
    pub missing_files: Vec<String>,
    /// MCP servers whose tool lists are needed before the definition can run.
    pub required_servers: Vec<String>,
}

/// The number of problems that are not reported one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OmittedProblems {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

/// The result of a run in the form of its format.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedResult {
    /// The result in the shape of the format.
    pub result: Value,
    /// The main output: the one value that answers the input; `null` if there is none.
    pub output: Value,
}
