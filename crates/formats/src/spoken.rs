//! Determines the step whose text is the output of a run, word for word, if that is known before the run: its text can
//! then be streamed. Otherwise the text is known only when the run has ended.

use flowloom_core::chat::content;
use flowloom_core::path::{Key, Path};
use flowloom_core::plan::{Composite, Kind, Leaf, OnError, Plan, Say, Step};
use flowloom_core::value::Value;

/// The step whose text is the output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// The path of the model call.
    pub path: Path,
    /// The text that precedes the step's text in the output.
    pub before: String,
}

/// Of a list of steps, where the output is what the last step gave, or the first that ends the run by itself.
pub(crate) fn of_last_step(plan: &Plan) -> Option<Spoken> {
    let Kind::Composite(Composite::Sequence(steps)) = &plan.root.kind else { return None };
    let ends = steps.iter().find(|step| matches!(step.kind, Kind::Composite(Composite::Return(_)))).or(steps.last())?;
    let asks = if let Kind::Composite(Composite::Return(step)) = &ends.kind { step } else { ends };
    says_its_text(asks).then(|| bare(Path::root().child(&ends.key)))
}

fn bare(path: Path) -> Spoken {
    Spoken { path, before: String::new() }
}

/// Whether the output of a step is the text of one model call. An answer parsed as JSON is rendered differently, and a
/// retried answer must not be streamed.
fn says_its_text(step: &Step) -> bool {
    let Kind::Leaf(Leaf::Generate(generate)) = &step.kind else { return false };
    generate.schema.is_none() && step.policy.retry.is_none() && step.policy.on_error == OnError::Fail
}

/// The only answer of a document that runs nothing else: text precedes it, and nothing follows.
pub(crate) fn of_only_answer(plan: &Plan, inputs: &Value) -> Option<Spoken> {
    let Kind::Composite(Composite::Sequence(phases)) = &plan.root.kind else { return None };
    let [phase] = phases.as_slice() else { return None };
    let Kind::Composite(Composite::Sequence(steps)) = &phase.kind else { return None };
    let [before, asks, told] = steps.as_slice() else { return None };
    let (Kind::Composite(Composite::Say(said)), Kind::Composite(Composite::Say(Say { written: true, .. }))) =
        (&before.kind, &told.kind)
    else {
        return None;
    };
    if !before.scripts.is_empty() || !says_its_text(asks) {
        return None;
    }
    let text = content::text_of(&said.content.parts(&plan.start(inputs)).ok()?);
    let before = if text.is_empty() { text } else { format!("{text}\n\n") };
    Some(Spoken { path: Path::root().child(&phase.key).child(&asks.key), before })
}

/// The only agent of a graph without further agents: it can only answer.
pub(crate) fn of_only_agent(plan: &Plan) -> Option<Spoken> {
    let Kind::Composite(Composite::Machine(machine)) = &plan.root.kind else { return None };
    let entry = machine.nodes.get(machine.entry)?;
    let Kind::Composite(Composite::Turn(turn)) = &entry.kind else { return None };
    let goes_on = machine.edges.iter().any(|edge| edge.from == machine.entry && edge.to.is_some());
    // An agent that can name an unknown destination may be called again.
    let is_asked_again = turn.router.as_ref().is_some_and(|router| !router.destinations.is_empty());
    if goes_on || is_asked_again || entry.policy.retry.is_some() {
        return None;
    }
    Some(bare(Path::root().child(&entry.key).visit(1).child(&Key::nth("turn", 1)).iteration(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sources, compile, spoken};

    fn of(name: &str, text: &str, inputs: Value) -> Option<(String, String)> {
        let files = [(name.to_owned(), text.as_bytes().to_vec())].into();
        let functions = vec!["agent::chat".to_owned()];
        let sources = Sources { files, functions, source_bytes: 1 << 20, ..Sources::default() };
        let compiled = compile(name, &sources, None);
        let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        spoken(&plan, &inputs).map(|spoken| (spoken.path.as_str().to_owned(), spoken.before))
    }

    fn steps(error_mode: &str) -> Option<(String, String)> {
        let step = |name: &str, error_mode: &str| {
            format!(
                r#"{{"name": "{name}", "functionId": "agent::chat", "mode": "sequential", "errorMode": "{error_mode}", "promptTemplate": "x"}}"#
            )
        };
        let steps = format!("{}, {}", step("a", "fail"), step("b", error_mode));
        of("s.json", &format!(r#"{{"id": "s", "name": "s", "description": "d", "steps": [{steps}]}}"#), "x".into())
    }

    #[test]
    fn the_last_step_of_a_list_says_what_the_run_gives() {
        assert_eq!(steps("fail"), Some(("/b".to_owned(), String::new())));
        assert_eq!(steps("retry"), None, "what a first try says is not the answer");
        assert_eq!(steps("skip"), None, "if it fails, the step before it is the answer");
    }

    #[test]
    fn the_first_block_that_ends_a_flow_says_what_the_run_gives() {
        let block = |direct: bool| {
            format!(
                r#"{{"type": "llmInstruction", "config": {{"instruction": "x", "resultVariable": "r", "directOutput": {direct}}}}}"#
            )
        };
        let flow = |first, last| {
            let text = format!(r#"{{"name": "f", "steps": [{}, {}]}}"#, block(first), block(last));
            of("f.json", &text, Value::Null).map(|(path, _)| path)
        };
        let paths = [flow(true, false), flow(false, false)];
        assert!(paths[0].is_some() && paths[1].is_some() && paths[0] != paths[1], "{paths:?}");
    }

    #[test]
    fn a_document_with_one_answer_begins_with_its_text() {
        let document = "---\ninput:\n  topic: {type: text, message: 'What?'}\n---\n\nSay {topic}.\n\n<GenText as=\"a\" model=\"m\" />\n";
        let inputs = || Value::map([("topic", Value::from("hi"))]);
        assert_eq!(of("d.mdx", document, inputs()), Some(("/phase~1/a".to_owned(), "Say hi.\n\n".to_owned())));
        let more = format!("{document}\nAnd then?\n");
        assert_eq!(of("d.mdx", &more, inputs()), None, "text stands behind the answer");
    }

    #[test]
    fn a_graph_speaks_while_only_one_agent_can() {
        let node = |id: &str| format!(r#"{{"id": "{id}", "nodeName": "{id}", "nodeType": "AGENT", "agentId": "a"}}"#);
        let graph = |nodes: &str, edges: &str| {
            let text = format!(
                r#"{{"workflow": {{"id": "w", "isConversational": true, "entrypointNodeId": "n", "nodes": [{nodes}], "edges": [{edges}]}}, "agents": [{{"id": "a"}}]}}"#
            );
            of("g.json", &text, Value::Null).map(|(path, _)| path)
        };
        assert_eq!(graph(&node("n"), "").as_deref(), Some("/n#1/turn~1[0]"));
        let edge = r#"{"id": "e", "sourceNodeId": "n", "targetNodeId": "m", "conditionType": "ALWAYS"}"#;
        assert_eq!(graph(&format!("{}, {}", node("n"), node("m")), edge), None);
    }
}
