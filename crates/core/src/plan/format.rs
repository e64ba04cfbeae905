//! The formats.

/// The formats that a plan can come from. Only `formats` and reports read this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Markdown with actions (lebrunel/agentflow).
    Markdown,
    /// JSON flows (AnythingLLM agent flows).
    Flow,
    /// Block pipelines (AgentFlow).
    Pipeline,
    /// Agent graphs (2nChat).
    Graph,
    /// Step lists (AgentOS).
    Steps,
    /// Agents around flows (AnythingLLM): a model whose tools are workflows.
    Agent,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 6] =
        [Format::Markdown, Format::Flow, Format::Pipeline, Format::Graph, Format::Steps, Format::Agent];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Markdown => "markdown",
            Format::Flow => "flow",
            Format::Pipeline => "pipeline",
            Format::Graph => "graph",
            Format::Steps => "steps",
            Format::Agent => "agent",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}
