//! What exists outside of a definition and can be named in it.

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

impl Offer {
    /// An offer.
    pub fn new(name: impl Into<String>, detail: impl Into<String>) -> Offer {
        Offer { name: name.into(), detail: detail.into() }
    }
}
