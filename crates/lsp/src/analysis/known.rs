//! Things outside of a definition that can be named in it.

use std::collections::BTreeMap;

use flowloom_app::definitions::nameable::{Nameable, NameableThings};

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
    /// The inputs of a block.
    pub inputs: Vec<KnownName>,
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

impl KnownName {
    /// A name with its description.
    pub fn new(name: impl Into<String>, detail: impl Into<String>) -> KnownName {
        KnownName { name: name.into(), detail: detail.into(), inputs: Vec::new() }
    }
}

impl From<Nameable> for KnownName {
    fn from(thing: Nameable) -> KnownName {
        let inputs = thing.inputs.into_iter().map(KnownName::from).collect();
        KnownName { inputs, ..KnownName::new(thing.name, thing.description) }
    }
}
