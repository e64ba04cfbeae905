//! The words of a drawing: what a step does, and when an arrow is followed.

use flowloom_core::expr::Template;
use flowloom_core::plan::{Block, BlockCode, Composite, Generate, Leaf, MemoryOperation, Step, StepKind};

/// Maximum number of names in a box of tools or of variables; the others are counted.
pub(super) const MAX_TOOL_LINES: usize = 8;

/// Maximum number of tools in the box of an agent of a graph, where the tools have a box of their own.
const MAX_AGENT_TOOLS: usize = 3;

/// A description of a step in a few lines.
pub(super) fn describe_step(step: &Step) -> Vec<String> {
    match &step.kind {
        StepKind::Leaf(leaf) => describe_leaf(leaf),
        StepKind::Composite(Composite::Agent(agent)) => describe_model("agent", &agent.generate),
        StepKind::Composite(Composite::Turn(turn)) => {
            let tools = list_names(turn.tools.iter().map(|tool| tool.declaration.name.as_str()), MAX_AGENT_TOOLS);
            let mut lines = describe_model("agent", &turn.generate);
            if !tools.is_empty() {
                lines.push(format!("tools: {}", tools.join(", ")));
            }
            lines
        }
        StepKind::Composite(Composite::Tools(tools)) => {
            list_names(tools.tools.iter().map(|tool| tool.declaration.name.as_str()), MAX_TOOL_LINES)
        }
        StepKind::Composite(Composite::Assign(rows)) => {
            let names = rows.iter().map(|row| row.name.show_source()).collect::<Vec<_>>();
            list_names(names.iter().map(String::as_str), MAX_TOOL_LINES)
        }
        StepKind::Composite(_) => Vec::new(),
    }
}

fn describe_leaf(leaf: &Leaf) -> Vec<String> {
    match leaf {
        Leaf::Fail { message, .. } => vec![format!("fails: {message}")],
        Leaf::Generate(generate) => describe_model("model", generate),
        Leaf::Http(http) => {
            let method = http.method.show_source();
            vec![format!("{} {}", if method.trim().is_empty() { "GET" } else { method.trim() }, http.url.show_source())]
        }
        Leaf::Scrape(page) => vec![page.url.show_source()],
        Leaf::Call(call) => vec![call.function.to_string()],
        Leaf::Block(block) => describe_block(block),
        Leaf::Memory(memory) => vec![describe_memory(memory.operation).to_owned()],
        Leaf::Ask { question, .. } => vec![question.show_source()],
        Leaf::Wait { duration_ms } => vec![format!("waits {} s", *duration_ms as f64 / 1e3)],
    }
}

fn describe_model(kind: &str, generate: &Generate) -> Vec<String> {
    let model = generate.model.as_ref().map(Template::show_source).filter(|model| !model.is_empty());
    vec![model.unwrap_or_else(|| kind.to_owned())]
}

fn describe_block(block: &Block) -> Vec<String> {
    let kind = match &block.code {
        BlockCode::Python { .. } => "Python",
        BlockCode::Prompt { .. } => "model",
        BlockCode::Function(function) => function,
    };
    vec![kind.to_owned()]
}

fn describe_memory(operation: MemoryOperation) -> &'static str {
    match operation {
        MemoryOperation::Get => "reads memory",
        MemoryOperation::Set => "writes memory",
        MemoryOperation::All => "reads all memory",
        MemoryOperation::Profile => "reads the profile",
    }
}

/// At most `most` names, and how many more there are.
pub(super) fn list_names<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = names.map(str::to_owned).collect();
    let more = lines.len().saturating_sub(most);
    // A line that counts one name takes as much room as the name.
    if more > 1 {
        lines.truncate(most);
        lines.push(format!("and {more} more"));
    }
    lines
}
