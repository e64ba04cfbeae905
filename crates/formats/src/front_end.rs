//! What a format is to the program: the interface that every front end implements, what it is given and what it gives.

use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::json::Node;
use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use crate::answer_source::AnswerSource;
use crate::problems::Problems;
use crate::shape::Shape;
use crate::sources::Sources;

/// A format: how its definitions are recognised and compiled, and how its runs are presented.
///
/// A front end is pure. Everything that the engine knows of a format is in the plans that it makes.
pub trait FrontEnd: Send + Sync {
    /// The format's id.
    fn format(&self) -> Format;

    /// JSON Schema of a definition, or of its head, for editors.
    fn schema(&self) -> &'static str;

    /// Files beside a definition that belong to it, as patterns; `*` stands for a name.
    fn related_file_patterns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a definition is of this format by the name of its file or the first look of its text.
    fn recognises(&self, _file: &str, _text: &str) -> bool {
        false
    }

    /// How much a JSON document looks like a definition of this format: 0 for not at all; of several formats the one
    /// with the most counts.
    fn score_shape(&self, _shape: &Shape<'_>) -> u8 {
        0
    }

    /// Compiles a definition. `None`, with an error in `problems`, if that fails; files that it names and `sources` does
    /// not have are added to `needs`.
    fn compile(
        &self,
        source: DefinitionSource<'_>,
        sources: &Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> Option<Plan>;

    /// The result of a run of `plan`. `env` holds the run's final variables.
    fn render_result(&self, plan: &Plan, state: &RunState, env: &Env) -> RenderedResult;

    /// The step whose text is the output of every run of `plan` with these inputs that ends well; `None` if that depends
    /// on how the run goes.
    fn find_answer_source(&self, _plan: &Plan, _inputs: &Value) -> Option<AnswerSource> {
        None
    }

    /// The functions that `plan` offers to models.
    fn offered_functions<'p>(&self, _plan: &'p Plan) -> Vec<&'p str> {
        Vec::new()
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
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that the definition refers to and `Sources` lacks.
    pub missing_files: Vec<String>,
    /// MCP servers whose tool lists are needed before the definition can run.
    pub required_servers: Vec<String>,
}

/// The result of a run in the form of its format.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedResult {
    /// The result in the shape of the format.
    pub result: Value,
    /// The main output: the one value that answers the input; `null` if there is none.
    pub output: Value,
}
