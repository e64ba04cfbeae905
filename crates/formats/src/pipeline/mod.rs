//! `pipeline`: AgentFlow's block pipelines (docs/formats/pipeline.md).
//!
//! A JSON object with `nodes`, each a block with inputs, and `edges`; references are `{{node.field}}`. Blocks are
//! defined in the file itself (`{"pipeline": …, "blocks": […]}`) or in files below `blocks/` next to it.

mod blocks;
mod front_end;
mod memory;
mod node_inputs;
mod order;
mod present;
pub mod template;

use std::collections::{BTreeSet, HashMap, HashSet};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Missing, Ref, Template, TextRules};
use flowloom_core::json::{Node, NodeKind, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{
    Assignment, Composite, Dag, DagNode, Format, Inputs, Leaf, MemoryOperation, OnError, Plan, Step, StepKind, Write,
};
use flowloom_core::render::TextStyle;
use flowloom_core::value::Map;

use crate::front_end::DefinitionSource;
use crate::functions::advise_declaration;
use crate::notations::{PlacedText, ReferenceRules};
use crate::problems::Problems;
use crate::reader::{Fields, find_span, read_json, related_path, suggest_end, suggest_part};
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;
use blocks::{BlockCatalog, BlockDefinition, trigger_output};

pub use blocks::{built_in_blocks, check_block};
pub(crate) use front_end::FRONT_END;
pub use memory::memory_keys;
use node_inputs::NodeInputs;
pub use present::{PlanNode, find_dag, log_order, node_results, plan_nodes};

/// The text rules of a pipeline: as in Python; a missing value is `null`, or empty within text.
pub const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Null,
    null_is_missing: true,
    style: TextStyle::Python,
    keeps_type: true,
    wording: ORIGINAL_WORDING,
};

/// The reason for a node that is skipped, in AgentFlow's words.
const SKIP_REASON: &str = "upstream node(s) {} failed";

/// Reference names that are not nodes.
const RESERVED_NAMES: [&str; 2] = ["memory", "user"];

/// How a reference is written, for texts that look like one and are none.
const REFERENCE_EXAMPLE: &str = "a reference names a node and a field of its output: {{node.field}}";

/// Maximum size of the blocks of all nodes together, in bytes.
const MAX_PLAN_BYTES: usize = 64 << 20;

/// The file of a pipeline that is a folder.
pub const PIPELINE_FILE: &str = "pipeline.json";

/// The folder next to a pipeline that holds its blocks.
pub const BLOCKS_FOLDER: &str = "blocks/";

const KNOWN_KEYS: [&str; 14] = [
    "id",
    "name",
    "user_intent",
    "user_prompt",
    "description",
    "nodes",
    "edges",
    "blocks",
    "memory_keys",
    "status",
    "trigger_type",
    "trigger",
    "created_at",
    "metadata",
];

/// The id of the format.
pub const FORMAT: Format = Format::new("pipeline");

/// Compiles a pipeline.
fn compile(
    source: DefinitionSource<'_>,
    sources: &Sources,
    problems: &mut Problems,
    needs: &mut Vec<String>,
) -> Option<Plan> {
    let DefinitionSource { file, text, tree } = source;
    let node = tree.or_else(|| read_json(text, parse_node(text), problems))?;
    let inner = unwrap_pipeline(&node);
    let wrapper = (!std::ptr::eq(inner, &node)).then_some(&node);
    let places: Vec<&Node> = wrapper.into_iter().chain([inner]).collect();
    let blocks = BlockCatalog::load_blocks(file, text, &places, sources, problems);
    PipelineCompiler {
        problems,
        blocks,
        sources,
        file,
        text,
        missing_files: needs,
        missing_blocks: HashSet::new(),
        keys: BTreeSet::new(),
        node_ids: HashSet::new(),
    }
    .compile_pipeline(inner)
}

/// The keys of a wrapper that may contain a pipeline.
pub const WRAPPER_KEYS: [&str; 3] = ["pipeline", "pipeline_json", "definition"];

/// The pipeline object of a file, with or without a wrapper.
fn unwrap_pipeline(node: &Node) -> &Node {
    WRAPPER_KEYS.iter().find_map(|key| node.get(key)).unwrap_or(node)
}

