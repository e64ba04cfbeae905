//! The agents of a graph: from the file itself, from folders `agents/NAME/` with `systemPrompt.md` and
//! `jsonSchema.json`, or from folders of the same shape named in the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_value};
use flowloom_core::plan::AgentTool;
use flowloom_core::value::Value;

use super::{AGENT_ID_KEYS, GraphNode, ToolPlace, ToolRecordReader, warn_misspelt_tool_keys};
use crate::problems::Problems;
use crate::reader::Fields;
use crate::sources::Sources;

/// The keys of an agent. Records of agents may have others.
const KNOWN_KEYS: [&str; 14] = [
    "id",
    "agentId",
    "agent_id",
    "name",
    "description",
    "systemPrompt",
    "system_prompt",
    "tools",
    "model",
    "llmModelId",
    "llm_model_id",
    "messages",
    "workflowId",
    "scope",
];

/// The keys under which an agent has its instructions.
const PROMPT_KEYS: [&str; 2] = ["systemPrompt", "system_prompt"];

/// The other keys of an agent that are text.
const TEXT_KEYS: [&str; 7] = ["id", "agentId", "agent_id", "name", "model", "llmModelId", "llm_model_id"];

/// An agent.
#[derive(Clone, Debug)]
pub(super) struct AgentRecord {
    pub(super) id: String,
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) tools: Vec<AgentTool>,
    /// Size of its texts and tools in the definition, in bytes.
    pub(super) size_bytes: usize,
}

/// All known agents.
pub(super) struct AgentCatalog<'a> {
    list: Vec<AgentRecord>,
    /// The first agent with an id, as an index of the list.
    by_id: HashMap<String, usize>,
    records: ToolRecordReader<'a>,
}

impl<'s> AgentCatalog<'s> {
    pub(super) fn load_agents(
        file: &'s str,
        root: &Node,
        sources: &'s Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> AgentCatalog<'s> {
        let mut agents =
            AgentCatalog { list: Vec::new(), by_id: HashMap::new(), records: ToolRecordReader::new(file, sources) };
        let embedded = root.get("agents").or_else(|| root.get("workflow")?.get("agents"));
        for node in embedded.and_then(Node::items).unwrap_or_default() {
            if let Some(fields) = Fields::read_object(node, "an agent", problems) {
                fields.warn_misspelt_keys(&KNOWN_KEYS, problems);
                fields.check_texts(&PROMPT_KEYS, problems);
                fields.check_texts(&TEXT_KEYS, problems);
                agents.add_agent(&node.to_value(), None, None, Some(node), problems);
            }
        }
        let schemas = sources.files.iter().filter(|(path, _)| *path != file && path.ends_with("/jsonSchema.json"));
        for (path, bytes) in schemas {
            let folder = path.trim_end_matches("/jsonSchema.json");
            let prompt = sources.files.get(&format!("{folder}/systemPrompt.md"));
            let prompt = prompt.map(|bytes| strip_line_numbers(&read_file_text(bytes)));
            // The id of a configured agent comes from the configuration.
            let configured = sources.agent_folders.iter().find(|(_, named)| named.as_str() == folder);
            let name = configured.map_or_else(|| folder.rsplit('/').next().unwrap_or(folder), |(id, _)| id).to_owned();
            match parse_value(&read_file_text(bytes)) {
                Ok(value) => agents.add_agent(&value, Some(name), prompt, None, problems),
                Err(error) => {
                    let message = format!("{path}: {}", error.message);
                    problems.add_error(Code::JsonSyntax, Span::default(), message);
                }
            }
        }
        needs.append(&mut agents.records.missing);
        agents
    }

    /// Adds the agent of a record; `place` is the record in the definition, unless it is in a file of its own.
    fn add_agent(
        &mut self,
        value: &Value,
        name: Option<String>,
        prompt: Option<String>,
        place: Option<&Node>,
        problems: &mut Problems,
    ) {
        let span = place.map(|node| node.span).unwrap_or_default();
        let text = |keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned);
        let name = name.or_else(|| text(&["name"]));
        let Some(id) = text(&AGENT_ID_KEYS).or_else(|| name.clone()) else {
            problems.add_error(Code::MissingKey, span, "an agent has no \"id\"");
            return;
        };
        let size_bytes = prompt.as_ref().map_or(0, String::len) + flowloom_core::render::to_json(value).len();
        let tools = value.get("tools").and_then(Value::as_list).unwrap_or_default();
        let prompt = prompt.or_else(|| text(&PROMPT_KEYS)).unwrap_or_default();
        let is_text = |key: &&str| value.get(key).is_none_or(|prompt| matches!(prompt, Value::Null | Value::String(_)));
        if prompt.trim().is_empty() && PROMPT_KEYS.iter().all(is_text) {
            let message = format_args!("the agent {id} has no \"systemPrompt\", so it has no instructions");
            let start = Span { start: span.start, length: span.length.min(1) };
            problems.add_warning(Code::MissingKey, start, message).help = Some("tell it what to do".into());
        }
        let model = text(&["model", "llmModelId", "llm_model_id"]);
        let places = place.and_then(|node| node.get("tools")).and_then(Node::items).unwrap_or_default();
        places.iter().for_each(|place| warn_misspelt_tool_keys(place, problems));
        let places = places.iter().map(ToolPlace::of_node).chain(std::iter::repeat(ToolPlace::elsewhere(span)));
        let tools =
            tools.iter().zip(places).filter_map(|(tool, place)| self.records.read(tool, place, problems)).collect();
        if let Some(name) = name.filter(|name| *name != id) {
            let alias = AgentRecord { id: name, prompt: prompt.clone(), model: model.clone(), tools, size_bytes };
            self.push_record(AgentRecord { id, ..alias.clone() });
            self.push_record(alias);
            return;
        }
        self.push_record(AgentRecord { id, prompt, model, tools, size_bytes });
    }

    fn push_record(&mut self, agent: AgentRecord) {
        self.by_id.entry(agent.id.clone()).or_insert(self.list.len());
        self.list.push(agent);
    }

    pub(super) fn get(&self, id: &str) -> Option<&AgentRecord> {
        self.by_id.get(id).and_then(|index| self.list.get(*index))
    }

    /// The tools in the record of a node's agent; none if it has no known agent.
    pub(super) fn list_tools(&self, node: &GraphNode<'_>) -> &[AgentTool] {
        node.agent.and_then(|(id, _)| self.get(id)).map_or(&[], |agent| &agent.tools)
    }

    pub(super) fn agent_ids(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|agent| agent.id.as_str())
    }

    /// Whether no agents are known; the graph then runs with agents that can only route.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Size of the texts and tools of all agents, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.list.iter().map(|agent| agent.size_bytes).sum()
    }
}

/// The text of a file, without the mark that some editors put at its start.
fn read_file_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_start_matches('\u{feff}').to_owned()
}

/// Removes pasted line numbers (`12|text`) from a prompt.
fn strip_line_numbers(text: &str) -> String {
    let number =
        |line: &str| line.split_once('|').is_some_and(|(n, _)| !n.is_empty() && n.trim().parse::<u32>().is_ok());
    let has_numbers = text.lines().filter(|line| !line.trim().is_empty()).all(number) && !text.trim().is_empty();
    if !has_numbers {
        return text.to_owned();
    }
    text.lines().map(|line| line.split_once('|').map_or(line, |(_, rest)| rest)).collect::<Vec<_>>().join("\n")
}

/// The text as a shared string.
pub(super) fn to_shared(text: &str) -> Arc<str> {
    text.into()
}
