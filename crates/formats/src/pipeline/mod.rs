//! `pipeline`: AgentFlow's block pipelines (docs/formats/pipeline.md).
//!
//! A JSON object with `nodes`, each a block with inputs, and `edges`; references are `{{node.field}}`. Blocks are
//! defined in the file itself (`{"pipeline": …, "blocks": […]}`) or in files below `blocks/` next to it.

mod blocks;
mod front_end;
mod memory;
mod order;
mod present;
pub mod template;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Span, did_you_mean};
use flowloom_core::expr::{Data, Missing, Ref, Template, TextRules};
use flowloom_core::json::{Node, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{
    Assignment, Composite, Dag, DagNode, Format, Inputs, Kind, Leaf, MemoryOperation, MemoryStep, OnError, Plan, Step,
    Write,
};
use flowloom_core::render::Style;
use flowloom_core::value::{Map, Value};

use crate::front_end::Source;
use crate::problems::Problems;
use crate::reader::{Fields, beside_file, read_json};
use crate::sources::Sources;
use blocks::{Blocks, Definition};

pub use blocks::{built_in, check_block};
pub(crate) use front_end::PipelineFormat;
pub use memory::memory_keys;
pub use present::{PlanNode, dag, node_results, nodes, order};

/// The text rules of a pipeline: as in Python; a missing value is `null`, or empty within text.
pub const RULES: TextRules =
    TextRules { missing: Missing::Null, null_is_missing: true, style: Style::Python, keeps_type: true };

/// The reason for a node that is skipped, in AgentFlow's words.
const SKIP_REASON: &str = "upstream node(s) {} failed";

/// Reference names that are not nodes.
const RESERVED: [&str; 2] = ["memory", "user"];

/// The file of a pipeline that is a folder.
pub const FILE: &str = "pipeline.json";

/// The folder next to a pipeline that holds its blocks.
pub const BLOCKS: &str = "blocks/";

const KEYS: [&str; 13] = [
    "id",
    "name",
    "user_intent",
    "user_prompt",
    "description",
    "nodes",
    "edges",
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
fn compile(source: Source<'_>, sources: &Sources, problems: &mut Problems, needs: &mut Vec<String>) -> Option<Plan> {
    let Source { file, text, tree } = source;
    let node = tree.or_else(|| read_json(text, parse_node(text), problems))?;
    let inner = inner(&node);
    let blocks = Blocks::load(file, &node, sources, problems);
    Compiler { problems, blocks, sources, file, needs, keys: Vec::new() }.pipeline(inner)
}

/// The pipeline object of a file, with or without a wrapper.
fn inner(node: &Node) -> &Node {
    ["pipeline", "pipeline_json", "definition"].iter().find_map(|key| node.get(key)).unwrap_or(node)
}

struct Compiler<'a> {
    problems: &'a mut Problems,
    blocks: Blocks,
    sources: &'a Sources,
    file: &'a str,
    /// Files of unknown blocks, and of blocks that could override built-in ones.
    needs: &'a mut Vec<String>,
    /// The declared memory keys.
    keys: Vec<String>,
}

/// A node of the source.
struct Row<'a> {
    id: &'a str,
    span: Span,
    block: Option<Definition>,
    inputs: Vec<(String, Data, Span)>,
}

