//! The front end of Markdown workflows.

use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::present::render_result;
use super::{FORMAT, compile};
use crate::answer_source::{self, AnswerSource};
use crate::front_end::{DefinitionSource, FrontEnd, RenderedResult};
use crate::problems::Problems;
use crate::sources::Sources;

/// The front end.
pub(crate) struct MarkdownFormat;

impl FrontEnd for MarkdownFormat {
    fn format(&self) -> Format {
        FORMAT
    }

    fn schema(&self) -> &'static str {
        include_str!("frontmatter.schema.json")
    }

    fn recognises(&self, file: &str, _text: &str) -> bool {
        let name = file.to_ascii_lowercase();
        name.ends_with(".mdx") || name.ends_with(".md")
    }

    fn compile(
        &self,
        source: DefinitionSource<'_>,
        sources: &Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> Option<Plan> {
        compile(source, sources, problems, needs)
    }

    fn render_result(&self, plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
        render_result(plan, state, env)
    }

    fn find_answer_source(&self, plan: &Plan, inputs: &Value) -> Option<AnswerSource> {
        answer_source::of_only_answer(plan, inputs)
    }

    fn offered_functions<'p>(&self, plan: &'p Plan) -> Vec<&'p str> {
        plan.functions.iter().map(|(function, _)| &**function).collect()
    }
}
