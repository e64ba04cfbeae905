//! The folders of agents: `agents/NAME/` and `Agents/NAME/` next to the definition and in the folders above it, and the
//! folders that the configuration names. Only those that a graph uses are compiled.

use std::collections::BTreeMap;

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node};

use super::{AGENT_ID_KEYS, AGENT_PROMPT_FILE, AGENT_SETTINGS_FILE};
use crate::problems::Problems;
use crate::reader::{read_json, read_text};
use crate::sources::Sources;

/// The folder of an agent.
pub(super) struct AgentFolder<'s> {
    /// Its path.
    pub(super) path: &'s str,
    /// Its name; that of a configured agent is its id in the configuration.
    pub(super) name: &'s str,
    /// The id in its settings; `None` if they have none or cannot be read.
    pub(super) id: Option<String>,
    /// The place of the id in its settings.
    pub(super) id_span: Span,
    /// Its settings; `None` if the file is missing.
    settings: Option<&'s [u8]>,
    prompt: Option<&'s [u8]>,
    /// Whether its settings are a JSON text.
    is_readable: bool,
    rank: Rank,
}

/// How near the folder of an agent is to the definition: the smallest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The configuration names it.
    Configured,
    /// The number of folders on the way to it, negated.
    Found(isize),
}

impl<'s> AgentFolder<'s> {
    /// Whether a node that names `agent` means this folder.
    fn is_named(&self, agent: &str) -> bool {
        self.id.as_deref() == Some(agent) || self.name == agent
    }

    /// Whether it is as near as `used`, and has the same id under another name.
    pub(super) fn is_other_with_id_of(&self, used: &AgentFolder<'_>) -> bool {
        // Some file systems show one folder under two spellings.
        let is_other = !self.path.eq_ignore_ascii_case(used.path);
        is_other && self.rank == used.rank && self.id.is_some() && self.id == used.id
    }

    /// Whether its settings are missing.
    pub(super) fn lacks_settings(&self) -> bool {
        self.settings.is_none()
    }

    /// Whether its settings are there, and are no JSON text.
    pub(super) fn is_unreadable(&self) -> bool {
        !self.is_readable && !self.lacks_settings()
    }

    /// The path of its settings.
    pub(super) fn settings_path(&self) -> String {
        format!("{}/{AGENT_SETTINGS_FILE}", self.path)
    }

    /// Its settings; `None`, with an error at its place in the file, if they cannot be read.
    pub(super) fn read_settings(&self, limit_bytes: u64, problems: &mut Problems) -> Option<Node> {
        let text = read_text(self.settings?, limit_bytes, problems)?;
        read_json(text, parse_node(text), problems)
    }

    /// The text of its instructions. The space around it stays, because runs in progress have sent it.
    pub(super) fn read_prompt(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.prompt?);
        Some(strip_line_numbers(text.trim_start_matches('\u{feff}')))
    }
}

/// The folders of agents among the files.
pub(super) fn list_folders<'s>(file: &str, sources: &'s Sources) -> Vec<AgentFolder<'s>> {
    let mut paths: BTreeMap<&str, [Option<&[u8]>; 2]> = BTreeMap::new();
    for (path, bytes) in sources.files.iter().filter(|(path, _)| *path != file) {
        let Some((folder, name)) = path.rsplit_once('/') else { continue };
        let Some(at) = [AGENT_SETTINGS_FILE, AGENT_PROMPT_FILE].iter().position(|known| *known == name) else {
            continue;
        };
        paths.entry(folder).or_default()[at] = Some(bytes);
    }
    let folder = |(path, [settings, prompt]): (&'s str, [Option<&'s [u8]>; 2])| {
        let configured = sources.agent_folders.iter().find(|(_, named)| named.as_str() == path);
        let (parent, own) = path.rsplit_once('/').unwrap_or(("", path));
        let node = settings.and_then(parse_settings);
        let id = node
            .as_ref()
            .and_then(|node| AGENT_ID_KEYS.iter().find_map(|key| node.get(key).filter(|id| id.as_str().is_some())));
        AgentFolder {
            path,
            name: configured.map_or(own, |(id, _)| id),
            id: id.and_then(Node::as_str).map(str::to_owned),
            id_span: id.map(|id| id.span).unwrap_or_default(),
            settings,
            prompt,
            is_readable: node.is_some(),
            rank: configured.map_or_else(|| Rank::Found(-measure_depth(parent)), |_| Rank::Configured),
        }
    };
    paths.into_iter().map(folder).collect()
}

/// The index of the folder that a node means by `agent`: the nearest one, and of several the one with this id.
pub(super) fn find_folder(folders: &[AgentFolder<'_>], agent: &str) -> Option<usize> {
    let named = folders.iter().enumerate().filter(|(_, folder)| folder.is_named(agent));
    // A folder without settings counts only if there is no other one.
    let key = |folder: &AgentFolder<'_>| (folder.lacks_settings(), folder.rank, folder.id.as_deref() != Some(agent));
    named.min_by_key(|(_, folder)| key(folder)).map(|(index, _)| index)
}

/// The settings of an agent, if they are a JSON text.
fn parse_settings(bytes: &[u8]) -> Option<Node> {
    let text = std::str::from_utf8(bytes).ok()?;
    parse_node(text).ok().map(|(node, _)| node)
}

/// The number of folders in a path; one for `..` counts less than none.
fn measure_depth(path: &str) -> isize {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.map(|part| if part == ".." { -1 } else { 1 }).sum()
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