impl Compiler<'_> {
    fn pipeline(mut self, node: &Node) -> Option<Plan> {
        let fields = Fields::of(node, "a pipeline", self.problems)?;
        fields.known(&KEYS, self.problems);
        let id = fields.text("id", self.problems).map(|(id, _)| id.to_owned());
        let name = fields.text("name", self.problems).map(|(name, _)| name.to_owned());
        let prompt = fields.text("user_prompt", self.problems).map(|(text, _)| text.to_owned());
        self.keys = memory::declared(&fields, self.problems);
        let (items, span) = fields.required_list("nodes", self.problems)?;
        let rows: Vec<Row<'_>> = items.iter().filter_map(|item| self.row(item)).collect();
        self.unique(&rows);
        let edges = self.edges(&fields, &rows);
        self.references(&rows);
        let needs = order::needs(&rows, &edges);
        if let Some(cycle) = order::cycle(&needs) {
            let names: Vec<&str> = cycle.iter().map(|index| rows[*index].id).collect();
            let message = format!("these nodes wait for each other: {}", names.join(" → "));
            self.problems.error(Code::Cycle, rows[cycle[0]].span, message).help =
                Some("remove an edge or a reference from this cycle".into());
        }
        if self.problems.has_errors() {
            return None;
        }
        let called = rows.iter().filter_map(|row| Some((row.block.as_ref()?.function()?.into(), row.span)));
        let functions = called.collect();
        let mut siblings = Siblings::default();
        let nodes = rows.iter().zip(needs).map(|(row, needs)| node_of(row, needs, &mut siblings)).collect();
        let dag = Step {
            span,
            ..Step::new(
                Key::nth("nodes", 1),
                Kind::Composite(Composite::Dag(Dag { nodes, fails: true, skip_reason: SKIP_REASON })),
            )
        };
        // Variables set by a node of the DAG are visible to that node only; the outputs of triggers are known before
        // any node runs.
        let started = rows.iter().filter_map(|row| Some((row.id, row.block.as_ref()?)));
        let triggers: Vec<_> =
            started.filter(|(_, block)| block.is_trigger()).map(|(id, block)| triggered(id, &block.id)).collect();
        let mut steps = vec![
            kept("user", "load_user", MemoryOperation::Profile),
            kept("memory", "load_memory", MemoryOperation::All),
        ];
        if !triggers.is_empty() {
            steps.push(Step::new(Key::nth("triggers", 1), Composite::Assign(triggers)));
        }
        steps.push(dag);
        let root = Kind::Composite(Composite::Sequence(steps));
        Some(Plan {
            format: FORMAT,
            name: name.or_else(|| id.clone()).unwrap_or_else(|| self.file.to_owned()),
            id,
            description: prompt.unwrap_or_default(),
            inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new() },
            text: RULES,
            limits: Limits::default(),
            functions,
            thread: None,
            root: Step::new(Key::nth("pipeline", 1), root),
        })
    }

    fn row<'a>(&mut self, node: &'a Node) -> Option<Row<'a>> {
        let fields = Fields::of(node, "a node", self.problems)?;
        fields.known(&["id", "block_id", "inputs", "name", "description", "position"], self.problems);
        let id = fields.required_text("id", self.problems);
        let block = fields.required_text("block_id", self.problems);
        let (id, span) = id?;
        if RESERVED.contains(&id) {
            let message = format!("a node cannot be called {id:?}: references of that name mean the {id}");
            self.problems.error(Code::DuplicateName, span, message);
        }
        let block = block.and_then(|(block, span)| self.block(block, span));
        let mut inputs = Vec::new();
        if let Some(given) = fields.present("inputs") {
            if given.items().is_some() || given.as_str().is_some() {
                fields.wrong("inputs", given, "an object", self.problems);
            }
            for (key, _, value) in given.entries() {
                let data = Data::from_value(&value.to_value(), &|text| memory::parse(text, &self.keys));
                inputs.push((key.clone(), data, value.span));
            }
        }
        if let Some(function) = block.as_ref().and_then(Definition::function) {
            self.function(function, span);
        }
        if let Some(block) = &block {
            self.given(block, &inputs, id, node.span);
            memory::check((id, &block.id), &inputs, &self.keys, self.problems);
        }
        Some(Row { id, span, block, inputs })
    }

    /// The block that a node names.
    fn block(&mut self, id: &str, span: Span) -> Option<Definition> {
        let found = self.blocks.get(id).cloned();
        if found.as_ref().is_none_or(|block| block.is_built_in) {
            self.needs.push(beside_file(self.file, &format!("{BLOCKS}{id}.json")));
        }
        if found.is_none() {
            let diagnostic = self.problems.error(Code::UnknownBlockId, span, format!("there is no block {id:?}"));
            diagnostic.help = Some(match did_you_mean(id, self.blocks.ids()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("put its definition into {BLOCKS}{id}.json next to this file"),
            });
        }
        found
    }

    /// Reports an unknown function of a block.
    fn function(&mut self, id: &str, span: Span) {
        let own = self.sources.functions.iter().map(String::as_str);
        let mut known = crate::steps::BUILT_IN.iter().copied().chain(own).collect::<Vec<_>>();
        // These are step kinds of a step list, not callable functions.
        known.retain(|name| !["agent::chat", "memory::get", "memory::set", "human::ask"].contains(name));
        if known.contains(&id) || self.sources.server_of(id).is_some() {
            return;
        }
        let message = format!("there is no function {id:?} that a block can call");
        self.problems.error(Code::UnknownFunction, span, message).help = Some(match did_you_mean(id, known) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("declare it in flowloom.toml: [functions.\"{id}\"] with a url or a workflow"),
        });
    }

    /// Reports required inputs of the block that are missing and have no default.
    fn given(&mut self, block: &Definition, inputs: &[(String, Data, Span)], node: &str, span: Span) {
        for name in block.required_inputs() {
            if !inputs.iter().any(|(given, _, _)| *given == name) {
                let at = Span { start: span.start, length: 1 };
                let message = format!("the node {node} gives no {name:?}, which the block {} requires", block.id);
                let names = inputs.iter().map(|(given, _, _)| given.as_str());
                self.problems.error(Code::InputNotGiven, at, message).help = Some(match did_you_mean(&name, names) {
                    Some(meant) => format!("is {meant:?} meant to be it? rename it"),
                    None => format!("add {name:?} to its inputs"),
                });
            }
        }
    }

    fn unique(&mut self, rows: &[Row<'_>]) {
        for (index, row) in rows.iter().enumerate() {
            if rows[..index].iter().any(|other| other.id == row.id) {
                let message = format!("there are several nodes {:?}", row.id);
                self.problems.error(Code::DuplicateName, row.span, message);
            }
        }
    }

    /// The edges as pairs of node indexes.
    fn edges(&mut self, fields: &Fields<'_>, rows: &[Row<'_>]) -> Vec<(usize, usize)> {
        let Some(list) = fields.present("edges") else { return Vec::new() };
        let Some(items) = list.items() else {
            fields.wrong("edges", list, "a list", self.problems);
            return Vec::new();
        };
        let mut edges = Vec::new();
        for item in items {
            let Some(edge) = Fields::of(item, "an edge", self.problems) else { continue };
            edge.known(&["id", "from", "to"], self.problems);
            let from = edge.required_text("from", self.problems);
            let to = edge.required_text("to", self.problems);
            let ends = [from, to].map(|end| end.and_then(|(id, span)| self.end(id, span, rows)));
            if let [Some(from), Some(to)] = ends {
                edges.push((from, to));
            }
        }
        edges
    }

    fn end(&mut self, id: &str, span: Span, rows: &[Row<'_>]) -> Option<usize> {
        let found = rows.iter().position(|row| row.id == id);
        if found.is_none() {
            let diagnostic = self.problems.error(Code::UnknownNode, span, format!("there is no node {id:?}"));
            if let Some(meant) = did_you_mean(id, rows.iter().map(|row| row.id)) {
                diagnostic.help = Some(format!("did you mean {meant:?}?"));
            }
        }
        found
    }

    /// Checks that every reference names a node and an output field of its block.
    fn references(&mut self, rows: &[Row<'_>]) {
        for row in rows {
            for (_, data, span) in &row.inputs {
                data.visit(&mut |template| {
                    let is_of_node =
                        |reference: &&Ref| !RESERVED.contains(&&*reference.name) && !memory::is_nothing(reference);
                    for reference in template.refs().filter(is_of_node) {
                        let target = rows.iter().find(|row| row.id == &*reference.name);
                        self.reference(reference, target, *span, rows);
                    }
                });
            }
        }
    }

    fn reference(&mut self, reference: &Ref, target: Option<&Row<'_>>, span: Span, rows: &[Row<'_>]) {
        let Some(target) = target else {
            let message = format!("{} names no node; there is none called {:?}", reference.source, reference.name);
            let diagnostic = self.problems.error(Code::UnknownNode, span, message);
            let names = rows.iter().map(|row| row.id).chain(RESERVED);
            diagnostic.help = match did_you_mean(&reference.name, names) {
                Some(meant) => Some(format!("did you mean {meant:?}?")),
                // The name in run reports, which people also write in references.
                None if &*reference.name == "results" => {
                    Some(format!("leave out \"results.\": {}", reference.source.replacen("results.", "", 1)))
                }
                None => None,
            };
            return;
        };
        let field = reference.path.first().and_then(|segment| match segment {
            flowloom_core::expr::Segment::Field(field) | flowloom_core::expr::Segment::Key(field) => Some(field),
            flowloom_core::expr::Segment::Index(_) => None,
        });
        let given = target.block.as_ref().map(Definition::output_fields).unwrap_or_default();
        if let Some(field) = field
            && !given.is_empty()
            && !given.iter().any(|name| **name == **field)
        {
            let message =
                format!("{}: the block of {} does not say that it gives {field:?}", reference.source, target.id);
            let diagnostic = self.problems.warn(Code::UnknownField, span, message);
            diagnostic.help = Some(match did_you_mean(field, given.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("it gives {}", given.join(", ")),
            });
        }
    }
}