struct PipelineCompiler<'a> {
    problems: &'a mut Problems,
    blocks: BlockCatalog,
    sources: &'a Sources,
    file: &'a str,
    text: &'a str,
    /// Files of unknown blocks, and of blocks that could override built-in ones.
    missing_files: &'a mut Vec<String>,
    /// Ids of those blocks.
    missing_blocks: HashSet<String>,
    /// The declared memory keys.
    keys: BTreeSet<String>,
    /// The ids of all nodes.
    node_ids: HashSet<String>,
}

/// Help for a node without a block.
const BLOCK_HELP: &str = "name the block that the node runs, such as \"block_id\": \"web_scrape\"";

/// A node of the source.
struct PipelineNode<'a> {
    id: &'a str,
    span: Span,
    block: Option<BlockDefinition>,
    inputs: Vec<(String, Data, Span)>,
}

/// The nodes of the source, and where each id is.
struct NodeRows<'a> {
    nodes: Vec<PipelineNode<'a>>,
    /// The first node with an id.
    by_id: HashMap<&'a str, usize>,
}

impl<'a> NodeRows<'a> {
    fn new(nodes: Vec<PipelineNode<'a>>) -> NodeRows<'a> {
        let mut by_id = HashMap::new();
        nodes.iter().enumerate().for_each(|(index, node)| {
            by_id.entry(node.id).or_insert(index);
        });
        NodeRows { nodes, by_id }
    }

    fn iter(&self) -> impl Iterator<Item = &PipelineNode<'a>> {
        self.nodes.iter()
    }

    /// The index of the first node with this id.
    fn find_index(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }
}

