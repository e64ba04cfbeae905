//! What exists outside of a definition and can be named in it.

use flowloom_app::definitions::nameable::{Nameable, NameableThings};

/// What a definition can name besides its own names.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Functions.
    pub functions: Vec<Offer>,
    /// Models.
    pub models: Vec<Offer>,
    /// Blocks of pipelines.
    pub blocks: Vec<Offer>,
    /// Agents of graphs.
    pub agents: Vec<Offer>,
    /// Workflows of the folder, which agents call.
    pub workflows: Vec<Offer>,
}

/// A thing that can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The name.
    pub name: String,
    /// What it is, in a few words.
    pub detail: String,
}

impl From<NameableThings> for Known {
    fn from(things: NameableThings) -> Known {
        let offer = |things: Vec<Nameable>| {
            things.into_iter().map(|thing| Offer::new(thing.name, thing.description)).collect::<Vec<_>>()
        };
        Known {
            functions: offer(things.functions),
            models: offer(things.models),
            blocks: offer(things.blocks),
            agents: offer(things.agents),
            workflows: offer(things.workflows),
        }
    }
}

impl Offer {
    /// An offer.
    pub fn new(name: impl Into<String>, detail: impl Into<String>) -> Offer {
        Offer { name: name.into(), detail: detail.into() }
    }
}
