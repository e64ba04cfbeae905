//! The effect of a `functionId`: functions that are step kinds of their own, and callable functions.

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::{Data, Template};
use flowloom_core::plan::{FunctionCall, Generate, Leaf, MemoryOperation, MemoryStep, StepKind};

use super::StepsCompiler;

/// The built-in functions that are step kinds of their own. Only a step of a step list can name them.
pub(crate) const STEP_KIND_FUNCTIONS: &[&str] = &["agent::chat", "memory::get", "memory::set", "human::ask"];

/// The other built-in functions, which steps and blocks can call. Models can call those that `functions.json` describes.
pub(crate) const BUILT_IN_FUNCTIONS: &[&str] = &[
    "tool::web_fetch",
    "tool::web_search",
    "tool::http_request",
    "tool::file_read",
    "tool::file_write",
    "write_files",
    "workflow::create",
    "workflow::run",
    "workflow::list",
    "workflow::runs",
    "notify::push",
    "author::clarify",
    "author::decompose",
    "author::search",
    "author::create",
    "author::wire",
    "author::keep",
];

/// The prompt of a step.
pub(super) struct StepPrompt {
    pub(super) text: Template,
    /// Whether it is the same as the default.
    pub(super) is_default: bool,
    /// Whether the step collects the results of a fan-out.
    pub(super) is_collect: bool,
}

impl StepsCompiler<'_> {
    pub(super) fn compile_function(&mut self, id: &str, span: Span, prompt: StepPrompt) -> Option<StepKind> {
        self.functions.push((id.into(), span));
        if self.sources.configured.iter().any(|name| name == id) {
            return Some(build_call(id, prompt));
        }
        Some(match id {
            "agent::chat" => StepKind::Leaf(Leaf::Generate(Generate {
                model: None,
                system: None,
                thread: None,
                computed: None,
                messages: vec![(Role::User, Data::Text(prompt.text))],
                schema: None,
                options: GenerateOptions::default(),
            })),
            "memory::get" | "memory::set" => {
                let is_get = id == "memory::get";
                let operation = if is_get { MemoryOperation::Get } else { MemoryOperation::Set };
                StepKind::Leaf(Leaf::Memory(MemoryStep {
                    operation,
                    prompt: prompt.text,
                    has_default_prompt: prompt.is_default,
                }))
            }
            "human::ask" => StepKind::Leaf(Leaf::Ask { question: prompt.text, schema: None }),
            id if self.sources.server_of(id).is_some() => build_call(id, prompt),
            id if BUILT_IN_FUNCTIONS.contains(&id) || self.sources.functions.iter().any(|name| name == id) => {
                build_call(id, prompt)
            }
            id => {
                self.report_unknown_function(id, span);
                return None;
            }
        })
    }

    fn report_unknown_function(&mut self, id: &str, span: Span) {
        let built_in = STEP_KIND_FUNCTIONS.iter().chain(BUILT_IN_FUNCTIONS).copied();
        let known = built_in.chain(self.sources.functions.iter().map(String::as_str));
        let meant = self.problems.find_similar(id, known);
        let diagnostic =
            self.problems.add_error(Code::UnknownFunction, span, format_args!("there is no function {id:?}"));
        diagnostic.help = Some(match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("declare it in flowloom.toml: [functions.\"{id}\"] with a url or a workflow"),
        });
        diagnostic.fix =
            meant.map(|meant| Fix::new_suggestion(format!("write {meant:?}"), vec![(span, format!("{meant:?}"))]));
    }
}

fn build_call(id: &str, prompt: StepPrompt) -> StepKind {
    let extra = if prompt.is_collect { vec![("fanoutResults".into(), "__fanout".into())] } else { Vec::new() };
    StepKind::Leaf(Leaf::Call(FunctionCall {
        function: id.into(),
        prompt: prompt.text,
        has_default_prompt: prompt.is_default,
        extra,
        arguments: None,
    }))
}