/// A step that loads stored data of the user into a variable.
fn kept(variable: &str, key: &str, operation: MemoryOperation) -> Step {
    let key = Key::named(key).unwrap_or_else(|| Key::nth("load", 1));
    let memory = MemoryStep { operation, prompt: Template::default() };
    Step { writes: vec![Write::to(variable)], ..Step::new(key, Kind::Leaf(Leaf::Memory(memory))) }
}

/// The output of a trigger.
fn triggered(node: &str, block: &str) -> Assignment {
    let value = Value::map([("status", "triggered".into()), ("trigger_type", Value::from(block))]);
    Assignment { name: Template::literal(node), value: Data::Constant(value), only_if_falsy: false }
}

fn node_of(row: &Row<'_>, needs: Vec<usize>, siblings: &mut Siblings) -> DagNode {
    let inputs = Data::Map(row.inputs.iter().map(|(name, data, _)| (name.as_str().into(), data.clone())).collect());
    let kind = match &row.block {
        Some(block) if block.is_trigger() => Kind::Composite(Composite::Assign(vec![triggered(row.id, &block.id)])),
        Some(block) => Kind::Leaf(Leaf::Block(block.step(inputs))),
        None => Kind::Composite(Composite::Assign(Vec::new())),
    };
    let mut step = Step::new(siblings.key(Some(row.id), "node"), kind);
    step.title = row.id.to_owned();
    step.span = row.span;
    step.policy.on_error = OnError::Continue;
    if step.kind.is_leaf() {
        step.writes = vec![Write::to(row.id)];
    }
    DagNode { step, needs }
}
