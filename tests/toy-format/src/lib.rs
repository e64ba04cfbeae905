//! A toy format: a YAML list of prompts, asked one after the other. `{last}` in a prompt stands for the answer before it.
//!
//! It is the seventh format. It uses the interface of the front ends and the plan, and nothing else had to change for it.

use flowloom_core::chat::{GenerateOptions, Role};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Missing, Ref, Template, TemplatePart, TextRules, Wording};
use flowloom_core::limits::Limits;
use flowloom_core::path::Siblings;
use flowloom_core::plan::{Composite, Env, Format, Generate, Inputs, Leaf, Plan, Step, Write};
use flowloom_core::render::TextStyle;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;
use flowloom_formats::{DefinitionSource, FrontEnd, Problems, RenderedResult, Sources};
use serde::Deserialize;

/// The id of the format.
pub const FORMAT: Format = Format::new("toy");

/// The reference to the answer before.
const LAST: &str = "{last}";

/// JSON Schema of a definition.
const SCHEMA: &str = r#"{"type": "object", "required": ["name", "prompts"],
    "properties": {"name": {"type": "string"}, "prompts": {"type": "array", "items": {"type": "string"}}}}"#;

/// The front end.
pub const FRONT_END: FrontEnd = FrontEnd {
    hint: "a list of prompts ends in .toy.yaml",
    recognises: |file, _| file.ends_with(".toy.yaml"),
    ..FrontEnd::new(FORMAT, SCHEMA, compile, render_result)
};

/// A definition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    name: String,
    prompts: Vec<String>,
}

fn compile(source: DefinitionSource<'_>, _: &Sources, problems: &mut Problems, _: &mut Vec<String>) -> Option<Plan> {
    let definition: Definition = match serde_saphyr::from_str(source.text) {
        Ok(definition) => definition,
        Err(error) => {
            problems.add_error(Code::WrongKind, Span::default(), format!("this is no list of prompts: {error}"));
            return None;
        }
    };
    let mut siblings = Siblings::default();
    let steps = definition.prompts.iter().map(|prompt| {
        let step = Step::new(siblings.next_key(None, "prompt"), Leaf::Generate(generate(prompt)));
        Step { title: prompt.clone(), writes: vec![Write::to_variable("last")], ..step }
    });
    let steps = Composite::Sequence(steps.collect());
    Some(Plan {
        format: FORMAT,
        id: None,
        name: definition.name,
        description: String::new(),
        inputs: Inputs::Whole("last".into()),
        text: TextRules {
            missing: Missing::Empty,
            null_is_missing: true,
            style: TextStyle::Json,
            keeps_type: false,
            wording: Wording::PLAIN,
        },
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root: Step::new(Siblings::default().next_key(None, "prompts"), steps),
    })
}

fn render_result(_plan: &Plan, state: &RunState, env: &Env) -> RenderedResult {
    let output = env.vars.get("last").cloned().unwrap_or_default();
    let answers = state.steps().iter().filter_map(|step| step.output.clone()).collect();
    RenderedResult { result: Value::map([("answers", Value::list(answers))]), output }
}

fn generate(prompt: &str) -> Generate {
    Generate {
        model: None,
        system: None,
        thread: None,
        messages: vec![(Role::User, Data::Text(template(prompt)))],
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    }
}

fn template(prompt: &str) -> Template {
    let last = || TemplatePart::Ref(Ref { name: "last".into(), path: Vec::new(), source: LAST.into() });
    let mut parts = Vec::new();
    for (index, text) in prompt.split(LAST).enumerate() {
        if index > 0 {
            parts.push(last());
        }
        if !text.is_empty() {
            parts.push(TemplatePart::Text(text.into()));
        }
    }
    Template { parts }
}
