//! Things outside of a definition that can be named in it.

use std::collections::BTreeMap;

use flowloom_app::definitions::nameable::{Nameable, NameableThings};
use flowloom_core::plan::Format;
use flowloom_formats::steps;

use super::completion::{is_configured, is_tool};
use super::mdx::plain_name;

/// The names outside of a definition that it can use.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Functions.
    pub functions: Vec<KnownName>,
    /// Models.
    pub models: Vec<KnownName>,
    /// Blocks of pipelines.
    pub blocks: Vec<KnownName>,
    /// Agents of graphs.
    pub agents: Vec<KnownName>,
    /// Workflows of the folder, which agents call.
    pub workflows: Vec<KnownName>,
    /// Secrets.
    pub secrets: Vec<KnownName>,
    /// Texts that Markdown can include.
    pub texts: Vec<KnownName>,
    /// The fields of the last values of variables, by the names of the variables.
    pub fields: BTreeMap<String, Vec<String>>,
}

/// A thing that can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownName {
    /// The name.
    pub name: String,
    /// A short description.
    pub detail: String,
    /// The inputs of a block or of a function.
    pub inputs: Vec<KnownName>,
    /// The constants of a function's action.
    pub helpers: Vec<KnownName>,
}

impl From<NameableThings> for Known {
    fn from(things: NameableThings) -> Known {
        let to_names = |things: Vec<Nameable>| things.into_iter().map(KnownName::from).collect::<Vec<_>>();
        Known {
            functions: to_names(things.functions),
            models: to_names(things.models),
            blocks: to_names(things.blocks),
            agents: to_names(things.agents),
            workflows: to_names(things.workflows),
            secrets: to_names(things.secrets),
            texts: to_names(things.texts),
            fields: BTreeMap::new(),
        }
    }
}

impl Known {
    /// The functions that definitions of a format can call. Those that are only kinds of steps, and stages of the planner,
    /// are for step lists.
    pub fn list_functions(&self, format: Option<Format>) -> Vec<KnownName> {
        let is_step_list = format == Some(steps::FORMAT);
        self.functions.iter().filter(|function| is_step_list || is_tool(&function.name)).cloned().collect()
    }

    /// The function of the configuration that an element of a Markdown workflow calls.
    pub fn find_called_function(&self, element: &str) -> Option<&KnownName> {
        let element = plain_name(element);
        let is_meant = |function: &&KnownName| plain_name(&write_element_name(&function.name)) == element;
        self.functions.iter().filter(|function| is_configured(&function.name)).find(is_meant)
    }
}

/// The element that calls a function: its words, each with a capital letter.
pub(super) fn write_element_name(function: &str) -> String {
    let words = function.split([':', '_', '.', '-']).filter(|word| !word.is_empty());
    let capitalise = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}", first.to_uppercase())
    };
    words.map(capitalise).collect()
}

impl KnownName {
    /// A name with its description.
    pub fn new(name: impl Into<String>, detail: impl Into<String>) -> KnownName {
        KnownName { name: name.into(), detail: detail.into(), ..KnownName::default() }
    }
}

impl From<Nameable> for KnownName {
    fn from(thing: Nameable) -> KnownName {
        let to_names = |things: Vec<Nameable>| things.into_iter().map(KnownName::from).collect();
        let (inputs, helpers) = (to_names(thing.inputs), to_names(thing.helpers));
        KnownName { inputs, helpers, ..KnownName::new(thing.name, thing.description) }
    }
}
