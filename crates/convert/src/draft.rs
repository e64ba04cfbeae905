//! A plan as a converter reads it: items in order, whichever format they come from, or a conversation of agents.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use flowloom_core::chat::{Content, Role};
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Expr, Segment, Template, TemplatePart};
use flowloom_core::plan::{
    Agent, AgentTool, Assignment, Block, BlockCode, Composite, Dag, FunctionCall, Generate, HttpSpec, Leaf, Loop,
    Machine, MemoryStep, OnError, Plan, Scrape, Step, StepKind,
};
use flowloom_core::render::{TextStyle, render_text};

/// The body of a plan, as a conversion reads it.
pub(crate) enum Body<'p> {
    /// Items, one after another.
    Items(Vec<Item<'p>>),
    /// One agent with tools.
    Agent(&'p Agent),
    /// A conversation of several agents.
    Machine(&'p Machine),
}

/// A step of the source.
pub(crate) struct Item<'p> {
    /// The step that acts.
    pub(crate) step: &'p Step,
    /// Its place.
    pub(crate) span: Span,
    /// The variable that receives its output, if its name is constant.
    pub(crate) variable: Option<String>,
    /// Whether its output ends the run.
    pub(crate) is_answer: bool,
    pub(crate) on_failure: FailureRule,
    pub(crate) kind: ItemKind<'p>,
}

/// What follows from the failure of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureRule {
    /// The run ends.
    EndRun,
    /// The run goes on without its output.
    Skip,
    /// The run fails, but later items that do not need this one still run.
    FinishOthers,
}

