//! `agent`: an agent around flows (docs/formats/agent.md): a model in a conversation whose tools are workflows,
//! functions and MCP tools.
//!
//! A JSON object with `systemPrompt`. The available workflows are not part of it: the program supplies them in
//! [`Sources::flows`], again before each run.

mod front_end;
mod present;
mod tools;

use flowloom_core::chat::GenerateOptions;
use flowloom_core::code::Code;
use flowloom_core::expr::{Data, Missing, Template, TextRules};
use flowloom_core::json::{NodeKind, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Agent, CallLimit, Composite, Format, Generate, Inputs, Plan, Step};
use flowloom_core::render::TextStyle;
use flowloom_core::value::Map;

use crate::front_end::DefinitionSource;
use crate::problems::Problems;
use crate::reader::{Fields, read_json};
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;
use tools::ToolCollector;

pub use crate::sources::AvailableFlow;
pub(crate) use front_end::FRONT_END;

/// The supported keys, including those of agent records in graphs.
const KNOWN_KEYS: [&str; 14] = [
    "systemPrompt",
    "tools",
    "needsApproval",
    "toolChoice",
    "maxToolCalls",
    "model",
    "name",
    "description",
    "id",
    "agentId",
    "agent_id",
    "system_prompt",
    "llmModelId",
    "llm_model_id",
];

/// Maximum number of tool calls per turn, unless the definition sets it.
pub const DEFAULT_MAX_TOOL_CALLS: u32 = 10;

/// Instructions of an agent that declares none.
pub const DEFAULT_PROMPT: &str = "You are a helpful assistant. Use the tools you have where they help with what the user wants, \
                          and answer in the user's language.";

/// The definition of the default agent: every workflow is its tool.
pub const DEFAULT_DEFINITION: &str = "{}";

/// The name of the conversation.
const THREAD_NAME: &str = "messages";

/// The text rules of an agent; only requests of tools contain references.
const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Null,
    null_is_missing: true,
    style: TextStyle::Json,
    keeps_type: true,
    wording: ORIGINAL_WORDING,
};

/// The id of the format.
pub const FORMAT: Format = Format::new("agent");

/// Compiles an agent.
fn compile(
    source: DefinitionSource<'_>,
    sources: &Sources,
    problems: &mut Problems,
    needs: &mut Vec<String>,
) -> Option<Plan> {
    let DefinitionSource { file, text, tree } = source;
    let node = tree.or_else(|| read_json(text, parse_node(text), problems))?;
    let fields = Fields::read_object(&node, "an agent", problems)?;
    fields.warn_unknown_keys(&KNOWN_KEYS, problems);
    let mut own =
        |keys: &[&str]| keys.iter().find_map(|key| fields.read_text(key, problems)).map(|(text, _)| text.to_owned());
    let id = own(&["id", "agentId", "agent_id"]);
    let name = own(&["name"]).or_else(|| id.clone());
    let description = own(&["description"]).unwrap_or_default();
    let prompt = own(&["systemPrompt", "system_prompt"]).filter(|text| !text.is_empty());
    let model = own(&["model", "llmModelId", "llm_model_id"]);
    let limit = fields
        .read_whole_number("maxToolCalls", problems)
        .map_or(DEFAULT_MAX_TOOL_CALLS, |(most, _)| u32::try_from(most).unwrap_or(u32::MAX));
    let mut tools = ToolCollector::new(file, sources, problems);
    match fields.get_non_null("tools") {
        None => tools.add_all_flows(fields.start_span()),
        Some(list) => match list.items() {
            Some(items) => items.iter().for_each(|item| tools.add(item)),
            None => drop(fields.report_wrong_kind("tools", list, "a list", tools.problems)),
        },
    }
    if let Some(approval) = fields.get_non_null("needsApproval") {
        match (&approval.kind, approval.items()) {
            (NodeKind::Bool(all), _) => tools.require_all_approvals(*all),
            (_, Some(items)) => items.iter().for_each(|item| tools.require_approval(item)),
            _ => drop(fields.report_wrong_kind("needsApproval", approval, "true or a list of tools", tools.problems)),
        }
    }
    let must_call = match fields.read_text("toolChoice", tools.problems) {
        None | Some(("auto", _)) => false,
        Some(("required", _)) => true,
        Some((other, span)) => {
            let message = format!("\"toolChoice\" is \"auto\" or \"required\", not {other:?}");
            tools.problems.add_error(Code::WrongKind, span, message);
            false
        }
    };
    let ToolCollector { tools, functions, missing, .. } = tools;
    needs.extend(missing);
    let generate = Generate {
        model: model.as_deref().map(Template::from_literal),
        system: Some(Data::Text(Template::from_literal(prompt.as_deref().unwrap_or(DEFAULT_PROMPT)))),
        thread: Some(THREAD_NAME.into()),
        messages: Vec::new(),
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    };
    let agent = Agent { generate, tools, available: None, limit: CallLimit::Calls(limit), must_call };
    let name = name.unwrap_or_else(|| file.to_owned());
    let root = Step { title: name.clone(), ..Step::new(Key::numbered_key("agent", 1), Composite::Agent(agent)) };
    Some(Plan {
        format: FORMAT,
        name,
        id,
        description,
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
        text: TEXT_RULES,
        limits: Limits::unlimited(),
        functions,
        thread: Some(THREAD_NAME.into()),
        root,
    })
}
