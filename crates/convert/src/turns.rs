//! A conversation of agents as a converter reads it for formats without conversations: the answer of each agent is the
//! message for the next one.

use flowloom_core::expr::{Ref, Template, TemplatePart};
use flowloom_core::plan::{Agent, AgentTool, Composite, Generate, Machine, Plan, Step, StepKind};
use flowloom_formats::graph::{MAX_NODE_VISITS, TIMEOUT_MS};

use crate::draft::{FailureRule, Item, ItemKind, Prompt};
use crate::names::{COUNTER, Names};
use crate::report::Report;
use crate::text::to_identifier;

/// The input of a conversation.
pub(crate) const MESSAGE_INPUT: &str = "message";

/// The limits that every graph has, in words.
pub(crate) fn describe_graph_limits() -> String {
    format!("the limits of a graph, {MAX_NODE_VISITS} nodes and {} s", TIMEOUT_MS / 1000)
}

/// An agent as one prompt.
pub(crate) fn read_agent<'p>(plan: &'p Plan, agent: &'p Agent) -> Vec<Item<'p>> {
    let kind = prompt_of(&agent.generate, &agent.tools, MESSAGE_INPUT);
    vec![new_item(&plan.root, None, kind)]
}

/// The agents of a graph as prompts, in the order in which edges lead to them first.
pub(crate) fn read_machine<'p>(plan: &'p Plan, machine: &'p Machine, report: &mut Report) -> Vec<Item<'p>> {
    let message = format!("{}: this format has no such limits", describe_graph_limits());
    report.add_change(plan.root.span, message);
    let mut items = Vec::new();
    let mut names = reserve_names();
    let mut before = MESSAGE_INPUT.to_owned();
    for node in order_nodes(machine) {
        let StepKind::Composite(Composite::Turn(turn)) = &node.kind else {
            // The conversion of the tools is reported at the agents that have them.
            if !matches!(node.kind, StepKind::Composite(Composite::Tools(_))) {
                items.push(new_item(node, None, ItemKind::Other("the person in the conversation")));
            }
            continue;
        };
        if turn.router.is_some() {
            let message = format!("the routing of {}: its answer always goes to the next agent here", turn.name);
            report.add_loss(node.span, message);
        }
        let name = take_agent_name(&turn.name, &mut names);
        let kind = prompt_of(&turn.generate, &turn.tools, &before);
        items.push(new_item(node, Some(name.clone()), kind));
        before = name;
    }
    items
}

fn new_item<'p>(step: &'p Step, variable: Option<String>, kind: ItemKind<'p>) -> Item<'p> {
    Item { step, span: step.span, variable, is_answer: false, on_failure: FailureRule::EndRun, kind }
}

/// A prompt that is the value of a variable.
fn prompt_of<'p>(generate: &'p Generate, tools: &'p [AgentTool], variable: &str) -> ItemKind<'p> {
    let source = format!("{{{variable}}}");
    let reference = Ref { name: variable.into(), path: Vec::new(), source: source.as_str().into() };
    let text = Template { parts: vec![TemplatePart::Ref(reference)] };
    ItemKind::Prompt(Prompt { generate, text, earlier: 0, tools })
}

/// The names that the answers of agents cannot have.
fn reserve_names() -> Names {
    let mut names = Names::default();
    for reserved in [MESSAGE_INPUT, "input", COUNTER] {
        names.take_name(reserved);
    }
    names
}

/// A name for the answer of an agent that no other answer has.
fn take_agent_name(name: &str, names: &mut Names) -> String {
    names.take_name(&to_identifier(name, "answer"))
}

/// The nodes in the order in which a walk along the edges finds them; the others follow.
fn order_nodes(machine: &Machine) -> Vec<&Step> {
    let mut is_found = vec![false; machine.nodes.len()];
    let mut order = Vec::new();
    let mut waiting = vec![machine.entry];
    while let Some(next) = waiting.pop() {
        if std::mem::replace(&mut is_found[next], true) {
            continue;
        }
        order.push(next);
        let targets = machine.edges.iter().filter(|edge| edge.from == next).filter_map(|edge| edge.to);
        waiting.extend(targets.collect::<Vec<_>>().into_iter().rev());
    }
    let others = (0..machine.nodes.len()).filter(|index| !is_found[*index]);
    order.extend(others);
    order.into_iter().map(|index| &machine.nodes[index]).collect()
}

#[cfg(test)]
mod tests {
    use flowloom_core::path::Key;
    use flowloom_core::plan::Edge;

    use super::*;

    #[test]
    fn nodes_follow_the_edges() {
        let node = |name: &str| Step {
            title: name.to_owned(),
            ..Step::new(Key::numbered_key(name, 1), Composite::Sequence(Vec::new()))
        };
        let edge = |from, to| Edge { from, to, condition: None, label: None };
        let machine = Machine {
            nodes: ["last", "first", "alone", "second"].map(node).into(),
            entry: 1,
            edges: vec![edge(1, Some(3)), edge(3, Some(0)), edge(0, Some(1)), edge(0, None)],
            max_visits: 15,
            resets: Vec::new(),
        };
        let titles: Vec<&str> = order_nodes(&machine).into_iter().map(|step| step.title.as_str()).collect();
        assert_eq!(titles, ["first", "second", "last", "alone"]);
    }

    #[test]
    fn names_of_agents_are_unique() {
        let mut names = reserve_names();
        let taken = ["Writer", "Writer", "message"].map(|name| take_agent_name(name, &mut names));
        assert_eq!(taken, ["Writer", "Writer2", "message2"]);
    }
}