/// The action of an item.
pub(crate) enum ItemKind<'p> {
    Prompt(Prompt<'p>),
    Http(&'p HttpSpec),
    Scrape(&'p Scrape),
    Call(&'p FunctionCall),
    Memory(&'p MemoryStep),
    Ask(&'p Template),
    Block(&'p Block),
    /// Variables that take a default where they are empty.
    Defaults(&'p [Assignment]),
    /// Text that nothing answers.
    Text,
    Fanout(Vec<Item<'p>>),
    Repeat(&'p Loop, Box<Item<'p>>),
    /// Several steps that are repeated or chosen together.
    Group(Group<'p>),
    /// Something that only its own format has.
    Other(&'static str),
}

impl ItemKind<'_> {
    /// The kind, in the words of a report.
    pub(crate) fn name_kind(&self) -> &'static str {
        match self {
            ItemKind::Prompt(_) => "model call",
            ItemKind::Http(_) => "request",
            ItemKind::Scrape(_) => "page",
            ItemKind::Call(_) => "function call",
            ItemKind::Memory(_) => "memory access",
            ItemKind::Ask(_) => "question",
            ItemKind::Block(_) => "block",
            ItemKind::Defaults(_) => "default",
            ItemKind::Text => "text",
            ItemKind::Fanout(_) => "fan-out",
            ItemKind::Repeat(..) => "loop",
            ItemKind::Group(_) => "group",
            ItemKind::Other(_) => "step",
        }
    }
}

/// A model call.
pub(crate) struct Prompt<'p> {
    pub(crate) generate: &'p Generate,
    /// The text of the last message.
    pub(crate) text: Template,
    /// Earlier messages that the model sees.
    pub(crate) earlier: usize,
    /// The tools that the model may call.
    pub(crate) tools: &'p [AgentTool],
}

/// Steps in scopes of their own.
pub(crate) struct Group<'p> {
    /// Whether the steps are repeated; otherwise one of the scopes is chosen.
    pub(crate) is_loop: bool,
    pub(crate) scopes: Vec<Scope<'p>>,
}

/// Steps with variables of their own.
pub(crate) struct Scope<'p> {
    /// The variables that the steps see, with their values outside.
    pub(crate) provided: &'p [(Arc<str>, Expr)],
    pub(crate) items: Vec<Item<'p>>,
}

/// The body of a plan.
pub(crate) fn read_body(plan: &Plan) -> Body<'_> {
    match &plan.root.kind {
        StepKind::Composite(Composite::Agent(agent)) => Body::Agent(agent),
        StepKind::Composite(Composite::Machine(machine)) => Body::Machine(machine),
        StepKind::Composite(Composite::Sequence(steps)) => {
            let dag = steps.iter().find_map(|step| match &step.kind {
                StepKind::Composite(Composite::Dag(dag)) => Some(dag),
                _ => None,
            });
            Body::Items(match dag {
                Some(dag) => read_nodes(dag),
                None => steps.iter().flat_map(read_step).collect(),
            })
        }
        _ => Body::Items(read_step(&plan.root)),
    }
}

/// The nodes of a pipeline, each after those that it needs.
fn read_nodes(dag: &Dag) -> Vec<Item<'_>> {
    let mut needs: Vec<usize> = Vec::new();
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); dag.nodes.len()];
    for (index, node) in dag.nodes.iter().enumerate() {
        needs.push(node.needs.len());
        node.needs.iter().for_each(|need| needed_by[*need].push(index));
    }
    // Of the nodes that can be next, the first one of the definition.
    let mut ready: BinaryHeap<Reverse<usize>> =
        needs.iter().enumerate().filter(|(_, count)| **count == 0).map(|(index, _)| Reverse(index)).collect();
    let mut items = Vec::new();
    let mut order = Vec::new();
    while let Some(Reverse(next)) = ready.pop() {
        order.push(next);
        for index in &needed_by[next] {
            needs[*index] -= 1;
            ready.extend((needs[*index] == 0).then_some(Reverse(*index)));
        }
        let step = &dag.nodes[next].step;
        let kind = match &step.kind {
            StepKind::Leaf(Leaf::Block(block)) => match &block.code {
                BlockCode::Prompt { generate, .. } => {
                    let text = generate.messages.first().map(|(_, data)| fill_inputs(data, &block.inputs));
                    ItemKind::Prompt(Prompt { generate, text: text.unwrap_or_default(), earlier: 0, tools: &[] })
                }
                BlockCode::Python { .. } | BlockCode::Function(_) => ItemKind::Block(block),
            },
            _ => ItemKind::Other("a trigger"),
        };
        items.push(new_item(step, kind));
    }
    for (item, rule) in items.iter_mut().zip(find_failure_rules(dag, &order)) {
        item.on_failure = rule;
    }
    items
}

/// What follows from the failure of each node, in the order in which the nodes are written. The nodes that need a failed one
/// are skipped, so its failure ends the run if all later ones need it.
fn find_failure_rules(dag: &Dag, order: &[usize]) -> Vec<FailureRule> {
    // For each node, the number of nodes up to the last one that it waits for, and with it. A trigger does nothing itself.
    let is_trigger = |node: usize| !dag.nodes[node].step.kind.is_leaf();
    let mut ends = vec![0; dag.nodes.len()];
    let find_end =
        |node: usize, ends: &[usize]| dag.nodes[node].needs.iter().map(|need| ends[*need]).max().unwrap_or(0);
    for (position, node) in order.iter().enumerate() {
        ends[*node] = if is_trigger(*node) { find_end(*node, &ends) } else { position + 1 };
    }
    let mut least_end = usize::MAX;
    let mut rules = Vec::new();
    for (position, node) in order.iter().enumerate().rev() {
        // All later nodes need this one, if each needs one from here on.
        rules.push(if least_end > position { FailureRule::EndRun } else { FailureRule::FinishOthers });
        if !is_trigger(*node) {
            least_end = least_end.min(find_end(*node, &ends));
        }
    }
    rules.reverse();
    rules
}

/// A prompt of a block with the inputs of its node in the place of their names.
fn fill_inputs(prompt: &Data, inputs: &Data) -> Template {
    let (Data::Text(prompt), Data::Map(inputs)) = (prompt, inputs) else { return Template::default() };
    let inputs: HashMap<&str, &Data> = inputs.iter().map(|(name, data)| (&**name, data)).collect();
    let mut parts = Vec::new();
    for part in &prompt.parts {
        let TemplatePart::Ref(reference) = part else {
            parts.push(part.clone());
            continue;
        };
        let [Segment::Field(name)] = reference.path.as_slice() else { continue };
        match inputs.get(&**name) {
            Some(Data::Text(text)) => parts.extend(text.parts.iter().cloned()),
            Some(Data::Constant(value)) => {
                parts.push(TemplatePart::Text(render_text(value, TextStyle::PythonJson).into()));
            }
            Some(Data::List(_) | Data::Map(_)) | None => parts.push(part.clone()),
        }
    }
    Template { parts }
}

fn read_step(step: &Step) -> Vec<Item<'_>> {
    match &step.kind {
        StepKind::Composite(Composite::Sequence(steps)) => read_phase(steps),
        StepKind::Composite(Composite::Return(inner)) => {
            let mut items = read_step(inner);
            items.iter_mut().for_each(|item| item.is_answer = true);
            items
        }
        _ => vec![read_item(step, Template::default(), 0)],
    }
}

