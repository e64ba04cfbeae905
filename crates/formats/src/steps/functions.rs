//! The effect of a `functionId`: functions that are step kinds of their own, and callable functions.

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span, did_you_mean};
use flowloom_core::expr::{Data, Template};
use flowloom_core::plan::{Call, Generate, Kind, Leaf, MemoryOperation, MemoryStep};

use super::Compiler;

/// The built-in functions. The first four are step kinds of their own; the others are callable.
pub const BUILT_IN: [&str; 20] = [
    "agent::chat",
    "memory::get",
    "memory::set",
    "human::ask",
    "tool::web_fetch",
    "tool::web_search",
    "tool::http_request",
    "tool::file_read",
    "tool::file_write",
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

impl Compiler<'_> {
    pub(super) fn function(&mut self, id: &str, span: Span, prompt: Template, is_collect: bool) -> Option<Kind> {
        self.functions.push((id.into(), span));
        if self.sources.configured.iter().any(|name| name == id) {
            return Some(call(id, prompt, is_collect));
        }
        Some(match id {
            "agent::chat" => Kind::Leaf(Leaf::Generate(Generate {
                model: None,
                system: None,
                thread: None,
                computed: None,
                messages: vec![(Role::User, Data::Text(prompt))],
                schema: None,
                options: GenerateOptions::default(),
            })),
            "memory::get" | "memory::set" => {
                let is_get = id == "memory::get";
                let operation = if is_get { MemoryOperation::Get } else { MemoryOperation::Set };
                Kind::Leaf(Leaf::Memory(MemoryStep { operation, prompt }))
            }
            "human::ask" => Kind::Leaf(Leaf::Ask { question: prompt, schema: None }),
            id if self.sources.server_of(id).is_some() => call(id, prompt, is_collect),
            id if BUILT_IN.contains(&id) || self.sources.functions.iter().any(|name| name == id) => {
                call(id, prompt, is_collect)
            }
            id => {
                self.unknown_function(id, span);
                return None;
            }
        })
    }

    fn unknown_function(&mut self, id: &str, span: Span) {
        let known = BUILT_IN.iter().copied().chain(self.sources.functions.iter().map(String::as_str));
        let meant = did_you_mean(id, known);
        let diagnostic = self.problems.error(Code::UnknownFunction, span, format!("there is no function {id:?}"));
        diagnostic.help = Some(match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("declare it in flowloom.toml: [functions.\"{id}\"] with a url or a workflow"),
        });
        diagnostic.fix =
            meant.map(|meant| Fix { title: format!("write {meant:?}"), edits: vec![(span, format!("{meant:?}"))] });
    }
}

fn call(id: &str, prompt: Template, is_collect: bool) -> Kind {
    let extra = if is_collect { vec![("fanoutResults".into(), "__fanout".into())] } else { Vec::new() };
    Kind::Leaf(Leaf::Call(Call { function: id.into(), prompt, extra, arguments: None }))
}