impl PipelineCompiler<'_> {
    fn compile_pipeline(mut self, node: &Node) -> Option<Plan> {
        let fields = Fields::read_object(node, "a pipeline", self.problems)?;
        fields.warn_unknown_keys(&KNOWN_KEYS, self.problems);
        let id = fields.read_text("id", self.problems).map(|(id, _)| id.to_owned());
        let name = fields.read_text("name", self.problems).map(|(name, _)| name.to_owned());
        let prompt = fields.read_text("user_prompt", self.problems).map(|(text, _)| text.to_owned());
        self.keys = memory::read_declared_keys(&fields, self.problems);
        let (items, span) = fields.read_required_list("nodes", self.problems)?;
        self.node_ids = items.iter().filter_map(|item| item.get("id")?.as_str()).map(str::to_owned).collect();
        let rows = NodeRows::new(items.iter().filter_map(|item| self.read_node(item)).collect());
        if items.is_empty() {
            let message = "this pipeline has no nodes, so it does nothing";
            self.problems.add_error(Code::MissingKey, span, message).help =
                Some("add a node: {\"id\": \"n1\", \"block_id\": \"web_scrape\", \"inputs\": {\"url\": \"…\"}}".into());
        }
        self.check_unique_ids(&rows);
        self.check_size(&rows, span);
        let edges = self.read_edges(&fields, &rows);
        self.check_references(&rows);
        let needs = order::node_dependencies(&rows, &edges);
        for cycle in order::find_cycles(&needs) {
            let names = order::cycle_names(&rows, &cycle);
            let message = match cycle.as_slice() {
                [node, again] if node == again => format!("the node {} waits for itself", rows.nodes[*node].id),
                _ => format!("these nodes wait for each other: {names}"),
            };
            self.problems.add_error(Code::Cycle, rows.nodes[cycle[0]].span, message).help =
                Some("remove an edge or a reference from this cycle".into());
        }
        if self.problems.has_errors() {
            return None;
        }
        let called = rows.iter().filter_map(|row| Some((row.block.as_ref()?.function_id()?.into(), row.span)));
        let functions = called.collect();
        let mut siblings = Siblings::default();
        let nodes = rows.iter().zip(needs).map(|(row, needs)| build_node(row, needs, &mut siblings)).collect();
        let dag = Step {
            span,
            ..Step::new(
                Key::numbered_key("nodes", 1),
                StepKind::Composite(Composite::Dag(Dag { nodes, fails: true, skip_reason: SKIP_REASON })),
            )
        };
        // Variables set by a node of the DAG are visible to that node only; the outputs of triggers are known before
        // any node runs.
        let started = rows.iter().filter_map(|row| Some((row.id, row.block.as_ref()?)));
        let triggers: Vec<_> = started
            .filter(|(_, block)| block.is_trigger())
            .map(|(id, block)| trigger_assignment(id, &block.id))
            .collect();
        let mut steps = vec![
            memory::load_step("user", "load_user", MemoryOperation::Profile),
            memory::load_step("memory", "load_memory", MemoryOperation::All),
        ];
        if !triggers.is_empty() {
            steps.push(Step::new(Key::numbered_key("triggers", 1), Composite::Assign(triggers)));
        }
        steps.push(dag);
        let root = StepKind::Composite(Composite::Sequence(steps));
        Some(Plan {
            format: FORMAT,
            name: name.or_else(|| id.clone()).unwrap_or_else(|| self.file.to_owned()),
            id,
            description: prompt.unwrap_or_default(),
            inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: false },
            text: TEXT_RULES,
            limits: Limits::unlimited(),
            functions,
            thread: None,
            root: Step::new(Key::numbered_key("pipeline", 1), root),
        })
    }

    fn read_node<'a>(&mut self, node: &'a Node) -> Option<PipelineNode<'a>> {
        let fields = Fields::read_object(node, "a node", self.problems)?;
        fields.warn_unknown_keys(&["id", "block_id", "inputs", "name", "description", "position"], self.problems);
        let id = fields.read_required_text("id", self.problems);
        let block = match fields.get_non_null("block_id") {
            Some(_) => fields.read_required_text("block_id", self.problems),
            None => {
                fields.report_missing("block_id", self.problems).help = Some(BLOCK_HELP.to_owned());
                None
            }
        };
        let (id, span) = id?;
        if RESERVED_NAMES.contains(&id) {
            let message = format_args!("a node cannot be called {id:?}: references of that name mean the {id}");
            self.problems.add_error(Code::DuplicateName, span, message);
        }
        let block = block.and_then(|(block, span)| self.find_block(block, span));
        let mut inputs = Vec::new();
        if let Some(given) = fields.get_non_null("inputs") {
            if !matches!(given.kind, NodeKind::Map(_)) {
                fields.report_wrong_kind("inputs", given, "an object", self.problems);
            }
            for (key, _, value) in given.entries() {
                let data = Data::from_value(&value.to_value(), &|text| memory::parse(text, &self.keys));
                inputs.push((key.clone(), data, value.span));
                self.report_lookalikes(value);
            }
        }
        if let Some(function) = block.as_ref().and_then(BlockDefinition::function_id) {
            self.check_function(function, span);
        }
        if let Some(block) = &block {
            NodeInputs { node: id, span, block, inputs: &inputs, written: fields.get("inputs") }.check(self.problems);
            let node = memory::CheckedNode { id, block: &block.id, inputs: &inputs, text: self.text };
            memory::check_keys(&node, &self.keys, self.problems);
        }
        Some(PipelineNode { id, span, block, inputs })
    }

    /// Reports what looks like a reference and is none in the texts of an input.
    fn report_lookalikes(&mut self, value: &Node) {
        for item in value.items().unwrap_or_default().iter().chain(value.entries().iter().map(|(_, _, value)| value)) {
            self.report_lookalikes(item);
        }
        if let Some(text) = value.as_str() {
            let written = PlacedText { source: self.text, text, span: value.span };
            let is_known = |name: &str| self.node_ids.contains(name) || RESERVED_NAMES.contains(&name);
            let rules = ReferenceRules { parse: template::parse, is_known: &is_known, example: REFERENCE_EXAMPLE };
            written.report_lookalikes(&rules, self.problems);
        }
    }

    /// The block that a node names.
    fn find_block(&mut self, id: &str, span: Span) -> Option<BlockDefinition> {
        let found = self.blocks.get(id).cloned();
        self.blocks.take_problems(id).iter().for_each(|problem| self.problems.add_found(problem));
        if found.as_ref().is_none_or(|block| block.is_built_in) && self.missing_blocks.insert(id.to_owned()) {
            self.missing_files.push(related_path(self.file, &format!("{BLOCKS_FOLDER}{id}.json")));
        }
        if found.is_none() {
            let meant = self.problems.find_similar(id, self.blocks.block_ids());
            let message = format_args!("there is no block {id:?}");
            let diagnostic = self.problems.add_error(Code::UnknownBlockId, span, message);
            let help = || format!("put its definition into {BLOCKS_FOLDER}{id}.json next to this file");
            diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
        }
        found
    }

    /// Reports an unknown function of a block.
    fn check_function(&mut self, id: &str, span: Span) {
        let own = self.sources.functions.iter().map(String::as_str);
        let known = crate::steps::BUILT_IN_FUNCTIONS.iter().copied().chain(own).collect::<Vec<_>>();
        if known.contains(&id) || self.sources.server_of(id).is_some() {
            return;
        }
        let message = format_args!("there is no function {id:?} that a block can call");
        let meant = self.problems.find_similar(id, known);
        let diagnostic = self.problems.add_error(Code::UnknownFunction, span, message);
        match meant {
            // The function is named in the block.
            Some(meant) => diagnostic.suggest_text_at(&format!("{meant:?}"), None),
            None => diagnostic.help = Some(advise_declaration(id)),
        }
    }

    fn check_unique_ids(&mut self, rows: &NodeRows<'_>) {
        for (index, row) in rows.iter().enumerate() {
            if rows.find_index(row.id) != Some(index) {
                let message = format_args!("there are several nodes {:?}", row.id);
                self.problems.add_error(Code::DuplicateName, row.span, message);
            }
        }
    }

    /// Each node gets a copy of its block. Together they must not become much larger than the file.
    fn check_size(&mut self, rows: &NodeRows<'_>, span: Span) {
        let size: usize = rows.iter().filter_map(|row| Some(row.block.as_ref()?.size_bytes)).sum();
        if size > MAX_PLAN_BYTES {
            let at = Span { start: span.start, length: 1 };
            let message = format_args!(
                "the blocks of these nodes have {size} bytes together; at most {MAX_PLAN_BYTES} are allowed"
            );
            self.problems.add_error(Code::TooLarge, at, message).help =
                Some("use fewer nodes with the same large block, or a smaller block".into());
        }
    }

    /// The edges as pairs of node indexes.
    fn read_edges(&mut self, fields: &Fields<'_>, rows: &NodeRows<'_>) -> Vec<(usize, usize)> {
        let Some(list) = fields.get_non_null("edges") else { return Vec::new() };
        let Some(items) = list.items() else {
            fields.report_wrong_kind("edges", list, "a list", self.problems);
            return Vec::new();
        };
        let mut edges = Vec::new();
        for item in items {
            let Some(edge) = Fields::read_object(item, "an edge", self.problems) else { continue };
            edge.warn_unknown_keys(&["id", "from", "to"], self.problems);
            let from = edge.read_required_text("from", self.problems);
            let to = edge.read_required_text("to", self.problems);
            let from_id = from.map(|(id, _)| id);
            let from = from.and_then(|(id, span)| self.find_node(id, span, to.map(|(id, _)| id), rows));
            let to = to.and_then(|(id, span)| self.find_node(id, span, from_id, rows));
            if let (Some(from), Some(to)) = (from, to) {
                edges.push((from, to));
            }
        }
        edges
    }

    /// The node at an end of an edge. The node at the `other` end is not suggested.
    fn find_node(&mut self, id: &str, span: Span, other: Option<&str>, rows: &NodeRows<'_>) -> Option<usize> {
        let found = rows.find_index(id);
        if found.is_none() {
            let candidates = rows.iter().map(|row| row.id).filter(|id| Some(*id) != other);
            let meant = self.problems.find_similar(id, candidates);
            let message = format_args!("there is no node {id:?}");
            let diagnostic = self.problems.add_error(Code::UnknownNode, span, message);
            if let Some(meant) = meant {
                diagnostic.suggest_text(&format!("{meant:?}"));
            }
        }
        found
    }

    /// Checks that every reference names a node and an output field of its block.
    fn check_references(&mut self, rows: &NodeRows<'_>) {
        for row in rows.iter() {
            for (_, data, span) in &row.inputs {
                data.visit(&mut |template| {
                    let is_of_node = |reference: &&Ref| {
                        !RESERVED_NAMES.contains(&&*reference.name) && !memory::is_undeclared(reference)
                    };
                    for reference in template.iter_refs().filter(is_of_node) {
                        self.check_reference(reference, *span, row, rows);
                    }
                });
            }
        }
    }

    /// Checks a reference in the input at `span` of a node. Only what is reported is looked for in the input.
    fn check_reference(&mut self, reference: &Ref, span: Span, node: &PipelineNode<'_>, rows: &NodeRows<'_>) {
        let Some(target) = rows.find_index(&reference.name).map(|index| &rows.nodes[index]) else {
            if !self.problems.has_room_for_warning() {
                self.problems.add_warning(Code::UnknownNode, span, "");
                return;
            }
            let span = find_span(self.text, span, &reference.source);
            let message = format_args!("there is no node {:?}, so {} has no value", reference.name, reference.source);
            let others = rows.iter().map(|row| row.id).filter(|id| *id != node.id);
            let names = others.chain(RESERVED_NAMES);
            let meant = self.problems.find_similar(&reference.name, names);
            let diagnostic = self.problems.add_warning(Code::UnknownNode, span, message);
            match meant {
                Some(meant) => suggest_part(diagnostic, &reference.source, &reference.name, meant),
                // The name in run reports, which people also write in references.
                None if &*reference.name == "results" => {
                    let help = format!("leave out \"results.\": {}", reference.source.replacen("results.", "", 1));
                    diagnostic.help = Some(help);
                }
                None => {}
            }
            return;
        };
        let field = reference.path.first().and_then(|segment| match segment {
            flowloom_core::expr::Segment::Field(field) | flowloom_core::expr::Segment::Key(field) => Some(field),
            flowloom_core::expr::Segment::Index(_) => None,
        });
        let Some(block) = &target.block else { return };
        let Some(given) = block.output_fields() else { return };
        if let Some(field) = field
            && !given.is_empty()
            && !given.contains_key(&**field)
        {
            if !self.problems.has_room_for_warning() {
                self.problems.add_warning(Code::UnknownField, span, "");
                return;
            }
            let span = find_span(self.text, span, &reference.source);
            let message = format_args!("{}: {} has no {field:?}", reference.source, block.describe_output(target.id));
            let meant = self.problems.find_similar(field, given.keys().map(|name| &**name));
            let diagnostic = self.problems.add_warning(Code::UnknownField, span, message);
            match meant {
                Some(meant) => suggest_end(diagnostic, &reference.source, field, meant),
                None => {
                    let names: Vec<&str> = given.keys().map(|name| &**name).collect();
                    diagnostic.help = Some(format!("its fields are {}", names.join(", ")));
                }
            }
        }
    }
}

/// Sets the output of a trigger.
fn trigger_assignment(node: &str, block: &str) -> Assignment {
    let value = Data::Constant(trigger_output(block));
    Assignment { name: Template::from_literal(node), value, only_if_falsy: false }
}

fn build_node(row: &PipelineNode<'_>, needs: Vec<usize>, siblings: &mut Siblings) -> DagNode {
    let inputs = Data::Map(row.inputs.iter().map(|(name, data, _)| (name.as_str().into(), data.clone())).collect());
    let kind = match &row.block {
        Some(block) if block.is_trigger() => {
            StepKind::Composite(Composite::Assign(vec![trigger_assignment(row.id, &block.id)]))
        }
        Some(block) => StepKind::Leaf(Leaf::Block(block.build_block(inputs))),
        None => StepKind::Composite(Composite::Assign(Vec::new())),
    };
    let mut step = Step::new(siblings.next_key(Some(row.id), "node"), kind);
    step.title = row.id.to_owned();
    step.span = row.span;
    step.policy.on_error = OnError::Continue;
    if step.kind.is_leaf() {
        step.writes = vec![Write::to_variable(row.id)];
    }
    DagNode { step, needs }
}
