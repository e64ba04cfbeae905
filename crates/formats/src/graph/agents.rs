//! The agents of a graph: from the file itself or its tables, and from the folders that the graph uses.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind};
use flowloom_core::plan::AgentTool;

use super::folders::{AgentFolder, find_folder, list_folders};
use super::{AGENT_ID_KEYS, GraphNode, ToolPlace, ToolRecordReader, read_text_field, warn_misspelt_tool_keys};
use crate::problems::Problems;
use crate::reader::{Fields, label_span};
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
    /// The agent with an id, as an index of the list.
    by_id: HashMap<String, usize>,
    /// The first agent with a name that is not its id, as an index of the list.
    by_name: HashMap<String, usize>,
    /// The folders of agents, used or not.
    folders: Vec<AgentFolder<'a>>,
    /// Whether agents cannot be read, which is reported. A node may name one of them.
    has_unreadable: bool,
    records: ToolRecordReader<'a>,
}

impl<'s> AgentCatalog<'s> {
    /// The agents of `root`, and those of folders that the nodes of `graph` name.
    pub(super) fn load_agents(
        file: &'s str,
        root: &Node,
        graph: &Node,
        sources: &'s Sources,
        problems: &mut Problems,
    ) -> AgentCatalog<'s> {
        let mut agents = AgentCatalog {
            list: Vec::new(),
            by_id: HashMap::new(),
            by_name: HashMap::new(),
            folders: list_folders(file, sources),
            has_unreadable: false,
            records: ToolRecordReader::new(file, sources),
        };
        agents.add_embedded(root, problems);
        agents.add_folders(&list_named_agents(graph), sources.source_bytes, problems);
        agents
    }

    /// The files of tools that are missing.
    pub(super) fn take_missing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.records.missing)
    }

    /// Adds the agents that are defined in the file.
    fn add_embedded(&mut self, root: &Node, problems: &mut Problems) {
        let Some(embedded) = root.get("agents").or_else(|| root.get("workflow")?.get("agents")) else { return };
        match (&embedded.kind, embedded.items()) {
            (NodeKind::Null, _) => {}
            (_, Some(items)) => items.iter().for_each(|node| self.add_agent(node, None, None, problems)),
            (_, None) => {
                let message = format_args!("\"agents\" of a graph must be a list, not {}", embedded.kind_name());
                problems.add_error(Code::WrongKind, embedded.span, message).help =
                    Some("write a list of objects, each with \"id\", \"systemPrompt\" and \"tools\"".into());
                self.has_unreadable = true;
            }
        }
    }

    /// Adds the agents of the folders that nodes name. A folder that cannot be read is reported if it is named, or if
    /// it may be that of an agent which is nowhere else.
    fn add_folders(&mut self, named: &BTreeSet<&str>, limit_bytes: u64, problems: &mut Problems) {
        let unknown: Vec<&str> = named.iter().copied().filter(|agent| self.get(agent).is_none()).collect();
        let mut used: BTreeSet<usize> = BTreeSet::new();
        let mut is_lost = false;
        for agent in unknown {
            match find_folder(&self.folders, agent) {
                Some(folder) => {
                    report_same_id(&self.folders, folder, agent, problems);
                    used.insert(folder);
                }
                None => is_lost = true,
            }
        }
        let unreadable = |folder: &usize| is_lost && self.folders[*folder].is_unreadable();
        used.extend((0..self.folders.len()).filter(unreadable).collect::<Vec<_>>());
        let folders = std::mem::take(&mut self.folders);
        for folder in used.into_iter().map(|index| &folders[index]).filter(|folder| !folder.lacks_settings()) {
            problems.within_file(&folder.settings_path(), |problems| {
                match folder.read_settings(limit_bytes, problems) {
                    Some(node) => self.add_agent(&node, Some(folder.name), folder.read_prompt(), problems),
                    None => self.has_unreadable = true,
                }
            });
        }
        self.folders = folders;
    }

    /// Adds the agent of a record. That of a folder has the name of the folder, and its instructions are in a file.
    fn add_agent(&mut self, node: &Node, folder: Option<&str>, prompt: Option<String>, problems: &mut Problems) {
        let Some(fields) = Fields::read_object(node, "an agent", problems) else { return };
        fields.warn_misspelt_keys(&KNOWN_KEYS, problems);
        for key in PROMPT_KEYS.iter().chain(&TEXT_KEYS) {
            read_text_field(&fields, key, problems);
        }
        let find = |keys: &[&str]| keys.iter().find_map(|key| node.get(key).filter(|node| node.as_str().is_some()));
        let text = |keys: &[&str]| find(keys).and_then(Node::as_str).map(str::to_owned);
        let name = folder.map(str::to_owned).or_else(|| text(&["name"]));
        let Some(id) = text(&AGENT_ID_KEYS).or_else(|| name.clone()) else {
            problems.add_error(Code::MissingKey, node.span, "an agent has no \"id\"").help =
                Some("give it an \"id\", which nodes name as their \"agentId\"".into());
            return;
        };
        if self.by_id.contains_key(&id) {
            let span = find(&AGENT_ID_KEYS).map_or(fields.start_span(), |node| node.span);
            problems
                .add_error(Code::DuplicateName, span, format_args!("there are several agents with the id {id}"))
                .help = Some("give each agent an id of its own, and name it in the \"agentId\" of the nodes".into());
        }
        let size_bytes =
            prompt.as_ref().map_or(0, String::len) + flowloom_core::render::to_json(&node.to_value()).len();
        let prompt = prompt.or_else(|| text(&PROMPT_KEYS)).unwrap_or_default();
        if prompt.trim().is_empty() && !PROMPT_KEYS.iter().any(|key| fields.has_wrong_kind(key)) {
            let message = format_args!("the agent {id} has no \"systemPrompt\", so it has no instructions");
            let start = Span { start: node.span.start, length: node.span.length.min(1) };
            problems.add_warning(Code::MissingKey, start, message).help = Some("tell it what to do".into());
        }
        let model = text(&["model", "llmModelId", "llm_model_id"]);
        let tools = self.read_tools(&fields, &id, problems);
        let index = self.list.len();
        if let Some(name) = name.filter(|name| *name != id) {
            self.by_name.entry(name).or_insert(index);
        }
        self.by_id.entry(id.clone()).or_insert(index);
        self.list.push(AgentRecord { id, prompt, model, tools, size_bytes });
    }

    /// The tools of an agent.
    fn read_tools(&mut self, fields: &Fields<'_>, agent: &str, problems: &mut Problems) -> Vec<AgentTool> {
        let Some(list) = fields.get_non_null("tools") else { return Vec::new() };
        let Some(records) = list.items() else {
            fields.report_wrong_kind("tools", list, "a list", problems).help =
                Some("write a list of tool records; [] for none".into());
            return Vec::new();
        };
        let mut tools: Vec<AgentTool> = Vec::new();
        for record in records {
            warn_misspelt_tool_keys(record, problems);
            let Some(tool) = self.records.read(&record.to_value(), ToolPlace::of_node(record), problems) else {
                continue;
            };
            let name = &tool.declaration.name;
            if tools.iter().any(|other| other.declaration.name == *name) {
                let message = format_args!("two tools of the agent {agent} are called {name}");
                let span = label_span(record);
                problems.add_error(Code::DuplicateName, span, message).help = Some(
                    "models know a tool by its name, in which :: becomes _; rename one of them, or remove it".into(),
                );
                continue;
            }
            check_tool_name(name, record, problems);
            tools.push(tool);
        }
        tools
    }

    pub(super) fn get(&self, id: &str) -> Option<&AgentRecord> {
        self.by_id.get(id).or_else(|| self.by_name.get(id)).and_then(|index| self.list.get(*index))
    }

    /// The folder that a node means by `agent`, if there is one and its settings are missing.
    pub(super) fn find_incomplete_folder(&self, agent: &str) -> Option<&str> {
        let folder = &self.folders[find_folder(&self.folders, agent)?];
        folder.lacks_settings().then_some(folder.path)
    }

    /// The tools in the record of a node's agent; none if it has no known agent.
    pub(super) fn list_tools(&self, node: &GraphNode<'_>) -> &[AgentTool] {
        node.agent.and_then(|(id, _)| self.get(id)).map_or(&[], |agent| &agent.tools)
    }

    /// The ids and names of all agents, also of those that no node names.
    pub(super) fn agent_names(&self) -> impl Iterator<Item = &str> {
        let folders = self.folders.iter().flat_map(|folder| folder.id.as_deref().into_iter().chain([folder.name]));
        self.list.iter().map(|agent| agent.id.as_str()).chain(folders)
    }

    /// Whether no agents are known; the graph then runs with agents that can only route.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.folders.is_empty()
    }

    /// Whether agents cannot be read, which is reported already. A node may name one of them.
    pub(super) fn has_unreadable(&self) -> bool {
        self.has_unreadable
    }

    /// Size of the texts and tools of all agents, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.list.iter().map(|agent| agent.size_bytes).sum()
    }
}

