//! The errors of `check` about sources of Python blocks that are not Python, or have no function `execute`.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::json::{Node, parse_node};
use flowloom_formats::pipeline;

use super::source::LoadedDefinition;
use crate::blocks::PythonSyntax;

/// The source of a block, and its place.
struct BlockSource {
    file: String,
    span: Span,
    id: String,
    source: String,
}

impl LoadedDefinition {
    /// Adds an error for each block of a pipeline whose source is not Python or has no function `execute`. Nothing of the
    /// sources is run. Without a sandbox, nothing is added.
    pub async fn add_python_errors(&mut self, syntax: &PythonSyntax) {
        if self.compiled.format != Some(pipeline::FORMAT) {
            return;
        }
        let mut blocks = Vec::new();
        for (file, bytes) in self.files() {
            if let Ok((tree, _)) = parse_node(&String::from_utf8_lossy(bytes)) {
                collect_sources(file, &tree, &mut blocks);
            }
        }
        // A block of another file concerns only who uses it.
        if blocks.iter().any(|block| block.file != self.name()) {
            let used = self.list_used_blocks();
            blocks.retain(|block| block.file == self.name() || used.contains(&block.id));
        }
        if blocks.is_empty() {
            return;
        }
        let sources: Vec<&str> = blocks.iter().map(|block| block.source.as_str()).collect();
        let problems = syntax.find_problems(&sources).await;
        for (block, problem) in blocks.iter().zip(problems) {
            let Some(problem) = problem else { continue };
            let message = format!("\"source_code\" of the block {} {problem}", block.id);
            let error = Diagnostic::new_error(Code::BlockIncomplete, &block.file, block.span, message)
                .with_help("a block defines async def execute(inputs, context)");
            self.compiled.diagnostics.push(error);
        }
    }

    /// The ids of the blocks that the nodes of this pipeline name.
    fn list_used_blocks(&self) -> HashSet<String> {
        let Ok((tree, _)) = parse_node(&String::from_utf8_lossy(self.bytes())) else { return HashSet::new() };
        let places = ["pipeline", "pipeline_json", "definition"].iter().filter_map(|key| tree.get(key)).chain([&tree]);
        let nodes = places.filter_map(|place| place.get("nodes")?.items()).flatten();
        nodes.filter_map(|node| node.get("block_id")?.as_str().map(str::to_owned)).collect()
    }
}

/// The blocks of a file: it is one, or it has a list of them.
fn collect_sources(file: &str, tree: &Node, found: &mut Vec<BlockSource>) {
    let listed = tree.get("blocks").and_then(Node::items).or_else(|| tree.items()).unwrap_or_default();
    for block in listed.iter().chain([tree]) {
        let text = |key: &str| block.get(key).and_then(Node::as_str);
        let is_python = text("execution_type").is_none_or(|kind| kind == "python");
        // The code of a trigger is never run.
        let is_python = is_python && text("category") != Some("trigger");
        if let (Some(code), Some(source), true) = (block.get("source_code"), text("source_code"), is_python) {
            let id = text("id").unwrap_or_default().to_owned();
            found.push(BlockSource { file: file.to_owned(), span: code.span, id, source: source.to_owned() });
        }
    }
}
