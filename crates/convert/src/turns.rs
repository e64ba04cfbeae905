//! A conversation of agents as a converter reads it for formats without conversations: the answer of each agent is the
//! message for the next one.

use std::collections::HashSet;

use flowloom_core::expr::{Ref, Template, TemplatePart};
use flowloom_core::plan::{Agent, AgentTool, Composite, Generate, Machine, Plan, Step, StepKind};

use crate::draft::{Item, ItemKind, Prompt};
use crate::report::Report;
use crate::text::to_identifier;

/// The input of a conversation.
pub(crate) const MESSAGE_INPUT: &str = "message";

/// An agent as one prompt.
pub(crate) fn read_agent<'p>(plan: &'p Plan, agent: &'p Agent) -> Vec<Item<'p>> {
    let kind = prompt_of(&agent.generate, &agent.tools, MESSAGE_INPUT);
    vec![Item { step: &plan.root, span: plan.root.span, variable: None, is_answer: false, kind }]
}

/// The agents of a graph as prompts, in the order in which edges lead to them first.
pub(crate) fn read_machine<'p>(plan: &'p Plan, machine: &'p Machine, report: &mut Report) -> Vec<Item<'p>> {
    report.add_change(plan.root.span, "the limits of a graph, 15 nodes and 90 s: there are none of its own here");
    let mut items = Vec::new();
    let mut names: HashSet<String> = [MESSAGE_INPUT, "input", "iteration"].map(str::to_owned).into();
    let mut before = MESSAGE_INPUT.to_owned();
    for node in order_nodes(machine) {
        let StepKind::Composite(Composite::Turn(turn)) = &node.kind else {
            // What becomes of the tools is said at the agents that have them.
            if !matches!(node.kind, StepKind::Composite(Composite::Tools(_))) {
                items.push(new_item(node, None, ItemKind::Other("the person in the conversation")));
            }
            continue;
        };
        if turn.router.is_some() {
            let message = format!("the routing of {}: its answer always goes to the next agent here", turn.name);
            report.add_loss(node.span, message);
        }
        let name = free_name(&turn.name, &mut names);
        let kind = prompt_of(&turn.generate, &turn.tools, &before);
        items.push(new_item(node, Some(name.clone()), kind));
        before = name;
    }
    items
}

fn new_item<'p>(step: &'p Step, variable: Option<String>, kind: ItemKind<'p>) -> Item<'p> {
    Item { step, span: step.span, variable, is_answer: false, kind }
}

/// A prompt that is the value of a variable.
fn prompt_of<'p>(generate: &'p Generate, tools: &'p [AgentTool], variable: &str) -> ItemKind<'p> {
    let source = format!("{{{variable}}}");
    let reference = Ref { name: variable.into(), path: Vec::new(), source: source.as_str().into() };
    let text = Template { parts: vec![TemplatePart::Ref(reference)] };
    ItemKind::Prompt(Prompt { generate, text, earlier: 0, tools })
}

/// A name that no other agent has.
fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let base = to_identifier(name, "answer");
    let mut free = base.clone();
    let mut number = 1;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{base}{number}");
    }
    free
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
        let mut taken = [MESSAGE_INPUT.to_owned()].into();
        let names = ["Writer", "Writer", "message"].map(|name| free_name(name, &mut taken));
        assert_eq!(names, ["Writer", "Writer2", "message2"]);
    }
}