/// Reports a folder that is as near as the used one, and has the same id, by which a node names it.
fn report_same_id(folders: &[AgentFolder<'_>], used: usize, agent: &str, problems: &mut Problems) {
    let used = &folders[used];
    if used.id.as_deref() != Some(agent) {
        return;
    }
    let Some(other) = folders.iter().find(|other| other.is_other_with_id_of(used)) else { return };
    problems.within_file(&other.settings_path(), |problems| {
        let message = format_args!("the agents in {} and {} have the same id", used.path, other.path);
        problems.add_error(Code::DuplicateName, other.id_span, message).help =
            Some("give one of them another \"agentId\", or remove its folder".into());
    });
}

/// The agents that the nodes of a graph name.
fn list_named_agents(graph: &Node) -> BTreeSet<&str> {
    let nodes = graph.get("nodes").and_then(Node::items).unwrap_or_default();
    nodes.iter().filter_map(|node| ["agentId", "agent_id"].iter().find_map(|key| node.get(key)?.as_str())).collect()
}

/// Warns about a name that providers of models refuse.
fn check_tool_name(name: &str, record: &Node, problems: &mut Problems) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=MAX_TOOL_NAME_CHARS).contains(&name.len()) && name.chars().all(is_plain) {
        return;
    }
    let span = label_span(record);
    let message = format_args!("providers of models refuse the tool name {name:?}");
    problems.add_warning(Code::ToolName, span, message).help = Some(format!(
        "use 1 to {MAX_TOOL_NAME_CHARS} letters, digits, _ and -; \"functionId\" can name the function that it calls"
    ));
}

/// Maximum length of the name of a tool for most providers, in characters.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// The text as a shared string.
pub(super) fn to_shared(text: &str) -> Arc<str> {
    text.into()
}