/// The items of one phase.
pub(crate) fn read_phase_of(step: &Step) -> Vec<Item<'_>> {
    match &step.kind {
        StepKind::Composite(Composite::Sequence(steps))
            if steps.iter().any(|step| matches!(step.kind, StepKind::Composite(Composite::AppendMessage(_)))) =>
        {
            read_phase(steps)
        }
        _ => Vec::new(),
    }
}

/// The items of a phase: text and the action that answers it, in one conversation.
fn read_phase(steps: &[Step]) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut text = Template::default();
    let mut unanswered = None;
    for step in steps {
        match &step.kind {
            StepKind::Composite(Composite::AppendMessage(message)) if message.role == Role::User => {
                text = join_blocks(&message.content);
                unanswered = (!text.parts.is_empty()).then_some(step);
            }
            StepKind::Composite(Composite::AppendMessage(_)) => {}
            _ => {
                let earlier = items.len();
                items.push(read_item(step, std::mem::take(&mut text), earlier));
                unanswered = None;
            }
        }
    }
    items.extend(unanswered.map(|step| new_item(step, ItemKind::Text)));
    items
}

fn join_blocks(content: &Content) -> Template {
    let Content::Blocks(blocks) = content else { return Template::default() };
    let mut parts = Vec::new();
    for block in blocks {
        if !parts.is_empty() {
            parts.push(TemplatePart::Text("\n\n".into()));
        }
        parts.extend(block.parts.iter().cloned());
    }
    Template { parts }
}

fn new_item<'p>(step: &'p Step, kind: ItemKind<'p>) -> Item<'p> {
    // A step list also keeps each output as the next input.
    let variable = find_written_name(step)
        .filter(|name| *name != "input" || step.writes.len() > 1 || step.capability.is_none())
        .map(str::to_owned);
    let on_failure = match step.policy.on_error {
        OnError::Fail => FailureRule::EndRun,
        OnError::Continue => FailureRule::Skip,
    };
    Item { step, span: step.span, variable, is_answer: false, on_failure, kind }
}

/// The constant name of the first variable that a step sets.
fn find_written_name(step: &Step) -> Option<&str> {
    let [name] = step.writes.first()?.names.as_slice() else { return None };
    name.as_literal().filter(|name| !name.is_empty())
}

/// A member of a fan-out. Its output does not become the next input, so it sets the input only under its name.
fn read_member(step: &Step) -> Vec<Item<'_>> {
    let mut items = read_step(step);
    items.iter_mut().for_each(|item| item.variable = find_written_name(item.step).map(str::to_owned));
    items
}

fn read_item(step: &Step, text: Template, earlier: usize) -> Item<'_> {
    let kind = match &step.kind {
        StepKind::Leaf(Leaf::Generate(generate)) => {
            let own = generate.messages.iter().map(|(_, data)| data);
            let own: Vec<&Template> =
                own.filter_map(|data| if let Data::Text(text) = data { Some(text) } else { None }).collect();
            match (generate.messages.len(), own.as_slice()) {
                (0, _) => ItemKind::Prompt(Prompt { generate, text, earlier, tools: &[] }),
                (1, [only]) => ItemKind::Prompt(Prompt { generate, text: (*only).clone(), earlier: 0, tools: &[] }),
                _ => ItemKind::Other("a model call whose message is not text"),
            }
        }
        StepKind::Leaf(leaf) => match leaf {
            Leaf::Http(http) => ItemKind::Http(http),
            Leaf::Scrape(scrape) => ItemKind::Scrape(scrape),
            Leaf::Call(call) => ItemKind::Call(call),
            Leaf::Memory(memory) => ItemKind::Memory(memory),
            Leaf::Ask { question, schema: None } => ItemKind::Ask(question),
            Leaf::Block(block) => ItemKind::Block(block),
            Leaf::Ask { .. } => ItemKind::Other("a question with a schema"),
            Leaf::Wait { .. } => ItemKind::Other("a pause"),
            Leaf::Fail { .. } | Leaf::Generate(_) => ItemKind::Other("a step that always fails"),
        },
        StepKind::Composite(Composite::Assign(rows)) => ItemKind::Defaults(rows),
        StepKind::Composite(Composite::Parallel(members)) => {
            ItemKind::Fanout(members.iter().flat_map(read_member).collect())
        }
        StepKind::Composite(Composite::Loop(looped)) => match read_step(&looped.body).pop() {
            Some(body) if !matches!(looped.body.kind, StepKind::Composite(_)) => {
                ItemKind::Repeat(looped, Box::new(body))
            }
            _ => ItemKind::Group(Group { is_loop: true, scopes: vec![read_scope(&looped.body)] }),
        },
        StepKind::Composite(Composite::Branch { arms, otherwise }) => {
            let arms = arms.iter().map(|(_, arm)| arm).chain(otherwise.as_deref());
            ItemKind::Group(Group { is_loop: false, scopes: arms.map(read_scope).collect() })
        }
        StepKind::Composite(Composite::Agent(agent)) if agent.available.is_some() => {
            ItemKind::Other("a model call whose tools an expression chooses")
        }
        StepKind::Composite(Composite::Agent(agent)) => {
            ItemKind::Prompt(Prompt { generate: &agent.generate, text, earlier, tools: &agent.tools })
        }
        StepKind::Composite(_) => ItemKind::Other("a step of its own kind"),
    };
    new_item(step, kind)
}

/// The steps of a block.
fn read_scope(step: &Step) -> Scope<'_> {
    match &step.kind {
        StepKind::Composite(Composite::Scoped(scoped)) => {
            Scope { provided: &scoped.provide, items: scoped.body.iter().flat_map(read_step).collect() }
        }
        _ => Scope { provided: &[], items: read_step(step) },
    }
}

/// The variables that items set, also those inside of others.
pub(crate) fn list_variables<'i>(items: &'i [Item<'_>]) -> Vec<&'i str> {
    let mut variables = Vec::new();
    for item in items {
        variables.extend(item.variable.as_deref());
        match &item.kind {
            ItemKind::Fanout(members) => variables.extend(list_variables(members)),
            ItemKind::Repeat(_, body) => variables.extend(list_variables(std::slice::from_ref(body))),
            ItemKind::Group(group) => {
                variables.extend(group.scopes.iter().flat_map(|scope| list_variables(&scope.items)));
            }
            _ => {}
        }
    }
    variables
}

impl Item<'_> {
    /// Whether its variable is set whenever the run continues.
    pub(crate) fn is_certain(&self) -> bool {
        self.step.condition.is_none() && self.on_failure != FailureRule::Skip
    }

    /// Whether its output is always a text.
    pub(crate) fn gives_text(&self) -> bool {
        match &self.kind {
            ItemKind::Prompt(prompt) => prompt.generate.schema.is_none(),
            ItemKind::Scrape(_) => true,
            ItemKind::Repeat(_, body) => body.gives_text(),
            _ => false,
        }
    }

    /// The name of the item for people.
    pub(crate) fn title(&self) -> &str {
        if self.step.title.contains('~') { self.step.kind.name() } else { &self.step.title }
    }
}

/// The condition of a step list: the text that the input must contain.
pub(crate) fn contained_text(condition: &Expr) -> Option<&str> {
    match condition {
        Expr::Contains(_, text) => Some(text),
        _ => None,
    }
}
